"""Ensembles of boosted trees, by XGBoost (the default) or scikit-learn: the cost models that learn.

Either library is imported at the first fit, which takes seconds. Of XGBoost only the public, long-lived interface is
used: `DMatrix`, `train`, `Booster.inplace_predict`, `Booster.get_score`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from autosched.errors import UsageError
from autosched.model.dataset import checked_features, checked_groups, checked_seconds, ranks, throughput
from autosched.model.protocol import FloatArray, IntArray

log = logging.getLogger("autosched.model")

#: name -> what is learnt
LOSSES = {
    "regression": "the throughput itself, by squared error",
    "rank": "which of two candidates of one group is faster",
}
#: Fewer trials than this teach trees nothing.
MIN_ROWS = 4
#: Own trials that halve the weight of the trials that a model was primed with.
HALF_LIFE = 64
#: Share of the rows that a ranker sees, which takes no weights.
SAMPLE = 0.8
#: Boosting rounds of a regressor or ranker; a classifier has half as many.
ROUNDS = 80

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


@dataclass(frozen=True)
class Rows:
    """Trials: features [n, F]; throughput (0: failed), weights and groups [n]."""

    features: FloatArray
    labels: FloatArray
    weights: FloatArray
    groups: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: np.ndarray[Any, Any]) -> Rows:
        return Rows(self.features[chosen], self.labels[chosen], self.weights[chosen], self.groups[chosen])


class XGBoostBooster:
    """Trees by XGBoost. Constructing one imports it: raises ImportError where it is missing."""

    def __init__(self) -> None:
        import xgboost

        self._xgb = xgboost
        self.name: str = f"xgboost {xgboost.__version__}"

    def train(self, rows: Rows, loss: str, seed: int, threads: int) -> Any:
        """One boosted regressor or ranker (a key of `LOSSES`) of rows sorted by group.

        `base_score` is given, because XGBoost's own choice of it has changed between versions. Feature names are not:
        XGBoost forbids some characters in them.
        """
        matrix = self._xgb.DMatrix(rows.features, label=rows.labels, nthread=threads)
        if loss == "rank":
            matrix.set_info(qid=rows.groups)
            matrix.set_weight(rows.weights[np.unique(rows.groups, return_index=True)[1]])  # one for each group
            return self._grow(PAIRS | {"base_score": 0.0}, matrix, ROUNDS, seed, threads)
        matrix.set_weight(rows.weights)
        base = float(np.average(rows.labels, weights=rows.weights))
        return self._grow({"objective": "reg:squarederror", "base_score": base}, matrix, ROUNDS, seed, threads)

    def classify(self, rows: Rows, seed: int, threads: int) -> Any:
        """A classifier of the rows that worked, which some did and some did not."""
        works = (rows.labels > 0).astype(np.float64)
        matrix = self._xgb.DMatrix(rows.features, label=works, weight=rows.weights, nthread=threads)
        share = float(np.clip(np.average(works, weights=rows.weights), 0.01, 0.99))
        return self._grow({"objective": "binary:logistic", "base_score": share}, matrix, ROUNDS // 2, seed, threads)

    def _grow(self, options: dict[str, Any], matrix: Any, rounds: int, seed: int, threads: int) -> Any:
        params = PARAMS | {"seed": seed % 2**31, "nthread": threads} | options
        return self._xgb.train(params, matrix, num_boost_round=rounds)

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n] for float64 [n, F]; of a classifier, the probability of working."""
        del threads  # the trees remember how many they were grown with
        return np.asarray(member.inplace_predict(features), dtype=np.float64)

    def importances(self, member: Any, rows: Rows, seed: int) -> FloatArray:
        """The importance of each column to a regressor or ranker, [F]: the total gain of all splits on it."""
        del seed  # the trees remember their gains
        gains = np.zeros(rows.features.shape[1])
        for column, gain in member.get_score(importance_type="total_gain").items():
            gains[int(column.removeprefix("f"))] = gain
        return gains


