"""Choices of the larger or smaller of two floats in a form that LLVM gets right where a NaN is among them.

    m = select(x < 0, 0, x)            NaN where x is NaN
    y = select(m > 0, m, 0)            0 where x is NaN          LLVM: y = m, as the larger of m and 0 has been taken

LLVM's instruction combiner takes the maximum of a maximum for the same maximum, though one keeps a NaN and the other
does not. `te.max(x, 0.0).astype("uint8")` is such a choice: the conversion makes 0 of a NaN. As `select(x > 0, x, 0)`,
which has the same value, the outer choice asks nothing of the inner one. Beside a number, `llvm.maxnum` says what
becomes of a NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from autosched.codegen.llvm_text import Value


class _Extreme(NamedTuple):
    """`largest` or smallest of two values, which of them it is where they are equal, and where one is NaN."""

    largest: bool
    values: tuple[Value, Value]
    of_equal: Value
    of_nan: Value


class Extremes:
    """The comparisons and choices of floats in a function so far, by the names of their results."""

    def __init__(self) -> None:
        self._compared: dict[str, tuple[str, Value, Value]] = {}
        self._chosen: dict[str, _Extreme] = {}

    def compared(self, result: Value, predicate: str, a: Value, b: Value) -> None:
        self._compared[result.ref] = predicate, a, b

    def chosen(self, result: Value, condition: Value, a: Value, b: Value) -> None:
        found = self._extreme(condition, a, b)
        if found is not None:
            self._chosen[result.ref] = found

    def of_a_number(self, condition: Value, a: Value, b: Value) -> tuple[str, Value, Value] | None:
        """Of a choice that drops a NaN for a number, the intrinsic that is the same, its value and the number; None for
        all others. LLVM knows what it does with a NaN, also of what it sees through memory."""
        found = self._extreme(condition, a, b)
        number = None if found is None else found.of_nan.const
        if found is None or number is None or math.isnan(number) or a.dtype.bits < 32:
            return None
        if number == 0 and found.of_equal.ref != found.of_nan.ref:
            return None  # the value may be a zero of the other sign, which stays
        return "maxnum" if found.largest else "minnum", a if found.of_nan.ref == b.ref else b, found.of_nan

    def simpler(self, condition: Value, a: Value, b: Value) -> tuple[str, Value, Value] | None:
        """Of a choice that drops the NaN which a choice before keeps, predicate and values of one that asks only what
        the one before was made of; None for all others."""
        outer = self._extreme(condition, a, b)
        if outer is None:
            return None
        for m, c in ((a, b), (b, a)):
            inner = self._chosen.get(m.ref)
            if inner is None or inner.largest != outer.largest or outer.of_nan.ref != c.ref:
                continue
            for x, other in (inner.values, inner.values[::-1]):
                if _is_same(other, c):
                    keeps_own = outer.of_equal.ref == m.ref and inner.of_equal.ref == x.ref
                    return f"o{'g' if outer.largest else 'l'}{'e' if keeps_own else 't'}", x, c
        return None

    def _extreme(self, condition: Value, a: Value, b: Value) -> _Extreme | None:
        predicate, x, y = self._compared.get(condition.ref, ("", a, b))
        if predicate[1:] not in ("gt", "ge", "lt", "le") or {x.ref, y.ref} != {a.ref, b.ref} or a.ref == b.ref:
            return None
        largest = (predicate[1] == "g") == (x.ref == a.ref)
        return _Extreme(largest, (a, b), a if predicate[2] == "e" else b, b if predicate[0] == "o" else a)


def _is_same(a: Value, b: Value) -> bool:
    return a.ref == b.ref or (a.const is not None and b.const is not None and a.const == b.const)
