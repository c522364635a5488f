"""The operators on matrices of points."""

from __future__ import annotations

import numpy as np

from autosched.search import Candidate
from autosched.search.moves import crossover, distinct, neighbours, pick_best, spread


def rng(seed=0):
    return np.random.default_rng(seed)


def test_neighbours_stay_inside_and_move_one_to_three_knobs():
    radices = np.array([5, 1, 9, 2, 7])
    parents = rng().integers(0, radices, size=(3000, 5))
    children = neighbours(parents, radices, rng(1))
    assert ((children >= 0) & (children < radices)).all()
    moved = (children != parents).sum(axis=1)
    assert moved.max() == 3 and (moved == 1).mean() > 0.4
    assert (children[:, 1] == 0).all()


def test_most_moves_are_steps_and_some_are_jumps():
    parents = np.full((3000, 1), 50)
    away = np.abs(neighbours(parents, np.array([101]), rng()) - 50)
    assert 0.7 < (away <= 2).mean() < 0.85 and away.max() > 40


def test_neighbours_of_nothing_and_of_points_that_cannot_move():
    assert neighbours(np.empty((0, 3), dtype=np.int64), np.array([2, 2, 2]), rng()).shape == (0, 3)
    assert neighbours(np.zeros((4, 0), dtype=np.int64), np.empty(0, dtype=np.int64), rng()).shape == (4, 0)
    assert neighbours(np.zeros((4, 2), dtype=np.int64), np.array([1, 1]), rng()).tolist() == [[0, 0]] * 4


def test_children_have_each_knob_from_a_parent():
    parents = np.array([[0, 10, 20], [1, 11, 21], [2, 12, 22]])
    children = crossover(parents, 200, rng())
    assert children.shape == (200, 3)
    assert all(set(children[:, j]) == set(parents[:, j]) for j in range(3))
    assert crossover(parents[:0], 5, rng()).shape == (0, 3)


def test_spread_uses_every_value_before_it_uses_one_twice():
    rows = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), axis=-1).reshape(-1, 2)
    used = [np.zeros(4, dtype=np.int64) for _ in range(2)]
    chosen = rows[spread(rows, 4, used)]
    assert [counts.tolist() for counts in used] == [[1, 1, 1, 1]] * 2
    assert len(set(map(tuple, chosen.tolist()))) == 4


def test_spread_of_few_rows_and_no_knobs():
    assert spread(np.empty((0, 2), dtype=np.int64), 3, [np.zeros(2, dtype=np.int64)] * 2) == []
    assert spread(np.empty((1, 0), dtype=np.int64), 3, []) == [0]


def test_the_best_are_picked_but_not_neighbours_of_each_other():
    rows = [(0, 0), (0, 1), (3, 3), (0, 2), (4, 4)]
    candidates = [Candidate(0, row) for row in rows]
    scores = np.array([0.9, 1.0, 0.5, 0.8, 0.1])
    assert pick_best(candidates, scores, 3) == [candidates[i] for i in (1, 2, 4)]
    assert pick_best(candidates, scores, 5) == [candidates[i] for i in (1, 2, 4, 0, 3)]  # then those passed over


def test_alike_rows_of_different_sketches_are_not_alike():
    both = [Candidate(0, (0, 0)), Candidate(1, (0, 0))]
    assert pick_best(both, np.array([1.0, 0.5]), 2) == both


def test_equal_scores_are_taken_in_order():
    candidates = [Candidate(0, (i, i)) for i in range(5)]
    assert pick_best(candidates, np.zeros(5), 3) == candidates[:3]


def test_distinct_rows_also_without_knobs():
    assert distinct(np.array([[2, 1], [0, 5], [2, 1]])).tolist() == [[0, 5], [2, 1]]
    assert distinct(np.empty((7, 0), dtype=np.int64)).shape == (1, 0)
    assert distinct(np.empty((0, 0), dtype=np.int64)).shape == (0, 0)
