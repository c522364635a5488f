"""Model-guided search: that it finds more, and that nothing it is given breaks it."""

from __future__ import annotations

import dataclasses
import logging
import statistics

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.model import make_model
from autosched.model.untrained import RandomCostModel
from autosched.search import Candidate, Trial, make_strategy
from autosched.search.guided import GuidedSearch
from autosched.search.points import SHORT_PATIENCE
from autosched.testing import SyntheticKnob, SyntheticSketch, SyntheticSpace


def test_the_first_trials_cover_sketches_and_values():
    space = SyntheticSpace.standard()
    batch = GuidedSearch(space, seed=1).propose(24)
    assert {sum(c.sketch == number for c in batch) for number in range(3)} == {8}
    for knob in range(6):  # of 5 to 9 values each knob has, 8 trials use nearly all
        used = {c.indices[knob] for c in batch if c.sketch == 2}
        assert len(used) >= min(len(space.sketches[2].knobs[knob].values), 8) - 2


def test_old_records_stand_in_for_the_first_trials():
    """With enough records the model is asked at once: proposals are near the best of them."""
    space = SyntheticSpace.standard()
    model = make_model("xgb", space.feature_names)
    strategy = make_strategy("guided", space, model=model, random_share=0.0)
    old = make_strategy("random", space, seed=7).propose(400)
    strategy.observe(space.measure(old))
    proposed = [t.seconds for t in space.measure(strategy.propose(16)) if t.ok]
    assert model.ready
    assert statistics.median(proposed) < np.quantile([t.seconds for t in space.measure(old) if t.ok], 0.05)


def test_a_share_of_the_proposals_is_random():
    """With the model's and the children's share at nothing, all are."""
    space = SyntheticSpace.standard()
    asked = []

    class Spy(RandomCostModel):
        def predict(self, features):
            asked.append(len(features))
            return super().predict(features)

    strategy = GuidedSearch(space, model=Spy(space.feature_names), initial=4, random_share=1.0)
    strategy.observe(space.measure(strategy.propose(8)))
    assert len(strategy.propose(16)) == 16
    assert asked == []


def test_no_batch_is_larger_than_the_option_says():
    strategy = GuidedSearch(SyntheticSpace.standard(), batch=10)
    assert len(strategy.propose(512)) == 10
    assert strategy.propose(0) == []


def test_points_that_look_like_the_best_are_tried_soon():
    """A knob that changes no feature, as the distance of a prefetch, may change the time all the same."""

    class Blind(SyntheticSketch):
        def features(self, indices):
            return super().features(indices * np.array([1, 1, 0, 0, 1, 1]))

    standard = SyntheticSpace.standard().sketches[2]
    fields = {f.name: getattr(standard, f.name) for f in dataclasses.fields(standard)}
    space = SyntheticSpace([Blind(**fields)])
    strategy = GuidedSearch(space, model=make_model("sklearn", space.feature_names), random_share=0.0)
    batch = strategy.propose(24)
    strategy.observe(space.measure(batch))
    first = {space.sketches[0].features(np.array([c.indices])).tobytes() for c in batch}
    second = {space.sketches[0].features(np.array([c.indices])).tobytes() for c in strategy.propose(16)}
    assert first & second


class _Fails(RandomCostModel):
    def fit(self, features, seconds, groups):
        raise RuntimeError("no licence")


def test_a_failing_model_is_reported_once_and_the_search_goes_on(caplog):
    space = SyntheticSpace.standard()
    strategy = GuidedSearch(space, model=_Fails(space.feature_names), initial=4)
    with caplog.at_level(logging.WARNING, logger="autosched.search"):
        for _ in range(6):
            batch = strategy.propose(8)
            assert len(batch) == 8
            strategy.observe(space.measure(batch))
    assert [r.getMessage() for r in caplog.records] == [
        "the cost model failed, the search goes on without it: RuntimeError: no licence"
    ]
    assert strategy.model_error == "RuntimeError: no licence"


def test_the_model_is_fitted_only_to_what_is_new_and_sound():
    """Old records may be infeasible by now and have no features; lost trials teach nothing."""
    fits = []

    class Spy(RandomCostModel):
        def fit(self, features, seconds, groups):
            super().fit(features, seconds, groups)
            fits.append((len(features), int(np.isinf(seconds).sum())))

    class Holed(SyntheticSketch):
        def features(self, indices):
            return np.where(self.mask(indices)[:, None], super().features(indices), np.nan)

    small = SyntheticSpace.standard().sketches[1]
    space = SyntheticSpace([Holed(small.name, small.knobs, small.optimum, 1e-3, small.constraint)])
    strategy = GuidedSearch(space, model=Spy(space.feature_names), initial=4)
    good, bad = space.points()[:10], space.points(feasible=False)[:5]
    strategy.observe([Trial(c, "ok", 1e-3 + 1e-6 * i) for i, c in enumerate(good + bad)])
    strategy.observe([Trial(space.points()[20], "timeout"), Trial(space.points()[21], "lost")])
    strategy.propose(4)
    strategy.propose(4)
    assert fits == [(11, 1)]
    assert strategy.model_error == ""


def test_trials_that_are_no_points_of_the_space_are_ignored():
    space = SyntheticSpace.small()
    strategy = GuidedSearch(space, initial=1)
    strategy.observe([Trial(Candidate(7, (1,)), "ok", 1e-9), Trial(Candidate(0, (0, 0, 99)), "ok", 1e-9)])
    assert len(strategy.propose(8)) == 8


@pytest.mark.parametrize(
    "options", [{"initial": 0}, {"batch": 0}, {"pool": -1}, {"parents": 0}, {"random_share": 1.5}, {"explore": -1}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        GuidedSearch(SyntheticSpace.small(), **options)


def test_a_model_of_another_space_is_refused():
    with pytest.raises(UsageError, match="features"):
        GuidedSearch(SyntheticSpace.small(), model=RandomCostModel(("a", "b")))


def test_a_sketch_with_rare_feasible_points_does_not_slow_every_round():
    """One point in a million is feasible in one sketch; the other has plenty."""
    asked = []

    def rare(values):
        asked.append(len(values))
        return (values[:, :6] == 1).all(axis=1)

    knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(1, 11))) for i in range(9))
    space = SyntheticSpace(
        [SyntheticSketch("rare", knobs, (0,) * 9, 1.0, rare), SyntheticSketch("plenty", knobs, (5,) * 9, 2.0)]
    )
    strategy = GuidedSearch(space, initial=8)
    for _ in range(10):
        strategy.observe(space.measure(strategy.propose(8)))
    assert sum(asked) < 10 * 4 * SHORT_PATIENCE


def test_rare_feasible_points_are_found_when_nothing_else_is_left():
    knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(1, 11))) for i in range(5))
    space = SyntheticSpace(
        [SyntheticSketch("rare", knobs, (0,) * 5, 1.0, lambda v: (v[:, :4] == 1).all(axis=1) & (v[:, 4] < 4))]
    )
    strategy, found = GuidedSearch(space), set()
    while batch := strategy.propose(8):
        found.update(batch)
        strategy.observe(space.measure(batch))
    assert found == {Candidate(0, (0, 0, 0, 0, i)) for i in range(3)}
