"""The cost model where XGBoost is missing: scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.model.ensemble import EnsembleModel
from autosched.model.protocol import FloatArray

__all__ = ["HistGBBooster", "HistGBCostModel"]


class HistGBBooster:
    """Trees by scikit-learn, imported at the first fit."""

    def __init__(self, rounds: int = 80):
        self._rounds = rounds
        self.name = "scikit-learn HistGradientBoostingRegressor"

    def train(self, features: FloatArray, labels: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        """One boosted regressor; its leaves may be small, because a run has some hundred trials."""
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        regressor = HistGradientBoostingRegressor(
            max_iter=self._rounds,
            learning_rate=0.15,
            max_depth=6,
            min_samples_leaf=min(3, max(1, len(labels) // 4)),
            max_features=0.6,
            early_stopping=False,
            random_state=seed % 2**31,
        )
        with threadpool_limits(limits=threads, user_api="openmp"):
            regressor.fit(features, labels, sample_weight=weights)
        return regressor

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n]."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=threads, user_api="openmp"):
            return np.asarray(member.predict(features), dtype=np.float64)

    def importances(self, member: Any, features: FloatArray, labels: FloatArray, seed: int) -> FloatArray:
        """The loss of accuracy when a column is shuffled: this regressor keeps no gains."""
        from sklearn.inspection import permutation_importance

        result = permutation_importance(member, features, labels, n_repeats=3, random_state=seed % 2**31)
        return np.maximum(np.asarray(result.importances_mean, dtype=np.float64), 0.0)


class HistGBCostModel(EnsembleModel):
    """Boosted trees by scikit-learn; the same interface and labels as `XGBCostModel`."""

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, members: int = 3):
        super().__init__(feature_names, HistGBBooster(), seed=seed, threads=threads, members=members)
