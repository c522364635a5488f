"""`Analyzer`: simplification, bounds and proofs of integer expressions, by TVM's names.

    an = Analyzer()
    an.bind(x, Range(0, 8))
    an.simplify((y*8 + x) // 8)             y
    an.const_int_bound(x*3 - 1)             [-1, 20]
    an.modular_set(x*6 + y*4)               2*k
    with an.constraint_scope(y > 10):
        an.can_prove(y >= 5)                True

It wraps the prover of `ir.simplify`, which lowering uses by itself, and which keeps polynomials, ranges and facts.
Constant bounds, congruences and the rules of `rewrite` are added here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from autosched.errors import UsageError
from autosched.ir.conclusions import UNLIMITED, Memory
from autosched.ir.expr import Expr, as_expr, compare, const, floordiv, var, variables
from autosched.ir.poly import Poly
from autosched.ir.prove import is_integer_index
from autosched.ir.ranges import EVERYTHING, Interval, bounds_of, of_type
from autosched.ir.simplify import Analyzer as Prover
from autosched.ir.visit import conjuncts, substitute
from autosched.tvm.arith.modular import ANY, ModularSet, modular_of
from autosched.tvm.arith.rewrite import rewrite
from autosched.tvm.arith.sets import IntervalSet, Range, as_interval, interval_of


@dataclass(frozen=True)
class ConstIntBound:
    """The smallest and the largest value of an expression; beyond int64, infinite."""

    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF

    min_value: int
    max_value: int

    def __repr__(self) -> str:
        low = "-inf" if self.min_value == self.NEG_INF else self.min_value
        high = "inf" if self.max_value == self.POS_INF else self.max_value
        return f"ConstIntBound[{low}, {high}]"


class Analyzer:
    """Facts about variables, and conclusions from them.

    An index expression (`ir.expr.is_index`) is a mathematical integer. The type of a variable bounds it if it has less
    than 32 bits. "Cannot prove" never means "false".
    """

    #: rounds of rules and normal forms before the result is taken as it is
    ROUNDS = 8

    def __init__(self) -> None:
        self.prover = Prover(Memory(UNLIMITED))
        self._bounds: dict[Expr, Interval] = {}
        self._modular: dict[Expr, ModularSet] = {}
        self._facts: tuple[Poly, ...] = ()  # each of them >= 0

    # -- facts --------------------------------------------------------------------------------
    def bind(self, var: Expr, expr: object, allow_override: bool = False) -> None:
        """Bind a variable to an expression or a `Range`.

        Raises UsageError for a variable that is bound already, unless `allow_override`.
        """
        if var in self.prover._ranges and not allow_override:
            raise UsageError(
                f"{var.name} is bound already", asked=f"bind({var.name}, {expr!r})", legal="pass allow_override=True"
            )
        self._bounds.pop(var, None)
        self._modular.pop(var, None)
        if isinstance(expr, Range):
            self.prover.bind(var, expr.min, expr.min + (expr.extent - 1))
        else:
            value = as_expr(expr)
            self._modular[var] = self.modular_set(value)
            self.prover.bind(var, value, value)

    def update(self, var: Expr, info: ConstIntBound | ModularSet | IntervalSet, override: bool = False) -> None:
        """Add a fact about a variable; with `override`, replace those of its kind."""
        if isinstance(info, ModularSet):
            self._modular[var] = info if override else self._modular.get(var, ANY) & info
            return
        if isinstance(info, ConstIntBound):
            low = None if info.min_value <= info.NEG_INF else Poly.of(info.min_value)
            high = None if info.max_value >= info.POS_INF else Poly.of(info.max_value)
        else:
            low, high = (None if end is None else self.prover.poly(end) for end in info.ends)
        if not override:
            # that sizes are not negative holds of those alone of which nothing else is said
            old_low, old_high = self.prover.range(var) if var in self.prover._ranges else (None, None)
            low = _tighter(old_low, low, largest=True)
            high = _tighter(old_high, high, largest=False)
        self.prover.bind(var, low, high)

    @contextmanager
    def constraint_scope(self, constraint: Expr) -> Iterator[None]:
        """Assume a condition inside `with`."""
        saved = self._bounds, self._modular, self._facts
        self._bounds, self._modular = dict(self._bounds), dict(self._modular)
        parts = conjuncts(constraint)
        facts = [p for c in parts for p in self.prover.inequalities(c)]
        self._facts = (*self._facts, *facts)
        for c in parts:
            self._assume_congruence(c)
        for p in facts:
            self._assume_bound(p)
        try:
            with self.prover.assuming(constraint):
                yield
        finally:
            self._bounds, self._modular, self._facts = saved

    def _assume_congruence(self, condition: Expr) -> None:
        """From `(x + c) % d == r` with constants, x is r - c, modulo d."""
        if condition.op != "eq":
            return
        for side, other in (condition.args, condition.args[::-1]):
            if side.op not in ("floormod", "truncmod") or side.args[1].op != "const" or other.op != "const":
                continue
            d, r = abs(int(side.args[1].value)), int(other.value)
            p = self.prover.poly(side.args[0])
            for v in [a for a in p.atoms() if a.op == "var"]:
                linear = p.linear_in(v)
                offset = None if linear is None else linear[1].constant
                if d and linear is not None and offset is not None and linear[0].constant in (1, -1):
                    value = (r - offset) * int(linear[0].constant or 0)
                    self._modular[v] = self._modular.get(v, ANY) & ModularSet.of(d, value)

    def _assume_bound(self, p: Poly) -> None:
        """From `c*x + rest >= 0`, x has a constant bound where the rest has one."""
        for v in [a for a in p.atoms() if a.op == "var"]:
            linear = p.linear_in(v)
            slope = None if linear is None else linear[0].constant
            if linear is None or slope is None or v in linear[1].variables:
                continue
            most = self.bound_of(self.prover.expr(linear[1])).high
            if most != inf:
                end = Interval(-(most // slope), inf) if slope > 0 else Interval(-inf, most // -slope)
                self._bounds[v] = self._bounds.get(v, EVERYTHING) & end

    # -- questions ----------------------------------------------------------------------------
    def const_int_bound(self, expr: Expr) -> ConstIntBound:
        """Return the tightest constants known between which the expression lies."""
        found = self.bound_of(expr)
        if is_integer_index(expr):
            simple = self.simplify(expr)
            p = self.prover.poly(simple)
            ranged = [v for v in p.variables if self.prover.range(v) != (None, None)]
            ends = [self.prover.extreme(p, ranged, largest) for largest in (False, True)]
            lows = [end.constant for end in (ends[0], *(p - f for f in self._facts)) if end is not None]
            highs = [end.constant for end in (ends[1], *(p + f for f in self._facts)) if end is not None]
            found = found & self.bound_of(simple)
            found = found & Interval(
                max((n for n in lows if n is not None), default=-inf),
                min((n for n in highs if n is not None), default=inf),
            )
        low, high = (max(min(end, ConstIntBound.POS_INF), ConstIntBound.NEG_INF) for end in (found.low, found.high))
        return ConstIntBound(int(low), int(high))

    def bound_of(self, e: Expr) -> Interval:
        """Return the bound of an expression as it stands."""
        return bounds_of(e, self._variable_bound)

    def _variable_bound(self, v: Expr) -> Interval:
        found = self._bounds.get(v, EVERYTHING)
        if v.dtype.bits < 32 and v.dtype.is_integer or v.dtype.is_bool:
            found = found & of_type(v.dtype)
        low, high = self.prover.range(v)
        if low is not None and v not in low.variables:
            found = found & Interval(self.bound_of(low.expr()).low, inf)
        if high is not None and v not in high.variables:
            found = found & Interval(-inf, self.bound_of(high.expr()).high)
        return found

    def modular_set(self, expr: Expr) -> ModularSet:
        """Return the coefficient and base with `expr == coeff*k + base` for some integer k."""
        found = self.congruence_of(expr)
        if is_integer_index(expr):
            found = found & self.congruence_of(self.simplify(expr))
        return found

    def congruence_of(self, e: Expr) -> ModularSet:
        """Return the congruence of an expression as it stands."""
        return modular_of(e, lambda v: self._modular.get(v, ANY))

    def int_set(self, expr: Expr, dom_map: Mapping[Expr, object] | None = None) -> IntervalSet:
        """Return an interval with all values of the expression while variables run through their sets.

        dom_map: variable -> IntervalSet, Range, pair or number; without it, the variables that are bound
        """
        if dom_map is None:
            bound = {v: [None if p is None else p.expr() for p in ends] for v, ends in self.prover._ranges.items()}
            domains = {v: IntervalSet(*ends) for v, ends in bound.items()}
        else:
            domains = {v: as_interval(s) for v, s in dom_map.items()}
        spelled = (self.simplify(expr), expr) if is_integer_index(expr) else (expr,)
        found = interval_of(spelled[0], domains, self.prover, spelled)
        return IntervalSet(self.simplify(found.min_value), self.simplify(found.max_value))

    # -- simplification -----------------------------------------------------------------------
    def simplify(self, expr: object, steps: int = 2) -> Expr:
        """Return an equal expression of the same type, as simple as possible.

        The normal form of polynomials and the rules of `rewrite` take turns until nothing changes. `steps` is TVM's and
        changes nothing.
        """
        e = as_expr(expr)
        found = self._fixpoint(e)
        for v, m in [(v, m) for v, m in self._modular.items() if m.coeff != 1 and v in variables(found)]:
            found = self._with_congruence(found, v, m)
        return found

    rewrite_simplify = simplify
    canonical_simplify = simplify

    def _fixpoint(self, e: Expr) -> Expr:
        seen = {e}
        for _ in range(self.ROUNDS):
            e = rewrite(self.prover.simplify(e), self)
            if e in seen:
                break
            seen.add(e)
        return e

    def _with_congruence(self, e: Expr, v: Expr, m: ModularSet) -> Expr:
        """`e` simplified with `coeff*q + base` for the variable, if it goes with that."""
        if m.coeff == 0:
            return self._fixpoint(substitute(e, {v: const(m.base, v.dtype)}))
        q = var(f"{v.name}.quotient", v.dtype)
        low, high = self.prover.range(v)
        floors = [
            None if end is None else floordiv(end.expr() - m.base + up, m.coeff)
            for end, up in ((low, m.coeff - 1), (high, 0))
        ]
        self.prover.bind(q, *floors)
        found = self._fixpoint(substitute(e, {v: q * m.coeff + m.base}))
        return e if q in variables(found) else found

    # -- proofs -------------------------------------------------------------------------------
    def can_prove(self, expr: Expr, strength: int = 0) -> bool:
        """Return whether the condition is proven. `strength` is TVM's and changes nothing."""
        result = self.simplify(expr)
        if result.op == "const":
            return bool(result.value)
        return all(self._holds(c) for c in conjuncts(result))

    def _holds(self, condition: Expr) -> bool:
        """By constant bounds and congruences of the difference of both sides."""
        if condition.op == "or":
            return any(self.can_prove(a) for a in condition.args)
        if condition.op not in ("lt", "le", "gt", "ge", "eq", "ne") or not all(map(is_integer_index, condition.args)):
            return False
        a, b = condition.args
        difference = self.prover.expr(self.prover.poly(a) - self.prover.poly(b))
        bound = self.const_int_bound(difference)
        match condition.op:
            case "lt":
                return bound.max_value < 0
            case "le":
                return bound.max_value <= 0
            case "gt":
                return bound.min_value > 0
            case "ge":
                return bound.min_value >= 0
            case "eq":
                return bound.min_value == bound.max_value == 0
        return bound.min_value > 0 or bound.max_value < 0 or 0 not in self.modular_set(difference)

    def can_prove_equal(self, lhs: object, rhs: object) -> bool:
        """Return whether the values are proven to be equal."""
        return self.can_prove(compare("eq", lhs, rhs))

    def can_prove_greater_equal(self, expr: Expr, lower_bound: int) -> bool:
        return self.can_prove(compare("ge", expr, lower_bound))

    def can_prove_less(self, expr: Expr, upper_bound: int) -> bool:
        return self.can_prove(compare("lt", expr, upper_bound))


def _tighter(old: Poly | None, new: Poly | None, largest: bool) -> Poly | None:
    """The better of two ends: the larger lower one, the smaller upper one; the new one if they cannot be compared."""
    if old is None or new is None:
        return old if new is None else new
    if old.constant is None or new.constant is None:
        return new
    return Poly.of((max if largest else min)(old.constant, new.constant))
