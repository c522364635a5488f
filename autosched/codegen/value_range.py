"""What values may be: intervals of numbers that are computed, as they round and wrap.

    float32(x >> 8) * 2.0**-24, with x of uint32        [0, 1], and no NaN
    a value of float32 from memory                      None: anything

Functions leave out what only values need that do not occur: see `formulas.usual`.
"""

from __future__ import annotations

import math

import numpy as np

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, is_const, is_index
from autosched.ir.ops import CHOICES
from autosched.ir.ranges import RULES, Interval, Ranges, of_type

#: operators of which the rule for index arithmetic holds for any numbers
_ALIKE = ("add", "sub", "mul", "min", "max")
#: Expressions that are looked into for one interval, at most.
MOST = 64


class ValueRanges:
    """The intervals of values, given those of index arithmetic. Of anything that may be NaN there is none."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._left = MOST

    @staticmethod
    def of(e: Expr, ranges: Ranges) -> Interval | None:
        """The numbers that every lane of `e` lies among; None where it may be NaN, or anything."""
        return ValueRanges(ranges)._of(e)

    def _of(self, e: Expr) -> Interval | None:
        self._left -= 1
        if e.dtype.is_float:
            return self._float(e) if e.dtype.bits in (32, 64) and self._left > 0 else None
        whole = of_type(e.dtype)
        if e.dtype.is_bool or self._left <= 0:
            return whole
        found = self._ranges.of(e) if is_index(e) else self._integer(e)
        return found if found is not None and found.within(whole) else whole  # what does not fit wraps

    def _integer(self, e: Expr) -> Interval | None:
        match e.op:
            case "const":
                return Interval(e.value, e.value)
            case "cast" if not e.args[0].dtype.is_float:
                return self._of(e.args[0])
            case "shr":
                by, a = constant_of(e.args[1]), self._of(e.args[0])
                if by is None or a is None or not 0 <= by < e.dtype.bits:
                    return None
                return Interval(int(a.low) >> by, int(a.high) >> by)
            case "bitand":
                ends = [a.high for a in map(self._of, e.args) if a is not None and a.non_negative]
                return Interval(0, min(ends)) if ends else None
        return self._alike(e)

    def _float(self, e: Expr) -> Interval | None:
        match e.op:
            case "const":
                return None if math.isnan(e.value) else Interval(e.value, e.value)
            case "broadcast" | "select" | "if_then_else":
                return self._alike(e)
            case "cast":
                found = self._of(e.args[0])
            case _:
                found = self._alike(e)
        return None if found is None else _rounded(found, e.dtype)

    def _alike(self, e: Expr) -> Interval | None:
        """What integers and floats have in common; nothing is known of an end that is infinite."""
        if e.op == "broadcast":
            return self._of(e.args[0])
        if e.op not in (*CHOICES, *_ALIKE):
            return None
        a, b = map(self._of, e.args[-2:])
        if a is None or b is None:
            return None
        if e.op not in _ALIKE:
            return a | b
        return RULES[e.op](a, b) if all(map(math.isfinite, (a.low, a.high, b.low, b.high))) else None


def constant_of(e: Expr) -> int | None:
    """The integer that all lanes are, if it is known."""
    while e.op in ("broadcast", "cast") and not e.args[0].dtype.is_float:
        e = e.args[0]
    return int(e.value) if is_const(e) and not e.dtype.is_float else None


def _rounded(a: Interval, to: DType) -> Interval | None:
    """The numbers of a float type near those of an interval, however they were rounded, or what they are a part of was:
    a number more at each end, but for zero, which no rounding goes past. None where one may be infinite."""
    of = to.scalar.numpy.type
    with np.errstate(over="ignore"):
        low, high = of(a.low), of(a.high)
        low, high = np.nextafter(low, of(-math.inf)), np.nextafter(high, of(math.inf))
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return Interval(
        max(float(low), 0.0) if a.low >= 0 else float(low), min(float(high), 0.0) if a.high <= 0 else float(high)
    )
