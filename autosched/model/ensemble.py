"""An ensemble of boosted trees: the checks, the labels and the uncertainty that both libraries share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from autosched.errors import UsageError
from autosched.model.dataset import checked_features, checked_groups, checked_seconds, throughput
from autosched.model.protocol import FloatArray, IntArray

#: name -> what is learnt
LOSSES = {
    "regression": "the throughput itself, by squared error",
    "rank": "which of two candidates of one group is faster",
}


@dataclass(frozen=True)
class Rows:
    """What one member learns from: features [n, F], labels, weights and groups [n], sorted by group."""

    features: FloatArray
    labels: FloatArray
    weights: FloatArray
    groups: IntArray

    def __len__(self) -> int:
        return len(self.labels)


class Booster(Protocol):
    """A library that grows boosted trees."""

    @property
    def name(self) -> str:
        """Which library, and which version of it."""

    def train(self, rows: Rows, loss: str, seed: int, threads: int) -> Any:
        """A regressor or a ranker (a key of `LOSSES`)."""

    def classify(self, features: FloatArray, works: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        """A classifier of rows that are 1 or 0, of both of which there are some."""

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Predictions [n] for float64 [n, F]; of a classifier, the probability of 1."""

    def importances(self, member: Any, rows: Rows, seed: int) -> FloatArray:
        """How much each column matters to a regressor or ranker: [F], not negative, any scale."""


#: Fewer trials than this teach trees nothing.
MIN_ROWS = 4
#: Own trials that halve the weight of the trials that a model was primed with.
HALF_LIFE = 64
#: Share of the rows that a ranker sees, which takes no weights.
SAMPLE = 0.8


@dataclass(frozen=True)
class _Data:
    """Trials: features [n, F], throughput [n] (0: failed), groups [n]."""

    features: FloatArray
    labels: FloatArray
    groups: IntArray


@dataclass(frozen=True)
class _Member:
    """Trees, and the line that makes throughput of what they say."""

    trees: Any
    slope: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class _Fit:
    """What a fit made. It is replaced as a whole, so that another thread may predict meanwhile."""

    members: tuple[_Member, ...]
    feasible: Any | None
    rows: Rows


