"""Expressions evaluated for many assignments at once, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from index_fuzz import Seeded, condition_expr, describe, integer_expr, random_scope, values

from autosched.errors import LowerError
from autosched.ir.dtype import dtype
from autosched.ir.evaluate import evaluate, evaluate_float
from autosched.ir.expr import broadcast, cast, const, likely, maximum, minimum, select, truncdiv, truncmod, var
from autosched.ir.stmt import Buffer, load

t, w = var("t", role="knob"), var("w", role="size")


def test_a_batch_of_candidates() -> None:
    tiles = np.array([1, 8, 32])
    outer, inner, fits = evaluate([(w + t - 1) // t, minimum(t, w), t * 4 <= w], {t: tiles, w: 100})
    assert outer.tolist() == [100, 13, 4]
    assert inner.tolist() == [1, 8, 32]
    assert fits.tolist() == [True, True, False]
    assert fits.dtype == bool
    assert outer.dtype == np.int64


@pytest.mark.parametrize("seed", range(150))
def test_evaluate_is_brute_force(seed: int) -> None:
    c = Seeded(seed)
    s = random_scope(c)
    env = s.assignments()
    exprs = [integer_expr(c, s, 4), condition_expr(c, s, 3), integer_expr(c, s, 2)]
    for e, got in zip(exprs, evaluate(exprs, env), strict=True):
        assert np.array_equal(*np.broadcast_arrays(got, values(e, env))), describe(s, e)


@pytest.mark.parametrize("seed", range(150))
def test_floats_agree_where_they_are_exact(seed: int) -> None:
    c = Seeded(seed)
    s = random_scope(c)
    env = s.assignments()
    e = integer_expr(c, s, 3)
    got = evaluate_float([e], env)[0]
    assert np.array_equal(*np.broadcast_arrays(got, values(e, env))), describe(s, e)


def test_quantities_beyond_int64_are_floats() -> None:
    big = w * w * w * w * w
    assert evaluate_float([big], {w: 10**5})[0] == 1e25


def test_conditions_count_as_numbers_where_they_are_cast() -> None:
    """In NumPy, True + True is True."""
    both = cast("int32", t > 1) + cast("int32", t > 2)
    assert evaluate([both], {t: [1, 2, 3]})[0].tolist() == [0, 1, 2]


def test_what_stands_for_its_operand() -> None:
    e = select(likely(t > 2), broadcast(t, 4), broadcast(const(7), 4))
    assert evaluate([e], {t: [1, 3]})[0].tolist() == [7, 3]
    assert evaluate([truncdiv(0 - t, 2), truncmod(0 - t, 2)], {t: [3]})[0].tolist() == [-1]
    assert evaluate([maximum(t // w, 0)], {t: [3], w: [0]})[0].tolist() == [0], "a division by zero is 0"


def test_errors() -> None:
    with pytest.raises(LowerError, match="w has no value"):
        evaluate([t + w], {t: 1})
    with pytest.raises(LowerError, match="cannot be evaluated"):
        evaluate([load(Buffer("a", (w,), dtype("int32")), t)], {t: 1})
