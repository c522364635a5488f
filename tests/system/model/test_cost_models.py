"""Cost models: the contract, what the trees learn, and what happens without XGBoost."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.model import MODELS, CostModel, UncertainCostModel, make_model
from autosched.model.dataset import ranks, throughput
from autosched.model.trees import HistGBCostModel, XGBCostModel, XGBRankCostModel
from autosched.model.untrained import RandomCostModel
from autosched.testing import CostModelContract, SyntheticSpace, check_cost_model, rank_correlation


class TestXGBoost(CostModelContract):
    def make(self, feature_names, *, seed=0):
        return make_model("xgb", feature_names, seed=seed)


class TestScikitLearn(CostModelContract):
    def make(self, feature_names, *, seed=0):
        return make_model("sklearn", feature_names, seed=seed)


class TestRanking(CostModelContract):
    def make(self, feature_names, *, seed=0):
        return make_model("xgb-rank", feature_names, seed=seed)


class TestRandomModel(CostModelContract):
    learns = False

    def make(self, feature_names, *, seed=0):
        return make_model("random", feature_names, seed=seed)


class _Backwards(XGBCostModel):
    def predict_with_std(self, features):
        mean, std = super().predict_with_std(features)
        return -mean, std


class _Narrow(RandomCostModel):
    def predict(self, features):
        return np.zeros(len(features))


class _Unchecked(XGBCostModel):
    def fit(self, features, seconds, groups):
        width = len(self.feature_names)
        super().fit(np.nan_to_num(np.resize(features, (len(features), width))), np.abs(seconds) + 1e-9, groups)


class _Unseeded(XGBCostModel):
    def __init__(self, feature_names, *, seed=0):
        super().__init__(feature_names, seed=np.random.randint(1 << 30))


class _Forgetful(XGBCostModel):
    def prime(self, features, seconds, groups):
        pass


@pytest.mark.parametrize(
    ("model", "test"),
    [
        (_Forgetful, "test_primed_with_other_trials"),
        (_Backwards, "test_ranks_unseen_candidates"),
        (_Narrow, "test_not_ready_before_a_fit"),
        (_Narrow, "test_predict_refuses_unusable_features"),
        (_Unchecked, "test_unusable_data_is_refused"),
        (_Unseeded, "test_same_seed_same_scores"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_contract_notices(model, test):
    assert test in check_cost_model(model)


def held_out(space, *, seed=0):
    """500 measured points of all sketches: features [500, F] and seconds, failures inf."""
    rng = np.random.default_rng(seed)
    features, seconds = [], []
    for sketch in space.sketches[1:]:
        rows = rng.integers(0, [len(knob.values) for knob in sketch.knobs], size=(600, len(sketch.knobs)))
        rows = rows[sketch.mask(rows)][:250]
        features.append(sketch.features(rows))
        seconds.append(np.where(sketch.fails(rows), np.inf, sketch.seconds(rows)))
    return np.concatenate(features), np.concatenate(seconds)


@pytest.mark.parametrize("name", ["xgb", "sklearn", "xgb-rank"])
def test_it_ranks_candidates_of_a_space_it_has_not_seen(name):
    space = SyntheticSpace.standard()
    features, seconds = held_out(space, seed=1)
    model = make_model(name, space.feature_names)
    model.fit(features, seconds, np.zeros(len(seconds), dtype=np.int64))
    fresh, truth = held_out(space, seed=2)
    good = np.isfinite(truth)
    assert rank_correlation(model.predict(fresh[good]), -truth[good]) > 0.85


def test_the_members_disagree_where_there_was_no_trial():
    rng = np.random.default_rng(0)
    tile = rng.integers(0, 6, size=(200, 1)).astype(float)
    far = rng.integers(20, 40, size=(6, 1)).astype(float)
    features = np.concatenate([tile, far])
    seconds = 1.0 + (features[:, 0] - 3) ** 2 + np.concatenate([np.zeros(200), rng.random(6) * 300])
    model = XGBCostModel(["tile"], members=6)
    model.fit(features, seconds, np.zeros(206, dtype=np.int64))
    assert isinstance(model, UncertainCostModel)
    mean, std = model.predict_with_std(np.array([[1.0], [4.0], [30.0]]))
    assert mean.shape == std.shape == (3,) and (std >= 0).all()
    assert np.array_equal(mean, model.predict(np.array([[1.0], [4.0], [30.0]])))
    assert model.predict_with_std(features)[1].max() > 0


@pytest.mark.parametrize("name", ["xgb", "sklearn"])
def test_importances_are_by_name_and_find_what_matters(name):
    rng = np.random.default_rng(0)
    features = rng.random((150, 3))
    model = make_model(name, ["noise", "tile[x] <= 4", "more noise"])  # XGBoost itself forbids such names
    assert model.importances() == {}
    model.fit(features, 1.0 + features[:, 1], np.zeros(150, dtype=np.int64))
    shares = model.importances()
    assert next(iter(shares)) == "tile[x] <= 4" and shares["tile[x] <= 4"] > 0.8
    assert sum(shares.values()) == pytest.approx(1.0) and set(shares) == set(model.feature_names)


@pytest.mark.parametrize("name", ["xgb", "sklearn"])
def test_the_probability_of_working_is_learnt_from_failures(name):
    rng = np.random.default_rng(0)
    features = rng.random((200, 2))
    fails = features[:, 1] > 0.7
    model = make_model(name, ["tile", "unrolled"])
    model.fit(features, np.where(fails, np.inf, 1.0 + features[:, 0]), np.zeros(200, dtype=np.int64))
    probe = np.array([[0.5, 0.1], [0.5, 0.95]])
    works = model.feasibility(probe)
    assert works[0] > 0.9 and works[1] < 0.2
    scores = model.predict(probe)
    assert scores[1] < 0.3 * scores[0]
    model.fit(features, 1.0 + features[:, 0], np.zeros(200, dtype=np.int64))
    assert model.feasibility(probe).tolist() == [1.0, 1.0]  # nothing has failed


@pytest.mark.parametrize("name", ["xgb", "sklearn", "xgb-rank"])
def test_failures_alone_teach_what_fails(name):
    features = np.arange(40.0)[:, None]
    model = make_model(name, ["unrolled"])
    model.fit(features, np.where(features[:, 0] > 20, np.inf, 1.0), np.zeros(40, dtype=np.int64))
    assert model.ready
    assert model.predict(np.array([[5.0]])) > 2 * model.predict(np.array([[35.0]]))
    assert set(model.importances().values()) == {0.0}  # all that work are equally fast


@pytest.mark.parametrize("loss", ["regression", "rank"])
def test_own_trials_outweigh_those_of_others_the_more_there_are(loss):
    rng = np.random.default_rng(0)
    features, zeros = rng.random((300, 1)), np.zeros(300, dtype=np.int64)
    model = XGBCostModel(["tile"], loss=loss)
    model.prime(features, 1.0 + features[:, 0], zeros)
    probe = np.linspace(0, 1, 50)[:, None]
    found = [rank_correlation(model.predict(probe), -probe[:, 0])]
    for rows in (16, 128, 256):
        model.fit(features[:rows], 2.0 - features[:rows, 0], zeros[:rows])  # the opposite
        found.append(rank_correlation(model.predict(probe), -probe[:, 0]))
    assert found[0] > 0.9 and found[1] > 0 and found[-1] < -0.9


def test_scores_of_a_ranker_are_throughputs():
    features = np.arange(60.0)[:, None]
    model = make_model("xgb-rank", ["tile"])
    model.fit(features, 1.0 + np.abs(features[:, 0] - 20), np.zeros(60, dtype=np.int64))
    mean, std = model.predict_with_std(features)
    truth = 1 / (1.0 + np.abs(features[:, 0] - 20))
    assert np.abs(mean - truth).mean() < 0.2 and (std < 0.5).all()


def test_a_refused_prime_leaves_the_model_as_it_was():
    features = np.arange(20.0)[:, None]
    model = XGBCostModel(["tile"])
    model.prime(features, features[:, 0] + 1, np.zeros(20, dtype=np.int64))
    before = model.predict(features)
    with pytest.raises(UsageError, match="seconds of row 0 are 0.0"):
        model.prime(features, features[:, 0], np.zeros(20, dtype=np.int64))
    assert np.array_equal(model.predict(features), before)


def test_importances_are_nothing_when_no_feature_helped():
    model = XGBCostModel(["same"])
    model.fit(np.ones((10, 1)), np.arange(1.0, 11.0), np.zeros(10, dtype=np.int64))
    assert model.importances() == {"same": 0.0}


def test_the_number_of_threads_changes_nothing():
    features, seconds = held_out(SyntheticSpace.standard())
    names, groups = SyntheticSpace.standard().feature_names, np.zeros(len(seconds), dtype=np.int64)
    one, two = (XGBCostModel(names, threads=threads) for threads in (1, 2))
    one.fit(features, seconds, groups)
    two.fit(features, seconds, groups)
    assert np.array_equal(one.predict(features), two.predict(features))


def test_without_xgboost_scikit_learn_takes_over(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "xgboost", None)  # importing it raises ImportError now
    model = make_model("xgb", ["a"])
    with caplog.at_level(logging.WARNING, logger="autosched.model"):
        model.fit(np.arange(20.0)[:, None], np.arange(1.0, 21.0), np.zeros(20, dtype=np.int64))
    assert "xgboost cannot be imported" in caplog.text and "scikit-learn" in caplog.text
    assert model.backend.startswith("scikit-learn")
    assert rank_correlation(model.predict(np.arange(20.0)[:, None]), -np.arange(20.0)) > 0.9
    assert model.importances() == {"a": 1.0}


def test_without_xgboost_places_in_the_group_are_regressed(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    model = make_model("xgb-rank", ["a"])
    model.fit(np.arange(20.0)[:, None], np.arange(1.0, 21.0), np.zeros(20, dtype=np.int64))
    assert model.backend.startswith("scikit-learn")
    assert rank_correlation(model.predict(np.arange(20.0)[:, None]), -np.arange(20.0)) > 0.9


def test_ranks_within_each_group():
    labels, groups = np.array([0.1, 0.9, 0.1, 0.5, 7.0, 7.0]), np.array([0, 0, 0, 0, 3, 3])
    assert ranks(labels, groups) == pytest.approx([1 / 6, 1.0, 1 / 6, 2 / 3, 0.5, 0.5])
    assert ranks(np.ones(1), np.zeros(1, dtype=np.int64)).tolist() == [0.0]


def test_labels_are_throughput_within_each_group():
    seconds = np.array([2.0, 4.0, np.inf, 30.0, 10.0, np.inf])
    groups = np.array([0, 0, 0, 7, 7, 9])
    assert throughput(seconds, groups).tolist() == [1.0, 0.5, 0.0, 10 / 30, 1.0, 0.0]
    assert throughput(np.empty(0), np.empty(0, dtype=np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features": np.zeros((5, 3))}, r"features have shape \[5, 3\], the model has 2 features"),
        ({"features": np.full((5, 2), np.nan)}, "feature 'a' of row 0 is nan"),
        ({"features": [["x", "y"]]}, "not a matrix of numbers"),
        ({"seconds": np.array([1.0, 1.0, 0.0, 1.0, 1.0])}, "seconds of row 2 are 0.0"),
        ({"seconds": np.ones(4)}, r"seconds have shape \[4\], features have 5 rows"),
        ({"groups": np.zeros(5)}, "groups are float64"),
    ],
)
def test_refusals_say_what_is_wrong(change, said):
    data = {"features": np.ones((5, 2)), "seconds": np.ones(5), "groups": np.zeros(5, dtype=np.int64)} | change
    with pytest.raises(UsageError, match=said):
        XGBCostModel(["a", "b"]).fit(**data)


def test_wrong_construction_is_refused():
    with pytest.raises(UsageError, match="occur twice: a"):
        XGBCostModel(["a", "b", "a"])
    with pytest.raises(UsageError, match="at least 1"):
        XGBCostModel(["a"], threads=0)
    with pytest.raises(UsageError, match="not been fitted"):
        XGBCostModel(["a"]).predict(np.ones((1, 1)))


def test_names():
    assert make_model("none", ["a"]) is None
    made = {name: make_model(name, ["a"], seed=1, threads=2) for name in MODELS if name not in ("none", "analytical")}
    assert {name: type(model) for name, model in made.items()} == {
        "xgb": XGBCostModel,
        "xgb-rank": XGBRankCostModel,
        "sklearn": HistGBCostModel,
        "random": RandomCostModel,
    }
    assert all(isinstance(model, CostModel) for model in made.values())
    assert make_model("xgb", ["a"], members=1).feature_names == ("a",)
    with pytest.raises(UsageError, match="did you mean 'xgb'"):
        make_model("xgboost", ["a"])
    with pytest.raises(UsageError, match="regression .* rank"):
        make_model("xgb", ["a"], loss="ranking")
    with pytest.raises(UsageError, match="its options: .*members"):
        make_model("xgb", ["a"], member=1)


def test_rank_correlation():
    values = np.array([1.0, 2.0, 2.0, 5.0])
    assert rank_correlation(values, values**3) == pytest.approx(1.0)
    assert rank_correlation(values, -values) == pytest.approx(-1.0)
    assert rank_correlation(values, np.ones(4)) == 0.0
