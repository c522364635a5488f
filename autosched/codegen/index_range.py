"""How large index arithmetic can get, as a polynomial over the sizes of one call.

The C-family emitter computes indices in `index_t`, an `int` unless some offset might not fit. This
module collects, over every index expression of a function and every part of one, an upper bound of
its magnitude. At run time the bound is evaluated for the actual sizes: below 2^31, 32 bits do.

A bound is a polynomial with non-negative coefficients, so that the larger of two bounds is at most
the coefficient-wise maximum, and all bounds of a function merge into one small polynomial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import ceil, lcm

from autosched.codegen.signature import Dim
from autosched.ir.expr import Expr
from autosched.ir.visit import post_order

__all__ = ["Bound", "IndexRanges", "Interval"]

#: product of sizes (sorted names) -> coefficient > 0
Bound = dict[tuple[str, ...], Fraction]

_NONE = Fraction(0)
_CONDITIONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "likely"))


def constant(value: int) -> Bound:
    return {(): Fraction(abs(value))} if value else {}


def _sum(a: Bound, b: Bound) -> Bound:
    return {m: a.get(m, _NONE) + b.get(m, _NONE) for m in {**a, **b}}


def _larger(a: Bound, b: Bound) -> Bound:
    return {m: max(a.get(m, _NONE), b.get(m, _NONE)) for m in {**a, **b}}


def _product(a: Bound, b: Bound) -> Bound:
    result: Bound = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n))
            result[key] = result.get(key, _NONE) + c * d
    return result


def _quotient(a: Bound, divisor: int) -> Bound:
    return {m: c / divisor for m, c in a.items()}


def _is_constant(a: Bound) -> bool:
    return all(m == () for m in a)


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= value <= high`; `low` is None where no constant bound is known."""

    low: int | None
    high: Bound
    magnitude: Bound

    @staticmethod
    def of(low: int | None, high: Bound, magnitude: Bound) -> Interval:
        """An interval whose magnitude is no larger than its ends allow."""
        if low is not None:
            magnitude = _larger(high, constant(min(low, 0)))
        return Interval(low, high, magnitude)

    @property
    def nonneg(self) -> bool:
        return self.low is not None and self.low >= 0

    @property
    def positive(self) -> bool:
        return self.low is not None and self.low > 0


class IndexRanges:
    """The intervals of the variables in scope, and the largest magnitude met so far."""

    def __init__(self, sizes: Iterable[str]) -> None:
        self._sizes = frozenset(sizes)
        self._variables: dict[Expr, Interval] = {}
        self._known: dict[Expr, Interval] = {}
        self.peak: Bound = {}

    # -- scope --------------------------------------------------------------------------------
    def bind(self, var: Expr, interval: Interval) -> None:
        if self._variables.get(var) not in (None, interval):
            self._known.clear()  # loops that partitioning cut apart share their variable
        self._variables[var] = interval

    def bind_loop(self, var: Expr, start: Expr, extent: Expr) -> None:
        """`var` runs over [start, start + extent)."""
        first, count = self(start), self(extent)
        self.bind(var, Interval.of(first.low, _sum(first.high, count.high), _sum(first.magnitude, count.high)))

    def bind_index(self, var: Expr, extent: Expr) -> None:
        """`var` is a work-item's index, in [0, extent)."""
        high = self(extent).high
        self.bind(var, Interval.of(0, high, high))

    def note(self, e: Expr) -> None:
        """`e` is computed in `index_t`, and so is every part of it."""
        for node in post_order(e):
            self.peak = _larger(self.peak, self(node).magnitude)

    def note_product(self, factors: Iterable[Expr]) -> None:
        """The product of `factors` counts as an index: an element count, or all work-items of an axis."""
        self.peak = _larger(self.peak, reduce(_product, (self(f).magnitude for f in factors), constant(1)))

    def peak_dim(self) -> Dim:
        """`peak`, rounded up, as data over size names."""
        scale = lcm(*(c.denominator for c in self.peak.values()))
        total: Dim = 0
        for names, coefficient in sorted(self.peak.items()):
            term: Dim = int(coefficient * scale)
            for name in names:
                term = ["size", name] if term == 1 else ["mul", term, ["size", name]]
            total = term if total == 0 else ["add", total, term]
        return total if scale == 1 else ["add", ["floordiv", total, scale], 1]

    # -- intervals ----------------------------------------------------------------------------
    def __call__(self, e: Expr) -> Interval:
        if e not in self._known:
            for node in post_order(e):
                if node not in self._known:
                    self._known[node] = self._interval(node)
        return self._known[e]

    def _interval(self, e: Expr) -> Interval:
        op = e.op
        if op == "const":
            value = int(e.value) if not e.dtype.is_float else 0
            return Interval(value, constant(max(value, 0)), constant(value))
        if op == "var":
            return self._variable(e)
        if op in _CONDITIONS:
            return Interval(0, constant(1), constant(1))
        args = [self._known[a] for a in e.args]
        if op in ("cast", "broadcast") and not e.args[0].dtype.is_float:
            return args[0]
        if op in ("select", "if_then_else"):
            return _either(args[1], args[2])
        rule = _RULES.get(op)
        return _any_value(e) if rule is None or e.dtype.is_float else rule(*args)

    def _variable(self, v: Expr) -> Interval:
        found = self._variables.get(v)
        if found is not None:
            return found
        info = v.value
        low = info.lower if info.lower is not None else 0 if info.role == "size" else None
        if info.name in self._sizes:
            size: Bound = {(info.name,): Fraction(1)}
            high = constant(info.upper) if info.upper is not None else size
            return Interval.of(low, high, high)
        if low is not None and info.upper is not None:
            return Interval.of(low, constant(max(info.upper, 0)), {})
        return _any_value(v)


