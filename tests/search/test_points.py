"""Drawing points: uniform, exact on small and middling sketches, bounded on hopeless ones."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.search import Candidate
from autosched.search import points as points_module
from autosched.search.points import Points, SketchPoints, feasible
from autosched.testing import SyntheticKnob, SyntheticSketch, SyntheticSpace


def sketch_of(*counts, constraint=None, name="s"):
    knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(count))) for i, count in enumerate(counts))
    return SyntheticSketch(name, knobs, (0,) * len(counts), 1.0, constraint)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_take_is_uniform_over_the_points_of_all_sketches():
    """A sketch weighs as much as it has feasible points, however many infeasible ones there are."""
    space = SyntheticSpace(
        [
            sketch_of(2, 3, name="small"),
            sketch_of(30, 1000, constraint=lambda v: v[:, 1] * 30 + v[:, 0] < 30, name="sparse"),  # 30 of 30,000
        ]
    )
    counts = Counter(c for seed in range(400) for c in Points(space).take(3, rng(seed)))
    assert len(counts) == 36
    expected = 400 * 3 / 36
    chi_square = sum((counts[c] - expected) ** 2 / expected for c in counts)
    assert chi_square < 66  # 99.9 % quantile at 35 degrees of freedom


def test_draws_are_rejected_before_a_sketch_is_enumerated(monkeypatch):
    """The same law holds where the sketch is too large to enumerate."""
    monkeypatch.setattr(points_module, "SMALL", 0)
    monkeypatch.setattr(points_module, "LIMIT", 0)
    space = SyntheticSpace([sketch_of(4, 4, constraint=lambda v: v[:, 0] != v[:, 1])])
    counts = Counter(c for seed in range(600) for c in Points(space).take(1, rng(seed)))
    assert len(counts) == 12
    assert sum((counts[c] - 50) ** 2 / 50 for c in counts) < 31  # 99.9 % quantile, 11 degrees of freedom


@pytest.mark.parametrize("counts", [(20, 30, 40), (300, 300), (7,) * 6])
def test_a_sketch_too_large_to_enumerate_at_first_is_exhausted_exactly(counts):
    sketch = sketch_of(*counts, constraint=lambda v: v.sum(axis=1) % 9 == 1)
    assert sketch.size > points_module.SMALL
    points, found = Points(SyntheticSpace([sketch])), []
    while batch := points.take(1000, rng(len(found))):
        found += batch
    everything = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1).reshape(-1, len(counts))
    assert len(found) == len(set(found)) == int(sketch.mask(everything).sum())


def test_rows_are_masked_in_chunks():
    seen = []

    def constraint(values):
        seen.append(len(values))
        return values[:, 0] >= 0

    rows = np.zeros((3 * points_module.CHUNK + 5, 1), dtype=np.int64)
    assert len(feasible(sketch_of(4, constraint=constraint), rows)) == len(rows)
    assert max(seen) == points_module.CHUNK and sum(seen) == len(rows)


def test_a_hopeless_sketch_is_given_up_and_the_others_are_not(monkeypatch):
    monkeypatch.setattr(points_module, "LIMIT", 1 << 15)
    asked = []

    def never(values):
        asked.append(len(values))
        return values[:, 0] < 0

    points = Points(SyntheticSpace([sketch_of(*(10,) * 12, constraint=never), sketch_of(5, name="good")]))
    assert sorted(points.take(10, rng())) == [Candidate(1, (i,)) for i in range(5)]
    assert points.take(10, rng()) == []
    assert sum(asked) < 4 * (1 << 15)
    before = len(asked)
    assert points.take(10, rng()) == [] and len(asked) == before  # it does not try again


def test_points_that_are_no_points_are_dropped():
    points = Points(SyntheticSpace.small())
    strange = [Candidate(9, ()), Candidate(-1, ()), Candidate(0, (0,)), Candidate(0, (0, 0, 99)), Candidate(2, (1,))]
    assert points.mark([*strange, Candidate(2, ())]) == [Candidate(2, ())]


def test_a_knob_without_values_has_no_points():
    points = Points(SyntheticSpace([sketch_of(3, 0)]))
    assert points.take(5, rng()) == []


def test_shares_are_even_and_leave_out_what_is_used_up():
    points = Points(SyntheticSpace.small())
    assert sorted(points.shares(7, rng())) == [2, 2, 3]
    points.mark([Candidate(2, ())])
    assert points.shares(8, rng())[2] == 0 and sum(points.shares(8, rng())) == 8


def test_fresh_keeps_order_and_drops_seen_infeasible_and_repeated_rows():
    points = SketchPoints(sketch_of(5, 5, constraint=lambda v: v[:, 0] != 3))
    points.mark((1, 1))
    rows = points.as_rows([(2, 2), (1, 1), (3, 0), (0, 4), (2, 2)])
    assert points.fresh(rows).tolist() == [[2, 2], [0, 4]]


@given(st.lists(st.integers(1, 9), min_size=0, max_size=5), st.data())
def test_flat_numbers_and_rows_are_inverse(counts, data):
    points = SketchPoints(sketch_of(*counts))
    flat = data.draw(st.integers(0, math.prod(counts) - 1))
    (row,) = points._unflatten(np.array([flat], dtype=np.int64)).tolist()
    assert points._flatten(tuple(row)) == flat and points.valid(tuple(row))
