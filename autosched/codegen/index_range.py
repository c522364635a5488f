"""Upper bounds of index arithmetic, as polynomials over the sizes of a call.

The C-family emitter computes indices in `index_t`, an `int` unless some offset might not fit. This
module collects, over every index expression of a function and every part of one, an upper bound of
its magnitude. At run time the bound is evaluated for the actual sizes: below 2^31, 32 bits do.

A bound is a polynomial with non-negative coefficients, so that the larger of two bounds is at most
the coefficient-wise maximum, and all bounds of a function merge into one small polynomial. What numbers
alone tell, such as signs, is `ir.ranges`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce
from math import inf, lcm
from typing import NamedTuple

from autosched.codegen.signature import Dim
from autosched.ir.expr import Expr
from autosched.ir.ops import CHOICES, CONDITIONS
from autosched.ir.ranges import Interval, Ranges, of_type
from autosched.ir.visit import post_order

#: product of sizes (sorted names) -> coefficient > 0
Bound = dict[tuple[str, ...], Fraction]

_NONE = Fraction(0)


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


class Limits(NamedTuple):
    """`value <= high` and `|value| <= magnitude`."""

    high: Bound
    magnitude: Bound


class IndexRanges:
    """The limits of the variables in scope, and the largest magnitude met so far."""

    def __init__(self, sizes: Iterable[str]) -> None:
        self._sizes = frozenset(sizes)
        self._variables: dict[Expr, Limits] = {}
        self._known: dict[Expr, Limits] = {}
        self._noted: set[Expr] = set()
        self.numbers = Ranges()
        self.peak: Bound = {}

    # -- scope --------------------------------------------------------------------------------
    def bind(self, var: Expr, interval: Interval, limits: Limits) -> None:
        self.numbers.bind(var, interval)
        limits = _within(interval, limits)
        if self._variables.get(var) not in (None, limits):
            self._known.clear()  # loops that partitioning cut apart share their variable
            self._noted.clear()
        self._variables[var] = limits

    def bind_loop(self, var: Expr, start: Expr, extent: Expr) -> None:
        """`var` runs over [start, start + extent)."""
        first, count = self(start), self(extent)
        limits = Limits(_sum(first.high, count.high), _sum(first.magnitude, count.high))
        self.bind(var, self.numbers.of_loop(start, extent), limits)

    def bind_index(self, var: Expr, extent: Expr) -> None:
        """`var` is a work-item's index, in [0, extent)."""
        high = self(extent).high
        self.bind(var, Interval(0, self.numbers.of(extent).high - 1), Limits(high, high))

    def bind_let(self, var: Expr, value: Expr) -> None:
        self.bind(var, self.numbers.of(value), self(value))

    def note(self, e: Expr) -> None:
        """Note that `e` and every part of it are computed in `index_t`."""
        todo = [e]
        while todo:
            part = todo.pop()
            if part not in self._noted:
                self._noted.add(part)
                self.peak = _larger(self.peak, self(part).magnitude)
                todo += part.args

    def note_product(self, factors: Iterable[Expr]) -> None:
        """Note a product as an index: a number of elements, or of all work-items along an axis."""
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

    # -- limits -------------------------------------------------------------------------------
    def __call__(self, e: Expr) -> Limits:
        if e not in self._known:
            for node in post_order(e):
                if node not in self._known:
                    self._known[node] = _within(self.numbers.of(node), self._limits(node))
        return self._known[e]

    def _limits(self, e: Expr) -> Limits:
        op = e.op
        if op == "const":
            value = int(e.value) if not e.dtype.is_float else 0
            return Limits(constant(max(value, 0)), constant(value))
        if op == "var":
            return self._variable(e)
        if op in CONDITIONS:
            return Limits(constant(1), constant(1))
        args = [self._known[a] for a in e.args]
        if op in ("cast", "broadcast") and not e.args[0].dtype.is_float:
            return args[0]
        if op in CHOICES:
            return Limits(*map(_larger, args[1], args[2]))
        rule = _RULES.get(op)
        if rule is None or e.dtype.is_float:
            return _any_value(e)
        return rule(*args, *map(self.numbers.of, e.args))

    def _variable(self, v: Expr) -> Limits:
        found = self._variables.get(v)
        if found is not None:
            return found
        interval = self.numbers.of(v)
        if v.value.name in self._sizes and interval.high == inf:
            size: Bound = {(v.value.name,): Fraction(1)}
            return Limits(size, size)
        high = constant(max(int(interval.high), 0)) if interval.high < inf else {}
        return Limits(high, high) if interval.high < inf and interval.low > -inf else _any_value(v)


def _within(interval: Interval, limits: Limits) -> Limits:
    """The limits, with a magnitude that is no larger than the interval allows."""
    if interval.low == -inf:
        return limits
    return limits._replace(magnitude=_larger(limits.high, constant(int(min(interval.low, 0)))))


def _any_value(e: Expr) -> Limits:
    """The limits of the type, for the result of value arithmetic that is used as an index."""
    own = of_type(e.dtype)
    return _within(own, Limits({} if e.dtype.is_float else constant(int(own.high)), {}))


# Each rule takes the limits of the operands, and what numbers tell of them.


def _sub(a: Limits, b: Limits, _: Interval, y: Interval) -> Limits:
    return Limits(a.high if y.non_negative else _sum(a.high, b.magnitude), _sum(a.magnitude, b.magnitude))


def _mul(a: Limits, b: Limits, x: Interval, y: Interval) -> Limits:
    magnitude = _product(a.magnitude, b.magnitude)
    return Limits(_product(a.high, b.high) if x.non_negative and y.non_negative else magnitude, magnitude)


def _div(a: Limits, b: Limits, _: Interval, y: Interval) -> Limits:
    """Bound both roundings: no quotient is larger than its dividend, or than |dividend|/divisor + 1."""
    divisor = y.constant
    if divisor is not None and divisor > 0:
        high, magnitude = ({m: c / divisor for m, c in bound.items()} for bound in a)
        return Limits(high, _sum(magnitude, constant(1)))
    return Limits(a.high if y.non_negative else a.magnitude, a.magnitude)


def _min(a: Limits, b: Limits, *_: Interval) -> Limits:
    # either end bounds the minimum from above; a constant is the more useful one
    high = min((a.high, b.high), key=lambda h: (any(h), sum(h.values())))
    return Limits(high, _larger(a.magnitude, b.magnitude))


_RULES: dict[str, Callable[..., Limits]] = {
    "add": lambda a, b, *_: Limits(*map(_sum, a, b)),
    "sub": _sub,
    "mul": _mul,
    **dict.fromkeys(("floordiv", "truncdiv"), _div),
    **dict.fromkeys(("floormod", "truncmod"), lambda a, b, *_: Limits(b.magnitude, b.magnitude)),
    "min": _min,
    "max": lambda a, b, *_: Limits(*map(_larger, a, b)),
    "neg": lambda a, *_: Limits(a.magnitude, a.magnitude),
}
