"""Lengths of dimensions as plain data, and the sizes that make them so; ranges.

A dimension is a tree (see `ir.json`) over the names of size variables: 8, `["size", "height"]`,
`["add", ["size", "height"], 2]`; conditions are 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import BuildError
from autosched.ir.expr import OPS, Expr, as_expr, const
from autosched.ir.json import COMPARE, Tree, is_tree, tree_of

Dim = Tree

#: operator -> how it is printed; `OpInfo.exact` computes it
_DIM_OPS = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "floormod": "{} % {}",
    "truncdiv": "div({}, {})",
    "truncmod": "mod({}, {})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "neg": "-{}",
    **{op: f"{{}} {sign} {{}}" for op, sign in COMPARE.items()},
    "and": "{} and {}",
    "or": "{} or {}",
    "not": "not {}",
}


def dim_of(e: Expr) -> Dim:
    """The index expression `e` over size variables as plain data. Raises BuildError for any other."""

    def strange(part: Expr) -> BuildError:
        return BuildError(
            f"the operator {part.op!r} cannot stand in the shape of an argument",
            asked=f"dimension {part!r}",
            legal=f"legal: size variables, integers, {', '.join(_DIM_OPS)}",
        )

    def variable(v: Expr) -> Dim:
        if v.value.role not in ("size", "scalar"):
            raise strange(v)
        return ["size", v.value.name]

    return tree_of(e, variable, _DIM_OPS, strange)


def evaluate_dim(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The value of `dim` for these sizes. Raises KeyError for a size that is not among them."""
    if isinstance(dim, int):
        return dim
    if dim[0] == "size":
        return sizes[dim[1]]
    compute = OPS[dim[0]].exact
    assert compute is not None, dim
    return int(compute(*(evaluate_dim(d, sizes) for d in dim[1:])))


def with_known(dim: Dim, sizes: Mapping[str, int]) -> Dim:
    """`dim` with the numbers of the sizes that are known, as far as it can be computed."""
    if isinstance(dim, int):
        return dim
    if dim[0] == "size":
        return sizes.get(dim[1], dim)
    parts = [with_known(d, sizes) for d in dim[1:]]
    done = [dim[0], *parts]
    return evaluate_dim(done, {}) if all(isinstance(d, int) for d in parts) else done


def format_dim(dim: Dim, operators: Mapping[str, str] = {}, size: Callable[[str], str] = str) -> str:
    """`dim` as a person writes it: `height + 2`; or as a language does that spells some operators, and sizes, in its
    own way."""
    if isinstance(dim, int):
        return str(dim)
    if dim[0] == "size":
        return size(dim[1])
    template = operators.get(dim[0], _DIM_OPS[dim[0]])
    parts = [format_dim(d, operators, size) for d in dim[1:]]
    if "(" not in template:
        parts = [f"({p})" if isinstance(d, list) and d[0] != "size" else p for d, p in zip(dim[1:], parts, strict=True)]
    return template.format(*parts)


def check_dim(dim: Any, sizes: Sequence[str]) -> Dim:
    """`dim` if it is well-formed, as one read from a file must be. Raises ValueError."""
    if not is_tree(dim, _DIM_OPS, lambda role, name: role == "size" and name in sizes, depth=-1):
        raise ValueError(f"{dim!r} is not a dimension of sizes {', '.join(sizes) or 'that are numbers'}")
    return dim  # type: ignore[no-any-return]


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


def solve(dim: Dim, value: int) -> tuple[str, int] | None:
    """The size and its value that make `dim` equal `value`."""
    found = solve_dim(dim)
    for op, k in found[1] if found else ():
        if op == "div" and value % k:
            return None
        value = value - k if op == "sub" else k - value if op == "from" else value // k
    return (found[0], value) if found else None


def solved(e: Expr, length: int) -> tuple[str, int] | None:
    """The size and its value that make the dimension `e` so long, where it is one size, shifted and scaled."""
    try:
        return solve(dim_of(e), length)
    except BuildError:  # no dimension of an argument
        return None


@dataclass(frozen=True, eq=False)
class Range:
    """`[min, min + extent)`. `Range(begin, end)`, `Range(end)` or `Range.from_min_extent(min, extent)`."""

    min: Expr
    extent: Expr

    def __init__(self, begin: object, end: object = None) -> None:
        first, last = (const(0), as_expr(begin)) if end is None else (as_expr(begin), as_expr(end))
        object.__setattr__(self, "min", first)
        object.__setattr__(self, "extent", last - first)

    @staticmethod
    def from_min_extent(min_value: object, extent: object) -> Range:
        """The `extent` integers from `min_value` on."""
        found = object.__new__(Range)
        object.__setattr__(found, "min", as_expr(min_value))
        object.__setattr__(found, "extent", as_expr(extent))
        return found

    def __repr__(self) -> str:
        return f"range(min={self.min!r}, extent={self.extent!r})"
