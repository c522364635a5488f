"""Elements of a tensor at places between its elements, outside of it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from autosched import te
from autosched.ir.expr import Expr

#: an element at integer places inside
Read = Callable[..., Expr]


def whole(e: Expr, size: Expr) -> Expr:
    """A floating-point place as an integer, one that is far outside as one that is just outside."""
    return te.max(te.min(e, (size + 3).astype(e.dtype)), te.const(-4, e.dtype)).astype("int32")


def clamped(i: Expr, size: Expr) -> Expr:
    return te.max(te.min(i, size - 1), te.const(0))


def or_zero(read: Read, at: Sequence[Expr], size: Sequence[Expr]) -> Expr:
    """An element, 0 outside."""
    inside = te.all(*(c for i, d in zip(at, size, strict=True) for c in (i >= 0, i < d)))
    return te.if_then_else(inside, read(*at), te.const(0, read(*at).dtype))


def linear(read: Read, at: Sequence[Expr], size: Sequence[Expr], pixel: Callable[..., Expr] = or_zero) -> Expr:
    """The mean of the elements around a place, weighted by how near they are."""
    return weighted(read, at, size, lambda f: [1 - f, f], 0, pixel)


def weighted(
    read: Read,
    at: Sequence[Expr],
    size: Sequence[Expr],
    weights: Callable[[Expr], Sequence[Expr]],
    first: int,
    pixel: Callable[..., Expr] = or_zero,
) -> Expr:
    """The sum of elements around a place: along each dimension those from `first` on beside its floor, by `weights`
    of the part that is left over."""
    low = [te.floor(e) for e in at]
    by = [weights(e - f) for e, f in zip(at, low, strict=True)]
    start = [whole(f, d) + first for f, d in zip(low, size, strict=True)]
    total: Expr | None = None
    for taps in product(*(range(len(b)) for b in by)):
        e = pixel(read, [i + t for i, t in zip(start, taps, strict=True)], size)
        for b, t in zip(by, taps, strict=True):
            e = e * b[t]
        total = e if total is None else total + e
    assert total is not None
    return total
