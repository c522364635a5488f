"""The contract on every strategy we ship; and strategies that break it, which it must notice."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from autosched.model import make_model
from autosched.model.untrained import RandomCostModel
from autosched.search import STRATEGIES, Candidate, make_strategy
from autosched.search.baselines import RandomSearch
from autosched.search.guided import GuidedSearch
from autosched.testing import StrategyContract, check_strategy

TESTED = ("bandit", "guided", "annealing", "genetic", "evolutionary", "droplet", "random", "grid")

EXAMPLE = Path(__file__).parents[3] / "experiments" / "my_strategy.py"


class TestRandom(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("random", space, seed=seed)


class TestGrid(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("grid", space, seed=seed)


class TestGuidedWithXGBoost(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("guided", space, seed=seed, model=make_model("xgb", space.feature_names, seed=seed))


class TestGuidedWithoutModel(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("guided", space, seed=seed)


class TestGuidedWithRandomModel(StrategyContract):
    """A model that says nothing of its uncertainty, asked from the fourth trial on."""

    def make(self, space, *, seed=0):
        model = RandomCostModel(space.feature_names, seed=seed)
        return make_strategy("guided", space, seed=seed, model=model, initial=4, random_share=0.0, pool=64)


class TestBandit(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("bandit", space, seed=seed, initial=8, arms="droplet,guided,genetic")


class TestBanditWithModel(StrategyContract):
    """Two arms share a model, from the eighth trial on."""

    def make(self, space, *, seed=0):
        model = RandomCostModel(space.feature_names, seed=seed)
        return make_strategy("bandit", space, seed=seed, initial=8, model=model, arms="guided,annealing")


class TestGenetic(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("genetic", space, seed=seed)


class TestGeneticOfTwo(StrategyContract):
    """The smallest generations, and every gene mutates."""

    def make(self, space, *, seed=0):
        return make_strategy("genetic", space, seed=seed, population=2, elite=0, mutation=1.0)


class TestEvolutionary(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("evolutionary", space, seed=seed, initial=4, random_share=0.0)


class TestAnnealing(StrategyContract):
    def make(self, space, *, seed=0):
        model = make_model("xgb", space.feature_names, seed=seed)
        return make_strategy("annealing", space, seed=seed, model=model, steps=6, chains=16)


class TestAnnealingWithoutModel(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("annealing", space, seed=seed)


class TestDroplet(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("droplet", space, seed=seed, initial=4)


class _Broken(RandomCostModel):
    def __init__(self, names, fault):
        super().__init__(names)
        self.fault = fault

    def fit(self, features, seconds, groups):
        if self.fault == "fit":
            raise RuntimeError("cannot fit")

    def predict(self, features):
        if self.fault == "predict":
            raise RuntimeError("cannot predict")
        return np.full(len(features), np.nan) if self.fault == "nan" else np.zeros(3)


@pytest.mark.parametrize("fault", ["fit", "predict", "nan", "shape"])
def test_guided_keeps_the_contract_with_a_broken_model(fault):
    def make(space, *, seed=0, model=None):
        return GuidedSearch(space, seed=seed, model=_Broken(space.feature_names, fault), initial=4)

    assert check_strategy(make) == {}


class TestExamplePlugin(StrategyContract):
    """The documented example, loaded as a user would, but without the guard, which would hide its faults."""

    def make(self, space, *, seed=0):
        return make_strategy(f"{EXAMPLE}:HillClimber", space, seed=seed).strategy


def test_every_built_in_strategy_is_tested():
    """Those of Optuna in test_optuna.py, the others above."""
    assert set(STRATEGIES) == {*TESTED, "tpe", "cmaes", "qmc"}


class _Repeats(RandomSearch):
    def propose(self, n):
        batch = super().propose(n)
        return batch + batch[:1] if len(batch) < n else [*batch[:-1], batch[0]]


class _IgnoresMask(RandomSearch):
    def __init__(self, space, *, seed=0, model=None):
        super().__init__(space, seed=seed)
        for points in self._points.sketches:
            points.fresh = lambda rows, points=points: points.as_rows(  # type: ignore[method-assign]
                [row for row in dict.fromkeys(map(tuple, rows.tolist())) if row not in points]
            )
            points.size = 2**40  # so that nothing is enumerated either


class _Unseeded(RandomSearch):
    def propose(self, n):
        self._rng = np.random.default_rng(random.getrandbits(32))
        return super().propose(n)


class _NumpyIntegers(RandomSearch):
    def propose(self, n):
        return [Candidate(c.sketch, tuple(np.array(c.indices, dtype=np.int64))) for c in super().propose(n)]


class _TooMany(RandomSearch):
    def propose(self, n):
        return super().propose(n + 1)


class _GivesUp(RandomSearch):
    calls = 0

    def propose(self, n):
        self.calls += 1
        return super().propose(n) if self.calls < 4 else []


class _DeafToWarmStart(RandomSearch):
    def observe(self, trials):
        pass


class _NeedsSuccess(RandomSearch):
    def observe(self, trials):
        super().observe(trials)
        min(trial.seconds for trial in trials if trial.ok)


class _LastComesFirst(RandomSearch):
    def observe(self, trials):
        super().observe(trials)
        if trials:
            self._rng = np.random.default_rng(abs(hash(trials[-1].candidate)))


class _ReturnsTuples(RandomSearch):
    def propose(self, n):
        return [(c.sketch, c.indices) for c in super().propose(n)]


class _Enumerates(RandomSearch):
    def __init__(self, space, *, seed=0, model=None):
        super().__init__(space, seed=seed)
        for sketch in space.sketches:
            if sketch.size > 10**12:
                raise MemoryError("cannot hold all points")


BAD = {
    _Repeats: "test_no_candidate_twice",
    _IgnoresMask: "test_proposals_are_feasible_points",
    _Unseeded: "test_same_seed_same_proposals",
    _NumpyIntegers: "test_proposals_are_feasible_points",
    _TooMany: "test_batches_of_one_and_of_many",
    _GivesUp: "test_exhausts_a_small_space",
    _DeafToWarmStart: "test_warm_start",
    _NeedsSuccess: "test_all_trials_failed",
    _LastComesFirst: "test_order_of_arrival_does_not_matter",
    _ReturnsTuples: "test_proposals_are_feasible_points",
    _Enumerates: "test_a_huge_space",
}


@pytest.mark.parametrize("strategy", BAD, ids=lambda s: s.__name__.strip("_"))
def test_the_contract_notices(strategy, monkeypatch):
    monkeypatch.setattr("autosched.search.points.LIMIT", 1 << 14)  # the bad ones need not give up slowly
    failed = check_strategy(strategy)
    assert BAD[strategy] in failed
    assert all(message for message in failed.values())


def test_the_contract_asks_for_make():
    with pytest.raises(NotImplementedError, match="make must construct"):
        StrategyContract().make(None)
