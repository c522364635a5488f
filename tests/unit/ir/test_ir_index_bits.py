"""Bits of indices in divisions: the same numbers, and index arithmetic."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import te
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import cast, const, var
from autosched.ir.index_bits import without_bits
from autosched.schedule import create_schedule

i = var("i", role="loop")


def spelled(e, start=0, extent=1024):
    return without_bits((e,), [(i, const(start), const(extent))])[0]


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (i >> 3, "i//8"),
        ((i >> 3) & 1, "i//8%2"),
        (i & 12, "i//4%4*4"),
        (12 & i, "i//4%4*4"),
        (i ^ 4, "i + 4 - i//4%2*8"),
        (i | 2, "i + 2 - i//2%2*2"),
        (i << 2, "i*4"),
        (i & 0, "0"),
        ((i & 4) == 0, "i//4%2*4 == 0"),
    ],
    ids=str,
)
def test_spelling(e, text):
    found = spelled(e)
    assert repr(found) == text and found.index


@pytest.mark.parametrize("e", [i & -2, i ^ 0x55555, i << 31, i >> i, (i << 22) + (i << 22)], ids=str)
def test_what_stays(e):
    """Numbers that may leave their type, unknown masks, and masks of many stretches."""
    assert not spelled(e).index


def test_a_range_that_is_not_known():
    n = te.var("n")
    assert without_bits((i >> 1,), [(i, const(0), n)])[0] is not None
    assert not without_bits((cast("int64", i) << 40,), [(i, const(0), n)])[0].index


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions(seed):
    c = random.Random(seed)

    def term(depth):
        if depth == 0:
            return c.choice([i, i, const(c.randrange(1, 50))])
        a, k = term(depth - 1), c.randrange(64)
        return c.choice(
            [a & k, a | k, a ^ k, a >> c.randrange(6), a << c.randrange(4), a + term(depth - 1), a * 3 - k, a // 5]
        )

    e = term(4)
    start, extent = c.choice([(0, 1000), (-300, 600)])
    env = {i: np.arange(start, start + extent)}
    found = spelled(e, start, extent)
    assert (evaluate([found], env)[0] == evaluate([e], env)[0]).all()


def test_stages_reason_about_bits():
    x = te.placeholder((64,), name="x")
    a = te.compute((64,), lambda k: x[k] * 2.0, name="a")
    b = te.compute((64,), lambda k: a[k ^ 1] + a[k], name="b")
    s = create_schedule(b)
    outer, _ = s[b].split("k", factor=2)
    s[a].compute_at(s[b], outer)
    from autosched.lowering.bounds import inferred_ranges

    assert repr(inferred_ranges(s)[a.op.axis[0]]) == "range(min=k.outer*2, extent=2)"
