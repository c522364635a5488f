"""How often to call, how many samples to take, and which readings of a clock to believe."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["SLOW_FACTOR", "ClockError", "calibrate", "check_time", "next_number", "take_samples"]

#: A candidate whose first sample is this much slower than the best gets no more samples.
SLOW_FACTOR = 3.0

_GROWTH = 100  # the shortest readings are the least reliable: approach the goal in steps
_MAX_NUMBER = 10_000_000


class ClockError(RuntimeError):
    """A time that cannot be: zero, negative, infinite or not a number."""


def check_time(seconds: float) -> float:
    """`seconds`, unless it cannot be the duration of a call. Raises ClockError."""
    seconds = float(seconds)
    if not (math.isfinite(seconds) and seconds > 0):
        raise ClockError(f"the clock measured {seconds!r} s per call")
    return seconds


def next_number(number: int, seconds: float, min_s: float) -> int | None:
    """Calls to try next after `number` calls took `seconds` each; None when that was long enough."""
    if number * seconds >= 0.9 * min_s or number >= _MAX_NUMBER:
        return None
    wanted = math.ceil(1.1 * min_s / seconds)
    return max(number + 1, min(wanted, number * _GROWTH, _MAX_NUMBER))


def calibrate(measure: Callable[[int], float], min_s: float) -> tuple[int, float]:
    """(calls per sample, seconds per call of a sample with as many calls).

    `measure(number)` is seconds per call over `number` calls. Raises ClockError.
    """
    number = 1
    while True:
        seconds = check_time(measure(number))
        following = next_number(number, seconds, min_s)
        if following is None:
            return number, seconds
        number = following


def take_samples(
    measure: Callable[[int], float],
    *,
    number: int,
    repeat: int,
    min_s: float,
    best_s: float | None = None,
    budget_s: float = math.inf,
) -> tuple[list[float], int]:
    """(samples in seconds per call, calls per sample).

    `number` 0 means as many calls as last `min_s`. There is at least one sample and at most
    `repeat`: fewer when the first is more than `SLOW_FACTOR` times `best_s`, and when another one
    would not fit in `budget_s` seconds. Raises ClockError.
    """
    start = time.monotonic()
    if number == 0:
        number, first = calibrate(measure, min_s)
    else:
        first = check_time(measure(number))
    samples = [first]
    if best_s is not None and first > SLOW_FACTOR * best_s:
        return samples, number
    while len(samples) < repeat and time.monotonic() - start + number * samples[-1] <= budget_s:
        samples.append(check_time(measure(number)))
    return samples, number
