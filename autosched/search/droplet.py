"""Coordinate descent with a significance test: one knob at a time, and only steps that are no noise.

It is AutoTVM's `DropletTuner` (tvm/autotvm/tuner/droplet_tuner.py) with four differences: the test is
Welch's on the logarithms of the samples, the start is the best of a few random points and not the
first value of every knob, several sketches are allowed, and a search that has converged starts again.

Source: M. Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling", ACM TACO 21(2), 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

import numpy as np

from autosched.model.protocol import CostModel
from autosched.search.history import History
from autosched.search.options import at_least, within
from autosched.search.points import Points
from autosched.search.protocol import Candidate, SpaceLike, Trial
from autosched.search.scatter import Scatter
from autosched.search.significance import faster

__all__ = ["DropletSearch"]


class DropletSearch:
    """Goes to the best neighbour of where it is, as long as that is significantly faster.

    `initial`  random points before the first descent, which starts from the best of them. Each
               later descent starts from the best trial that is away from where others ended, after
               half as many random points.
    `p_value`  a neighbour is faster if its samples would be as good by chance this rarely.
    `reach`    how far along a knob, in values, points are tried on speculation when the nearest
               ones do not fill a batch.

    `model` is not used. Raises UsageError for an option out of range.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        initial: int = 16,
        p_value: float = 0.05,
        reach: int = 3,
    ) -> None:
        del model
        at_least("droplet", 1, initial=initial, reach=reach)
        within("droplet", 0, 1, p_value=p_value)
        self._initial, self._p_value, self._reach = initial, p_value, reach
        self._rng = np.random.default_rng(seed)
        self._points = Points(space)
        self._history = History()
        self._scatter = Scatter(self._points, self._rng)
        self._at: Candidate | None = None
        self._ends: list[Candidate] = []  # where descents ended
        self._owed = initial  # random points to try before the next descent
        self._pending: set[Candidate] = set()

    def propose(self, n: int) -> list[Candidate]:
        """Up to `n` points: what is near where the descent is, nearest first, then random ones."""
        found: list[Candidate] = []
        while len(found) < n and (self._at is not None or self._choose_start()):
            self._descend()
            found += self._near(n - len(found))
            if len(found) < n and not self._end():
                break
        by_chance = self._scatter.take(n - len(found))
        self._owed -= len(by_chance)
        found += by_chance
        self._pending.update(found)
        return found

    def observe(self, trials: Sequence[Trial]) -> None:
        """Learn from trials; those that are not points of this space are ignored."""
        known = [trial for trial in trials if self._points.valid(trial.candidate)]
        self._pending.difference_update(self._points.mark(trial.candidate for trial in known))
        self._history.add(known)

    def _choose_start(self) -> bool:
        """Start at the best trial that is away from the ends of earlier descents, if there is one."""
        resumed = not self._ends and len(self._history) >= self._initial
        if self._owed > 0 and not resumed:
            return False
        for candidate, _ in self._history.ranked():
            if not any(_is_close(candidate, end) for end in self._ends):
                self._at = candidate
                return True
        return False

    def _descend(self) -> None:
        """Move through known points to one that has no known neighbour that is faster."""
        better: Candidate | None = self._at
        while better is not None:
            self._at = better
            here = self._history.samples(better)
            around = [(self._history.samples(c), c) for c in self._around(better)]
            steps = [(mean(samples), c) for samples, c in around if samples and faster(samples, here, self._p_value)]
            better = min(steps, default=(0.0, None))[1]

    def _near(self, n: int) -> list[Candidate]:
        """Up to `n` new points around where we are, nearest first."""
        assert self._at is not None
        points = self._points.sketches[self._at.sketch]
        rows = points.fresh(points.as_rows([c.indices for c in self._around(self._at)]))
        return self._points.mark(Candidate(self._at.sketch, tuple(row)) for row in rows[:n].tolist())

    def _end(self) -> bool:
        """End the descent if nothing around is being measured any more; whether it ended."""
        assert self._at is not None
        if any(candidate in self._pending for candidate in self._around(self._at)):
            return False
        self._ends.append(self._at)
        self._at, self._owed = None, self._initial // 2
        return True

    def _around(self, candidate: Candidate) -> Iterator[Candidate]:
        """The points that differ in one knob, by up to `reach` values; the nearest first."""
        at = candidate.indices
        radices = self._points.sketches[candidate.sketch].radices.tolist()
        for distance in range(1, self._reach + 1):
            for knob, radix in enumerate(radices):
                for index in (at[knob] + distance, at[knob] - distance):
                    if 0 <= index < radix:
                        yield Candidate(candidate.sketch, (*at[:knob], index, *at[knob + 1 :]))


def _is_close(one: Candidate, other: Candidate) -> bool:
    """Whether they are of one sketch and differ in one knob at most."""
    return one.sketch == other.sketch and sum(a != b for a, b in zip(one.indices, other.indices, strict=True)) < 2
