"""Samples of times without what disturbed them. Noise only ever adds time: the fastest of many short readings is kept.

On a busy machine, run times have two modes: a thread had its core, or it waited for it for a slice of the scheduler's,
some milliseconds. A mean is of neither mode, a median of the more frequent one.

Samples of two programs that were not taken in turn are compared by their ranks (`chance`).

Sources: T. Hoefler, R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC 2015, section 4;
J. Chen, J. Revels, Robust Benchmarking in Noisy Environments, HPEC 2016, for the minimum as the estimate;
F. Wilcoxon, Individual Comparisons by Ranking Methods, Biometrics Bulletin 1, 1945, for the test of ranks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

#: A sample of this many times the fastest of the same program was disturbed: others differ by some per cent.
DISTURBED = 1.25


def undisturbed(samples: Sequence[float]) -> list[float]:
    """The samples that nothing disturbed, in their order.

    >>> undisturbed([0.18, 7.8, 0.19, 7.9])
    [0.18, 0.19]
    """
    limit = DISTURBED * min(samples, default=0.0)
    return [s for s in samples if s <= limit]


def typical(samples: Sequence[float]) -> float:
    """The median of the samples that nothing disturbed, which is the program's own time. Raises ValueError for none.

    >>> typical([1.0, 1.1, 1.2])
    1.1
    >>> typical([7.8, 0.18, 7.9])
    0.18
    """
    if not samples:
        raise ValueError("there are no samples")
    return statistics.median(undisturbed(samples))


#: Samples of one program that `chance` looks at: more change nothing that matters, and take the square of the time.
_RANKED = 25


def chance(a: Sequence[float], b: Sequence[float]) -> float:
    """The probability that samples of two equally fast programs differ at least so much by chance: an exact rank test.

    It assumes no distribution of the noise. Three samples of each never make it less than 0.1. 1.0 without samples.

    >>> chance([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3])
    0.02857142857142857
    """
    a, b = a[:_RANKED], b[:_RANKED]
    both = sorted([*a, *b])
    # twice the mean rank of each value, so that ties have whole numbers, too
    ranks = {x: 2 * both.index(x) + both.count(x) + 1 for x in set(both)}
    doubled = [ranks[x] for x in both]
    ways = [{0: 1}, *({} for _ in a)]  # number of samples chosen -> sum of their ranks -> ways to choose them
    for rank in doubled:
        for chosen in range(len(a), 0, -1):
            for total, count in ways[chosen - 1].items():
                ways[chosen][total + rank] = ways[chosen].get(total + rank, 0) + count
    usual = len(a) * (len(both) + 1)
    observed = abs(sum(ranks[x] for x in a) - usual)
    return sum(n for total, n in ways[-1].items() if abs(total - usual) >= observed) / math.comb(len(both), len(a))
