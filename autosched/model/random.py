"""A cost model that knows nothing: the baseline every other model has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from autosched.model.dataset import checked_features, checked_groups, checked_seconds
from autosched.model.protocol import FloatArray


class RandomCostModel:
    """Scores drawn at random, the same ones for the same seed and sequence of calls.

    It is always `ready`: a strategy that uses it works as with a real model, only blindly.
    """

    ready = True

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1):
        del threads  # part of the constructor that all models share
        self._names = tuple(feature_names)
        self._rng = np.random.default_rng(seed)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._names

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Check the data and learn nothing. Raises UsageError as a real model would."""
        rows = len(checked_features(features, self._names))
        checked_seconds(seconds, rows)
        checked_groups(groups, rows)

    def predict(self, features: ArrayLike) -> FloatArray:
        """Scores in [0, 1), float64 [n]. Raises UsageError for features of another width."""
        return self._rng.random(len(checked_features(features, self._names)))


def no_model(feature_names: Sequence[str], *, seed: int = 0, threads: int = 1) -> None:
    """What the name "none" makes: no model, so that a strategy does without."""
    del feature_names, seed, threads
