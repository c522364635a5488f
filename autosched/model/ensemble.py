"""An ensemble of boosted trees: the checks, the labels and the uncertainty that both libraries share.

Each member sees the same rows with other random weights (the Bayesian bootstrap: Rubin, "The
Bayesian Bootstrap", Annals of Statistics 9, 1981). Where trials are dense the members agree, where
there are none they do not: their spread tells the search where it would learn something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from autosched.errors import UsageError
from autosched.model.dataset import checked_features, checked_groups, checked_seconds, throughput
from autosched.model.protocol import FloatArray

__all__ = ["Booster", "EnsembleModel"]

#: Fewer trials than this teach trees nothing.
MIN_ROWS = 4


class Booster(Protocol):
    """A library that grows boosted trees."""

    @property
    def name(self) -> str:
        """Which library, and which version of it."""

    def train(self, features: FloatArray, labels: FloatArray, weights: FloatArray, seed: int, threads: int) -> Any:
        """A regressor trained on float64 [n, F], [n], [n]."""

    def predict(self, member: Any, features: FloatArray, threads: int) -> FloatArray:
        """Its predictions [n] for float64 [n, F]."""

    def importances(self, member: Any, features: FloatArray, labels: FloatArray, seed: int) -> FloatArray:
        """How much each column matters to it: [F], not negative, any scale."""


class EnsembleModel:
    """Regression on normalised throughput, averaged over a few members.

    `threads` is 1 unless said otherwise: a fit must not disturb a measurement that is going on.
    """

    def __init__(self, feature_names: Sequence[str], booster: Booster, *, seed: int, threads: int, members: int):
        if members < 1 or threads < 1:
            raise UsageError(f"members={members}, threads={threads}", asked="cost model", legal="both are at least 1")
        self._names = tuple(feature_names)
        if len(set(self._names)) != len(self._names):
            twice = sorted({name for name in self._names if self._names.count(name) > 1})
            raise UsageError(f"feature names occur twice: {', '.join(twice)}", asked="cost model")
        self._booster = booster
        self._seed = seed
        self._threads = threads
        self._count = members
        self._members: list[Any] = []
        self._features: FloatArray = np.empty((0, len(self._names)))
        self._labels: FloatArray = np.empty(0)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._names

    @property
    def ready(self) -> bool:
        """Whether the last fit had something to learn from."""
        return bool(self._members)

    @property
    def backend(self) -> str:
        """The library that grows the trees."""
        return self._booster.name

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Learn from float64 [n, F], seconds [n] (`inf` = failed) and groups int64 [n].

        Raises UsageError for data that cannot be used and keeps the earlier fit then. With fewer
        than 4 rows, no feature, or labels that are all equal, the model is not `ready` afterwards.
        """
        matrix = checked_features(features, self._names)
        labels = throughput(checked_seconds(seconds, len(matrix)), checked_groups(groups, len(matrix)))
        if len(matrix) < MIN_ROWS or not self._names or np.ptp(labels) == 0:
            self._members = []
            return
        members = []
        for number in range(self._count):
            seed = self._seed * self._count + number
            weights = np.random.default_rng(seed).exponential(size=len(labels))
            members.append(self._booster.train(matrix, labels, weights, seed, self._threads))
        self._members, self._features, self._labels = members, matrix.copy(), labels

    def predict(self, features: ArrayLike) -> FloatArray:
        """Predicted throughput relative to the best trial, float64 [n]. Raises UsageError."""
        return self.predict_with_std(features)[0]

    def predict_with_std(self, features: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation over the members: two float64 [n].

        Raises UsageError when the model is not `ready`, or for features of another width.
        """
        matrix = checked_features(features, self._names)
        if not self._members:
            raise UsageError("it has not been fitted", asked="cost model", legal="ask `ready` before `predict`")
        if len(matrix) == 0:
            return np.empty(0), np.empty(0)
        votes = np.stack(
            [
                np.asarray(self._booster.predict(member, matrix, self._threads), dtype=np.float64)
                for member in self._members
            ]
        )
        return votes.mean(axis=0), votes.std(axis=0)

    def importances(self) -> dict[str, float]:
        """Feature name -> share of what the model learnt, largest first; they add up to 1.

        Empty when the model is not `ready`; all 0 when no feature helped.
        """
        if not self._members:
            return {}
        votes = [self._booster.importances(m, self._features, self._labels, self._seed) for m in self._members]
        total = np.sum([vote / vote.sum() if vote.sum() > 0 else vote for vote in votes], axis=0)
        if total.sum() > 0:
            total = total / total.sum()
        order = np.argsort(-total, kind="stable")
        return {self._names[i]: float(total[i]) for i in order}
