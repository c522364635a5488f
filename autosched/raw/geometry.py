"""How many work-items run a kernel: Kernel Tuner's rules.

The work-group's extents are the parameters `block_size_x`, `block_size_y`, `block_size_z` (256, 1, 1 where there
is no such parameter). The grid is the problem size divided by the product of `grid_div_x` (`y`, `z`),
rounded up; without `grid_div_x` the divisor is `block_size_x`, where that is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.raw.parameters import Parameters, Quantity

__all__ = ["AXES", "BLOCK_SIZE_NAMES", "Geometry"]

AXES = ("x", "y", "z")
BLOCK_SIZE_NAMES = ("block_size_x", "block_size_y", "block_size_z")
_DEFAULT_BLOCK = (256, 1, 1)
#: a grid that no device has: what a division by zero becomes
_TOO_MANY = 2**40

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Geometry:
    """`problem_size` is one quantity for each axis, or one function's answer for all; `grid_div` has the
    factors of the divisor of each axis."""

    parameters: Parameters
    problem_size: tuple[Quantity, ...]
    grid_div: tuple[tuple[Quantity, ...], ...]
    block_names: tuple[str, ...]

    @staticmethod
    def of(
        parameters: Parameters, problem_size: Any, grid_div: Sequence[Any], block_size_names: Sequence[str] | None
    ) -> Geometry:
        """From what `tune_kernel` is given. Raises UsageError."""
        names = tuple(block_size_names or BLOCK_SIZE_NAMES)
        if len(names) > 3 or not all(isinstance(n, str) for n in names):
            raise UsageError("it is no list of up to three names", asked="block_size_names", legal='["tx", "ty"]')
        coded = [n for n in names if n in parameters.choices]
        if coded:
            raise UsageError("its values are no integers", asked=f"tune_params[{coded[0]!r}]", legal="[32, 64]")
        divisors = tuple(
            _divisor(given, names[i] if i < len(names) else "", parameters, f"grid_div_{AXES[i]}")
            for i, given in enumerate(grid_div)
        )
        return Geometry(parameters, _problem(problem_size, parameters), divisors, names)

    def block(self, columns: Columns, n: int) -> np.ndarray:
        """Work-items of a group along x, y and z: int64 [n, 3]."""
        names = [*self.block_names, "", ""][:3]
        pairs = zip(names, _DEFAULT_BLOCK, strict=True)
        return np.stack([np.broadcast_to(columns.get(k, np.int64(d)), n) for k, d in pairs], axis=1).astype(np.int64)

    def grid(self, columns: Columns, n: int) -> np.ndarray:
        """Work-groups along x, y and z: int64 [n, 3]. Below 1 where sizes or divisors are."""
        sizes = np.ones((n, 3))
        found = [q.evaluate(columns, n) for q in self.problem_size]
        if found[0].ndim == 2:
            sizes[:] = found[0]
        else:
            sizes[:, : len(found)] = np.stack(found, axis=1)
        divisors = np.ones((n, 3))
        for axis, factors in enumerate(self.grid_div):
            for factor in factors:
                value = factor.evaluate(columns, n)
                divisors[:, axis] *= np.trunc(value) if isinstance(factor.data, str) else value
        with np.errstate(all="ignore"):
            groups = np.ceil(sizes / divisors)
        return np.nan_to_num(groups, nan=0.0, posinf=_TOO_MANY, neginf=-1).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        return {
            "problem_size": [q.data for q in self.problem_size],
            "grid_div": [[q.data for q in factors] for factors in self.grid_div],
            "block_size_names": list(self.block_names),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], parameters: Parameters) -> Geometry:
        return Geometry(
            parameters,
            tuple(Quantity(parameters, d) for d in data["problem_size"]),
            tuple(tuple(Quantity(parameters, d) for d in factors) for factors in data["grid_div"]),
            tuple(data["block_size_names"]),
        )


def _problem(given: Any, parameters: Parameters) -> tuple[Quantity, ...]:
    if callable(given):
        return (Quantity.of(given, parameters, "problem_size", width=3),)
    parts = list(given) if isinstance(given, (tuple, list)) else [given]
    if not 1 <= len(parts) <= 3:
        raise UsageError(f"it has {len(parts)} dimensions", asked="problem_size", legal="1 to 3")
    sizes = tuple(Quantity.of(p, parameters, "problem_size") for p in parts)
    for p in parts:
        if not isinstance(p, str) and not callable(p) and p < 1:
            raise UsageError(f"{p} is no size", asked="problem_size", legal="1 or more")
    return sizes


def _divisor(given: Any, block_name: str, parameters: Parameters, asked: str) -> tuple[Quantity, ...]:
    if given is None:
        given = [block_name] if block_name in parameters.values else []
    parts = [given] if callable(given) or isinstance(given, str) else given
    if not isinstance(parts, (list, tuple)):
        raise UsageError(f"{given!r} is no list", asked=asked, legal='["block_size_x", "tile_size_x"], or a function')
    return tuple(Quantity.of(p, parameters, asked) for p in parts)
