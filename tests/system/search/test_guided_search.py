"""Whole searches with a model: they find good points sooner than those without, and those sooner than chance."""

from __future__ import annotations

import statistics

import numpy as np

from autosched.model import make_model
from autosched.search import make_strategy
from autosched.search.guided import GuidedSearch
from autosched.testing import SyntheticSpace


def trials_needed(strategy, space, *, within=1.05, most=1000, n=16):
    """How many trials until one is within 5 % of the optimum; `most` if none is."""
    spent = 0
    while spent < most:
        trials = space.measure(strategy.propose(n))
        for place, trial in enumerate(trials):
            if trial.ok and trial.seconds <= within * space.best_seconds:
                return min(spent + place + 1, most)
        spent += len(trials)
        strategy.observe(trials)
    return most


def test_guided_needs_a_fraction_of_the_trials_of_random():
    """One point in 115,000 is within 5 % of the optimum."""
    space = SyntheticSpace.standard()
    seeds = range(5)
    by_chance = [trials_needed(make_strategy("random", space, seed=s), space) for s in seeds]
    guided = [
        trials_needed(
            make_strategy("guided", space, seed=s, model=make_model("xgb", space.feature_names, seed=s)), space
        )
        for s in seeds
    ]
    assert statistics.median(guided) * 3 < statistics.median(by_chance), f"guided {guided}, random {by_chance}"
    assert statistics.median(guided) < 250


def test_the_model_is_worth_its_cost():
    """Judged children beat unjudged ones, and those beat chance."""
    space = SyntheticSpace.standard()

    def best_after(strategy, trials=256):
        best = np.inf
        for _ in range(trials // 16):
            batch = space.measure(strategy.propose(16))
            strategy.observe(batch)
            best = min([best, *(t.seconds for t in batch if t.ok)])
        return best

    def median_of_seeds(make, seeds=9):
        return statistics.median(best_after(make(seed)) for seed in range(seeds))

    judged = median_of_seeds(
        lambda seed: GuidedSearch(space, seed=seed, model=make_model("xgb", space.feature_names, seed=seed)), seeds=3
    )
    unjudged = median_of_seeds(lambda seed: GuidedSearch(space, seed=seed))
    chance = median_of_seeds(lambda seed: make_strategy("random", space, seed=seed))
    assert judged < unjudged < chance
