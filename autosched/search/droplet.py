"""Coordinate descent with a significance test: one knob at a time, and only steps that are no noise.

It is AutoTVM's `DropletTuner` (tvm/autotvm/tuner/droplet_tuner.py) with four differences: the test is
Welch's on the logarithms of the samples, the start is the best of a few random points and not the
first value of every knob, several sketches are allowed, and a search that has converged starts again.

Source: M. Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling", ACM TACO 21(2), 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import mean

import numpy as np

from autosched.model.protocol import CostModel
from autosched.search.base import PointStrategy, at_least, within
from autosched.search.moves import is_close
from autosched.search.protocol import Candidate, SpaceLike, Trial


class DropletSearch(PointStrategy):
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
        super().__init__(space, seed)
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
        by_chance = self._space_filling(n - len(found))
        self._owed -= len(by_chance)
        found += by_chance
        self._pending.update(found)
        return found

    def _take_in(self, trials: list[Trial]) -> None:
        self._pending.difference_update(trial.candidate for trial in trials)

    def _choose_start(self) -> bool:
        """Start at the best trial that is away from the ends of earlier descents, if there is one."""
        resumed = not self._ends and len(self._history) >= self._initial
        if self._owed > 0 and not resumed:
            return False
        for candidate, _ in self._history.ranked():
            if not any(is_close(candidate, end) for end in self._ends):
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


#: Terms of the continued fraction below; it converges in a few dozen for any number of samples.
TERMS = 300


def faster(one: Sequence[float], other: Sequence[float], p_value: float) -> bool:
    """Whether the times `one` are less than the times `other`, in the mean, significantly.

    Welch's t-test, one-sided, on the logarithms of the times: noise is a share of the time. With
    fewer than two samples of either there is no estimate of the noise, and the means decide alone.

    Source: B. L. Welch, "The Generalization of 'Student's' Problem when Several Different
    Population Variances are Involved", Biometrika 34, 1947.

    >>> faster([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], 0.05)
    True
    >>> faster([1.0, 1.3, 0.8], [1.1, 1.4, 0.9], 0.05)
    False
    """
    a, b = np.log(np.asarray(one, dtype=np.float64)), np.log(np.asarray(other, dtype=np.float64))
    gap = float(b.mean() - a.mean())
    if gap <= 0 or len(a) < 2 or len(b) < 2:
        return gap > 0
    u, v = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if u + v == 0:
        return True
    freedom = (u + v) ** 2 / (u**2 / (len(a) - 1) + v**2 / (len(b) - 1))
    return t_tail(gap / math.sqrt(u + v), freedom) <= p_value


def t_tail(t: float, freedom: float) -> float:
    """P(T > t) for t >= 0 and Student's T with so many degrees of freedom.

    Half the regularised incomplete beta function I_x(freedom / 2, 1 / 2) at x = freedom / (freedom + t^2).
    """
    x = freedom / (freedom + t * t)
    return 0.5 * _incomplete_beta(freedom / 2, 0.5, x)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) by its continued fraction (W. H. Press et al., Numerical Recipes, 3rd ed., section 6.4)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there it converges slowly, and its mirror image fast
        return 1.0 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-12:
            break
    return front * fraction