def _any_value(e: Expr) -> Interval:
    """What the type allows: the result of value arithmetic, used as an index."""
    if e.dtype.is_float:
        return Interval(None, {}, {})
    low, high = int(e.dtype.min), int(e.dtype.max)
    return Interval.of(low, constant(high), {})


def _either(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    return Interval.of(low, _larger(a.high, b.high), _larger(a.magnitude, b.magnitude))


def _add(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else a.low + b.low
    return Interval.of(low, _sum(a.high, b.high), _sum(a.magnitude, b.magnitude))


def _sub(a: Interval, b: Interval) -> Interval:
    low = a.low - ceil(sum(b.high.values())) if a.low is not None and _is_constant(b.high) else None
    high = a.high if b.nonneg else _sum(a.high, b.magnitude)
    return Interval.of(low, high, _sum(a.magnitude, b.magnitude))


def _mul(a: Interval, b: Interval) -> Interval:
    if a.low is not None and b.low is not None and a.nonneg and b.nonneg:
        high = _product(a.high, b.high)
        return Interval(a.low * b.low, high, high)
    magnitude = _product(a.magnitude, b.magnitude)
    return Interval(None, magnitude, magnitude)


def _div(a: Interval, b: Interval) -> Interval:
    """Both roundings: no quotient is larger than its dividend, or than |dividend|/divisor + 1."""
    high, magnitude = (a.high if b.nonneg else a.magnitude), a.magnitude
    if b.positive and b.low is not None and b.magnitude == constant(b.low):
        high, magnitude = _quotient(a.high, b.low), _sum(_quotient(a.magnitude, b.low), constant(1))
    low = 0 if a.nonneg and b.nonneg else None
    return Interval.of(low, high, magnitude)


def _floormod(a: Interval, b: Interval) -> Interval:
    return Interval.of(0 if b.nonneg else None, b.magnitude, b.magnitude)


def _truncmod(a: Interval, b: Interval) -> Interval:
    return Interval.of(0 if a.nonneg else None, b.magnitude, b.magnitude)


def _min(a: Interval, b: Interval) -> Interval:
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    # either end bounds the minimum from above; a constant is the more useful one
    high = min((a.high, b.high), key=lambda h: (not _is_constant(h), sum(h.values())))
    return Interval.of(low, high, _larger(a.magnitude, b.magnitude))


def _max(a: Interval, b: Interval) -> Interval:
    lows = [x.low for x in (a, b) if x.low is not None]
    return Interval.of(max(lows, default=None), _larger(a.high, b.high), _larger(a.magnitude, b.magnitude))


def _neg(a: Interval) -> Interval:
    return Interval.of(None, a.magnitude, a.magnitude)


_RULES: dict[str, Callable[..., Interval]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "floordiv": _div,
    "truncdiv": _div,
    "floormod": _floormod,
    "truncmod": _truncmod,
    "min": _min,
    "max": _max,
    "neg": _neg,
}
