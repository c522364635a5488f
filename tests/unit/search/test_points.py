"""Drawing points: uniform, exact on small and middling sketches, bounded on hopeless ones."""

from __future__ import annotations

from collections import Counter
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.search import Candidate
from autosched.search import points as points_module
from autosched.search.points import Points, Remaining, SketchPoints, feasible
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


def test_sketches_that_take_long_to_look_at_wait_for_a_later_round(monkeypatch):
    clock = count()
    monkeypatch.setattr(points_module.time, "thread_time", lambda: next(clock) * points_module.OPENING_S / 2)
    points = Points(SyntheticSpace.standard())
    for looked_at in (2, len(points.sketches)):
        shares = points.shares(100, rng())
        for number, (sketch, share) in enumerate(zip(points.sketches, shares, strict=True)):
            due = points.due(sketch, share)
            assert due == (share if number < looked_at else 0)
            sketch.draw(due, rng())


def test_fresh_keeps_order_and_drops_seen_infeasible_and_repeated_rows():
    points = SketchPoints(sketch_of(5, 5, constraint=lambda v: v[:, 0] != 3))
    points.mark((1, 1))
    rows = points.as_rows([(2, 2), (1, 1), (3, 0), (0, 4), (2, 2)])
    assert points.fresh(rows).tolist() == [[2, 2], [0, 4]]


@given(st.lists(st.integers(1, 6), min_size=0, max_size=4), st.integers(1, 5))
def test_an_enumerated_sketch_numbers_its_feasible_points(counts, modulus):
    points = SketchPoints(sketch_of(*counts, constraint=lambda v: v.sum(axis=1) % modulus == 0))
    points.open()
    valid = points._valid
    rows = valid.rows(range(valid.count))
    assert valid.numbers(rows) == list(range(valid.count))
    everything = points.as_rows(list(np.ndindex(*counts)))
    assert [n >= 0 for n in valid.numbers(everything)] == points.sketch.mask(everything).tolist()


# -- sketches that number their valid points ----------------------------------------------------------------


class Numbered:
    """Of 1000**4 points, those whose indices are all equal; `exact=False` adds those with three equal."""

    name = "numbered"
    knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(1000))) for i in range(4))
    size = 1000**4

    def __init__(self, exact=True, most=size):
        self.exact, self.most_points, self.asked = exact, most, 0

    @property
    def valid_points(self):
        self.asked += 1
        return self

    @property
    def count(self):
        return 1000 if self.exact else 1000 * 1000

    def rows(self, numbers):
        first, last = np.divmod(np.asarray(numbers, dtype=np.int64), 1 if self.exact else 1000)
        return np.stack([first, first, first, first if self.exact else last], axis=1)

    def numbers(self, rows):
        equal = (rows[:, :3] == rows[:, :1]).all(axis=1) & (not self.exact or rows[:, 3] == rows[:, 0])
        return np.where(equal, rows[:, 0] if self.exact else rows[:, 0] * 1000 + rows[:, 3], -1).tolist()

    def mask(self, indices):
        return (indices == indices[:, :1]).all(axis=1)


@pytest.mark.parametrize("exact", [True, False])
def test_points_that_are_numbered_are_found_however_rare_they_are(exact):
    points, found = Points(SyntheticSpace([])), []
    points.sketches = [SketchPoints(Numbered(exact))]
    points.mark([Candidate(0, (3, 3, 3, 3)), Candidate(0, (1, 2, 3, 4))])
    while batch := points.take(300, rng(len(found))):
        found += batch
        if not exact and len(found) > 900:
            break
    assert len(found) == len(set(found)) and Candidate(0, (3, 3, 3, 3)) not in found
    assert all(len(set(c.indices)) == 1 for c in found)
    assert len(found) == 999 or not exact
    assert points.sketches[0].weight() == 0 or not exact


def test_nothing_is_asked_of_a_sketch_before_something_is_drawn():
    sketch = Numbered()
    points = SketchPoints(sketch)
    points.mark((1, 1, 1, 1))
    assert points.weight() == Numbered.size and sketch.asked == 0
    points.draw(1, rng())
    assert points.weight() == 999 and sketch.asked == 1


def test_a_sketch_chosen_for_more_points_than_it_has_gets_only_its_share():
    """Each holds 1000 points, but of one it is thought to be 50,000 before it is opened."""
    counts = Counter()
    for seed in range(400):
        points = Points(SyntheticSpace([]))
        points.sketches = [SketchPoints(Numbered(most=50_000)), SketchPoints(Numbered(most=1000))]
        counts.update(c.sketch for c in points.take(1, rng(seed)))
    assert abs(counts[0] - 200) < 50  # 5 standard deviations


# -- numbers ------------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.lists(st.integers(-2, 70)), st.sampled_from([0, 2**61, 10**30]))
def test_what_remains_is_drawn_without_what_was_removed(count, removed, huge):
    left = Remaining(count + huge)
    left.remove(removed)
    gone = {n for n in removed if 0 <= n < count + huge}
    assert left.left == count + huge - len(gone)
    drawn = left.draw(40, rng()).tolist()
    assert len(drawn) == len(set(drawn)) == min(40, left.left)
    assert all(0 <= n < count + huge and n not in gone for n in drawn)


def test_every_number_that_remains_is_equally_likely():
    left = Remaining(12)
    left.remove([0, 4, 5, 11])
    counts = Counter(n for seed in range(800) for n in left.draw(2, rng(seed)).tolist())
    assert set(counts) == {1, 2, 3, 6, 7, 8, 9, 10}
    assert sum((c - 200) ** 2 / 200 for c in counts.values()) < 24.3  # 99.9 % quantile, 7 degrees of freedom


def test_huge_numbers_are_spread_over_all_their_range():
    drawn = Remaining(10**30).draw(2000, rng()).tolist()
    assert abs(sum(n > 5 * 10**29 for n in drawn) - 1000) < 112  # 5 standard deviations
