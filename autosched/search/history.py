"""What a strategy has been told: a set of trials, in which the order of arrival leaves no trace."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from autosched.search.protocol import Candidate, Trial

__all__ = ["History"]

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
        """Those that worked, fastest first; equal times are in the order of candidates."""
        if self._ranked_at != self.version:
            self._ranked = sorted((row for row in self.rows() if row[1] < math.inf), key=lambda row: row[1])
            self._ranked_at = self.version
        return list(self._ranked)
