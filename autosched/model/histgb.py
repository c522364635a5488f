"""The cost model where XGBoost is missing: scikit-learn's histogram gradient boosting."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.model.dataset import ranks
from autosched.model.ensemble import EnsembleModel, Rows
from autosched.model.protocol import FloatArray


class HistGBBooster:
    """Trees by scikit-learn, imported at the first fit. It has no ranker: places in the group are regressed."""

    def __init__(self, rounds: int = 80):
        self._rounds = rounds
        self.name = "scikit-learn HistGradientBoosting"

    def train(self, rows: Rows, loss: str, seed: int, threads: int) -> Any:
        """One boosted regressor; its leaves may be small, because a run has some hundred trials."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        regressor = HistGradientBoostingRegressor(**self._options(len(rows), self._rounds, seed))
        with _limited(threads):
            regressor.fit(rows.features, _labels(rows, loss), sample_weight=rows.weights)
        return regressor

    def classify(self, features: FloatArray, works: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        """One boosted classifier."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        classifier = HistGradientBoostingClassifier(**self._options(len(works), self._rounds // 2, seed))
        with _limited(threads):
            classifier.fit(features, works.astype(np.int64), sample_weight=weights)
        return classifier

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n]."""
        with _limited(threads):
            is_classifier = hasattr(member, "predict_proba")
            said = member.predict_proba(features)[:, 1] if is_classifier else member.predict(features)
        return np.asarray(said, dtype=np.float64)

    def importances(self, member: Any, rows: Rows, seed: int) -> FloatArray:
        """The loss of accuracy when a column is shuffled: this regressor keeps no gains."""
        from sklearn.inspection import permutation_importance

        with _limited(1):
            result = permutation_importance(member, rows.features, rows.labels, n_repeats=3, random_state=seed % 2**31)
        return np.maximum(np.asarray(result.importances_mean, dtype=np.float64), 0.0)

    def _options(self, rows: int, rounds: int, seed: int) -> dict[str, Any]:
        return {
            "max_iter": rounds,
            "learning_rate": 0.15,
            "max_depth": 6,
            "min_samples_leaf": min(3, max(1, rows // 4)),
            "max_features": 0.6,
            "early_stopping": False,
            "random_state": seed % 2**31,
        }


@functools.lru_cache(maxsize=1)
def _pools() -> Any:
    """The thread pools of the libraries that are loaded: finding them takes longer than a prediction."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _limited(threads: int) -> Any:
    return _pools().limit(limits=threads, user_api="openmp")


def _labels(rows: Rows, loss: str) -> FloatArray:
    return ranks(rows.labels, rows.groups) if loss == "rank" else rows.labels


class HistGBCostModel(EnsembleModel):
    """Boosted trees by scikit-learn; the same interface and labels as `XGBCostModel`."""

    def __init__(
        self,
        feature_names: Sequence[str],
        *,
        seed: int = 0,
        threads: int = 1,
        members: int = 3,
        loss: str = "regression",
    ):
        super().__init__(feature_names, HistGBBooster(), seed=seed, threads=threads, members=members, loss=loss)
