"""Random search: every feasible point equally likely, none twice."""

from __future__ import annotations

from autosched.model.protocol import CostModel
from autosched.search.base import PointStrategy
from autosched.search.protocol import Candidate, SpaceLike


class RandomSearch(PointStrategy):
    """Draws uniformly from the feasible points of all sketches together.

    A sketch weighs as much as it has feasible points. What was measured changes nothing but what
    is left. `model` is not used.
    """

    def __init__(self, space: SpaceLike, *, seed: int = 0, model: CostModel | None = None) -> None:
        del model
        super().__init__(space, seed)

    def propose(self, n: int) -> list[Candidate]:
        """Up to `n` random points that are left."""
        return self._points.take(n, self._rng)
