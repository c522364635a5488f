"""Shapes, axes and types: what every operator asks of its arguments first, and what sums are accumulated in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autosched import te
from autosched.errors import UsageError
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, const, is_const
from autosched.ir.simplify import Analyzer, simplify
from autosched.te.tensor import Tensor

Dim = int | Expr
#: one number for all dimensions, or one for each
Dims = Dim | Sequence[Dim]


def same(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are certainly equal."""
    x, y = as_expr(a), as_expr(b)
    return x is y or not Analyzer().poly(x - y).terms


def number(d: object, of: str) -> int:
    """A dimension that has to be known now. Raises UsageError for a symbolic one."""
    e = as_expr(d)
    if not is_const(e):
        raise UsageError(f"{e!r} is known at run time only", asked=of, legal="a constant")
    return int(e.value)


def product(dims: Iterable[Dim]) -> Expr:
    total: Expr = const(1)
    for d in dims:
        total = total * d
    return simplify(total)


def axis_of(t: Tensor, axis: object, asked: str) -> int:
    """An axis as a number from 0 on; negative ones count from the end."""
    if isinstance(axis, bool) or not isinstance(axis, int) or not -t.ndim <= axis < t.ndim:
        raise UsageError(f"{t.name} has no axis {axis!r}", asked=asked, legal=f"{-t.ndim} to {t.ndim - 1}")
    return axis % t.ndim


def axes_of(t: Tensor, axis: object, asked: str) -> list[int]:
    """Axes in order; all of them for None."""
    if axis is None:
        return list(range(t.ndim))
    chosen = [axis_of(t, a, asked) for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
    if len(set(chosen)) < len(chosen):
        raise UsageError("an axis is named twice", asked=asked, legal="each axis once")
    return sorted(chosen)


def broadcast_shapes(a: Sequence[Dim], b: Sequence[Dim], asked: str) -> tuple[Expr, ...]:
    """NumPy's rule: aligned at the last dimension, ones stretch."""
    out: list[Expr] = []
    for k in range(1, max(len(a), len(b)) + 1):
        x = as_expr(a[-k]) if k <= len(a) else const(1)
        y = as_expr(b[-k]) if k <= len(b) else const(1)
        if is_const(x, 1) or same(x, y):
            out.insert(0, y)
        elif is_const(y, 1):
            out.insert(0, x)
        else:
            raise UsageError(
                f"dimensions {x!r} and {y!r} do not go together",
                asked=f"{asked} of shapes {list(a)} and {list(b)}",
                legal="equal dimensions, or 1",
            )
    return tuple(out)


def pair(value: object, count: int, asked: str, least: int = 1) -> tuple[Dim, ...]:
    """One number for all of `count` dimensions, or one for each; those that are known are `least` or more."""
    listed: tuple[Dim, ...] = tuple(value) if isinstance(value, (list, tuple)) else (value,)  # type: ignore[assignment]
    if len(listed) not in (1, count):
        raise UsageError(f"{len(listed)} numbers for {count} dimensions", asked=asked, legal=f"1 or {count}")
    at_least(least, listed, asked)
    return listed * count if len(listed) == 1 else listed


def at_least(least: int, given: Iterable[Dim], asked: str) -> None:
    """Raise UsageError for a number that is known and too small."""
    for d in given:
        if isinstance(d, int) and d < least:
            raise UsageError(f"{d} is less than {least}", asked=asked, legal=f"{least} or more")


def windows(size: Dim, kernel: Dim, stride: Dim, dilation: Dim, before: Dim, after: Dim, ceil: bool = False) -> Expr:
    """How many windows fit along a dimension. With `ceil`, one that begins inside may end outside."""
    room = as_expr(size) + before + after - (as_expr(kernel) - 1) * dilation - 1
    steps = (room + stride - 1) // stride if ceil else room // stride
    return simplify(steps + 1)


def accumulator(of: object) -> DType:
    """The type of sums whose result is of type `of`."""
    found = to_dtype(of)
    return to_dtype("float32") if found == "float16" else found


def narrowed(x: Tensor, of: object) -> Tensor:
    """`x` as a tensor of type `of`, where it is not one already: sums, rounded."""
    to = to_dtype(of)
    if x.dtype == to:
        return x
    return te.compute(x.shape, lambda *i: x(*i).astype(to), name=f"{x.op.name}_{to}", tag="elemwise")
