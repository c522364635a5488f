"""Spaces without points: which constraints contradict each other, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te, template, workload
from autosched.errors import WorkloadError
from autosched.ir.expr import Expr, var
from autosched.schedule import Schedule
from autosched.search.points import Points
from autosched.space.constraints import conflicting, explain
from autosched.space.points import valid_points
from autosched.space.space import SearchSpace, template_space
from autosched.target import Target


def space_of(apply: Callable[[Schedule], None], **limits: int) -> SearchSpace:
    """The template space of a vector addition."""

    @workload
    def add(n: int = 1024):
        a = te.placeholder((n,), name="a")
        return a, te.compute((n,), lambda i: a[i] + 1, name="b")

    template(add, target="llvm")(apply)
    return template_space(add(), Target.parse("llvm").with_limits(**limits), {})


def two_splits(s: Schedule) -> tuple[Expr, Expr]:
    rows, lanes = s.define_knob("rows", [1, 2, 4, 8]), s.define_knob("lanes", [4, 8, 16])
    _, inner = s["b"].split("i", factor=rows * lanes)
    _, lane = s["b"].split(inner, factor=lanes)
    s["b"].vectorize(lane)
    return rows, lanes


def test_the_conditions_named_conflict_and_none_is_too_many() -> None:
    a, b, c = var("a"), var("b"), var("c")
    knobs = [(v, (1, 2, 4, 8)) for v in (a, b, c)]
    conditions = [a * b <= 16, c >= 2, a >= 4, b >= 8, a + c <= 100]
    assert conflicting(knobs, conditions) == [0, 2, 3]
    assert conflicting(knobs, conditions[:3]) == []
    assert conflicting(knobs, [c > 8, a >= 4]) == [0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 40), st.booleans()), max_size=7))
@settings(max_examples=60, deadline=None)
def test_a_conflict_is_minimal(picked: list[tuple[int, int, int, bool]]) -> None:
    vs = [var(f"k{i}") for i in range(3)]
    knobs = [(v, (1, 2, 3, 5)) for v in vs]
    conditions = [vs[i] * vs[j] <= n if up else vs[i] * vs[j] >= n for i, j, n, up in picked]
    core = conflicting(knobs, conditions)
    assert bool(core) == (valid_points(knobs, conditions).count == 0)
    if core:
        assert valid_points(knobs, [conditions[i] for i in core]).count == 0
    for out in core:
        assert valid_points(knobs, [conditions[i] for i in core if i != out]).count > 0


def test_the_message_names_conditions_reasons_values_and_what_is_without_each() -> None:
    rows, lanes, n = var("rows"), var("lanes"), var("n", role="size")
    knobs = [(rows, (16, 32)), (lanes, (4, 8))]
    found = explain(
        knobs, [(rows * lanes <= n, "the tile fits"), (rows >= 8, ""), (lanes >= 8, "full vectors")], {n: 64}
    )
    assert found == (
        "rows*lanes <= n (the tile fits) and lanes >= 8 (full vectors) cannot hold together",
        "without rows*lanes <= n (the tile fits): 2 points\n  without lanes >= 8 (full vectors): 1 point\n"
        "  rows is one of [16, 32], lanes is one of [4, 8], n is 64",
    )
    assert explain(knobs, [(rows * lanes <= n, "the tile fits")], {n: 64}) is None


def test_a_template_whose_constraints_contradict_each_other_is_refused_before_anything_is_lowered() -> None:
    def contradictory(s: Schedule) -> None:
        rows, lanes = two_splits(s)
        s.constrain(lanes >= 2, "vectors at all")
        s.constrain(rows * lanes <= 16, "tiles fit into the cache")
        s.constrain(rows >= 8, "long tiles")

    with pytest.raises(WorkloadError) as caught:
        space_of(contradictory)
    assert caught.value.why == (
        "there is no point to try: rows*lanes <= 16 (tiles fit into the cache) and rows >= 8 (long tiles) "
        "cannot hold together"
    )
    assert "without rows >= 8 (long tiles): 6 points" in caught.value.legal


def test_one_sketch_without_points_does_not_spoil_the_others() -> None:
    def some(s: Schedule) -> None:
        rows, lanes = two_splits(s)
        if s.choose("big", [True, False]):
            s.constrain(rows * lanes >= 1000, "big")

    space = space_of(some)
    assert [s.most_points for s in space.sketches] == [0, 12]
    found = Points(space).take(100, np.random.default_rng(0))
    assert len(found) == 12
    assert {c.sketch for c in found} == {1}
    assert "_lowered" not in space.sketches[0].__dict__


def test_limits_of_the_target_that_leave_nothing_are_named_when_somebody_has_looked() -> None:
    def long_vectors(s: Schedule) -> None:
        _, lane = s["b"].split("i", factor=s.define_knob("lanes", [512, 1024]))
        s["b"].vectorize(lane)

    space = space_of(long_vectors)
    assert space.impossible() is None
    assert Points(space).take(4, np.random.default_rng(0)) == []
    error = space.impossible()
    assert isinstance(error, WorkloadError)
    assert "a vector of more than 512 bytes" in error.why
    assert "lanes is one of [512, 1024]" in error.legal


def test_a_sketch_numbers_what_its_mask_lets_pass() -> None:
    def tiles(s: Schedule) -> None:
        rows, lanes = two_splits(s)
        s.constrain(rows * lanes <= 64, "tiles fit into the cache")

    (sketch,) = space_of(tiles).sketches
    everything = np.stack(np.meshgrid(np.arange(4), np.arange(3), indexing="ij"), axis=-1).reshape(-1, 2)
    good = everything[sketch.mask(everything)]
    points = sketch.valid_points
    assert sorted(points.rows(range(points.count)).tolist()) == sorted(good.tolist())
    assert sketch.most_points >= points.count > 0
