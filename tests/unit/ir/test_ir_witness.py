"""Assignments that refute: within the ranges, true to the facts, and never against what can be proven."""

from __future__ import annotations

import math

from autosched.ir.dtype import dtype
from autosched.ir.expr import floordiv, maximum, minimum, select, var
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, to_poly
from autosched.ir.stmt import Buffer, load
from autosched.ir.witness import witnesses

W = var("W", role="size")
x, y = var("x", role="loop"), var("y", role="loop")


def analyzer() -> Analyzer:
    an = Analyzer()
    an.bind(x, 0, to_poly(W) - 1)
    an.bind(y, to_poly(floordiv(x, 8)), to_poly(floordiv(x, 8)) + 3)
    return an


def test_values_lie_in_ranges_that_mention_other_variables():
    an = analyzer()
    found = witnesses(an.range, ())
    assert len(found) > 2
    for w in found:
        size, a, b = (w.of(Poly.of(v)) for v in (W, x, y))
        if not math.isnan(a):
            assert 0 <= a < size
            assert a // 8 <= b <= a // 8 + 3
    assert len({(w.of(Poly.of(W)), w.of(Poly.of(x))) for w in found}) > 2


def test_facts_hold_and_what_breaks_them_is_no_witness():
    an = analyzer()
    fact = to_poly(W - x - 5)
    kept = witnesses(an.range, (fact,))
    assert kept
    assert all(w.of(fact) >= 0 for w in kept)
    assert witnesses(an.range, (Poly.of(-1),)) == []


def test_an_empty_range_and_a_load_are_unknown():
    an = Analyzer()
    an.bind(x, 5, 4)
    a = Buffer("A", (W,), dtype("int32"))
    for w in witnesses(an.range, ()):
        assert math.isnan(w.of(Poly.of(x)))
        assert math.isnan(w.of(Poly.of(load(a, y))))
        assert math.isnan(w.of(Poly.of(select(load(a, y) > 0, y, y + 1))))


def test_what_can_be_proven_is_not_refuted():
    an = analyzer()
    for true in (W - 1 - x, y * 8 - x + 7, minimum(x, W) * -1 + W - 1, maximum(x - 3, 0), floordiv(x + 8, 8) - 1):
        assert an.prove(true >= 0), true
        assert all(not w.of(to_poly(true)) < 0 for w in witnesses(an.range, ()))


def test_witnesses_follow_the_ranges():
    """A variable is bound anew: what was refuted before may hold now."""
    an = analyzer()
    assert not an.prove(x >= 3)
    with an.tightened({x: (Poly.of(3), to_poly(W) - 1)}):
        assert an.prove(x >= 3)
    with an.assuming(x >= 3):
        assert an.prove(x >= 3)
    assert not an.prove(x >= 3)
