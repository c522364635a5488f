"""Grid search: its order, and that it is lazy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched.search import Candidate
from autosched.search.baselines import FIRST, MOST, GridSearch, lexicographic
from autosched.testing import SyntheticKnob, SyntheticSketch, SyntheticSpace


@pytest.mark.parametrize("radices", [(), (1,), (5,), (2, 3, 4), (1, 7, 1, 300), (17, 1, 999), (2, 256), (256, 2, 3)])
def test_lexicographic_is_the_product_of_ranges(radices):
    rows = [tuple(row) for chunk in lexicographic(radices) for row in chunk.tolist()]
    assert rows == list(itertools.product(*map(range, radices)))


def test_no_values_no_rows():
    assert list(lexicographic((3, 0, 2))) == []


def test_chunks_start_small_and_stay_bounded():
    sizes = [len(chunk) for chunk in itertools.islice(lexicographic((10,) * 30), 12)]
    assert sizes[0] == FIRST and max(sizes) == MOST


def test_sketches_take_turns_in_lexicographic_order():
    proposed = GridSearch(SyntheticSpace.small()).propose(6)
    assert proposed == [
        Candidate(0, (0, 0, 0)),
        Candidate(1, (0, 0)),
        Candidate(2, ()),
        Candidate(0, (0, 1, 0)),
        Candidate(1, (0, 1)),
        Candidate(0, (0, 1, 1)),
    ]


def test_the_seed_changes_nothing():
    space = SyntheticSpace.small()
    assert GridSearch(space, seed=1).propose(50) == GridSearch(space, seed=2).propose(50)


def test_only_the_rows_needed_are_masked():
    asked = []

    def constraint(values):
        asked.append(len(values))
        return np.ones(len(values), dtype=bool)

    knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(10))) for i in range(12))
    strategy = GridSearch(SyntheticSpace([SyntheticSketch("s", knobs, (0,) * 12, 1.0, constraint)]))
    assert len(strategy.propose(16)) == 16
    assert asked == [FIRST]


def test_observed_points_are_left_out_even_of_a_chunk_already_masked():
    space = SyntheticSpace.small()
    strategy = GridSearch(space)
    strategy.propose(3)
    strategy.observe(space.measure([Candidate(0, (0, 1, 0)), Candidate(1, (0, 1))]))
    assert strategy.propose(2) == [Candidate(0, (0, 1, 1)), Candidate(1, (0, 2))]
