"""The values that rules let knobs have."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.dtype import DType
from autosched.space.features.machine import Machine
from autosched.space.rules.look import length
from autosched.te.tensor import IterVar

__all__ = ["divisors", "lanes", "long_lanes", "powers", "tiles"]

#: Bytes that the lanes of one statement may have: more would not stay in registers.
MOST_BYTES = 512
#: The longest block that `tiles` gives.
MOST_BLOCKS = 64


def powers(first: int, last: int) -> list[int]:
    """The powers of two from first to last."""
    return [1 << b for b in range(first.bit_length() - 1, last.bit_length()) if first <= 1 << b <= last]


def lanes(machine: Machine, dtype: DType, axis: IterVar) -> list[int]:
    """Lanes of one vector register, and of half and a quarter of one, as far as an axis is that long."""
    whole = max(1, machine.vector_bytes // dtype.bytes)
    return _fitting([whole, whole // 2, whole // 4], length(axis))


def divisors(axis: IterVar, first: int, last: int) -> list[int]:
    """The numbers from first to last that an axis of known length divides into."""
    n = length(axis)
    return [] if n is None else [d for d in range(max(first, 2), last + 1) if n % d == 0]


def long_lanes(machine: Machine, types: Sequence[DType], n: int | None = None) -> list[int]:
    """Lanes of statements that take one to a few registers of the widest of some types."""
    widest = max(t.bytes for t in types)
    narrowest = min(t.bytes for t in types)
    first = max(2, machine.vector_bytes // widest)
    last = min(MOST_BYTES // widest, 4 * machine.vector_bytes // narrowest)
    return _fitting(powers(first, max(first, last)), n)


def _fitting(values: Sequence[int], n: int | None) -> list[int]:
    """Those of the values that an axis of that length fills half, at least the smallest."""
    wanted = sorted({v for v in values if v >= 1})
    return [v for v in wanted if n is None or v < 2 * n] or wanted[:1] or [1]


def tiles(axis: IterVar) -> list[int]:
    """How many iterations of an axis a block takes: powers of two, and divisors where the length is known."""
    n = length(axis)
    if n is None:
        return powers(1, MOST_BLOCKS)
    some = {*powers(1, MOST_BLOCKS), *divisors(axis, 2, MOST_BLOCKS)}
    return sorted({v for v in some if v <= n} | {1})
