"""The default cost model: gradient-boosted trees by XGBoost.

XGBoost is imported at the first fit (it takes seconds), and only its public, long-lived interface
is used: `DMatrix`, `train`, `Booster.inplace_predict`, `Booster.get_score`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.model.ensemble import Booster, EnsembleModel, Rows
from autosched.model.histgb import HistGBBooster
from autosched.model.protocol import FloatArray

log = logging.getLogger("autosched.model")

#: Small, regularised trees: a run has some hundred trials. Both samplings make members differ.
PARAMS = {
    "tree_method": "hist",
    "max_depth": 4,
    "eta": 0.08,
    "min_child_weight": 1.0,
    "lambda": 1.0,
    "subsample": 0.9,
    "colsample_bynode": 0.6,
    "verbosity": 0,
}
#: Each row is compared with so many others of its group, drawn at random: LambdaMART's pairs without
#: its stress on the first places, which among some hundred noisy times would be stress on luck.
PAIRS = {"objective": "rank:pairwise", "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8}


class XGBoostBooster:
    """Trees by XGBoost. Constructing one imports it: raises ImportError where it is missing."""

    def __init__(self, rounds: int = 80):
        import xgboost

        self._xgb = xgboost
        self._rounds = rounds
        self.name: str = f"xgboost {xgboost.__version__}"

    def train(self, rows: Rows, loss: str, seed: int, threads: int) -> Any:
        """One boosted regressor or ranker.

        `base_score` is given, because XGBoost's own choice of it has changed between versions.
        Feature names are not: XGBoost forbids some characters in them, and we map them ourselves.
        """
        matrix = self._xgb.DMatrix(rows.features, label=rows.labels, nthread=threads)
        if loss == "rank":
            matrix.set_info(qid=rows.groups)
            matrix.set_weight(rows.weights[np.unique(rows.groups, return_index=True)[1]])  # one for each group
            return self._grow(PAIRS | {"base_score": 0.0}, matrix, self._rounds, seed, threads)
        matrix.set_weight(rows.weights)
        base = float(np.average(rows.labels, weights=rows.weights))
        return self._grow({"objective": "reg:squarederror", "base_score": base}, matrix, self._rounds, seed, threads)

    def classify(self, features: FloatArray, works: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        """One boosted classifier."""
        matrix = self._xgb.DMatrix(features, label=works, weight=weights, nthread=threads)
        share = float(np.clip(np.average(works, weights=weights), 0.01, 0.99))
        options = {"objective": "binary:logistic", "base_score": share}
        return self._grow(options, matrix, self._rounds // 2, seed, threads)

    def _grow(self, options: dict[str, Any], matrix: Any, rounds: int, seed: int, threads: int) -> Any:
        params = PARAMS | {"seed": seed % 2**31, "nthread": threads} | options
        return self._xgb.train(params, matrix, num_boost_round=rounds)

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n]."""
        del threads  # the trees remember how many they were grown with
        return np.asarray(member.inplace_predict(features), dtype=np.float64)

    def importances(self, member: Any, rows: Rows, seed: int) -> FloatArray:
        """The total gain of all splits on each column."""
        del seed  # the trees remember their gains
        gains = np.zeros(rows.features.shape[1])
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

    def train(self, rows: Rows, loss: str, seed: int, threads: int) -> Any:
        return self._booster.train(rows, loss, seed, threads)

    def classify(self, features: FloatArray, works: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        return self._booster.classify(features, works, weights, seed, threads)

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        return self._booster.predict(member, features, threads)

    def importances(self, member: Any, rows: Rows, seed: int) -> FloatArray:
        return self._booster.importances(member, rows, seed)


class XGBCostModel(EnsembleModel):
    """Boosted trees by XGBoost, or by scikit-learn (with a warning) where XGBoost is missing.

    >>> import numpy as np
    >>> model = XGBCostModel(["tile"])
    >>> tiles = np.arange(20.0)[:, None]
    >>> model.fit(tiles, 1.0 + np.abs(tiles[:, 0] - 7), np.zeros(20, dtype=np.int64))
    >>> int(np.argmax(model.predict(tiles)))
    7
    """

    def __init__(
        self,
        feature_names: Sequence[str],
        *,
        seed: int = 0,
        threads: int = 1,
        members: int = 3,
        loss: str = "regression",
    ):
        super().__init__(feature_names, _Lazy(), seed=seed, threads=threads, members=members, loss=loss)


class XGBRankCostModel(XGBCostModel):
    """The same, with a loss that looks at the order of candidates only."""

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, members: int = 3):
        super().__init__(feature_names, seed=seed, threads=threads, members=members, loss="rank")
