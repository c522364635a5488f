"""Optuna's samplers as strategies: the contract, what the sampler is told, and what users see."""

from __future__ import annotations

import importlib.util
import logging
import math
import statistics
import sys
import warnings

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from autosched.errors import UsageError
from autosched.search import Candidate, Trial, make_strategy
from autosched.search.optuna_samplers import NEEDS, OptunaSearch, QMCSearch, sampler_names
from autosched.search.points import Points
from autosched.testing import StrategyContract, SyntheticKnob, SyntheticSketch, SyntheticSpace, check_strategy


class TestTPE(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("tpe", space, seed=seed)


class TestQMC(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("qmc", space, seed=seed)


class TestCMAES(StrategyContract):
    def make(self, space, *, seed=0):
        pytest.importorskip("cmaes")
        return make_strategy("cmaes", space, seed=seed)


class TestAnotherSampler(StrategyContract):
    def make(self, space, *, seed=0):
        return make_strategy("optuna:NSGAIISampler", space, seed=seed, batch=16, tries=3)


@pytest.fixture
def own_sampler(monkeypatch):
    """Puts a class among Optuna's samplers, as a later version of Optuna might."""

    def add(made_by):
        monkeypatch.setattr(optuna.samplers, made_by.__name__, made_by, raising=False)
        monkeypatch.setattr(optuna.samplers, "__all__", [*optuna.samplers.__all__, made_by.__name__])
        return made_by.__name__

    return add


def message(**options):
    with pytest.raises(UsageError) as caught:
        make_strategy("tpe", SyntheticSpace.small(), **options)
    return str(caught.value)


def trials_of(strategy, number):
    """Trials of the study of a sketch's knobs, as Optuna holds them."""
    return strategy._studies[number]._study.get_trials(deepcopy=False)


def grid_of(*counts, constraint=None):
    """A space of one sketch with so many values in its knobs."""
    knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(count))) for i, count in enumerate(counts))
    return SyntheticSpace([SyntheticSketch("only", knobs, (0,) * len(knobs), 1.0, constraint)])


def test_tpe_finds_much_better_points_than_chance():
    space = SyntheticSpace.standard()

    def best_after(strategy):
        best = math.inf
        for _ in range(10):
            trials = space.measure(strategy.propose(16))
            strategy.observe(trials)
            best = min([best, *(trial.seconds for trial in trials if trial.ok)])
        return best / space.best_seconds

    tpe = [best_after(OptunaSearch(space, seed=seed)) for seed in range(3)]
    chance = [best_after(make_strategy("random", space, seed=seed)) for seed in range(3)]
    assert statistics.median(tpe) < 1.6 < 2.0 < statistics.median(chance), f"tpe {tpe}, random {chance}"


def test_most_candidates_come_from_the_sampler():
    space = SyntheticSpace.standard()
    strategy = OptunaSearch(space)
    asked = 0
    for _ in range(5):
        batch = strategy.propose(16)
        asked += sum(candidate in strategy._asked for candidate in batch)
        strategy.observe(space.measure(batch))
    assert asked > 72


def test_qmc_covers_more_evenly_than_chance():
    """64 points use nearly each of the 64 values of each knob; random ones would use 41."""
    proposed = QMCSearch(grid_of(64, 64)).propose(64)
    for knob in range(2):
        assert len({candidate.indices[knob] for candidate in proposed}) >= 62


def test_a_resumed_run_goes_on_with_the_sequence():
    space = grid_of(64, 64, constraint=lambda v: (v[:, 0] + v[:, 1]) % 3 == 0)
    first, resumed = QMCSearch(space, seed=4, refine=0), QMCSearch(space, seed=4, refine=0)
    resumed.observe(space.measure(first.propose(64)))
    assert resumed.propose(16) == first.propose(16)


def test_neighbours_of_the_best_are_a_share_of_the_proposals():
    """Of a bowl's bottom, a sequence that knows no times would propose a point in 64 that is next to it."""
    space = grid_of(64, 64)
    best = Candidate(0, (31, 40))
    for share in (0, 0.5):
        strategy = QMCSearch(space, refine=share)
        strategy.observe([Trial(best, "ok", 1e-6)])
        near = [c for c in strategy.propose(64) if sum(a != b for a, b in zip(c.indices, best.indices)) == 1]
        assert (len(near) >= 8) == (share > 0), share


@pytest.mark.parametrize("strategy", [OptunaSearch, QMCSearch])
def test_another_seed_gives_other_points(strategy):
    space = SyntheticSpace.standard()
    one, other = (set(strategy(space, seed=seed).propose(40)) for seed in (1, 2))
    assert len(one & other) < 20


