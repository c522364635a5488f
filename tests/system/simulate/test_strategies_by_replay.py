"""Every built-in strategy on the recorded spaces, against random search.

Left out is grid search, which is as good or as bad as the order in which the template lists the points.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.search import DEFAULT, STRATEGIES
from autosched.simulate.curves import compare, curves_of, overall
from autosched.simulate.recorded import list_spaces, load
from autosched.simulate.replay import Contender, replay_run, run_all
from autosched.target import cpu_count

SPACES = list_spaces(Path(__file__).resolve().parents[3] / "records")
WHOLE = [name for name, path in SPACES.items() if load(path).facts["whole"]]
LEARNING = [name for name in STRATEGIES if name not in ("random", "grid")]


def figures(spaces, strategies, seeds, processes=1):
    """Random search is cheap: many seeds of it, so that its luck is that of the seeds of the others."""
    runs = run_all(SPACES, spaces, [Contender("random", model="none")], range(200), 100, 16, processes)
    runs += run_all(SPACES, spaces, [Contender(name) for name in strategies], range(seeds), 100, 16, processes)
    return compare([c for name in spaces for c in curves_of(load(SPACES[name]), runs, 100)])


def test_the_default_strategy_beats_random_on_the_largest_space():
    random, ours = figures(["matmul-1024"], [DEFAULT], 2)
    assert ours.after["100"][1] < 1.08 < random.after["100"][1]


@pytest.mark.nightly
def test_strategies_beat_random_and_none_is_better_than_the_default_by_more_than_luck():
    found = figures(WHOLE, LEARNING, 20, cpu_count())
    means = overall(found)
    assert [name for name in LEARNING if means[name] >= means["random"]] == []
    assert means[DEFAULT] <= 1.005 * min(means.values())


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_runs_on_a_recorded_space_to_its_last_point(name):
    space = load(SPACES["depthwise_conv2d"])
    run = replay_run(space, Contender(name, model="none"), 0, 1000)
    assert sorted(run.seconds) == sorted(space.seconds(c) for c in space.points())
