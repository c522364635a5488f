"""Random points that cover a space evenly: all sketches, all values of each knob."""

from __future__ import annotations

import numpy as np

from autosched.search.moves import spread
from autosched.search.points import Points
from autosched.search.protocol import Candidate

__all__ = ["Scatter"]


class Scatter:
    """Draws random points, the sketches in equal shares, the values of a knob in equal shares.

    Uniform points would nearly all be of the largest sketch. What was drawn before counts.
    """

    def __init__(self, points: Points, rng: np.random.Generator) -> None:
        self._points, self._rng = points, rng
        self._used = [[np.zeros(r, dtype=np.int64) for r in p.radices.tolist()] for p in points.sketches]

    def take(self, n: int) -> list[Candidate]:
        """Up to `n` points, marked as seen; at least one if any is left and n > 0.

        Fewer than `n` where feasible points are rare: a sketch must not slow each round down.
        """
        found: list[Candidate] = []
        before = -1
        while before < len(found) < n:
            before = len(found)
            for number, share in enumerate(self._points.shares(n - before, self._rng)):
                points = self._points.sketches[number]
                rows = points.find(8 * share, self._rng)
                best = spread(rows, share, self._used[number])
                found += self._points.mark([Candidate(number, tuple(rows[i].tolist())) for i in best])
        # An empty answer means that nothing is left, so make sure of it.
        return found if found or n < 1 else self._points.take(1, self._rng)