def test_no_batch_is_larger_than_the_options_say():
    strategy = OptunaSearch(SyntheticSpace.standard(), batch=10)
    assert len(strategy.propose(512)) == 10
    assert strategy.propose(0) == []


def test_the_sampler_is_asked_a_bounded_number_of_times(monkeypatch):
    """One point in a thousand is feasible: the rest of the batch is drawn."""
    space = grid_of(100, 1000, constraint=lambda v: v[:, 1] == 7)
    strategy = OptunaSearch(space, tries=3)
    asked = []
    study = strategy._studies[0]
    monkeypatch.setattr(study, "ask", lambda ask=study.ask: asked.append(1) or ask())
    assert len(strategy.propose(5)) == 5
    assert len(asked) == 15


def test_a_used_up_sketch_is_not_asked_again(monkeypatch):
    """The best sketch has one point; the sampler would choose it for ever."""
    knob = SyntheticKnob("k", tuple(range(50)))
    space = SyntheticSpace([SyntheticSketch("best", (), (), 1e-9), SyntheticSketch("other", (knob,), (9,), 1.0)])
    strategy = OptunaSearch(space)
    strategy.observe(space.measure([Candidate(0, ())]))
    monkeypatch.setattr(strategy._studies[0], "ask", lambda: pytest.fail("asked for a point of it"))
    assert {candidate.sketch for candidate in strategy.propose(20)} == {1}


def test_what_the_sampler_is_told():
    """Times as logarithms, failures and refused points as FAIL, what is not measured yet as RUNNING."""
    space = grid_of(8, 8, constraint=lambda v: (v[:, 0] + v[:, 1]) % 2 == 0)
    strategy = OptunaSearch(space, seed=1)
    batch = strategy.propose(6)
    numbers = [strategy._asked[candidate][1] for candidate in batch]
    before = trials_of(strategy, 0)
    assert [tuple(before[number].params.values()) for number in numbers] == [c.indices for c in batch]
    refused = [t.state for t in before if t.number not in numbers]
    assert set(refused) == {TrialState.FAIL}
    strategy.observe([Trial(batch[0], "ok", 0.5), Trial(batch[1], "timeout"), Trial(batch[2], "lost")])
    strategy.propose(1)
    now = [trials_of(strategy, 0)[number] for number in numbers]
    assert [t.state for t in now] == [TrialState.COMPLETE] + [TrialState.FAIL] * 2 + [TrialState.RUNNING] * 3
    assert now[0].value == pytest.approx(math.log(0.5))
    chosen = strategy._choice._study.get_trials(deepcopy=False)
    assert [t.value for t in chosen if t.state == TrialState.COMPLETE] == [pytest.approx(math.log(0.5))]


def test_old_records_are_told_but_not_the_times_of_infeasible_ones():
    space = SyntheticSpace.small()
    strategy = OptunaSearch(space)
    good, bad = space.points()[:9], space.points(feasible=False)[:4]
    assert all(candidate.sketch == 0 for candidate in good + bad)
    strategy.observe([Trial(c, "ok", 1e-3) for c in good] + [Trial(c, "ok", 1e-9) for c in bad])
    strategy.observe([Trial(good[0], "ok", 2e-3), Trial(Candidate(7, ()), "ok", 1e-9)])
    strategy.propose(1)
    told = [t for t in trials_of(strategy, 0) if t.state == TrialState.COMPLETE]
    assert sorted(tuple(t.params.values()) for t in told) == sorted(c.indices for c in [good[0], *good])
    assert min(t.value for t in told) == pytest.approx(math.log(1e-3))


def test_old_records_steer_the_first_proposals():
    space = SyntheticSpace(SyntheticSpace.standard().sketches[2:])
    old = make_strategy("random", space, seed=7).propose(300)
    strategy = OptunaSearch(space)
    strategy.observe(space.measure(old))
    proposed = [t.seconds for t in space.measure(strategy.propose(16)) if t.ok]
    assert statistics.median(proposed) < np.quantile([t.seconds for t in space.measure(old) if t.ok], 0.1)


def test_sketches_and_knobs_without_values():
    knob = SyntheticKnob("k", tuple(range(5)))
    none = SyntheticSketch("none", (SyntheticKnob("empty", ()), knob), (0, 0))
    space = SyntheticSpace([none, SyntheticSketch("some", (knob,), (0,))])
    assert sorted(OptunaSearch(space).propose(9)) == [Candidate(1, (i,)) for i in range(5)]


