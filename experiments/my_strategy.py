"""An example plug-in: a search strategy of one's own, in a file of one's own.

    python -m autosched tune box_blur --strategy experiments/my_strategy.py:HillClimber

It tries the neighbours of the best point so far, and random points when those are used up. The
contract suite (`autosched.testing.check_strategy`) passes on it; `docs/search.md` explains it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.model import CostModel
from autosched.search import Candidate, SpaceLike, Trial
from autosched.search.points import Points


class HillClimber:
    """One step in one knob from the best; `explore` is the share of random points, in [0, 1]."""

    def __init__(self, space: SpaceLike, *, seed: int = 0, model: CostModel | None = None, explore: float = 0.2):
        del model  # this one does without
        self.points = Points(space)
        self.rng = np.random.default_rng(seed)
        self.explore = explore
        self.best: tuple[float, Candidate] | None = None

    def propose(self, n: int) -> list[Candidate]:
        """Feasible, unseen neighbours of the best point; random points for the rest."""
        found: list[Candidate] = []
        if self.best is not None:
            sketch, at = self.best[1].sketch, np.array(self.best[1].indices, dtype=np.int64)
            points = self.points.sketches[sketch]
            steps = np.concatenate([np.eye(len(at), dtype=np.int64), -np.eye(len(at), dtype=np.int64)])
            near = points.fresh(np.clip(at + steps, 0, points.radices - 1))
            near = self.rng.permutation(near)[: int(n * (1 - self.explore) + self.rng.random())]
            found = self.points.mark(Candidate(sketch, tuple(row)) for row in near.tolist())
        return found + self.points.take(n - len(found), self.rng)

    def observe(self, trials: Sequence[Trial]) -> None:
        """Keep the best; equal times are decided by the candidate, not by who came first."""
        self.points.mark(trial.candidate for trial in trials)
        times = [(trial.seconds, trial.candidate) for trial in trials if trial.ok]
        self.best = min([*times, *([self.best] if self.best else [])], default=None)
