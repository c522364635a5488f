"""What an ensemble asks of a library that grows boosted trees, and the table of losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from autosched.model.protocol import FloatArray, IntArray

__all__ = ["LOSSES", "Booster", "Rows"]

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
