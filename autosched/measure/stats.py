"""Statistics of interleaved samples: confidence intervals, and the verdict of a play-off.

Samples of a play-off come in rounds, and what disturbs a round disturbs all who run in it. So two
candidates are compared by the ratios of their samples round by round. The interval of the median
ratio comes from order statistics: of n ratios, sorted, the k-th smallest and the k-th largest
enclose the true median with a probability that follows from the binomial distribution alone,
whatever the distribution of the noise. There is nothing random here: the same samples give the same
verdict.

On a machine that does something else, too, samples have two modes, and a median is of either: then ratios prove
nothing, whatever the difference. What disturbs only ever adds time, though (`autosched.noise`). So the fastest samples
are compared as well, where they differ by more than `GAP`, and who has the fastest of all leads.

Source: H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.noise import typical, undisturbed

#: Fastest samples that differ by more than this factor were not taken of programs that are equally fast: samples that
#: nothing disturbed differ by some per cent.
GAP = 1.1

Interval = tuple[float, float]
Samples = Sequence[float] | np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class PlayoffResult:
    """Verdict on candidates 0, 1, ... in the order given.

    ranking:        candidates with samples, best first; within a group of ties in the order given
    groups:         the same, cut where the difference is significant
    medians:        seconds per candidate, of the samples that nothing disturbed; infinite without samples
    tied_with_best: the first group: who has the fastest sample, and all that are not significantly slower
    """

    ranking: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    medians: tuple[float, ...]
    tied_with_best: tuple[int, ...]

    @property
    def winner(self) -> int | None:
        """The first given of those tied with the best; None where nobody has samples."""
        return self.ranking[0] if self.ranking else None


def median_interval(samples: Samples, confidence: float = 0.95) -> Interval:
    """Interval that holds the true median with at least this confidence.

    (0, inf) when there are too few samples for any: fewer than 6 at 95 %.
    Raises UsageError for samples that are not finite and positive.
    """
    values = np.sort(_checked(samples))
    rank = _rank(len(values), confidence)
    if rank == 0:
        return 0.0, math.inf
    return float(values[rank - 1]), float(values[-rank])


def ratio_interval(a: Samples, b: Samples, confidence: float = 0.95) -> Interval:
    """Interval of the median of `a[i] / b[i]`; rounds that only one of them has are left out."""
    rounds = min(len(a), len(b))
    return median_interval(_checked(a[:rounds]) / _checked(b[:rounds]), confidence)


def speedup_interval(a: Samples, b: Samples, confidence: float = 0.95) -> Interval:
    """Interval of how many times as fast `b` is, by the ratios of rounds in which neither was disturbed.

    Where there are too few of those, the samples that nothing disturbed give it by their extremes. It holds the ratio
    of the medians that `judge` gives.

    >>> speedup_interval([2.0, 2.1, 9.0], [1.0, 1.0, 1.0])
    (2.0, 2.1)
    """
    first, second = (_checked(x).tolist() for x in (a, b))
    if not first or not second:
        return 0.0, math.inf
    calm_a, calm_b = undisturbed(first), undisturbed(second)
    rounds = [(x, y) for x, y in zip(first, second, strict=False) if x <= max(calm_a) and y <= max(calm_b)]
    low, high = ratio_interval([x for x, _ in rounds], [y for _, y in rounds], confidence)
    if math.isinf(high):
        low, high = min(calm_a) / max(calm_b), max(calm_a) / min(calm_b)
    ratio = typical(first) / typical(second)
    return min(low, ratio), max(high, ratio)


@dataclass(frozen=True)
class Difference:
    """Whether two programs A and B really differ.

    ratio, interval: the time of B over that of A; the interval holds the true one with 95 % confidence
    faster:          "a" or "b"; empty for a tie: the difference is not significant
    rounds:          samples that both have
    """

    ratio: float
    interval: Interval
    faster: str
    rounds: int

    @property
    def is_open(self) -> bool:
        """Whether there are too few samples for any difference to be significant."""
        return _rank(self.rounds, 0.95) == 0

    def __str__(self) -> str:
        low, high = self.interval
        took = f"B takes {self.ratio:.3g} times the time of A (95 %: {low:.3g} - {high:.3g}, {self.rounds} rounds)"
        return f"{self.faster.upper()} is faster: {took}" if self.faster else f"tie: {took}"


def differ(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The verdict on two programs by their samples, of which those with one number were taken side by side.

    >>> print(differ([1.0, 1.1, 1.0, 1.2, 1.0, 1.1], [2.0, 2.2, 2.0, 2.4, 2.0, 2.2]))
    A is faster: B takes 2 times the time of A (95 %: 2 - 2, 6 rounds)
    """
    interval, ratio = speedup_interval(b, a), typical(b) / typical(a)
    order = judge([a, b])
    is_decided = len(order.tied_with_best) == 1 and not interval[0] <= 1 <= interval[1]
    return Difference(ratio, interval, "ab"[order.ranking[0]] if is_decided else "", min(len(a), len(b)))