def test_nothing_is_stored_logged_or_warned_of(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.INFO)
    space = SyntheticSpace.standard()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("tpe", "qmc"):
            strategy = make_strategy(name, space)
            for _ in range(3):
                strategy.observe(space.measure(strategy.propose(16)))
            studies = [strategy._choice, *strategy._studies.values()]
            assert {type(study._study._storage) for study in studies} == {optuna.storages.InMemoryStorage}
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == optuna.logging.INFO


def test_the_samplers_are_those_that_need_nothing_but_a_seed():
    names = sampler_names()
    assert {"TPESampler", "QMCSampler", "RandomSampler", "NSGAIISampler", "CmaEsSampler", "GPSampler"} <= set(names)
    assert not {"BaseSampler", "GridSampler", "PartialFixedSampler", "BruteForceSampler", "nsgaii"} & set(names)
    space = SyntheticSpace.small()
    for name, lacks in names.items():
        if not lacks:
            assert make_strategy("tpe", space, sampler=name).propose(4)


@pytest.mark.parametrize("sampler", ["Tpe", "BaseSampler", "GridSampler", "nsgaii", "__doc__"])
def test_an_unknown_sampler_lists_the_known_ones(sampler):
    why, legal = message(sampler=sampler).split("\n")
    assert why == f"strategy 'tpe', sampler {sampler!r}: no such sampler, or one that needs more than a seed"
    assert legal.startswith("  there are: CmaEsSampler")
    assert legal.endswith("RandomSampler, TPESampler")


def test_a_missing_package_is_named_before_the_run_starts(monkeypatch):
    find = importlib.util.find_spec
    extras = {package for packages in NEEDS.values() for package in packages}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in extras else find(name, *more))
    text = message(sampler="GPSampler")
    assert text.startswith("strategy 'tpe': GPSampler needs scipy and torch, which cannot be imported\n")
    assert "CmaEsSampler (needs cmaes)" in text
    with pytest.raises(UsageError, match="strategy 'qmc': QMCSampler needs scipy"):
        make_strategy("qmc", SyntheticSpace.small())


def test_without_optuna_the_strategy_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert message().startswith("strategy 'tpe': it needs Optuna, which cannot be imported: ")


@pytest.mark.parametrize("options", [{"batch": 0}, {"tries": 0}])
def test_options_out_of_range_are_refused(options):
    assert f"{next(iter(options))}=0 is not a positive number" in message(**options)


def test_unknown_options_are_refused():
    assert message(n_startup_trials=5).endswith("its options: sampler, batch, tries, refine")


class RaisesLater(optuna.samplers.RandomSampler):
    """Fails as a numerical method does: in the middle of a run, and when told."""

    def __init__(self, seed=None):
        super().__init__(seed)
        self.calls = 0

    def sample_independent(self, study, trial, param_name, param_distribution):
        self.calls += 1
        if self.calls > 5:
            raise FloatingPointError("the matrix is singular")
        return super().sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study, trial, state, values):
        raise FloatingPointError("the matrix is singular")


def test_a_failing_sampler_is_reported_once_and_the_search_goes_on(own_sampler, caplog):
    space = SyntheticSpace.standard()
    strategy = OptunaSearch(space, sampler=own_sampler(RaisesLater))
    with caplog.at_level(logging.WARNING, logger="autosched.search"):
        for _ in range(5):
            batch = strategy.propose(8)
            assert len(batch) == 8
            strategy.observe(space.measure(batch))
    assert [record.getMessage() for record in caplog.records] == [
        "Optuna's sampler failed, the search goes on with random points: FloatingPointError: the matrix is singular"
    ]
    assert strategy.sampler_error == "FloatingPointError: the matrix is singular"


def test_a_failing_sampler_keeps_the_contract(own_sampler):
    name = own_sampler(RaisesLater)
    assert check_strategy(lambda space, seed=0: OptunaSearch(space, seed=seed, sampler=name)) == {}


class Stubborn(optuna.samplers.BaseSampler):
    """Always wants the same point."""

    def __init__(self, seed=None):
        pass

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, param_name, param_distribution):
        return param_distribution.to_external_repr(0)


def test_a_sampler_that_repeats_itself_does_not_keep_points_from_being_found(own_sampler):
    space = SyntheticSpace.small()
    strategy = OptunaSearch(space, sampler=own_sampler(Stubborn))
    found = [candidate for _ in range(20) for candidate in strategy.propose(4)]
    assert sorted(found) == space.points()
    assert Points(space).mark(found) == found
