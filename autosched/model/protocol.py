"""The protocol of cost models: they rank candidates by their features, after having seen some timed ones.

A cost model knows nothing of schedules, devices or files. It gets a matrix of features (one row
for each candidate, one column for each name in `feature_names`) and the seconds that were
measured. Its scores only have to order candidates; their unit is its own business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@runtime_checkable
class CostModel(Protocol):
    """Ranks candidates. Constructed as `Model(feature_names, *, seed=0, threads=1)`."""

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the columns, in order. `fit` and `predict` refuse matrices of another width."""

    @property
    def ready(self) -> bool:
        """Whether `predict` says more than chance: the last fit, or `prime`, had something to learn from."""

    def fit(self, features: FloatArray, seconds: FloatArray, groups: IntArray) -> None:
        """Learn from all trials so far; forgets what an earlier call taught.

        `features` is float64 [n, F], finite. `seconds` is float64 [n]: positive, `inf` for a
        candidate that failed. `groups` is int64 [n]: only seconds of one group are comparable
        (one workload on one device).

        Data that cannot be used (wrong width, NaN, negative times) raises AutoschedError or
        ValueError and leaves the earlier fit in place. Data with nothing to learn from (one
        trial, all failed, all equally fast) raises nothing; the model is then not `ready`.
        """

    def predict(self, features: FloatArray) -> FloatArray:
        """Scores float64 [n], finite, higher = better to try: fast, and likely to work at all.

        Raises when not `ready` or the width is wrong.
        """


@runtime_checkable
class UncertainCostModel(CostModel, Protocol):
    """A cost model that also knows how unsure it is; strategies use it to explore."""

    def predict_with_std(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores as of `predict`, and their standard deviations in the same unit: two float64 [n]."""


@runtime_checkable
class PrimedCostModel(CostModel, Protocol):
    """A cost model that also learns from trials of other shapes, operators and devices."""

    def prime(self, features: FloatArray, seconds: FloatArray, groups: IntArray) -> None:
        """Trials as for `fit`, which every later fit includes or starts from; replaces those of an earlier call.

        Their groups are never those of `fit`, whatever the numbers. The model may be `ready` afterwards.
        """


class ModelFactory(Protocol):
    """A cost-model class, or any callable that makes one."""

    def __call__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1) -> Any:
        """A new model that has learnt nothing."""
