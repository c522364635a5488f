"""The contract of cost models, as a test suite for anyone's model.

With pytest, inherit:

    class TestMine(CostModelContract):
        def make(self, feature_names, *, seed=0):
            return MyModel(feature_names, seed=seed)

Without it, `check_cost_model(MyModel)` returns what failed and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.errors import AutoschedError
from autosched.model.protocol import CostModel, FloatArray, IntArray, ModelFactory, PrimedCostModel
from autosched.testing.contract import check, failures

NAMES = ("tile", "vec", "area", "noise")


class CostModelContract:
    """Inherit, and say in `make` how to construct the model.

    `learns` is False for a model that is not meant to: then only its manners are tested.
    """

    learns = True

    def make(self, feature_names: Sequence[str], *, seed: int = 0) -> CostModel:
        """A model that has learnt nothing."""
        raise NotImplementedError(f"{type(self).__name__}.make must construct the model")

    def fitted(self, rows: int = 120, *, seed: int = 0) -> CostModel:
        """A model that was fitted to the synthetic data set."""
        model = self.make(NAMES, seed=seed)
        model.fit(*_data(rows))
        return model

    def test_feature_names_are_kept(self) -> None:
        """In the order given."""
        check(tuple(self.make(NAMES).feature_names) == NAMES, f"feature_names are {self.make(NAMES).feature_names}")

    def test_not_ready_before_a_fit(self) -> None:
        """And then `predict` raises."""
        if self.learns:
            model = self.make(NAMES)
            check(not model.ready, "ready before any fit")
            _check_refused("predict before a fit", lambda: model.predict(_data(4)[0]))

    def test_predictions_are_scores(self) -> None:
        """float64 [n], finite; for no rows, none."""
        model = self.fitted()
        check(model.ready, "not ready after a fit to 120 good trials")
        for rows in (50, 1, 0):
            _check_scores(model.predict(_data(50)[0][:rows]), rows)

    def test_ranks_unseen_candidates(self) -> None:
        """Higher = faster, on rows that it has not seen."""
        if self.learns:
            features, seconds, _ = _data(200, seed=9)
            found = rank_correlation(self.fitted(200).predict(features), -seconds)
            check(found > 0.7, f"rank correlation with the speed of unseen candidates is {found:.2f}, not above 0.7")

    def test_failures_rank_last(self) -> None:
        """Candidates that failed (seconds inf) are a lesson too."""
        if self.learns:
            features, seconds, groups = _data(200)
            broken = features[:, 0] > 5
            model = self.make(NAMES)
            model.fit(features, np.where(broken, np.inf, seconds), groups)
            fresh = _data(200, seed=9)[0]
            scores, broken = model.predict(fresh), fresh[:, 0] > 5
            check(
                np.median(scores[broken]) < np.median(scores[~broken]),
                "candidates like those that failed score higher than the others",
            )

    def test_failures_do_not_hide_the_fast(self) -> None:
        """Where one in three fails for a reason of its own, those that work are still told apart."""
        if self.learns:
            features, seconds, groups = _data(240)
            model = self.make(NAMES)
            model.fit(features, np.where(features[:, 0] + features[:, 1] > 8, np.inf, seconds), groups)
            fresh, truth, _ = _data(240, seed=9)
            works = fresh[:, 0] + fresh[:, 1] <= 8
            found = rank_correlation(model.predict(fresh[works]), -truth[works])
            check(found > 0.6, f"with failures, the rank correlation is {found:.2f}, not above 0.6")

    def test_primed_with_other_trials(self) -> None:
        """A model that has `prime` is ready with it, ranks, and says other things when its own trials do."""
        model = self.make(NAMES)
        if not (self.learns and isinstance(model, PrimedCostModel)):
            return
        features, seconds, groups = _data(200)
        model.prime(features, seconds * 1000, groups)
        check(model.ready, "not ready after it was primed with 200 good trials")
        fresh, truth, _ = _data(200, seed=9)
        found = rank_correlation(model.predict(fresh), -truth)
        check(found > 0.7, f"primed, the rank correlation is {found:.2f}, not above 0.7")
        model.fit(features[:0], seconds[:0], groups[:0])
        check(model.ready, "a fit without trials lost what it was primed with")
        model.fit(features, 1 / seconds, groups)
        found = rank_correlation(model.predict(fresh), truth)
        check(found > 0.5, f"200 trials to the contrary leave a rank correlation of {found:.2f}, not above 0.5")
        _check_refused("prime with a column too few", lambda: model.prime(features[:, :-1], seconds, groups))
        model.prime(features[:0], seconds[:0], groups[:0])
        model.fit(features[:0], seconds[:0], groups[:0])
        check(not model.ready, "primed with nothing, fitted to nothing, and still ready")

    def test_only_times_of_one_group_are_compared(self) -> None:
        """A workload that takes 1000 times as long is not 1000 times worse."""
        if self.learns:
            features, seconds, groups = _data(200)
            groups = np.arange(200) % 2
            one, other = self.make(NAMES), self.make(NAMES)
            one.fit(features, seconds, groups)
            # A power of two, so that throughputs stay the same to the last bit.
            other.fit(features, np.where(groups == 1, seconds * 1024, seconds), groups)
            probe = _data(50, seed=9)[0]
            check(np.allclose(one.predict(probe), other.predict(probe)), "the unit of a group changed the scores")

    def test_nothing_to_learn_is_no_error(self) -> None:
        """No trial, one, all failed, all equally fast, all alike: no exception, and sane scores if any."""
        features, seconds, groups = _data(40)
        cases = {
            "no trial": (features[:0], seconds[:0], groups[:0]),
            "one trial": (features[:1], seconds[:1], groups[:1]),
            "one failed trial": (features[:1], np.array([np.inf]), groups[:1]),
            "two trials": (features[:2], seconds[:2], groups[:2]),
            "all failed": (features, np.full(40, np.inf), groups),
            "equal times": (features, np.full(40, 1e-3), groups),
            "equal features": (np.ones_like(features), seconds, groups),
            "one row repeated": (features[[0] * 40], seconds, groups),
            "tiny and huge numbers": (features * 1e30, seconds * 1e-12, groups),
        }
        for case, data in cases.items():
            model = self.make(NAMES)
            try:
                model.fit(*data)
                if model.ready:
                    _check_scores(model.predict(features), 40)
            except Exception as error:
                raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error

    def test_no_features(self) -> None:
        """A space may have none."""
        model = self.make(())
        model.fit(np.empty((8, 0)), np.arange(1.0, 9.0), np.zeros(8, dtype=np.int64))
        if model.ready:
            _check_scores(model.predict(np.empty((3, 0))), 3)

    def test_unusable_data_is_refused(self) -> None:
        """And the earlier fit stays."""
        features, seconds, groups = _data(40)
        holed = features.copy()
        holed[3, 1] = np.nan
        endless = features.copy()
        endless[3, 1] = np.inf
        cases = {
            "a feature that is NaN": (holed, seconds, groups),
            "a feature that is infinite": (endless, seconds, groups),
            "a column too few": (features[:, :-1], seconds, groups),
            "a column too many": (np.hstack([features, features[:, :1]]), seconds, groups),
            "a vector for a matrix": (features[:, 0], seconds, groups),
            "times for other rows": (features, seconds[:-1], groups),
            "groups for other rows": (features, seconds, groups[:-1]),
            "a time that is NaN": (features, np.where(np.arange(40) == 2, np.nan, seconds), groups),
            "a negative time": (features, -seconds, groups),
            "a time of zero": (features, seconds * 0, groups),
        }
        for case, data in cases.items():
            model = self.fitted()
            _check_refused(case, lambda model=model, data=data: model.fit(*data))  # type: ignore[misc]
            check(model.ready, f"{case}: the earlier fit was lost")
            _check_scores(model.predict(features), 40)

    def test_predict_refuses_unusable_features(self) -> None:
        """XGBoost would accept too few columns and say nothing."""
        features = _data(40)[0]
        model = self.fitted()
        _check_refused("predict with a column too few", lambda: model.predict(features[:, :-1]))
        _check_refused("predict with a column too many", lambda: model.predict(np.hstack([features, features])))
        _check_refused("predict with NaN", lambda: model.predict(np.full_like(features, np.nan)))

    def test_same_seed_same_scores(self) -> None:
        """Also after a second fit to the same data."""
        features = _data(50, seed=9)[0]
        one, other = self.fitted(seed=4), self.fitted(seed=4)
        check(np.array_equal(one.predict(features), other.predict(features)), "the same seed gave other scores")
        if self.learns:
            before = one.predict(features)
            one.fit(*_data(120))
            check(np.array_equal(one.predict(features), before), "a second fit to the same data gave other scores")

    def test_fit_forgets_and_leaves_its_arguments_alone(self) -> None:
        """A fit starts afresh; matrices given are not changed, and not looked at later."""
        if self.learns:
            features, seconds, groups = _data(120)
            model = self.make(NAMES)
            model.fit(*_data(120, seed=5))
            copies = features.copy(), seconds.copy(), groups.copy()
            model.fit(*copies)
            same = all(np.array_equal(a, b) for a, b in zip(copies, (features, seconds, groups), strict=True))
            check(same, "fit changed its arguments")
            copies[0][:] = 0.0
            probe = _data(50, seed=9)[0]
            check(np.array_equal(model.predict(probe), self.fitted().predict(probe)), "an earlier fit shows through")


def check_cost_model(make: ModelFactory) -> dict[str, str]:
    """Run the whole contract on a model class: name of each failed test -> why. Empty = passed."""

    class Suite(CostModelContract):
        def make(self, feature_names: Sequence[str], *, seed: int = 0) -> CostModel:
            model: CostModel = make(feature_names, seed=seed)
            return model

    return failures(Suite())


def rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Spearman's coefficient in [-1, 1] of two float64 [n]; 0 if either is constant."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)


def _data(rows: int, seed: int = 1) -> tuple[FloatArray, FloatArray, IntArray]:
    """A kernel's time by log2 of tile and vector, their sum, and a column that means nothing."""
    rng = np.random.default_rng(seed)
    tile, vec = rng.integers(0, 9, size=rows).astype(float), rng.integers(0, 5, size=rows).astype(float)
    features = np.stack([tile, vec, tile + vec, rng.random(rows)], axis=1)
    seconds = 1e-3 * (1 + 0.2 * (tile - 4) ** 2 + 0.5 * np.abs(vec - 3) + 0.1 * np.maximum(tile + vec - 8, 0))
    return features, seconds, np.zeros(rows, dtype=np.int64)


def _check_scores(scores: Any, rows: int) -> None:
    shape, kind = getattr(scores, "shape", None), getattr(scores, "dtype", None)
    check(shape == (rows,) and kind == np.float64, f"predict gave shape {shape}, dtype {kind} for {rows} rows")
    check(np.isfinite(scores).all(), "predict gave scores that are not finite")


def _check_refused(case: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except (AutoschedError, ValueError):
        return
    raise AssertionError(f"{case}: accepted without an error")
