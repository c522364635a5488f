"""A learnt model with a prior: before the first trial the prior alone ranks, and trials take over.

The learnt model sees the prior's verdict as one more feature, so that it need only learn where that is
wrong; and its scores are multiplied by the prior's throughput to the power of 2^(-n / H) after n trials
of the run's own. Scores are throughput up to a factor, on both sides, so no scale has to be guessed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from autosched.model.analytical import AnalyticalModel
from autosched.model.protocol import FloatArray
from autosched.model.trees import EnsembleModel

#: The feature that the prior adds: log2 of the arithmetic a second that it predicts, equal for equal efficiency
#: whatever the shape.
PREDICTED_RATE = "predicted_rate"
#: Own trials that halve the exponent of the prior.
HALF_LIFE = 16
#: Scores of members below this are "slow" and no throughput: multiplied, they would turn the order round.
FLOOR = 0.02


class ModelWithPrior:
    """An ensemble that knows what an analytical model thinks.

    `learnt` has the prior's features and one more, `PREDICTED_RATE`. It is `ready` at once, and takes part in what
    `EnsembleModel` does: trials of others (`prime`), uncertainty, the probability that a candidate works.
    """

    ready = True

    def __init__(self, learnt: EnsembleModel, prior: AnalyticalModel) -> None:
        assert learnt.feature_names == (*prior.feature_names, PREDICTED_RATE)
        self._learnt, self._prior = learnt, prior
        self._arithmetic = prior.feature_names.index("arithmetic")
        self._trials = 0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that it is given: those of the prior."""
        return self._prior.feature_names

    @property
    def backend(self) -> str:
        """The library that grows the trees."""
        return self._learnt.backend

    def prime(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """As `EnsembleModel.prime`."""
        self._learnt.prime(self._wider(features)[0], seconds, groups)

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """As `EnsembleModel.fit`; the more trials, the less the prior counts."""
        matrix, _ = self._wider(features)
        self._learnt.fit(matrix, seconds, groups)
        self._trials = len(matrix)

    def predict(self, features: ArrayLike) -> FloatArray:
        """Throughput up to a factor, times the probability of working: float64 [n]. Raises UsageError."""
        return self.predict_with_std(features)[0]

    def predict_with_std(self, features: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation over the members: two float64 [n]. Raises UsageError for another width."""
        matrix, rate = self._wider(features)
        share = self._share(rate)
        if not self._learnt.ready:
            return share, np.zeros(len(share))
        mean, std = self._learnt.predict_with_std(matrix)
        return np.maximum(mean, FLOOR) * share, std * share

    def feasibility(self, features: ArrayLike) -> FloatArray:
        """As `EnsembleModel.feasibility`; 1 where nothing was learnt yet."""
        matrix, rate = self._wider(features)
        return self._learnt.feasibility(matrix) if self._learnt.ready else np.ones(len(rate))

    def importances(self) -> dict[str, float]:
        """As `EnsembleModel.importances`, with the prior's verdict as `predicted_rate`."""
        return self._learnt.importances()

    def _share(self, speed: FloatArray) -> FloatArray:
        """The prior's factor in scores. Speeds are those of one computation: only their ratios matter."""
        return np.asarray((speed * 1e-3) ** 2.0 ** (-self._trials / HALF_LIFE), dtype=np.float64)

    def _wider(self, features: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The features with the prior's verdict, and that as executions a second."""
        speed = self._prior.predict(features)
        matrix = np.asarray(features, dtype=np.float64)
        return np.column_stack([matrix, matrix[:, self._arithmetic] + np.log2(speed)]), speed
