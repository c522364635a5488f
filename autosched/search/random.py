"""Random search: every feasible point equally likely, none twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.model.protocol import CostModel
from autosched.search.points import Points
from autosched.search.protocol import Candidate, SpaceLike, Trial

__all__ = ["RandomSearch"]


class RandomSearch:
    """Draws uniformly from the feasible points of all sketches together.

    A sketch weighs as much as it has feasible points. What was measured changes nothing but what
    is left. `model` is not used.
    """

    def __init__(self, space: SpaceLike, *, seed: int = 0, model: CostModel | None = None) -> None:
        del model
        self._points = Points(space)
        self._rng = np.random.default_rng(seed)

    def propose(self, n: int) -> list[Candidate]:
        """Up to `n` random points that are left."""
        return self._points.take(n, self._rng)

    def observe(self, trials: Sequence[Trial]) -> None:
        """Strike the candidates off what is left."""
        self._points.mark(trial.candidate for trial in trials)
