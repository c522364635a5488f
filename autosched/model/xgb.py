"""The default cost model: gradient-boosted trees by XGBoost.

XGBoost is imported at the first fit (it takes seconds), and only its public, long-lived interface
is used: `DMatrix`, `train`, `Booster.predict`, `Booster.get_score`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.model.ensemble import Booster, EnsembleModel
from autosched.model.histgb import HistGBBooster
from autosched.model.protocol import FloatArray

__all__ = ["XGBCostModel", "XGBoostBooster"]

log = logging.getLogger("autosched.model")

#: Small, regularised trees: a run has some hundred trials. Both samplings make members differ.
PARAMS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.15,
    "min_child_weight": 1.0,
    "lambda": 1.0,
    "subsample": 0.9,
    "colsample_bynode": 0.6,
    "verbosity": 0,
}


class XGBoostBooster:
    """Trees by XGBoost. Constructing one imports it: raises ImportError where it is missing."""

    def __init__(self, rounds: int = 80):
        import xgboost

        self._xgb = xgboost
        self._rounds = rounds
        self.name: str = f"xgboost {xgboost.__version__}"

    def train(self, features: FloatArray, labels: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        """One boosted regressor.

        `base_score` is given, because XGBoost's own choice of it has changed between versions.
        Feature names are not: XGBoost forbids some characters in them, and we map them ourselves.
        """
        params = PARAMS | {"seed": seed % 2**31, "nthread": threads, "base_score": float(labels.mean())}
        matrix = self._xgb.DMatrix(features, label=labels, weight=weights, nthread=threads)
        return self._xgb.train(params, matrix, num_boost_round=self._rounds)

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n]."""
        return np.asarray(member.predict(self._xgb.DMatrix(features, nthread=threads)), dtype=np.float64)

    def importances(self, member: Any, features: FloatArray, labels: FloatArray, seed: int) -> FloatArray:
        """The total gain of all splits on each column."""
        del labels, seed  # the trees remember their gains
        gains = np.zeros(features.shape[1])
        for column, gain in member.get_score(importance_type="total_gain").items():
            gains[int(column.removeprefix("f"))] = gain
        return gains


class _Lazy:
    """XGBoost where it can be imported, else scikit-learn; decided at the first fit."""

    @functools.cached_property
    def _booster(self) -> Booster:
        try:
            return XGBoostBooster()
        # Not only ImportError: with a missing OpenMP library XGBoost raises an error of its own.
        except Exception as error:
            booster = HistGBBooster()
            log.warning("cost model: xgboost cannot be imported (%s); using %s instead", error, booster.name)
            return booster

    @property
    def name(self) -> str:
        return self._booster.name

    def train(self, features: FloatArray, labels: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        return self._booster.train(features, labels, weights, seed, threads)

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        return self._booster.predict(member, features, threads)

    def importances(self, member: Any, features: FloatArray, labels: FloatArray, seed: int) -> FloatArray:
        return self._booster.importances(member, features, labels, seed)


class XGBCostModel(EnsembleModel):
    """Boosted trees by XGBoost, or by scikit-learn (with a warning) where XGBoost is missing.

    >>> import numpy as np
    >>> model = XGBCostModel(["tile"])
    >>> tiles = np.arange(20.0)[:, None]
    >>> model.fit(tiles, 1.0 + np.abs(tiles[:, 0] - 7), np.zeros(20, dtype=np.int64))
    >>> int(np.argmax(model.predict(tiles)))
    7
    """

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, members: int = 3):
        super().__init__(feature_names, _Lazy(), seed=seed, threads=threads, members=members)