class EnsembleModel:
    """Throughput and feasibility, from boosted trees.

    `threads` is 1 unless said otherwise: a fit must not disturb a measurement that is going on.
    `loss` is `regression` (squared error of the throughput) or `rank` (order within a group).
    """

    def __init__(
        self,
        feature_names: Sequence[str],
        booster: Booster,
        *,
        seed: int,
        threads: int,
        members: int,
        loss: str = "regression",
    ):
        if members < 1 or threads < 1:
            raise UsageError(f"members={members}, threads={threads}", asked="cost model", legal="both are at least 1")
        if loss not in LOSSES:
            legal = ", ".join(f"{name} ({what})" for name, what in LOSSES.items())
            raise UsageError(f"loss={loss!r} is none", asked="cost model", legal=legal)
        self._names = tuple(feature_names)
        if len(set(self._names)) != len(self._names):
            twice = sorted({name for name in self._names if self._names.count(name) > 1})
            raise UsageError(f"feature names occur twice: {', '.join(twice)}", asked="cost model")
        self._booster = booster
        self._seed = seed
        self._threads = threads
        self._count = members
        self._loss = loss
        self._primed = self._data(np.empty((0, len(self._names))), np.empty(0), np.empty(0, dtype=np.int64))
        self._own = self._primed
        self._fit: _Fit | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._names

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

        Every later fit includes them, with a weight that halves with each 64 trials of its own. They have
        groups of their own, whatever their numbers are. Raises UsageError as `fit` does.
        """
        primed = self._data(features, seconds, groups)
        made = self._learn(primed, self._own)
        self._primed, self._fit = primed, made

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Learn from float64 [n, F], seconds [n] (`inf` = failed) and groups int64 [n].

        Raises UsageError for data that cannot be used and keeps the earlier fit then. With fewer
        than 4 rows, no feature, or labels that are all equal, the model is not `ready` afterwards,
        unless it was primed.
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
        matrix = checked_features(features, self._names)
        fit = self._ready_fit()
        if len(matrix) == 0:
            return np.empty(0), np.empty(0)
        mean, std = np.ones(len(matrix)), np.zeros(len(matrix))
        if fit.members:
            votes = np.stack([self._vote(member, matrix) for member in fit.members])
            mean, std = votes.mean(axis=0), votes.std(axis=0)
        works = self._works(fit, matrix)
        # What is below 0 says "slow": there a small probability must not bring it up to 0.
        return np.where(mean > 0, mean * works, mean), std * works

    def feasibility(self, features: ArrayLike) -> FloatArray:
        """The probability that a candidate builds, runs and is right: float64 [n] in [0, 1].

        Raises UsageError as `predict` does.
        """
        matrix = checked_features(features, self._names)
        return self._works(self._ready_fit(), matrix)

    def importances(self) -> dict[str, float]:
        """Feature name -> share of what the model learnt of speed, largest first; they add up to 1.

        Empty when the model is not `ready`; all 0 when no feature helped.
        """
        if self._fit is None:
            return {}
        total = np.zeros(len(self._names))
        for member in self._fit.members:
            vote = self._booster.importances(member.trees, self._fit.rows, self._seed)
            total = total + (vote / vote.sum() if vote.sum() > 0 else vote)
        if total.sum() > 0:
            total = total / total.sum()
        order = np.argsort(-total, kind="stable")
        return {self._names[i]: float(total[i]) for i in order}

    # -- predicting -------------------------------------------------------------------------------
    def _ready_fit(self) -> _Fit:
        if self._fit is None:
            raise UsageError("it has not been fitted", asked="cost model", legal="ask `ready` before `predict`")
        return self._fit

    def _vote(self, member: _Member, matrix: FloatArray) -> FloatArray:
        said = np.asarray(self._booster.predict(member.trees, matrix, self._threads), dtype=np.float64)
        return member.slope * said + member.offset

    def _works(self, fit: _Fit, matrix: FloatArray) -> FloatArray:
        if fit.feasible is None or len(matrix) == 0:
            return np.ones(len(matrix))
        return np.asarray(self._booster.predict(fit.feasible, matrix, self._threads), dtype=np.float64)

    # -- learning ---------------------------------------------------------------------------------
    def _data(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> _Data:
        """A copy, checked."""
        matrix = checked_features(features, self._names).copy()
        numbers = checked_groups(groups, len(matrix))
        return _Data(matrix, throughput(checked_seconds(seconds, len(matrix)), numbers), numbers)

    def _learn(self, primed: _Data, own: _Data) -> _Fit | None:
        """The trees of both; None when there is nothing to learn from."""
        features = np.concatenate([primed.features, own.features])
        labels = np.concatenate([primed.labels, own.labels])
        if len(labels) < MIN_ROWS or not self._names or np.ptp(labels) == 0:
            return None
        _, others = np.unique(primed.groups, return_inverse=True)
        _, mine = np.unique(own.groups, return_inverse=True)
        groups = np.concatenate([others, mine + len(others)]).astype(np.int64)
        discount = 2.0 ** (-len(own.labels) / HALF_LIFE)
        weights = np.concatenate([np.full(len(primed.labels), discount), np.ones(len(own.labels))])
        order = np.argsort(groups, kind="stable")
        everything = Rows(features[order], labels[order], weights[order], groups[order])
        good = everything.labels > 0
        rows = _where(everything, good)
        feasible = None
        if not good.all() and good.any():
            feasible = self._booster.classify(
                everything.features, good.astype(np.float64), everything.weights, self._seed, self._threads
            )
        members: tuple[_Member, ...] = ()
        if len(rows) >= MIN_ROWS and np.ptp(rows.labels) > 0:
            members = tuple(self._member(rows, self._seed * self._count + number) for number in range(self._count))
        return _Fit(members, feasible, rows)

    def _member(self, rows: Rows, seed: int) -> _Member:
        rng = np.random.default_rng(seed)
        if self._loss == "regression":
            weights = rows.weights * rng.exponential(size=len(rows))
            return _Member(
                self._booster.train(
                    Rows(rows.features, rows.labels, weights, rows.groups), self._loss, seed, self._threads
                )
            )
        seen = _where(rows, rng.random(len(rows)) < SAMPLE)
        if len(seen) < MIN_ROWS or np.ptp(seen.labels) == 0:
            seen = rows
        trees = self._booster.train(seen, self._loss, seed, self._threads)
        said = np.asarray(self._booster.predict(trees, rows.features, self._threads), dtype=np.float64)
        return _Member(trees, *_line(said, rows))


def _where(rows: Rows, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Rows:
    return Rows(rows.features[chosen], rows.labels[chosen], rows.weights[chosen], rows.groups[chosen])


def _line(said: FloatArray, rows: Rows) -> tuple[float, float]:
    """Slope and offset of the best line from a ranker's scores, which have no unit, to throughput; it rises."""
    x = said - np.average(said, weights=rows.weights)
    mean = float(np.average(rows.labels, weights=rows.weights))
    spread = float(np.average(x * x, weights=rows.weights))
    slope = float(np.average(x * (rows.labels - mean), weights=rows.weights)) / spread if spread > 0 else 0.0
    slope = max(slope, 1e-6)
    return slope, mean - slope * float(np.average(said, weights=rows.weights))