class HistGBBooster:
    """The same by scikit-learn. It has no ranker: places in the group are regressed."""

    name = "scikit-learn HistGradientBoosting"

    def train(self, rows: Rows, loss: str, seed: int, threads: int) -> Any:
        """One boosted regressor."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        labels = ranks(rows.labels, rows.groups) if loss == "rank" else rows.labels
        return self._grown(HistGradientBoostingRegressor, rows, labels, ROUNDS, seed, threads)

    def classify(self, rows: Rows, seed: int, threads: int) -> Any:
        """One boosted classifier."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        works = (rows.labels > 0).astype(np.int64)
        return self._grown(HistGradientBoostingClassifier, rows, works, ROUNDS // 2, seed, threads)

    def _grown(self, kind: Any, rows: Rows, labels: Any, rounds: int, seed: int, threads: int) -> Any:
        made = kind(
            max_iter=rounds,
            learning_rate=0.15,
            max_depth=6,
            min_samples_leaf=min(3, max(1, len(rows) // 4)),  # small, because a run has some hundred trials
            max_features=0.6,
            early_stopping=False,
            random_state=seed % 2**31,
        )
        with _limited(threads):
            made.fit(rows.features, labels, sample_weight=rows.weights)
        return made

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n]; of a classifier, the probability of working."""
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


@functools.lru_cache(maxsize=1)
def _pools() -> Any:
    """The thread pools of the libraries that are loaded: finding them takes longer than a prediction."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _limited(threads: int) -> Any:
    return _pools().limit(limits=threads, user_api="openmp")


Booster = XGBoostBooster | HistGBBooster


def xgboost_or_sklearn() -> Booster:
    """XGBoost where it can be imported, else scikit-learn, with a warning."""
    try:
        return XGBoostBooster()
    # Not only ImportError: with a missing OpenMP library XGBoost raises an error of its own.
    except Exception as error:
        booster = HistGBBooster()
        log.warning("cost model: xgboost cannot be imported (%s); using %s instead", error, booster.name)
        return booster


@dataclass(frozen=True)
class _Member:
    """Trees, and the line that makes throughput of what they say."""

    trees: Any
    slope: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class _Fit:
    """The result of a fit. It is replaced as a whole, so that another thread may predict meanwhile."""

    members: tuple[_Member, ...]
    feasible: Any | None
    rows: Rows


class EnsembleModel:
    """Throughput and feasibility, from boosted trees.

    `threads` is 1 unless said otherwise: a fit must not disturb a measurement that is going on. `loss` is `regression`
    (squared error of the throughput) or `rank` (order within a group).
    """

    make_booster: Callable[[], Booster] = staticmethod(xgboost_or_sklearn)

    def __init__(
        self,
        feature_names: Sequence[str],
        *,
        seed: int = 0,
        threads: int = 1,
        members: int = 3,
        loss: str = "regression",
    ):
        if members < 1 or threads < 1:
            raise UsageError(f"members={members}, threads={threads}", asked="cost model", legal="both are at least 1")
        if loss not in LOSSES:
            legal = ", ".join(f"{name} ({what})" for name, what in LOSSES.items())
            raise UsageError(f"loss={loss!r} is none", asked="cost model", legal=legal)
        #: Names of the columns, in order.
        self.feature_names = tuple(feature_names)
        twice = sorted({name for name in self.feature_names if self.feature_names.count(name) > 1})
        if twice:
            raise UsageError(f"feature names occur twice: {', '.join(twice)}", asked="cost model")
        self._seed, self._threads, self._count, self._loss = seed, threads, members, loss
        self._primed = self._own = self._data(
            np.empty((0, len(self.feature_names))), np.empty(0), np.empty(0, dtype=np.int64)
        )
        self._fit: _Fit | None = None

    @functools.cached_property
    def _booster(self) -> Booster:
        return self.make_booster()

    @property
    def ready(self) -> bool:
        """Whether the last fit, or what the model was primed with, had something to learn from."""
        return self._fit is not None

    @property
    def backend(self) -> str:
        """The library that grows the trees."""
        return self._booster.name

    def prime(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Learn from trials of other workloads or devices, given as to `fit`; replaces what an earlier call gave.

        Every later fit includes them, with a weight that halves with each 64 trials of its own. They have groups of
        their own, whatever their numbers are. Raises UsageError as `fit` does.
        """
        primed = self._data(features, seconds, groups)
        made = self._learn(primed, self._own)
        self._primed, self._fit = primed, made

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Learn from float64 [n, F], seconds [n] (`inf` = failed) and groups int64 [n].

        Raises UsageError for data that cannot be used and keeps the earlier fit then. With fewer than 4 rows, no
        feature, or labels that are all equal, the model is not `ready` afterwards, unless it was primed.
        """
        own = self._data(features, seconds, groups)
        made = self._learn(self._primed, own)
        self._own, self._fit = own, made

    def predict(self, features: ArrayLike) -> FloatArray:
        """Throughput relative to the best trial, times the probability of working: float64 [n]. Raises UsageError."""
        return self.predict_with_std(features)[0]

    def predict_with_std(self, features: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation over the members: two float64 [n].

        Raises UsageError when the model is not `ready`, or for features of another width.
        """
        matrix = checked_features(features, self.feature_names)
        fit = self._ready_fit()
        if len(matrix) == 0:
            return np.empty(0), np.empty(0)
        mean, std = np.ones(len(matrix)), np.zeros(len(matrix))
        if fit.members:
            votes = np.stack([m.slope * self._said(m.trees, matrix) + m.offset for m in fit.members])
            mean, std = votes.mean(axis=0), votes.std(axis=0)
        works = self.feasibility(matrix)
        # What is below 0 says "slow": there a small probability must not bring it up to 0.
        return np.where(mean > 0, mean * works, mean), std * works

    def feasibility(self, features: ArrayLike) -> FloatArray:
        """The probability that a candidate builds, runs and is right: float64 [n] in [0, 1]. Raises as `predict`."""
        matrix = checked_features(features, self.feature_names)
        classifier = self._ready_fit().feasible
        return np.ones(len(matrix)) if classifier is None or not len(matrix) else self._said(classifier, matrix)

    def importances(self) -> dict[str, float]:
        """Feature name -> share of what the model learnt of speed, largest first; they add up to 1.

        Empty when the model is not `ready`; all 0 when no feature helped.
        """
        if self._fit is None:
            return {}
        total = np.zeros(len(self.feature_names))
        for member in self._fit.members:
            vote = self._booster.importances(member.trees, self._fit.rows, self._seed)
            total = total + (vote / vote.sum() if vote.sum() > 0 else vote)
        if total.sum() > 0:
            total = total / total.sum()
        order = np.argsort(-total, kind="stable")
        return {self.feature_names[i]: float(total[i]) for i in order}

    def _ready_fit(self) -> _Fit:
        if self._fit is None:
            raise UsageError("it has not been fitted", asked="cost model", legal="ask `ready` before `predict`")
        return self._fit

    def _said(self, trees: Any, matrix: FloatArray) -> FloatArray:
        return np.asarray(self._booster.predict(trees, matrix, self._threads), dtype=np.float64)

    def _data(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> Rows:
        """A copy, checked."""
        matrix = checked_features(features, self.feature_names).copy()
        numbers = checked_groups(groups, len(matrix))
        labels = throughput(checked_seconds(seconds, len(matrix)), numbers)
        return Rows(matrix, labels, np.ones(len(labels)), numbers)

    def _learn(self, primed: Rows, own: Rows) -> _Fit | None:
        """The trees of both; None when there is nothing to learn from."""
        labels = np.concatenate([primed.labels, own.labels])
        if len(labels) < MIN_ROWS or not self.feature_names or np.ptp(labels) == 0:
            return None
        _, others = np.unique(primed.groups, return_inverse=True)
        _, mine = np.unique(own.groups, return_inverse=True)
        groups = np.concatenate([others, mine + len(others)]).astype(np.int64)
        weights = np.concatenate([primed.weights * 2.0 ** (-len(own) / HALF_LIFE), own.weights])
        both = Rows(np.concatenate([primed.features, own.features]), labels, weights, groups)
        everything = both[np.argsort(groups, kind="stable")]
        good = everything.labels > 0
        rows = everything[good]
        some_fail = not good.all() and good.any()
        feasible = self._booster.classify(everything, self._seed, self._threads) if some_fail else None
        members: tuple[_Member, ...] = ()
        if len(rows) >= MIN_ROWS and np.ptp(rows.labels) > 0:
            members = tuple(self._member(rows, self._seed * self._count + number) for number in range(self._count))
        return _Fit(members, feasible, rows)

    def _member(self, rows: Rows, seed: int) -> _Member:
        rng = np.random.default_rng(seed)
        if self._loss == "regression":
            drawn = Rows(rows.features, rows.labels, rows.weights * rng.exponential(size=len(rows)), rows.groups)
            return _Member(self._booster.train(drawn, self._loss, seed, self._threads))
        seen = rows[rng.random(len(rows)) < SAMPLE]
        if len(seen) < MIN_ROWS or np.ptp(seen.labels) == 0:
            seen = rows
        trees = self._booster.train(seen, self._loss, seed, self._threads)
        return _Member(trees, *_line(self._said(trees, rows.features), rows))


def _line(said: FloatArray, rows: Rows) -> tuple[float, float]:
    """Slope and offset of the best line from a ranker's scores, which have no unit, to throughput; it rises."""
    x = said - np.average(said, weights=rows.weights)
    mean = float(np.average(rows.labels, weights=rows.weights))
    spread = float(np.average(x * x, weights=rows.weights))
    slope = float(np.average(x * (rows.labels - mean), weights=rows.weights)) / spread if spread > 0 else 0.0
    slope = max(slope, 1e-6)
    return slope, mean - slope * float(np.average(said, weights=rows.weights))


class XGBCostModel(EnsembleModel):
    """Boosted trees by XGBoost, or by scikit-learn (with a warning) where XGBoost is missing.

    >>> model = XGBCostModel(["tile"])
    >>> tiles = np.arange(20.0)[:, None]
    >>> model.fit(tiles, 1.0 + np.abs(tiles[:, 0] - 7), np.zeros(20, dtype=np.int64))
    >>> int(np.argmax(model.predict(tiles)))
    7
    """


class XGBRankCostModel(XGBCostModel):
    """The same, with a loss that looks at the order of candidates only."""

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, members: int = 3):
        super().__init__(feature_names, seed=seed, threads=threads, members=members, loss="rank")


class HistGBCostModel(EnsembleModel):
    """Boosted trees by scikit-learn; the same interface and labels as `XGBCostModel`."""

    make_booster = HistGBBooster
