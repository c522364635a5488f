"""Candidates, trials, history, and the way from a record to a candidate."""

from __future__ import annotations

import dataclasses
import math

import pytest

from autosched.search import Candidate, SearchStrategy, Trial, make_strategy, values_of
from autosched.search.base import History
from autosched.testing import SyntheticSpace

A, B, C = (Candidate(0, (i,)) for i in range(3))


def test_candidates_are_values():
    assert Candidate(0, (1, 2)) == Candidate(0, (1, 2)) and len({A, Candidate(0, (0,))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        A.sketch = 1


@pytest.mark.parametrize(
    ("status", "seconds", "ok"),
    [
        ("ok", 1e-3, True),
        ("ok", math.inf, False),
        ("ok", math.nan, False),
        ("ok", 0.0, False),
        ("ok", -1.0, False),
        ("timeout", 1e-3, False),
    ],
)
def test_a_trial_is_ok_if_it_has_a_time(status, seconds, ok):
    assert Trial(A, status, seconds).ok is ok


def test_values_of_a_candidate():
    assert values_of(SyntheticSpace.small(), Candidate(0, (1, 2, 3))) == {"tile_y": 2, "tile_x": 4, "vec": 8}


def test_built_in_strategies_are_strategies():
    space = SyntheticSpace.small()
    assert all(isinstance(make_strategy(name, space), SearchStrategy) for name in ("random", "grid", "guided"))


def test_history_forgets_the_order_of_arrival():
    trials = [Trial(A, "ok", 3.0), Trial(B, "ok", 2.0), Trial(A, "ok", 1.0), Trial(C, "crash"), Trial(B, "timeout")]
    one, other = History(), History()
    one.add(trials)
    for trial in reversed(trials):
        other.add([trial])
    assert one.rows() == other.rows() == [(A, 2.0), (B, 2.0), (C, math.inf)]
    assert one.ranked() == other.ranked() == [(A, 2.0), (B, 2.0)]


def test_a_lost_measurement_says_nothing_about_its_candidate():
    history = History()
    history.add([Trial(A, "lost"), Trial(B, "ok", 1.0)])
    assert history.rows() == [(B, 1.0)]
