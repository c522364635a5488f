"""Operators on the bits of indices, as the arithmetic that the rest of the compiler reasons about.

i >> 3          i // 8
(i >> 3) & 1    i // 8 % 2
i & 12          i // 4 % 4 * 4
i ^ 4           i + 4 - i // 4 % 2 * 8

A proof, an inferred region, a vector with unit stride: all of them come from sums, products and divisions.
"""

from __future__ import annotations

from collections.abc import Iterable

from autosched.ir.dtype import INT32, INT64
from autosched.ir.expr import Expr, const, is_const
from autosched.ir.node import bottom_up
from autosched.ir.ranges import Ranges
from autosched.ir.visit import post_order, rebuild

_BITS = frozenset(("shl", "shr", "bitand", "bitor", "bitxor"))
#: Stretches of ones in a mask, and ones that are flipped, that become terms; more of them are left as they are.
MOST_TERMS = 4


@bottom_up
def _asks_for_bits(e: Expr, parts: list[bool]) -> bool:
    return any(parts) or e.op in _BITS


def without_bits(body: tuple[Expr, ...], loops: Iterable[tuple[Expr, Expr, Expr]]) -> tuple[Expr, ...]:
    """Expressions in which the bits of indices are asked for in divisions. `loops` are variables, where each begins,
    and over how many numbers it runs.

    Bits are those of an int32 or int64, where index arithmetic is exact: what may not fit its type stays as it is.
    """
    if not any(map(_asks_for_bits, body)):
        return body
    ranges = Ranges()
    for v, start, extent in loops:
        ranges.bind(v, ranges.of_loop(start, extent))
    done: dict[Expr, Expr] = {}
    for e in post_order(body):
        if not _asks_for_bits(e):
            done[e] = e
            continue
        found = rebuild(e, tuple(done[a] for a in e.args))
        if e.op in _BITS:
            found = _spelled(found, ranges)
        if found.index and not e.index and not e.dtype.is_bool and not ranges.fits(found):
            found = e  # it wraps around, and an index would not
        done[e] = found
    return tuple(done[e] for e in body)


def _spelled(e: Expr, ranges: Ranges) -> Expr:
    """An operator on bits as arithmetic, where one operand is a number, and nothing leaves its type."""
    if e.op not in _BITS or e.dtype not in (INT32, INT64):
        return e
    a, b = e.args
    if is_const(a) and e.op in ("bitand", "bitor", "bitxor"):
        a, b = b, a
    if not (a.index and is_const(b) and a.dtype is e.dtype and ranges.fits(a)):
        return e
    n, bits = int(b.value), e.dtype.bits
    if n < 0 or (e.op in ("shl", "shr") and n >= bits - 1):
        return e
    found = {"shl": _shl, "shr": _shr, "bitand": _and, "bitor": _or, "bitxor": _xor}[e.op](a, n)
    return e if found is None or found.dtype is not e.dtype or not ranges.fits(found) else found


def _number(n: int, a: Expr) -> Expr:
    return const(n, a.dtype)


def _shl(a: Expr, n: int) -> Expr:
    return a * _number(1 << n, a)


def _shr(a: Expr, n: int) -> Expr:
    return a // _number(1 << n, a)


def _stretches(n: int) -> list[tuple[int, int]]:
    """The stretches of ones of a number: the value of the lowest one, and how many values the stretch may have."""
    found, at = [], 0
    while n >> at:
        if n >> at & 1:
            ones = 0
            while n >> (at + ones) & 1:
                ones += 1
            found.append((1 << at, 1 << ones))
            at += ones
        at += 1
    return found


def _and(a: Expr, n: int) -> Expr | None:
    found = _number(0, a)
    stretches = _stretches(n)
    for one, values in stretches:
        found = found + a // _number(one, a) % _number(values, a) * _number(one, a)
    return found if len(stretches) <= MOST_TERMS else None


def _or(a: Expr, n: int) -> Expr | None:
    both = _and(a, n)
    return None if both is None else a + _number(n, a) - both


def _xor(a: Expr, n: int) -> Expr | None:
    ones = [1 << at for at in range(n.bit_length()) if n >> at & 1]
    if len(ones) > MOST_TERMS:
        return None
    found = a + _number(n, a)
    for one in ones:
        found = found - a // _number(one, a) % _number(2, a) * _number(2 * one, a)
    return found
