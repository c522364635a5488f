"""Counterexamples: a polynomial that is negative for some assignment within the ranges has no proof.

Most questions put to a prover have none, and giving up takes it longer than finding one, because it tries every way.
An assignment with `p < 0` ends the search at once; every claim that a proof goes through is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from zlib import crc32

from autosched.ir.expr import OPS, Expr
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly

Range = tuple[Poly | None, Poly | None]


def declared_range(var: Expr) -> Range:
    """The bounds that a variable was made with; other atoms have none."""
    if var.op != "var":
        return None, None
    info = var.value
    low = info.lower if info.lower is not None else 0 if info.role in ("size", "thread") else None
    if low is None and var.dtype.kind == "uint":
        low = 0
    return (None if low is None else Poly.of(low)), (None if info.upper is None else Poly.of(info.upper))


Number = int | float  #: NaN is what is not known

_DEEPEST = 100  # expressions deeper than this are unknown: evaluation recurses
_UNKNOWN = math.nan

#: Where in their ranges sizes and other variables lie, one pair for each witness. Open ranges end after 1000.
_PLACES = (("far", "low"), ("far", "high"), ("far", "inside"), ("near", "inside"), ("near", "low"))


def witnesses(range_of: Callable[[Expr], Range], facts: Sequence[Poly]) -> list[Witness]:
    """Assignments within the ranges that meet the facts; there may be none."""
    found = [Witness(range_of, sizes, others) for sizes, others in _PLACES]
    return [w for w in found if all(w.of(f) >= 0 for f in facts)]


class Witness:
    """Values of variables, chosen as they are asked for, each within its range."""

    __slots__ = ("_others", "_range_of", "_sizes", "_values")

    def __init__(self, range_of: Callable[[Expr], Range], sizes: str, others: str) -> None:
        self._range_of, self._sizes, self._others = range_of, sizes, others
        self._values: dict[Expr, Number] = {}

    def of(self, p: Poly) -> Number:
        """The value of the polynomial; NaN if it depends on what is not known."""
        total: Number = 0
        values = self._values
        for m, c in p.terms.items():
            product: Number = c
            for atom in m:
                value = values.get(atom)
                product *= self._value(atom) if value is None else value
            total += product
        return total

    def _value(self, e: Expr) -> Number:
        found = self._values.get(e)
        if found is None:
            found = self._values[e] = self._computed(e) if e.depth <= _DEEPEST else _UNKNOWN
        return found

    def _computed(self, e: Expr) -> Number:
        if e.op == "var":
            return self._chosen(e)
        if e.op == "const":
            return int(e.value) if e.dtype.lanes == 1 and not e.dtype.is_float else _UNKNOWN
        if e.op in CHOICES:
            condition = self._value(e.args[0])
            return _UNKNOWN if condition != condition else self._value(e.args[1 if condition else 2])
        if e.op == "cast":
            return self._value(e.args[0]) if e.index else _UNKNOWN
        function = OPS[e.op].exact
        if function is None or not e.index:
            return _UNKNOWN
        args = [self._value(a) for a in e.args]
        return _UNKNOWN if any(a != a for a in args) else function(*args)

    def _chosen(self, v: Expr) -> Number:
        """A value in the range of the variable; NaN, which spoils what it gets into, if there is none."""
        low, high = (None if b is None else self.of(b) for b in self._range_of(v))
        if low is None and high is None:
            low = 0
        some = crc32(v.name.encode())
        place = self._sizes if v.value.role in ("size", "scalar", "knob") else self._others
        if low is None or high is None:
            distance = {"low": 0, "near": some % 7, "inside": 40 + some % 50}.get(place, 1000 + some % 100)
            return high - distance if low is None and high is not None else (low or 0) + distance
        if not low <= high:
            return _UNKNOWN
        if place in ("low", "high"):
            return low if place == "low" else high
        return low + some % (high - low + 1)
