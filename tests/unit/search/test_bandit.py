"""The bandit over strategies: who is asked, who gets the credit, and that the model is fitted once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.model.untrained import RandomCostModel
from autosched.search import Trial, make_strategy
from autosched.search.bandit import BanditSearch, area_under_curve
from autosched.testing import SyntheticSpace

SPACE = SyntheticSpace.standard()


def run(strategy, trials, n=16):
    best = math.inf
    for _ in range(trials // n):
        told = SPACE.measure(strategy.propose(n))
        strategy.observe(told)
        best = min([best, *(trial.seconds for trial in told if trial.ok)])
    return best / SPACE.best_seconds


def test_the_area_under_the_curve_of_successes():
    """Formula (1) of OpenTuner's paper: 2 / (n (n + 1)) times the sum of the places of successes."""
    assert area_under_curve([]) == 0.0 and area_under_curve([True] * 5) == 1.0
    assert area_under_curve([True, False, False]) == pytest.approx(1 / 6)
    assert area_under_curve([False, False, True]) == pytest.approx(3 / 6)


def test_the_first_arm_begins_and_then_all_are_asked():
    bandit = BanditSearch(SPACE, arms="random, droplet", initial=32)
    run(bandit, 32)
    assert set(bandit.found_by.values()) == {"random"}
    run(bandit, 64)
    assert set(bandit.found_by.values()) == {"random", "droplet"}
    proposals = {name: credit[0] for name, credit in bandit.credits.items()}
    assert sum(proposals.values()) == 96


def test_the_arm_that_finds_better_points_is_asked_more_often():
    for seed in range(3):
        bandit = BanditSearch(SPACE, seed=seed, arms="droplet,grid", initial=16)
        run(bandit, 128)
        (grid, _, of_grid), (droplet, beat, of_droplet) = bandit.credits["grid"], bandit.credits["droplet"]
        assert droplet > grid and beat > 0 and of_droplet < of_grid


def test_every_arm_has_a_seed_below_the_limit():
    assert BanditSearch(SPACE, seed=2**63 - 1, arms="random,droplet").propose(1)


def test_credit_is_for_beating_the_best_before_the_batch():
    bandit = BanditSearch(SPACE, arms="random", initial=0)
    first = bandit.propose(3)
    bandit.observe([Trial(c, "ok", seconds) for c, seconds in zip(first, (3.0, 1.0, 2.0), strict=True)])
    second = bandit.propose(3)
    bandit.observe([Trial(c, "ok", seconds) for c, seconds in zip(second, (0.5, 1.5, 0.9), strict=True)])
    bandit.observe([Trial(SPACE.best, "ok", 0.1)])  # nobody's
    assert bandit.credits == {"random": (6, 5, 0.5)}


def test_a_shared_model_is_fitted_once_to_the_same_trials():
    class Counting(RandomCostModel):
        fits = 0

        def fit(self, features, seconds, groups):
            self.fits += 1

    model = Counting(SPACE.feature_names)
    bandit = BanditSearch(SPACE, arms="guided,annealing", initial=0, model=model)
    bandit.observe(SPACE.measure(make_strategy("random", SPACE).propose(32)))
    for _ in range(3):
        bandit.propose(8)
    assert set(bandit.found_by.values()) == {"guided", "annealing"} and model.fits == 1


def test_who_begins_depends_on_what_the_model_knows():
    """The first arm makes the first proposals: on a primed model that is guided search, which asks it at once."""

    class Fresh(RandomCostModel):
        ready = False

    fresh, primed = Fresh(SPACE.feature_names), RandomCostModel(SPACE.feature_names)
    assert list(BanditSearch(SPACE, model=fresh).credits) == ["annealing", "guided", "droplet"]
    assert list(BanditSearch(SPACE, model=primed).credits) == ["guided", "annealing", "droplet"]
    assert list(BanditSearch(SPACE).credits) == ["guided", "droplet"]
    assert list(BanditSearch(SPACE, model=primed, arms="annealing,grid").credits) == ["annealing", "grid"]


@pytest.mark.parametrize("arms", ["", "random,random", "bandit,random"])
def test_arms_that_cannot_be_meant(arms):
    with pytest.raises(UsageError, match="is not a list of other strategies, each once"):
        BanditSearch(SPACE, arms=arms)


@pytest.mark.parametrize("name", ["genetic", "evolutionary", "droplet", "bandit"])
def test_strategies_beat_chance_by_far_without_a_model(name):
    found = [run(make_strategy(name, SPACE, seed=seed), 160) for seed in range(5)]
    chance = [run(make_strategy("random", SPACE, seed=seed), 160) for seed in range(5)]
    assert np.median(found) - 1 < 0.5 * (np.median(chance) - 1), f"{name} {found}, random {chance}"
