"""What must hold of an `arith.Analyzer` for any expressions under any ranges, checked by brute force."""

from __future__ import annotations

import numpy as np
from index_fuzz import Choices, Env, Scope, condition_expr, describe, integer_expr, random_scope, subsets, values
from simplifier_laws import equal, ill_typed

from autosched.ir.expr import Expr, const, variables
from autosched.tvm.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet
from autosched.tvm.arith.sets import NEG_INF, POS_INF


class Case:
    """One scope, an expression and two conditions over it, and their values everywhere."""

    def __init__(self, c: Choices, depth: int = 4) -> None:
        self.choices = c
        self.scope: Scope = random_scope(c)
        self.env: Env = self.scope.assignments()
        self.count = len(next(iter(self.env.values())))
        self.e = integer_expr(c, self.scope, depth)
        self.condition = condition_expr(c, self.scope, depth - 1)
        self.given = condition_expr(c, self.scope, depth - 2)
        self.value, self.truth = self.of(self.e), self.of(self.condition)

    def of(self, e: Expr) -> np.ndarray:
        return np.broadcast_to(values(e, self.env), (self.count,))

    def say(self, *what: object) -> str:
        return describe(self.scope, *what)

    def analyzer(self) -> Analyzer:
        an = Analyzer()
        for v, (low, high) in self.scope.ranges.items():
            an.prover.bind(v, low, high)
        return an

    def check(self) -> None:
        if self.count == 0:
            return
        an = self.analyzer()
        everywhere = np.ones(self.count, bool)
        self.check_where(an, everywhere)
        self.sets_hold_all_values(an)
        held = self.of(self.given).astype(bool)
        with an.constraint_scope(self.given):
            self.check_where(an, held, self.given)
        self.check_where(an, everywhere)  # the constraint is gone
        self.check_where(Analyzer(), everywhere, "without ranges")
        self.congruences_of_variables()

    def check_where(self, an: Analyzer, where: np.ndarray, *given: object) -> None:
        for e, value in ((self.e, self.value), (self.condition, self.truth)):
            result = an.simplify(e)
            assert equal(self.of(result), value, where), self.say(*given, e, result)
            assert result.dtype == e.dtype, self.say(*given, e, result, result.dtype)
            assert ill_typed(result) is None, self.say(*given, e, result, ill_typed(result))
        if an.can_prove(self.condition):
            assert equal(self.truth, np.ones(self.count), where), self.say(*given, "proved", self.condition)
        bound, found = an.const_int_bound(self.e), self.value[where]
        assert isinstance(bound, ConstIntBound)
        assert ((bound.min_value <= found) & (found <= bound.max_value)).all(), self.say(*given, self.e, bound)
        modular = an.modular_set(self.e)
        assert all(int(x) in modular for x in np.unique(found)), self.say(*given, self.e, modular)

    def sets_hold_all_values(self, an: Analyzer) -> None:
        over = subsets(list(self.scope.ranges), self.choices)
        domains = {v: IntervalSet(*self.scope.ranges[v]) for v in over}
        found = an.int_set(self.e, domains)
        for end, is_low in ((found.min_value, True), (found.max_value, False)):
            if end is NEG_INF or end is POS_INF:
                continue
            assert not variables(end) & set(over), self.say(self.e, "over", over, found)
            within = self.of(end) <= self.value if is_low else self.value <= self.of(end)
            assert within.all(), self.say(self.e, "over", over, found)

    def congruences_of_variables(self) -> None:
        """A variable is known modulo a number: the rows where that is so."""
        an = self.analyzer()
        v = list(self.scope.ranges)[self.choices.integer(0, len(self.scope.ranges) - 1)]
        m = ModularSet.of(self.choices.integer(0, 4), self.choices.integer(-2, 4))
        an.update(v, m)
        where = np.array([int(x) in m for x in self.env[v]])
        if where.any():
            self.check_where(an, where, v, m)
        remainder = v % const(3)
        an = self.analyzer()
        with an.constraint_scope(remainder.__eq__(m.base % 3)):
            self.check_where(an, self.env[v] % 3 == m.base % 3, remainder, m.base % 3)
