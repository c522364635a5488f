"""z3 proves what `arith.Analyzer.simplify` makes of random expressions, for all integers.

Brute force sees a few hundred assignments; z3 sees all of them, and variables without any range.
Not part of the usual run: `pip install z3-solver`, then

    pytest --nightly tests/unit/tvm/test_arith_z3.py                          500 seeds, two minutes
    AUTOSCHED_FUZZ=0:20000 pytest --nightly tests/unit/tvm/test_arith_z3.py

A counterexample fails the test; a question that z3 gives up on (products and quotients of variables) is
counted, and most must not be of that kind.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from index_fuzz import Scope, Seeded, condition_expr, integer_expr, random_scope

from autosched.ir.expr import Expr, const, var
from autosched.ir.visit import post_order
from autosched.tvm.arith import Analyzer

FIRST, LAST = map(int, os.environ.get("AUTOSCHED_FUZZ", "0:500").split(":"))
#: milliseconds for one question
PATIENCE = 300


class ToZ3:
    """Index expressions in z3's terms: mathematical integers, and conditions as 0 or 1 where they are numbers."""

    def __init__(self) -> None:
        self.z3 = pytest.importorskip("z3")
        self.variables: dict[Expr, Any] = {}

    def __call__(self, e: Expr) -> Any:
        done: dict[Expr, Any] = {}
        for node in post_order(e):
            done[node] = self._node(node, [done[a] for a in node.args])
        return done[e]

    def _node(self, e: Expr, args: list[Any]) -> Any:
        z3 = self.z3
        if e.op == "const":
            return z3.BoolVal(bool(e.value)) if e.dtype.is_bool else z3.IntVal(int(e.value))
        if e.op == "var":
            return self.variables.setdefault(e, z3.Int(f"{e.name}{len(self.variables)}"))
        if e.op == "cast":
            return z3.If(args[0], 1, 0) if e.args[0].dtype.is_bool else args[0]
        return self._rules()[e.op](*args)

    def _floordiv(self, a: Any, b: Any) -> Any:
        """z3 divides so that the remainder is never negative."""
        z3 = self.z3
        return z3.If(b == 0, 0, z3.If(b > 0, a / b, (-a) / (-b)))

    def _truncdiv(self, a: Any, b: Any) -> Any:
        z3 = self.z3
        return z3.If(b == 0, 0, z3.If(a >= 0, a / b, -((-a) / b)))

    def _rules(self) -> dict[str, Callable[..., Any]]:
        z3 = self.z3
        return {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "neg": lambda a: -a,
            "floordiv": self._floordiv,
            "floormod": lambda a, b: z3.If(b == 0, 0, a - b * self._floordiv(a, b)),
            "truncdiv": self._truncdiv,
            "truncmod": lambda a, b: z3.If(b == 0, 0, a - b * self._truncdiv(a, b)),
            "min": lambda a, b: z3.If(a < b, a, b),
            "max": lambda a, b: z3.If(a < b, b, a),
            "lt": lambda a, b: a < b,
            "le": lambda a, b: a <= b,
            "gt": lambda a, b: a > b,
            "ge": lambda a, b: a >= b,
            "eq": lambda a, b: a == b,
            "ne": lambda a, b: a != b,
            "and": lambda a, b: z3.And(a, b),
            "or": lambda a, b: z3.Or(a, b),
            "not": z3.Not,
            "likely": lambda a: a,
            "select": z3.If,
            "if_then_else": z3.If,
        }


def verdict(to_z3: ToZ3, given: list[Any], e: Expr, result: Expr) -> str:
    """`proved`, `unknown`, or the counterexample."""
    z3 = to_z3.z3
    solver = z3.Solver()
    solver.set("timeout", PATIENCE)
    solver.add(*given, to_z3(e) != to_z3(result))
    answer = solver.check()
    if answer == z3.unsat:
        return "proved"
    return "unknown" if answer == z3.unknown else str(solver.model())


def free_scope() -> Scope:
    """Variables of which nothing is known; divisors are sizes that are not negative."""
    s = Scope()
    w = var("W", "int32", "size")
    s.ranges[w] = (const(0), const(0))
    s.sizes.append(w)
    for name in "ijk":
        s.ranges[var(name, "int32", "loop")] = (const(0), const(0))
    return s


@pytest.mark.nightly
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("kind", ["free", "ranges", "constraint"])
def test_z3_agrees(kind: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(FIRST, LAST):
        c, an, to_z3 = Seeded(seed), Analyzer(), ToZ3()
        scope = free_scope() if kind == "free" else random_scope(c)
        given = [to_z3(v >= 0) for v in scope.sizes]
        if kind != "free":
            for v, (low, high) in scope.ranges.items():
                an.prover.bind(v, low, high)
                given += [to_z3(v >= low), to_z3(v <= high)]
            given += [to_z3(v) != 0 for v in scope.signed]
        condition = condition_expr(c, scope, 2) if kind == "constraint" else const(True)
        given.append(to_z3(condition))
        with an.constraint_scope(condition):
            for e in (integer_expr(c, scope, 3), condition_expr(c, scope, 3)):
                result = an.simplify(e)
                found = verdict(to_z3, given, e, result) if result is not e else "unchanged"
                counts[found] += 1
                assert found in ("proved", "unknown", "unchanged"), (seed, e, result, condition, found)
    print(kind, dict(counts))
    assert counts["proved"] > 5 * counts["unknown"]
