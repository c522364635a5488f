"""Cost models that learn nothing: their base, and the one that every other model has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from autosched.model.dataset import checked_features, checked_groups, checked_seconds
from autosched.model.protocol import FloatArray


class UntrainedModel:
    """A model that is always `ready`; `feature_names` are the names of the columns, in order."""

    ready = True

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1):
        del seed, threads  # part of the constructor that all models share
        self.feature_names = tuple(feature_names)

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Check the data and learn nothing. Raises UsageError as a model that learns would."""
        rows = len(checked_features(features, self.feature_names))
        checked_seconds(seconds, rows)
        checked_groups(groups, rows)


class RandomCostModel(UntrainedModel):
    """Scores drawn at random, the same ones for the same seed and sequence of calls."""

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1):
        super().__init__(feature_names)
        self._rng = np.random.default_rng(seed)

    def predict(self, features: ArrayLike) -> FloatArray:
        """Scores in [0, 1), float64 [n]. Raises UsageError for features of another width."""
        return self._rng.random(len(checked_features(features, self.feature_names)))


def no_model(feature_names: Sequence[str], *, seed: int = 0, threads: int = 1) -> None:
    """No model, for the name "none": a strategy does without."""
