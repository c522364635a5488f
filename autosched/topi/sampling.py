"""Elements of a tensor at places between its elements, outside of it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

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


def keys_weights(a: float) -> Callable[[Any], list[Any]]:
    """Keys' weights of four neighbours, of which the second is at a distance f before."""

    def weights(f: Any) -> list[Any]:
        g = 1 - f
        return [
            ((a * (f + 1) - 5 * a) * (f + 1) + 8 * a) * (f + 1) - 4 * a,
            ((a + 2) * f - (a + 3)) * f * f + 1,
            ((a + 2) * g - (a + 3)) * g * g + 1,
            ((a * (g + 1) - 5 * a) * (g + 1) + 8 * a) * (g + 1) - 4 * a,
        ]

    return weights


def corners(read: Read, at: Sequence[Expr], size: Sequence[Expr]) -> list[Expr]:
    """The elements around a place, weighted by how near they are; the nearest ones up to 1 outside, 0 beyond."""
    zero = te.const(0, at[0].dtype)
    inside = te.all(*(c for e, d in zip(at, size, strict=True) for c in (e >= -1.0, e <= d.astype(e.dtype))))
    near = [te.max(te.min(e, (d - 1).astype(e.dtype)), zero) for e, d in zip(at, size, strict=True)]
    low = [te.floor(e) for e in near]
    found = []
    for tap in product((0, 1), repeat=len(at)):
        weight = None
        for t, e, f in zip(tap, near, low, strict=True):
            part = e - f if t else 1 - (e - f)
            weight = part if weight is None else weight * part
        place = [clamped(whole(f, d) + t, d) for t, f, d in zip(tap, low, size, strict=True)]
        found.append(te.select(inside, weight * read(*place), zero))
    return found