def significantly_faster(a: Samples, b: Samples, confidence: float = 0.95, min_gain: float = 0.0) -> bool:
    """Whether `a` takes less time than `b`, by more than `min_gain` (0.02: two per cent) and not by chance.

    >>> significantly_faster([1.0, 1.1, 1.0, 1.2, 1.0, 1.1], [2.0, 2.1, 2.0, 2.2, 2.0, 2.1])
    True
    >>> significantly_faster([1.0, 1.1], [2.0, 2.1])  # two rounds prove nothing
    False
    """
    return ratio_interval(a, b, confidence)[1] < 1.0 - min_gain


def judge(samples: Sequence[Samples], confidence: float = 0.95, min_gain: float = 0.0) -> PlayoffResult:
    """The verdict on `samples[candidate][round]`, as `Measurer.playoff` returns them.

    Candidates without samples are not ranked. Put the default schedule first, and it wins all ties.

    The best of many is best partly by luck, so each of n comparisons is made at a confidence of
    1 - (1 - confidence) / n (Bonferroni): the chance of *any* false claim is what was asked for.
    At 95 % a difference can be seen from 6 rounds on for 2 candidates, from 9 on for 8, and from
    11 on for 30; with more rounds one or two of them may go the other way.
    Raises UsageError for samples that are not finite and positive.
    """
    medians = tuple(typical(_checked(s).tolist()) if len(s) else math.inf for s in samples)
    floors = tuple(float(min(s)) if len(s) else math.inf for s in samples)
    groups: list[tuple[int, ...]] = []
    left = [i for i, s in enumerate(samples) if len(s)]
    strict = 1 - (1 - confidence) / max(1, len(left) - 1)
    while left:
        # Medians decide between those whose fastest samples are about the same.
        floor = min(floors[i] for i in left)
        best = min((i for i in left if floors[i] <= GAP * floor), key=lambda i: (medians[i], i))
        tied = tuple(i for i in left if i == best or not _is_slower(samples[i], samples[best], strict, min_gain))
        groups.append(tied)
        left = [i for i in left if i not in tied]
    return PlayoffResult(
        ranking=tuple(i for group in groups for i in group),
        groups=tuple(groups),
        medians=medians,
        tied_with_best=groups[0] if groups else (),
    )


def _is_slower(a: Samples, b: Samples, confidence: float, min_gain: float) -> bool:
    """Whether `a` takes longer than `b`: by the ratios of rounds, or far longer in the fastest of enough rounds."""
    if significantly_faster(b, a, confidence, min_gain):
        return True
    is_enough = _rank(min(len(a), len(b)), confidence) > 0
    return is_enough and float(np.min(a)) > GAP / (1.0 - min_gain) * float(np.min(b))


def _checked(samples: Samples) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not (np.isfinite(values) & (values > 0)).all():
        raise UsageError("samples must be finite and positive", asked=f"{values.tolist()}"[:200])
    return values


def _rank(count: int, confidence: float) -> int:
    """Largest k such that the k-th smallest and k-th largest of `count` values enclose the median.

    The median lies outside when fewer than k values fall on one side of it, so the confidence is
    1 - 2 P(X < k) for X binomial(count, 1/2). 0 when even the extremes are not enough.
    """
    if not 0 < confidence < 1:
        raise UsageError("confidence must be between 0 and 1", asked=f"confidence={confidence!r}")
    outside, rank = 0, 0
    for k in range(1, count // 2 + 1):
        outside += math.comb(count, k - 1)
        if 2 * outside / 2**count > 1 - confidence:
            break
        rank = k
    return rank
