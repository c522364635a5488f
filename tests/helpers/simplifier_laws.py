"""What must hold of an `Analyzer` for any expressions under any ranges, checked by brute force."""

from __future__ import annotations

import numpy as np
from index_fuzz import Choices, Env, Scope, condition_expr, describe, integer_expr, random_scope, subsets, values

from autosched.ir.expr import Expr, logical_not, variables
from autosched.ir.simplify import Analyzer, simplify, to_poly
from autosched.ir.visit import post_order

_SAME_TYPES = (
    "add",
    "sub",
    "mul",
    "min",
    "max",
    "floordiv",
    "floormod",
    "truncdiv",
    "truncmod",
    "lt",
    "le",
    "eq",
    "ne",
)


def equal(a: np.ndarray, b: np.ndarray, where: np.ndarray | bool = True) -> bool:
    return bool(np.all((a == b) | ~np.asarray(where)))


def ill_typed(e: Expr) -> Expr | None:
    """A node whose operands are of several types."""
    for node in post_order(e):
        if node.op in _SAME_TYPES and len({a.dtype for a in node.args}) > 1:
            return node
    return None


class Case:
    """One scope, two expressions and two conditions over it, and their values everywhere."""

    def __init__(self, c: Choices, depth: int = 4) -> None:
        self.choices = c
        self.scope: Scope = random_scope(c)
        self.env: Env = self.scope.assignments()
        self.count = len(next(iter(self.env.values())))
        self.analyzer: Analyzer = self.scope.analyzer()
        self.e = integer_expr(c, self.scope, depth)
        self.condition = condition_expr(c, self.scope, depth - 1)
        self.given = condition_expr(c, self.scope, depth - 2)
        self.value = self.of(self.e)
        self.truth = self.of(self.condition)

    def of(self, e: Expr) -> np.ndarray:
        return np.broadcast_to(values(e, self.env), (self.count,))

    def say(self, *what: object) -> str:
        return describe(self.scope, *what)

    # -- the laws -----------------------------------------------------------------------------
    def check(self) -> None:
        if self.count == 0:  # some range is empty: everything is true there
            return
        self.simplify_keeps_value_and_type(self.analyzer)
        self.proofs_are_true(np.True_)
        self.extremes_are_bounds()
        held = self.of(self.given).astype(bool)
        with self.analyzer.assuming(self.given):
            self.simplify_keeps_value_and_type(self.analyzer, held, self.given)
            self.proofs_are_true(held, self.given)
        self.simplify_keeps_value_and_type(self.analyzer)  # the assumption is gone
        self.a_bound_on_sizes_is_used_soundly()
        assert equal(self.of(simplify(self.e)), self.value), self.say(self.e, "without ranges", simplify(self.e))
        assert equal(self.of(to_poly(self.e).expr()), self.value), self.say(self.e, "as a polynomial")

    def simplify_keeps_value_and_type(self, an: Analyzer, where: np.ndarray | bool = True, *given: object) -> None:
        for e, value in ((self.e, self.value), (self.condition, self.truth)):
            result = an.simplify(e)
            assert equal(self.of(result), value, where), self.say(*given, e, result)
            assert result.dtype == e.dtype, self.say(*given, e, result, result.dtype)
            assert ill_typed(result) is None, self.say(*given, e, result, ill_typed(result))

    def proofs_are_true(self, where: np.ndarray | np.bool_, *given: object) -> None:
        if self.analyzer.prove(self.condition):
            assert equal(self.truth, np.ones(self.count), where), self.say(*given, "proved", self.condition)
        if self.analyzer.prove(logical_not(self.condition)):
            assert equal(self.truth, np.zeros(self.count), where), self.say(*given, "refuted", self.condition)
        if self.analyzer.prove_nonneg(self.analyzer.poly(self.e)):
            assert equal(self.value >= 0, np.ones(self.count), where), self.say(*given, self.e, ">= 0")

    def extremes_are_bounds(self) -> None:
        p = self.analyzer.poly(self.e)
        over = subsets(list(self.scope.ranges), self.choices)
        for largest in (True, False):
            bound = self.analyzer.extreme(p, over, largest)
            if bound is None:
                continue
            end = self.of(bound.expr())
            within = (self.value <= end) if largest else (self.value >= end)
            assert within.all(), self.say(p, "over", over, "largest" if largest else "smallest", bound)
            assert not variables(bound.expr()) & set(over), self.say(p, "over", over, bound)

    def a_bound_on_sizes_is_used_soundly(self) -> None:
        fact = self.analyzer.poly(integer_expr(self.choices, self.scope, 1))
        where = self.of(fact.expr()) >= 0
        with self.analyzer.tightened({}):
            self.analyzer.assume_nonneg(fact)
            self.simplify_keeps_value_and_type(self.analyzer, where, fact, ">= 0")
