"""Samples without disturbance. Noise only ever adds time, so the fastest of many short readings is the program's own.

On a busy machine, run times have two modes: a thread had its core, or it waited for it for a slice of the scheduler's,
some milliseconds. A mean is of neither mode, a median of the more frequent one.

Sources: T. Hoefler, R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC 2015, section 4;
J. Chen, J. Revels, Robust Benchmarking in Noisy Environments, HPEC 2016, for the minimum as the estimate.
"""

from __future__ import annotations

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
