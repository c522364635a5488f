"""`PointStrategy`, the base of our strategies, and `History`, the trials that they have observed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from autosched.errors import UsageError
from autosched.search.moves import spread
from autosched.search.points import Points
from autosched.search.protocol import Candidate, SpaceLike, Trial

#: Statuses that say nothing about the candidate: the measuring itself broke down.
UNINFORMATIVE = frozenset({"lost"})


class History:
    """Candidates with their times. Failures have time `inf`.

    Trials finish in whatever order parallel workers please. All that is read from here is sorted
    by time or candidate, so that a search depends on what was measured and not on when.
    """

    def __init__(self) -> None:
        self._times: dict[Candidate, list[float]] = {}
        self._samples: dict[Candidate, list[float]] = {}
        self.version = 0
        self._ranked: list[tuple[Candidate, float]] = []
        self._ranked_at = 0

    def add(self, trials: Iterable[Trial]) -> None:
        """Remember these. A candidate tried more than once has the median of its good times."""
        for trial in trials:
            if trial.status in UNINFORMATIVE:
                continue
            times = self._times.setdefault(trial.candidate, [])
            if trial.ok:
                times.append(trial.seconds)
                self._samples.setdefault(trial.candidate, []).extend(trial.samples or (trial.seconds,))
            self.version += 1

    def __len__(self) -> int:
        return len(self._times)

    def samples(self, candidate: Candidate) -> list[float]:
        """All samples of its good trials in seconds, sorted; none if it failed or is not known."""
        return sorted(self._samples.get(candidate, ()))

    def rows(self) -> list[tuple[Candidate, float]]:
        """All candidates with seconds or `inf`, sorted by candidate."""
        return [(c, statistics.median(t) if t else math.inf) for c, t in sorted(self._times.items())]

    def ranked(self) -> list[tuple[Candidate, float]]:
        """Candidates that worked, fastest first; equal times are in the order of candidates."""
        if self._ranked_at != self.version:
            self._ranked = sorted((row for row in self.rows() if row[1] < math.inf), key=lambda row: row[1])
            self._ranked_at = self.version
        return list(self._ranked)


class PointStrategy:
    """The points that are left, what was told of others, and the random numbers of a seed."""

    def __init__(self, space: SpaceLike, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._points = Points(space)
        self._history = History()
        self._used: list[list[np.ndarray]] | None = None  # how often `_space_filling` chose each value of each knob

    def observe(self, trials: Sequence[Trial]) -> None:
        """Learn from trials; those that are not points of this space are ignored."""
        known = [trial for trial in trials if self._points.valid(trial.candidate)]
        self._points.mark(trial.candidate for trial in known)
        self._history.add(known)
        self._take_in(known)

    def _take_in(self, trials: list[Trial]) -> None:
        """Take note of trials; a hook for strategies."""

    def _by_chance(self, n: int, share: float) -> int:
        """The number of `n` proposals to draw at random: on average, this share of them."""
        return int(n * share + self._rng.random())

    def _space_filling(self, n: int) -> list[Candidate]:
        """Up to `n` random points, marked as seen, that cover the space evenly: the sketches in equal shares, and the
        values of a knob; what was drawn before counts. At least one if any is left and n > 0.

        Uniform points would nearly all be of the largest sketch. Fewer than `n` where feasible points are rare: a
        sketch must not slow each round down.
        """
        if self._used is None:
            self._used = [[np.zeros(r, dtype=np.int64) for r in p.radices.tolist()] for p in self._points.sketches]
        found: list[Candidate] = []
        before = -1
        while before < len(found) < n:
            before = len(found)
            for number, share in enumerate(self._points.shares(n - before, self._rng)):
                points = self._points.sketches[number]
                rows = points.find(8 * self._points.due(points, share), self._rng)
                best = spread(rows, share, self._used[number])
                found += self._points.mark([Candidate(number, tuple(rows[i].tolist())) for i in best])
        # An empty answer means that nothing is left, so make sure of it.
        return found if found or n < 1 else self._points.take(1, self._rng)


def at_least(strategy: str, least: float, **options: float) -> None:
    """Raises UsageError for an option below `least`."""
    for option, value in options.items():
        if not value >= least:
            what = "is negative" if least == 0 else "is not a positive number" if least == 1 else f"is below {least}"
            raise UsageError(f"{option}={value} {what}", asked=f"strategy {strategy!r}", legal=f"{least} or more")


def within(strategy: str, low: float, high: float, **options: float) -> None:
    """Raises UsageError for an option outside [low, high]."""
    for option, value in options.items():
        if not low <= value <= high:
            why, legal = f"{option}={value} is not in [{low}, {high}]", f"{low} to {high}"
            raise UsageError(why, asked=f"strategy {strategy!r}", legal=legal)
