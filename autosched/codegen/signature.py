"""What a compiled function expects of its arguments, as plain data.

A dimension is an int, or a prefix expression over the names of size variables:
`["size", "height"]`, `["add", ["size", "height"], 2]`; conditions are 1 or 0. Nothing here needs the IR
at run time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import BuildError, UsageError
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr
from autosched.ir.stmt import Function

__all__ = ["Dim", "Param", "Signature", "dim_of", "evaluate_dim", "format_dim", "solve_dim"]

Dim = int | list[Any]


def _truncdiv(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


#: what a call's sizes may have to satisfy
_COMPARE: dict[str, tuple[Callable[[int, int], bool], str]] = {
    "eq": (operator.eq, "=="),
    "ne": (operator.ne, "!="),
    "lt": (operator.lt, "<"),
    "le": (operator.le, "<="),
    "gt": (operator.gt, ">"),
    "ge": (operator.ge, ">="),
}

#: operator -> (arity, how Python computes it, how it is printed)
_DIM_OPS: dict[str, tuple[int, Callable[..., int], str]] = {
    "add": (2, operator.add, "{} + {}"),
    "sub": (2, operator.sub, "{} - {}"),
    "mul": (2, operator.mul, "{} * {}"),
    "floordiv": (2, lambda a, b: a // b if b else 0, "{} // {}"),
    "floormod": (2, lambda a, b: a % b if b else 0, "{} % {}"),
    "truncdiv": (2, _truncdiv, "div({}, {})"),
    "truncmod": (2, lambda a, b: a - b * _truncdiv(a, b) if b else 0, "mod({}, {})"),
    "min": (2, min, "min({}, {})"),
    "max": (2, max, "max({}, {})"),
    "neg": (1, operator.neg, "-{}"),
    **{op: (2, holds, f"{{}} {sign} {{}}") for op, (holds, sign) in _COMPARE.items()},
    "and": (2, operator.and_, "{} and {}"),
    "or": (2, operator.or_, "{} or {}"),
    "not": (1, operator.not_, "not {}"),
}


def dim_of(e: Expr) -> Dim:
    """The index expression `e` over size variables as plain data. Raises BuildError for any other."""
    if e.op == "const":
        return int(e.value)
    if e.op == "var" and e.value.role in ("size", "scalar"):
        return ["size", e.value.name]
    if e.op == "cast":
        return dim_of(e.args[0])
    if e.op in _DIM_OPS:
        return [e.op, *map(dim_of, e.args)]
    raise BuildError(
        f"the operator {e.op!r} cannot stand in the shape of an argument",
        asked=f"dimension {e!r}",
        legal=f"legal: size variables, integers, {', '.join(_DIM_OPS)}",
    )


def evaluate_dim(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The value of `dim` for these sizes. Raises KeyError for a size that is not among them."""
    if isinstance(dim, int):
        return dim
    if dim[0] == "size":
        return sizes[dim[1]]
    return int(_DIM_OPS[dim[0]][1](*(evaluate_dim(d, sizes) for d in dim[1:])))


def format_dim(dim: Dim) -> str:
    """`dim` as a person writes it: `height + 2`."""
    if isinstance(dim, int):
        return str(dim)
    if dim[0] == "size":
        return str(dim[1])
    template = _DIM_OPS[dim[0]][2]
    parts = [format_dim(d) for d in dim[1:]]
    if "(" not in template:
        parts = [f"({p})" if isinstance(d, list) and d[0] != "size" else p for d, p in zip(dim[1:], parts, strict=True)]
    return template.format(*parts)


def _check_dim(dim: object, sizes: Sequence[str]) -> Dim:
    """`dim` if it is well-formed, as one read from a file must be. Raises ValueError."""
    if isinstance(dim, int) and not isinstance(dim, bool):
        return dim
    if not isinstance(dim, list) or not dim or not isinstance(dim[0], str):
        raise ValueError(f"{dim!r} is not a dimension")
    if dim[0] == "size":
        if len(dim) != 2 or dim[1] not in sizes:
            raise ValueError(f"{dim!r} names no size")
    elif dim[0] not in _DIM_OPS or len(dim) != _DIM_OPS[dim[0]][0] + 1:
        raise ValueError(f"{dim!r} is not a dimension")
    else:
        for part in dim[1:]:
            _check_dim(part, sizes)
    return dim


def solve_dim(dim: Dim) -> tuple[str, list[tuple[str, int]]] | None:
    """The size that a length tells, and the steps from the length to it, when `dim` is one size, shifted and scaled.

    A step is `("sub", k)`: less k; `("from", k)`: what is missing from k; `("div", k)`: by k, which must divide it.
    """
    steps: list[tuple[str, int]] = []
    while isinstance(dim, list) and dim[0] != "size":
        match dim:
            case ["add", list() as rest, int() as k] | ["add", int() as k, list() as rest]:
                step = ("sub", k)
            case ["sub", list() as rest, int() as k]:
                step = ("sub", -k)
            case ["sub", int() as k, list() as rest]:
                step = ("from", k)
            case ["mul", list() as rest, int() as k] | ["mul", int() as k, list() as rest] if k:
                step = ("div", k)
            case ["neg", list() as rest]:
                step = ("from", 0)
            case _:
                return None
        steps.append(step)
        dim = rest
    return (dim[1], steps) if isinstance(dim, list) else None


