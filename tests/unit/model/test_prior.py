"""A learnt model with a prior: ready at once, and corrected by trials."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.model import AnalyticalModel, PrimedCostModel, UncertainCostModel, make_model
from autosched.model.prior import PREDICTED_RATE, ModelWithPrior
from autosched.space.features import FEATURE_NAMES

GROUP = np.zeros(200, dtype=np.int64)


@pytest.fixture
def points():
    """Features at random, and a prior for them."""
    features = np.random.default_rng(0).uniform(0, 12, (200, len(FEATURE_NAMES)))
    return features, AnalyticalModel(FEATURE_NAMES)


def order(scores):
    return np.argsort(-np.asarray(scores), kind="stable").tolist()


@pytest.mark.parametrize("name", ["xgb", "sklearn"])
def test_before_the_first_trial_it_is_the_prior(points, name):
    features, prior = points
    model = make_model(name, FEATURE_NAMES, prior=prior)
    assert isinstance(model, ModelWithPrior | PrimedCostModel) and isinstance(model, UncertainCostModel)
    assert model.ready and model.feature_names == FEATURE_NAMES
    mean, std = model.predict_with_std(features)
    assert order(mean) == order(prior.predict(features)) and not std.any()
    assert (model.feasibility(features) == 1).all() and model.importances() == {}
    assert len(model.predict(features[:0])) == 0


def test_trials_take_over(points):
    """Where the prior is wrong throughout, two hundred trials say so."""
    features, prior = points
    model = make_model("xgb", FEATURE_NAMES, prior=prior)
    wrong = 1.0 / prior.seconds(features) ** 0.25
    model.fit(features, wrong, GROUP)
    after = np.corrcoef(np.argsort(order(model.predict(features))), np.argsort(np.argsort(wrong)))[0, 1]
    assert after > 0.8
    assert PREDICTED_RATE in model.importances()
    model.fit(features[:0], wrong[:0], GROUP[:0])
    assert order(model.predict(features)) == order(prior.predict(features))


def test_failures_are_learnt(points):
    features, prior = points
    model = make_model("xgb", FEATURE_NAMES, prior=prior)
    fails = features[:, 0] > 6
    model.fit(features, np.where(fails, np.inf, prior.seconds(features)), GROUP)
    works = model.feasibility(features)
    assert works[~fails].min() > works[fails].max()


def test_what_others_taught_counts_from_the_start(points):
    features, prior = points
    model = make_model("xgb", FEATURE_NAMES, prior=prior)
    before = order(model.predict(features))
    model.prime(features, 1e-3 * (1 + features[:, 1]), GROUP)
    assert order(model.predict(features)) != before


def test_others_go_without_it(points):
    features, prior = points
    assert make_model("analytical", FEATURE_NAMES, prior=prior) is prior
    assert not isinstance(make_model("random", FEATURE_NAMES, prior=prior), ModelWithPrior)
    assert make_model("none", FEATURE_NAMES, prior=prior) is None
    model = make_model("xgb", FEATURE_NAMES, prior=prior)
    with pytest.raises(UsageError, match="features have shape"):
        model.predict(features[:, 1:])
    with pytest.raises(UsageError, match="positive"):
        model.fit(features, np.zeros(200), GROUP)
