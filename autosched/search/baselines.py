"""The baselines: every feasible point in a fixed order, and every one equally likely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from autosched.model.protocol import CostModel, IntArray
from autosched.search.base import PointStrategy
from autosched.search.points import feasible
from autosched.search.protocol import Candidate, SketchLike, SpaceLike, Trial, ValidPointsLike, valid_points_of

#: Rows masked at first and at most in one go. Starting small keeps the first batch cheap; growing
#: gets over long stretches of infeasible points.
FIRST, MOST = 1 << 8, 1 << 16


def lexicographic(radices: Sequence[int]) -> Iterator[IntArray]:
    """All index rows [n, k] in lexicographic order (the last column runs fastest), in chunks.

    Holds one chunk at a time and counts digit by digit, so a space may have more points than an
    int64 can number.
    """
    if any(radix == 0 for radix in radices):
        return
    start = [0] * len(radices)
    size = FIRST
    while True:
        rows = np.empty((size, len(radices)), dtype=np.int64)
        carry = np.arange(size, dtype=np.int64)
        for column in reversed(range(len(radices))):
            carry, rows[:, column] = np.divmod(carry + start[column], radices[column])
        # What is carried out of the first column is past the end.
        rows = rows[carry == 0]
        if len(rows):
            yield rows
        if len(rows) < size:
            return
        overflow = size
        for column in reversed(range(len(radices))):
            overflow, start[column] = divmod(start[column] + overflow, radices[column])
        if overflow:
            return
        size = min(2 * size, MOST)


def _numbered(valid: ValidPointsLike) -> Iterator[IntArray]:
    """All rows [n, k] that have a number, in that order, in chunks."""
    start, size = 0, FIRST
    while start < valid.count:
        yield valid.rows([start + i for i in range(min(size, valid.count - start))])
        start, size = start + size, min(2 * size, MOST)


class GridSearch:
    """Goes through all feasible points; the same ones in the same order whatever the seed.

    Each sketch is scanned lazily; the sketches take turns, one point each. One that numbers its
    valid points is gone through in that order; another first knob slowest. Of that, a call may take
    long where it has billions of infeasible points in a row, as it returns nothing only when all is
    scanned. `seed` and `model` are not used.
    """

    def __init__(self, space: SpaceLike, *, seed: int = 0, model: CostModel | None = None) -> None:
        del seed, model
        self._seen: set[Candidate] = set()
        self._scans = [self._scan(number, sketch) for number, sketch in enumerate(space.sketches)]
        self._turn = 0

    def propose(self, n: int) -> list[Candidate]:
        """The next `n` points, or what is left of them."""
        found: list[Candidate] = []
        while self._scans and len(found) < n:
            self._turn %= len(self._scans)
            candidate = next(self._scans[self._turn], None)
            if candidate is None:
                del self._scans[self._turn]
            else:
                found.append(candidate)
                self._turn += 1
        return found

    def observe(self, trials: Sequence[Trial]) -> None:
        """Leave these out of what is still to come."""
        self._seen.update(trial.candidate for trial in trials)

    def _scan(self, number: int, sketch: SketchLike) -> Iterator[Candidate]:
        # Points come once each by construction; only those observed must be looked up.
        valid = valid_points_of(sketch)
        radices = [len(knob.values) for knob in sketch.knobs]
        for rows in lexicographic(radices) if valid is None else _numbered(valid):
            for row in map(tuple, feasible(sketch, rows).tolist()):
                candidate = Candidate(number, row)
                if candidate not in self._seen:
                    yield candidate


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
