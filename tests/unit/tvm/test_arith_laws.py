"""`arith.Analyzer` on random expressions, against brute force: negative numbers, divisors that are zero or
negative, ranges that are symbolic, constraints that hold for a while, and values at the end of int64.

`AUTOSCHED_FUZZ=100000:120000 pytest tests/unit/tvm/test_arith_laws.py` runs those seeds instead of the usual ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from arith_laws import Case
from edges import exact_values
from index_fuzz import Seeded, condition_expr, integer_expr, random_scope

from autosched.ir.expr import Expr, const, floordiv, floormod, maximum, minimum, truncdiv, truncmod, var
from autosched.tvm.arith import Analyzer, ConstIntBound, Range

FIRST, LAST = map(int, os.environ.get("AUTOSCHED_FUZZ", "0:150").split(":"))


@pytest.mark.parametrize("block", range(FIRST, LAST, 50))
def test_random_expressions(block: int) -> None:
    for seed in range(block, min(block + 50, LAST)):
        try:
            Case(Seeded(seed)).check()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


EXTREME = [0, 1, -1, 3, -3, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**62), 2**63 - 2, -(2**63) + 2]


@pytest.mark.parametrize(
    "op",
    [floordiv, floormod, truncdiv, truncmod, minimum, maximum],
    ids="floordiv floormod truncdiv truncmod min max".split(),
)
def test_intervals_of_extreme_values(op: Callable[..., Expr]) -> None:
    """Every pair of extreme values, as intervals of one and of two ends."""
    a, b = var("a", "int64"), var("b", "int64")
    e: Expr = op(a, b)
    for x in EXTREME:
        for y in EXTREME:
            an = Analyzer()
            an.update(a, ConstIntBound(min(x, 5), max(x, 5)))
            an.update(b, ConstIntBound(min(y, 2), max(y, 2)))
            found = an.const_int_bound(e)
            for u in (x, 5):
                for v in (y, 2):
                    value = exact(e, {a: u, b: v})
                    low, high = found.min_value, found.max_value
                    assert low <= value <= high or abs(value) > ConstIntBound.POS_INF, (u, v, value, found)


def exact(e: Expr, env: dict[Expr, int]) -> int:
    return exact_values(e, env)[e]


def test_values_at_the_end_of_int64() -> None:
    """Without ranges, an identity holds for any integers."""
    rng = random.Random(5)
    for seed in range(150):
        c, an = Seeded(seed), Analyzer()
        scope = random_scope(c)
        for e in (integer_expr(c, scope, 3), condition_expr(c, scope, 3)):
            result = an.simplify(e)
            for _ in range(6):
                env = {v: rng.choice(EXTREME) for v in scope.ranges}
                env |= {v: abs(env[v]) for v in scope.sizes if v.value.role == "size"}
                assert exact(e, env) == exact(result, env), (seed, e, result, env)


def test_simplified_constants_beyond_int32() -> None:
    an = Analyzer()
    x = var("x", "int64")
    an.bind(x, Range(2**40, 2**40 + 8))
    assert repr(an.simplify(floordiv(x, const(2**40, "int64")))) == "1"
    assert an.const_int_bound(x * 4096) == ConstIntBound(2**52, 2**52 + 7 * 4096)
