"""Every built-in strategy on the recorded spaces, against random search.

Grid search is left out: it goes through a space in the order in which the template lists it, and is as
good or as bad as that order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.search import DEFAULT, STRATEGIES
from autosched.simulate.compare import compare, curves_of, overall
from autosched.simulate.processes import run_all
from autosched.simulate.recorded import list_spaces, load
from autosched.simulate.replay import Contender, replay_run
from autosched.target import cpu_count

SPACES = list_spaces(Path(__file__).resolve().parents[2] / "records")
WHOLE = [name for name, path in SPACES.items() if load(path).facts["whole"]]
LEARNING = [name for name in STRATEGIES if name not in ("random", "grid")]


def figures(spaces, strategies, seeds, trials):
    contenders = [Contender(name) for name in ("random", *strategies)]
    runs = run_all(SPACES, spaces, contenders, range(seeds), trials, 16, cpu_count() if seeds > 4 else 1)
    return compare([c for name in spaces for c in curves_of(load(SPACES[name]), runs, trials)])


def test_the_default_strategy_beats_random_on_the_largest_space():
    random, ours = figures(["matmul-1024"], [DEFAULT], 4, 100)
    assert ours.after["100"][1] < random.after["100"][1]
    assert ours.score < random.score


@pytest.mark.nightly
def test_every_strategy_beats_random_and_none_is_better_than_the_default():
    found = figures(WHOLE, LEARNING, 20, 200)
    means = overall(found)
    for name in LEARNING:
        after = [f.after["100"][1] for f in found if f.contender == name and f.space == "matmul-1024"]
        others = [f.after["100"][1] for f in found if f.contender == "random" and f.space == "matmul-1024"]
        assert (name, means[name] < means["random"]) == (name, True)
        assert (name, after < others) == (name, True)
    assert means[DEFAULT] <= 1.01 * min(means.values())


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_runs_on_a_recorded_space_to_its_last_point(name):
    space = load(SPACES["depthwise_conv2d"])
    run = replay_run(space, Contender(name, model="none"), 0, 1000)
    assert sorted(run.seconds) == sorted(space.seconds(c) for c in space.points())
