"""How long runs of models take, beside each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

#: seconds for which each is timed, and runs at least
TIMING_S, LEAST = 1.0, 5


def medians(*actions: Callable[[], object]) -> list[float]:
    """The median seconds of each action, called in turns after one call that does not count."""
    taken: list[list[float]] = [[] for _ in actions]
    for action in actions:
        action()
    end = time.perf_counter() + TIMING_S * len(actions)
    while len(taken[0]) < LEAST or time.perf_counter() < end:
        for action, seconds in zip(actions, taken, strict=True):
            begun = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - begun)
    return [statistics.median(seconds) for seconds in taken]
