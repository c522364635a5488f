"""Intervals whose ends are expressions, and the interval of an expression while variables run through theirs.

    with a in [0, 9]:    a*4 + b    lies in [b, b + 36]

`interval_of` looks at the expression's tree, so that `a % 3` is 0..2, and at its polynomial, so that
`(a + b) - a` is `b`; the tighter of both is taken where that can be proven.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import UsageError
from autosched.ir.dims import Range as Range
from autosched.ir.expr import Expr, as_expr, const, maximum, minimum, var, variables
from autosched.ir.prove import is_integer_index
from autosched.ir.simplify import Analyzer as Prover

#: ends of intervals that are not bounded
POS_INF = var("pos_inf", "int64", "scalar")
NEG_INF = var("neg_inf", "int64", "scalar")


Ends = tuple[Expr | None, Expr | None]


class IntSet:
    """Sets of integers; `IntervalSet` is the only kind."""

    @staticmethod
    def single_point(point: object) -> IntervalSet:
        """Return the set of one integer."""
        return IntervalSet(point, point)

    @staticmethod
    def vector(vec: Expr) -> IntervalSet:
        """Return an interval around the lanes of a vector."""
        if vec.op == "ramp":
            base, stride = vec.args
            last = base + stride * (vec.dtype.lanes - 1)
            return IntervalSet(minimum(base, last), maximum(base, last))
        if vec.op == "broadcast":
            return IntSet.single_point(vec.args[0])
        raise UsageError("not a vector whose lanes are known", asked=repr(vec), legal="legal: a ramp or a broadcast")

    @staticmethod
    def interval(low: object, high: object) -> IntervalSet:
        return IntervalSet(low, high)


@dataclass(frozen=True, eq=False)
class IntervalSet(IntSet):
    """The integers `min_value <= x <= max_value`. `NEG_INF` and `POS_INF` are open ends; None gives one."""

    min_value: Expr
    max_value: Expr

    def __init__(self, min_value: object, max_value: object) -> None:
        object.__setattr__(self, "min_value", NEG_INF if min_value is None else as_expr(min_value))
        object.__setattr__(self, "max_value", POS_INF if max_value is None else as_expr(max_value))

    @property
    def ends(self) -> Ends:
        """Both ends; None for one that is open."""
        low = None if self.min_value is NEG_INF else self.min_value
        return low, None if self.max_value is POS_INF else self.max_value

    @staticmethod
    def everything() -> IntervalSet:
        return IntervalSet(NEG_INF, POS_INF)

    @staticmethod
    def nothing() -> IntervalSet:
        return IntervalSet(POS_INF, NEG_INF)

    def is_everything(self) -> bool:
        return self.min_value is NEG_INF and self.max_value is POS_INF

    def is_nothing(self) -> bool:
        return self.min_value is POS_INF or self.max_value is NEG_INF

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value!r}, {self.max_value!r}]"


def as_interval(values: object) -> IntervalSet:
    """Return the interval of a Range, a pair of ends, or one integer; an interval as it is."""
    if isinstance(values, IntervalSet):
        return values
    if isinstance(values, Range):
        return IntervalSet(values.min, values.min + (values.extent - 1))
    if isinstance(values, tuple):
        return IntervalSet(*values)
    return IntSet.single_point(values)


_CONDITIONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "likely"))


def interval_of(
    e: Expr, domains: Mapping[Expr, IntervalSet], prover: Prover, spelled: Sequence[Expr] = ()
) -> IntervalSet:
    """Return an interval with all values of the index `e` while the variables of `domains` run through theirs.

    spelled: equal expressions, which may tell more: x // 4 % 8 is below 8, which x // 4 - x // 32 * 8 does not show
    """
    if not is_integer_index(e):
        return IntervalSet.everything() if variables(e) & domains.keys() else IntSet.single_point(e)
    ranges = {v: [None if end is None else prover.poly(end) for end in d.ends] for v, d in domains.items()}
    with prover.tightened({v: (low, high) for v, (low, high) in ranges.items()}):
        simple = prover.simplify(e)
        low, high = _Evaluation(domains, prover).ends(simple)
        p = prover.poly(simple)
        lows, highs = ([prover.extreme(p, tuple(domains), largest)] for largest in (False, True))
        for other in dict.fromkeys((e, *spelled)):
            first, last = _Evaluation(domains, prover).ends(other)
            lows.append(None if first is None else prover.poly(first))
            highs.append(None if last is None else prover.poly(last))
        for tight in lows:
            if tight is not None and (low is None or prover.prove_nonneg(tight - prover.poly(low))):
                low = prover.expr(tight)
        for tight in highs:
            if tight is not None and (high is None or prover.prove_nonneg(prover.poly(high) - tight)):
                high = prover.expr(tight)
    return IntervalSet(*(None if end is None else prover.simplify(end) for end in (low, high)))


class _Evaluation:
    """Intervals of an expression's parts, from the leaves up. None is an open end."""

    def __init__(self, domains: Mapping[Expr, IntervalSet], prover: Prover) -> None:
        self.domains, self.prover = domains, prover
        self.known: dict[Expr, Ends] = {}

    def ends(self, e: Expr) -> Ends:
        if not variables(e) & self.domains.keys():
            return e, e
        if e not in self.known:
            self.known[e] = self._ends(e)
        return self.known[e]

    def _ends(self, e: Expr) -> Ends:
        if e.op == "var":
            first, last = self.domains[e].ends
            first = first if first is None or e in variables(first) else self.ends(first)[0]
            last = last if last is None or e in variables(last) else self.ends(last)[1]
            return first, last
        if e.op in _CONDITIONS:
            return const(0), const(1)
        if e.op == "cast":
            return self.ends(e.args[0])
        if e.op == "neg":
            a, b = self.ends(e.args[0])
            return (None if b is None else -b), (None if a is None else -a)
        (a, b), (c, d) = self.ends(e.args[-2]), self.ends(e.args[-1])
        match e.op:
            case "select" | "if_then_else":
                return _both(minimum, a, c), _both(maximum, b, d)
            case "add":
                return _both(operator.add, a, c), _both(operator.add, b, d)
            case "sub":
                return _both(operator.sub, a, d), _both(operator.sub, b, c)
            case "min":  # min(x, y) <= y, whatever x is
                return _both(minimum, a, c), d if b is None else b if d is None else minimum(b, d)
            case "max":
                return c if a is None else a if c is None else maximum(a, c), _both(maximum, b, d)
            case "mul":
                return self._product((a, b), (c, d))
            case "floordiv" | "truncdiv" | "floormod" | "truncmod":
                return self._division(e.op, (a, b), (c, d))
        return None, None

    def _sign(self, e: Expr | None) -> int:
        if e is None:
            return 0
        p = self.prover.poly(e)
        return 1 if self.prover.prove_nonneg(p) else -1 if self.prover.prove_nonneg(-p) else 0

    def _product(self, x: Ends, y: Ends) -> Ends:
        """By a factor that is one point of known sign, or of two that are nowhere negative."""
        for (a, b), (c, d) in ((x, y), (y, x)):
            if c is not None and c is d:
                sign = self._sign(c)
                low, high = (None if a is None else a * c), (None if b is None else b * c)
                if sign:
                    return (low, high) if sign > 0 else (high, low)
        if self._sign(x[0]) > 0 and self._sign(y[0]) > 0:
            return _both(operator.mul, x[0], y[0]), _both(operator.mul, x[1], y[1])
        return None, None

    def _division(self, op: str, x: Ends, y: Ends) -> Ends:
        """By one positive point."""
        a, b = x
        d = y[0] if y[0] is y[1] else None
        if d is None or not self.prover.prove_nonneg(self.prover.poly(d) - 1):
            return None, None
        if op in ("floordiv", "truncdiv"):
            divide = operator.floordiv if op == "floordiv" else operator.truediv
            return (None if a is None else divide(a, d)), (None if b is None else divide(b, d))
        if op == "truncmod" and self._sign(a) <= 0:
            return 1 - d, d - 1
        if a is not None and b is not None and self._sign(a) > 0:
            if self.prover.prove_nonneg(self.prover.poly(d) - 1 - self.prover.poly(b)):
                return a, b
            return const(0), minimum(b, d - 1)
        return const(0), d - 1


def _both(combine: Callable[[Expr, Expr], Expr], a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else combine(a, b)