def _solve(dim: Dim, value: int) -> tuple[str, int] | None:
    """The size and its value that make `dim` equal `value`."""
    found = solve_dim(dim)
    for op, k in found[1] if found else ():
        if op == "div" and value % k:
            return None
        value = value - k if op == "sub" else k - value if op == "from" else value // k
    return (found[0], value) if found else None


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
        """What is so anyway is left out."""
        data: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        data["is_output"] = self.is_output
        if self.strides:
            data["strides"] = list(self.strides)
        if self.alignment > 1:
            data["alignment"] = self.alignment
        if self.broadcasts:
            data["broadcasts"] = True
        if self.is_size:
            data["is_size"] = True
        return data

    @staticmethod
    def from_json(data: Any, sizes: Sequence[str]) -> Param:
        """Raises ValueError, KeyError or TypeError unless `to_json` could have written it."""
        shape, strides = (
            tuple(_check_dim(d, sizes) for d in dims) for dims in (data["shape"], data.get("strides", ()))
        )
        alignment, broadcasts = data.get("alignment", 1), data.get("broadcasts", False)
        if strides and len(strides) != len(shape):
            raise ValueError(f"{data!r} is not a parameter")
        is_size = data.get("is_size", False)
        if not isinstance(is_size, bool) or (is_size and (shape or data["name"] not in sizes)):
            raise ValueError(f"{data!r} is not a parameter")
        if not isinstance(alignment, int) or alignment < 1 or not isinstance(broadcasts, bool):
            raise ValueError(f"{data!r} is not a parameter")
        of = dtype(data["dtype"]).scalar
        return Param(data["name"], of, shape, data["is_output"], strides, alignment, broadcasts, is_size)

    def strides_for(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """In elements, of an array that is declared with strides."""
        return tuple(evaluate_dim(d, sizes) for d in self.strides)

    def shape_for(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(evaluate_dim(d, sizes) for d in self.shape)


@dataclass(frozen=True)
class Requirement:
    """A comparison of two formulas over sizes that every call has to satisfy, and why."""

    op: str
    left: Dim
    right: Dim
    reason: str

    @staticmethod
    def of(condition: Expr, reason: str) -> Requirement:
        """Raises BuildError for what is no comparison of sizes."""
        if condition.op not in _COMPARE:
            raise BuildError(f"{condition!r} is no comparison of sizes", asked=reason, legal="a comparison of sizes")
        left, right = map(dim_of, condition.args)
        return Requirement(condition.op, left, right, reason)

    def __str__(self) -> str:
        return f"{format_dim(self.left)} {_COMPARE[self.op][1]} {format_dim(self.right)}"

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return _COMPARE[self.op][0](evaluate_dim(self.left, sizes), evaluate_dim(self.right, sizes))

    def to_json(self) -> list[Any]:
        return [self.op, self.left, self.right, self.reason]

    @staticmethod
    def from_json(data: Any, sizes: Sequence[str]) -> Requirement:
        """Raises ValueError unless `to_json` could have written it."""
        op, left, right, reason = data
        if op not in _COMPARE or not isinstance(reason, str):
            raise ValueError(f"{data!r} is not a requirement")
        return Requirement(op, _check_dim(left, sizes), _check_dim(right, sizes), reason)


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
            sizes = tuple(data["sizes"])
            params = tuple(Param.from_json(p, sizes) for p in data["params"])
            name = data["name"]
            requires = tuple(Requirement.from_json(r, sizes) for r in data.get("requires", ()))
        except (KeyError, TypeError, UsageError) as error:
            raise ValueError(f"not a signature: {error}") from None
        texts = [name, *sizes, *(p.name for p in params)]
        if not all(isinstance(t, str) for t in texts) or not all(isinstance(p.is_output, bool) for p in params):
            raise ValueError("not a signature: a field has the wrong type")
        return Signature(name, params, sizes, requires)

    def resolve(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The value of each size variable, read off the shapes of `arrays` (one per parameter).

        An entry may be None where an output is yet to be allocated. Raises BuildError naming the
        argument when a number of dimensions or a length is not what the signature says.
        """
        if len(arrays) != len(self.params):
            raise BuildError(
                f"takes {len(self.params)} arrays, got {len(arrays)}", asked=self.name, legal=f"signature: {self}"
            )
        given = [(p, tuple(a.shape)) for p, a in zip(self.params, arrays, strict=True) if a is not None]
        steps = [_steps(p, a) for p, a in zip(self.params, arrays, strict=True) if a is not None]
        for param, shape in given:
            if len(shape) != len(param.shape):
                raise BuildError(
                    f"needs {len(param.shape)} dimensions, got {len(shape)}: shape {shape}",
                    asked=f"{self.name}, argument {param.name!r}",
                    legal=f"expected {param}",
                )
        sizes, origin = self._read_sizes(given, steps)
        self._check_shapes(given, sizes, origin)
        self._check_strides(given, steps, sizes)
        for requirement in self.requires:
            if not requirement.holds(sizes):
                known = ", ".join(
                    f"{n} = {sizes[n]}" for n in sorted(_names(requirement.left) | _names(requirement.right))
                )
                raise BuildError(requirement.reason, asked=f"{self.name} with {known}", legal=f"needed: {requirement}")
        return sizes

    def _read_sizes(
        self, given: Sequence[tuple[Param, tuple[int, ...]]], steps: Sequence[tuple[int, ...]]
    ) -> tuple[dict[str, int], dict[str, tuple[Param, int, tuple[int, ...]]]]:
        """Each size and where it was read: dimensions that are a size alone first, then derived ones, and
        strides last, first of all those that are taken."""
        sizes: dict[str, int] = {}
        origin: dict[str, tuple[Param, int, tuple[int, ...]]] = {}
        for alone in (True, False):
            for param, shape in given:
                for axis, (dim, length) in enumerate(zip(param.shape, shape, strict=True)):
                    if param.broadcasts and length == 1:
                        continue
                    found = _solve(dim, length) if isinstance(dim, list) and (dim[0] == "size") == alone else None
                    if found is not None and found[0] not in sizes:
                        sizes[found[0]] = found[1]
                        origin[found[0]] = (param, axis, shape)
        for taken in (True, False):
            for (param, shape), own in zip(given, steps, strict=True):
                for axis, (dim, step) in enumerate(zip(param.strides, own, strict=False)):
                    found = _solve(dim, step) if isinstance(dim, list) and (shape[axis] > 1) == taken else None
                    if found is not None and found[0] not in sizes:
                        sizes[found[0]] = found[1]
                        origin[found[0]] = (param, axis, shape)
        for param, _ in given:  # a length of 1 that nothing else tells is the length
            for dim in param.shape if param.broadcasts else ():
                if isinstance(dim, list) and dim[0] == "size":
                    sizes.setdefault(dim[1], 1)
                    origin.setdefault(dim[1], (param, 0, ()))
        missing = [name for name in self.sizes if name not in sizes]
        if missing:
            raise BuildError(
                f"the size {missing[0]!r} cannot be read off the shapes that were passed",
                asked=self.name,
                legal=f"pass the outputs as well; signature: {self}",
            )
        return {name: sizes[name] for name in self.sizes}, origin

    def _check_shapes(
        self,
        given: Sequence[tuple[Param, tuple[int, ...]]],
        sizes: Mapping[str, int],
        origin: Mapping[str, tuple[Param, int, tuple[int, ...]]],
    ) -> None:
        for name, value in sizes.items():
            if value < 0:
                param, axis, shape = origin[name]
                raise BuildError(
                    f"shape {shape} makes the size {name!r} negative: {value}",
                    asked=f"{self.name}, argument {param.name!r}",
                    legal=f"expected {param} with {name} >= 0",
                )
        for param, shape in given:
            for axis, (dim, length) in enumerate(zip(param.shape, shape, strict=True)):
                wanted = evaluate_dim(dim, sizes)
                if wanted != length and not (param.broadcasts and length == 1):
                    should = _explain(dim, wanted, sizes, origin)
                    raise BuildError(
                        f"shape {shape}: dimension {axis} is {length} and should be {should}",
                        asked=f"{self.name}, argument {param.name!r}",
                        legal=f"expected {param}",
                    )

    def _check_strides(
        self,
        given: Sequence[tuple[Param, tuple[int, ...]]],
        steps: Sequence[tuple[int, ...]],
        sizes: Mapping[str, int],
    ) -> None:
        for (param, shape), own in zip(given, steps, strict=True):
            wanted = param.strides_for(sizes)
            empty = 0 in shape
            for axis, (step, should) in enumerate(zip(own, wanted, strict=False)):
                if step != should and shape[axis] > 1 and not empty:
                    raise BuildError(
                        f"shape {shape}: the stride of dimension {axis} is {step} elements and should be {should}",
                        asked=f"{self.name}, argument {param.name!r}",
                        legal=f"expected {param}",
                    )


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


def _explain(
    dim: Dim,
    wanted: int,
    sizes: Mapping[str, int],
    origin: Mapping[str, tuple[Param, int, tuple[int, ...]]],
) -> str:
    """`height + 2 = 12 (height = 10 by argument 'out', dimension 0)`."""
    if isinstance(dim, int):
        return str(wanted)
    names = sorted(_names(dim))
    where = ", ".join(f"{n} = {sizes[n]} by argument {origin[n][0].name!r}, dimension {origin[n][1]}" for n in names)
    return f"{format_dim(dim)} = {wanted} ({where})"


def _names(dim: Dim) -> set[str]:
    if isinstance(dim, int):
        return set()
    return {dim[1]} if dim[0] == "size" else set().union(*map(_names, dim[1:]))
