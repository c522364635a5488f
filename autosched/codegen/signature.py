"""Signatures of compiled functions as plain data, and checks of arguments against them.

Dimensions are those of `ir.dims`. Nothing here needs the IR at run time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from autosched.errors import ArgumentError, ArgumentTypeError, BuildError, Fields, Form
from autosched.ir.dims import COMPARE, Dim, check_dim, dim_of, evaluate_dim, format_dim, solve, solve_dim, with_known
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr
from autosched.ir.printer import is_name
from autosched.ir.stmt import Function, all_expressions
from autosched.ir.visit import values_below

__all__ = ["Dim", "Param", "Signature", "dim_of", "evaluate_dim", "format_dim", "solve_dim"]


@dataclass(frozen=True)
class Param:
    """One argument: an array of `dtype` whose shape is `shape`, C-contiguous unless it has `strides`.

    Strides are in elements. `alignment`, in bytes, is that of the address. An input that `broadcasts`
    may have the length 1 where another is expected. The value of one that `is_size` is the size of its
    name, which shapes tell as well.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    is_output: bool
    strides: tuple[Dim, ...] = ()
    alignment: int = 1
    broadcasts: bool = False
    is_size: bool = False

    def __str__(self) -> str:
        strides = f" strides [{', '.join(map(format_dim, self.strides))}]" if self.strides else ""
        return f"{self.name}: {self.dtype}[{', '.join(map(format_dim, self.shape))}]{strides}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without fields that have their defaults."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @staticmethod
    def from_json(data: Any, sizes: Sequence[str]) -> Param:
        """Raises ValueError unless `to_json` could have written it."""
        _PARAM.check(data, "a parameter")
        shape, strides = (tuple(check_dim(d, sizes) for d in data.get(part, ())) for part in ("shape", "strides"))
        is_size = data.get("is_size", False)
        if len(strides) not in (0, len(shape)) or (is_size and (shape or data["name"] not in sizes)):
            raise ValueError(f"{data!r} is not a parameter")
        rest = data.get("alignment", 1), data.get("broadcasts", False), is_size
        return Param(data["name"], dtype(data["dtype"]).scalar, shape, data["is_output"], strides, *rest)

    def strides_for(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The strides in elements; none unless they are declared."""
        return tuple(evaluate_dim(d, sizes) for d in self.strides)

    def shape_for(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(evaluate_dim(d, sizes) for d in self.shape)


_NAME = Form("a name", is_name)
_PARAM = Fields(
    {
        "name": _NAME,
        "dtype": Form.text(),
        "shape": Form.array(),
        "is_output": Form.flag(),
        "strides": Form.array(),
        "alignment": Form.integer(1),
        "broadcasts": Form.flag(),
        "is_size": Form.flag(),
    },
    optional=("strides", "alignment", "broadcasts", "is_size"),
)


@dataclass(frozen=True)
class Requirement:
    """A comparison of two formulas over sizes that every call has to satisfy, and why."""

    op: str
    left: Dim
    right: Dim
    reason: str

    @staticmethod
    def of(condition: Expr, reason: str) -> Requirement:
        """Make one of a comparison of sizes. Raises BuildError for another condition."""
        if condition.op not in COMPARE:
            raise BuildError(f"{condition!r} is no comparison of sizes", asked=reason, legal="a comparison of sizes")
        left, right = map(dim_of, condition.args)
        return Requirement(condition.op, left, right, reason)

    def __str__(self) -> str:
        return f"{format_dim(self.left)} {COMPARE[self.op]} {format_dim(self.right)}"

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return bool(evaluate_dim([self.op, self.left, self.right], sizes))

    def to_json(self) -> list[Any]:
        return [self.op, self.left, self.right, self.reason]

    @staticmethod
    def from_json(data: Any, sizes: Sequence[str]) -> Requirement:
        """Raises ValueError unless `to_json` could have written it."""
        op, left, right, reason = data
        if op not in COMPARE or not isinstance(reason, str):
            raise ValueError(f"{data!r} is not a requirement")
        return Requirement(op, check_dim(left, sizes), check_dim(right, sizes), reason)


_SIGNATURE = Fields(
    {
        "name": Form("a name that files may have", lambda x: is_name(x, in_files=True)),
        "params": Form.array(),
        "sizes": Form.array(_NAME, "an array of names"),
        "requires": Form.array(),
    },
    optional=("requires",),
)


@dataclass(frozen=True)
class Signature:
    """A function's name, its arguments in call order, and its size variables in passing order.

    A call whose sizes break one of `requires` is refused.
    """

    name: str
    params: tuple[Param, ...]
    sizes: tuple[str, ...]
    requires: tuple[Requirement, ...] = ()

    @staticmethod
    def of(function: Function) -> Signature:
        """The signature of a lowered function. Raises BuildError for a shape that is no data."""
        params = tuple(
            Param(
                b.name,
                str(b.dtype),
                tuple(dim_of(e) for e in b.shape),
                i in function.outputs,
                tuple(dim_of(e) for e in b.strides),
                max(b.data_alignment, 1),
                b.buffer_type == "auto_broadcast",
                i in function.attrs.get("explicit_sizes", ()),
            )
            for i, b in enumerate(function.params)
        )
        requires = tuple(Requirement.of(r.condition, r.reason) for r in function.requires)
        return Signature(function.name, params, tuple(v.name for v in function.sizes), requires)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"

    @property
    def inputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if not p.is_output)

    @property
    def outputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.is_output)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "params": [p.to_json() for p in self.params],
            "sizes": list(self.sizes),
            **({"requires": [r.to_json() for r in self.requires]} if self.requires else {}),
        }

    @staticmethod
    def from_json(data: Any) -> Signature:
        """Read what `to_json` wrote. Raises ValueError for anything else."""
        try:
            _SIGNATURE.check(data, "the signature")
            sizes = tuple(data["sizes"])
            params = tuple(Param.from_json(p, sizes) for p in data["params"])
            requires = tuple(Requirement.from_json(r, sizes) for r in data.get("requires", ()))
        except (RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"not a signature: {error!s:.200}") from None
        return Signature(data["name"], params, sizes, requires)

    def resolve(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The value of each size variable, read off the shapes of `arrays` (one per parameter).

        An entry may be None where an output is yet to be allocated. Raises BuildError naming the
        argument when a number of dimensions or a length is not what the signature says.
        """
        if len(arrays) != len(self.params):
            raise ArgumentTypeError(
                f"takes {len(self.params)} arrays, got {len(arrays)}", asked=self.name, legal=f"signature: {self}"
            )
        pairs = [*zip(self.params, arrays, strict=True)]
        given = [(p, tuple(a.shape), _steps(p, a)) for p, a in pairs if a is not None]
        for param, shape, _ in given:
            if len(shape) != len(param.shape):
                raise self._wrong(param, f"needs {len(param.shape)} dimensions, got {len(shape)}: shape {shape}")
        numbers = [(p, _number(a)) for p, a in pairs if p.is_size and a is not None and a.shape == ()]
        sizes, origin = self._read_sizes(given, numbers)
        self._check_given(given, sizes, origin)
        for requirement in self.requires:
            if not requirement.holds(sizes):
                names = sorted(_names(requirement.left) | _names(requirement.right))
                known = ", ".join(f"{n} = {sizes[n]}" for n in names)
                raise ArgumentError(
                    requirement.reason, asked=f"{self.name} with {known}", legal=f"needed: {requirement}"
                )
        return sizes

    def _wrong(self, param: Param, why: str, besides: str = "") -> ArgumentError:
        return ArgumentError(why, asked=f"{self.name}, argument {param.name!r}", legal=f"expected {param}{besides}")

    def _read_sizes(self, given: _Given, numbers: Sequence[tuple[Param, int]]) -> tuple[dict[str, int], _Origins]:
        """Each size and where it was read: dimensions that are a size alone first, then those derived of one, numbers
        that were passed for sizes, other dimensions, and strides last, first of all those that are taken."""
        sizes: dict[str, int] = {}
        origin: _Origins = {}
        told: list[
            tuple[int, list[Any], int, tuple[Param, int, tuple[int, ...]]]
        ] = []  # (rank, formula, its value, where); those of one rank stay in order
        for param, shape, own in given:
            for axis, (dim, length) in enumerate(zip(param.shape, shape, strict=True)):
                if isinstance(dim, list) and not (param.broadcasts and length == 1):
                    told.append(
                        (
                            0 if dim[0] == "size" else 1 if len(_names(dim)) == 1 else 3,
                            dim,
                            length,
                            (param, axis, shape),
                        )
                    )
            for axis, (dim, step) in enumerate(zip(param.strides, own, strict=False)):
                if isinstance(dim, list):
                    told.append((4 if shape[axis] > 1 else 5, dim, step, (param, axis, shape)))
        told += [(2, ["size", p.name], value, (p, 0, ())) for p, value in numbers]
        told.sort(key=lambda t: t[0])
        known = -1
        while known < len(sizes) < len(self.sizes):  # a length of two sizes tells one when the other is known
            before, known = {} if known < 0 else dict(sizes), len(sizes)
            for _, dim, value, where in told:
                found = solve(with_known(dim, before), value)
                if found is not None and found[0] not in sizes:
                    sizes[found[0]], origin[found[0]] = found[1], where
        for param, _, _ in given:  # a length of 1 that nothing else tells is the length
            for dim in param.shape if param.broadcasts else ():
                if isinstance(dim, list) and dim[0] == "size":
                    sizes.setdefault(dim[1], 1)
                    origin.setdefault(dim[1], (param, 0, ()))
        missing = [name for name in self.sizes if name not in sizes]
        if missing:
            raise ArgumentError(
                f"the size {missing[0]!r} cannot be read off the shapes that were passed",
                asked=self.name,
                legal=f"{'' if len(given) == len(self.params) else 'pass the outputs as well; '}signature: {self}",
            )
        return {name: sizes[name] for name in self.sizes}, origin

    def _check_given(self, given: _Given, sizes: Mapping[str, int], origin: _Origins) -> None:
        for name, value in sizes.items():
            if value < 0:
                param, _, shape = origin[name]
                why = f"shape {shape} makes the size {name!r} negative: {value}" if param.shape else f"is {value}"
                raise self._wrong(param, why, f" with {name} >= 0")
        for param, shape, _ in given:
            for axis, (dim, length) in enumerate(zip(param.shape, shape, strict=True)):
                wanted = evaluate_dim(dim, sizes)
                if wanted != length and not (param.broadcasts and length == 1):
                    should = _explain(dim, wanted, sizes, origin)
                    raise self._wrong(param, f"shape {shape}: dimension {axis} is {length} and should be {should}")
        for param, shape, own in given:
            for axis, (step, wanted) in enumerate(zip(own, param.strides_for(sizes), strict=False)):
                if step != wanted and shape[axis] > 1 and 0 not in shape:
                    why = f"the stride of dimension {axis} is {step} elements and should be {wanted}"
                    raise self._wrong(param, f"shape {shape}: {why}")


#: arrays of a call: the parameter, the shape, and strides in elements where they are declared
_Given = Sequence[tuple[Param, tuple[int, ...], tuple[int, ...]]]
#: size -> the parameter, the axis and the shape that it was read from
_Origins = dict[str, tuple[Param, int, tuple[int, ...]]]


def _steps(param: Param, array: Any) -> tuple[int, ...]:
    """The strides of an array in elements, for a parameter that is declared with strides; 0 where one
    element is read again and again."""
    if not param.strides:
        return ()
    size, strides = array.dtype.itemsize, getattr(array, "strides", None)
    if strides is None:  # an array of a device, whose elements lie close together
        strides = [size * math.prod(array.shape[i + 1 :]) for i in range(len(array.shape))]
    return tuple(
        0 if param.broadcasts and length == 1 else step // size
        for length, step in zip(array.shape, strides, strict=True)
    )


def _number(value: Any) -> int:
    """What is passed for a size: an array of one element, on whatever device."""
    return int(value.numpy() if hasattr(value, "numpy") else value)


def _explain(dim: Dim, wanted: int, sizes: Mapping[str, int], origin: _Origins) -> str:
    """`height + 2 = 12 (height = 10 by argument 'out', dimension 0)`."""
    if isinstance(dim, int):
        return str(wanted)
    names = sorted(_names(dim))
    where = ", ".join(
        f"{n} = {sizes[n]} by argument {origin[n][0].name!r}"
        + (f", dimension {origin[n][1]}" if origin[n][0].shape else "")
        for n in names
    )
    return f"{format_dim(dim)} = {wanted} ({where})"


def _names(dim: Dim) -> set[str]:
    if isinstance(dim, int):
        return set()
    return {dim[1]} if dim[0] == "size" else set().union(*map(_names, dim[1:]))


# -- what the runtime must find before the function runs ---------------------------------------------

#: a Python function is called under a symbol of its own: this, and its name
PACKED_PREFIX = "autosched.packed."


def outside_calls(function: Function, kind: str) -> list[str]:
    """The names of functions from outside that `function` calls: C's (`extern`), or Python's (`packed`)."""
    nodes = values_below(all_expressions(function.body))
    return sorted({n.value.name for n in nodes if n.op == "call" and n.value.kind == kind})


_ENTRY_POINTS = """
#include <time.h>

{before}int32_t {name}_packed(void **args, const int64_t *sizes, char *workspace, int64_t threads) {{
  (void)args, (void)sizes, (void)workspace, (void)threads;
  {call};
  return 0;
}}

int64_t {name}_packed_workspace(const int64_t *sizes, int64_t threads) {{
  (void)sizes, (void)threads;
  return {need};
}}

int64_t {name}_packed_time(void **args, const int64_t *sizes, char *workspace, int64_t threads, int64_t number) {{
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  for (int64_t i = 0; i < number; ++i) {repeated}
  clock_gettime(CLOCK_MONOTONIC, &after);
  return (int64_t)(after.tv_sec - before.tv_sec) * 1000000000 + (after.tv_nsec - before.tv_nsec);
}}
"""


def entry_points(name: str, call: str, workspace: str = "0", *, is_foreign: bool = False) -> str:
    """C functions through which the runtime calls a program, and times it: see `runtime.cpu`.

    `call` is the call of the program, which needs `workspace` bytes. One that `is_foreign` returns nothing of
    interest, and might be left out where it is repeated.
    """
    once = f"{name}_packed(args, sizes, workspace, threads);"
    before, repeated = ("", once)
    if is_foreign:
        before, repeated = "__attribute__((noinline))\n", f'{{ {once} __asm__ volatile("" ::: "memory"); }}'
    return _ENTRY_POINTS.format(name=name, call=call, need=workspace, before=before, repeated=repeated)
