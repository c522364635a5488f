"""How often to call, how many samples to take, and which readings of a clock to believe.

Samples are taken as in a race against the best time known (`take_samples`): few where a candidate has
clearly lost, more where the ranking is close. This is the idea of successive halving (Jamieson,
Talwalkar, AISTATS 2016) and of racing algorithms (F-race: Birattari et al., GECCO 2002; irace:
Lopez-Ibanez et al., 2016). Those compare means by a test that needs several samples of everybody. The
noise of run times allows less: whatever disturbs a program only ever adds time (Hoefler, Belli,
SC 2015, section 4), so the fastest of a few readings bounds the undisturbed time from above, and the
chance that *all* of them are far off falls with every one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = [
    "HOPELESS",
    "NEAR",
    "SLOWER",
    "ClockError",
    "Samples",
    "calibrate",
    "check_time",
    "has_lost",
    "next_number",
    "take_samples",
]

#: Two readings in a row that are both this many times the best time end the race: chance, or another
#: program, would have to hit both.
SLOWER = 1.5
#: So does a single one of full length that is this many times the best.
HOPELESS = 5.0
#: A candidate whose fastest sample is at most this many times the best gets more of them.
NEAR = 1.05

_GROWTH = 100  # the shortest readings are the least reliable: approach the goal in steps
_MAX_NUMBER = 10_000_000
_FULL = 0.9  # share of `min_s` that a sample lasts, at least
_TRUSTED = 0.1  # share of `min_s` from which on a reading counts in the race


class ClockError(RuntimeError):
    """A time that cannot be: zero, negative, infinite or not a number."""


@dataclass(frozen=True)
class Samples:
    """`seconds` per call of each sample, `number` of calls in one.

    `raced`: the candidate was stopped early. Then `seconds` are the readings that decided it.
    """

    seconds: list[float]
    number: int
    raced: bool = False


def check_time(seconds: float) -> float:
    """`seconds`, unless it cannot be the duration of a call. Raises ClockError."""
    seconds = float(seconds)
    if not (math.isfinite(seconds) and seconds > 0):
        raise ClockError(f"the clock measured {seconds!r} s per call")
    return seconds


def next_number(number: int, seconds: float, min_s: float) -> int | None:
    """Calls to try next after `number` calls took `seconds` each; None when that was long enough."""
    if number * seconds >= _FULL * min_s or number >= _MAX_NUMBER:
        return None
    wanted = math.ceil(1.1 * min_s / seconds)
    return max(number + 1, min(wanted, number * _GROWTH, _MAX_NUMBER))


def calibrate(measure: Callable[[int], float], min_s: float, best_s: float | None = None) -> Samples:
    """The first sample, with as many calls as make it last `min_s`.

    `measure(number)` is seconds per call over `number` calls. With `best_s` the race may end here:
    what looks lost is read once more, no longer than it takes to trust a reading, before a longer one is.
    Raises ClockError.
    """
    number = 1
    while True:
        seconds = check_time(measure(number))
        following = next_number(number, seconds, min_s)
        if following is None:
            return Samples([seconds], number, raced=has_lost([seconds], best_s))
        looks_lost = best_s is not None and seconds > SLOWER * best_s
        if looks_lost and number * seconds >= _TRUSTED * min_s:
            readings = [seconds, check_time(measure(number))]
            if has_lost(readings, best_s):
                return Samples(readings, number, raced=True)
            following = next_number(number, min(readings), min_s) or number
        elif looks_lost:  # a reading just long enough to be trusted will do to be sure
            following = next_number(number, seconds, _TRUSTED * min_s / _FULL) or following
        number = following


def has_lost(readings: Sequence[float], best_s: float | None) -> bool:
    """Whether a candidate with these first readings (seconds per call) is clearly slower than the best.

    >>> has_lost([2.0], best_s=1.0), has_lost([2.0, 1.6], best_s=1.0), has_lost([2.0, 1.4], best_s=1.0)
    (False, True, False)
    """
    if best_s is None or not readings:
        return False
    return min(readings) > (SLOWER if len(readings) > 1 else HOPELESS) * best_s


def take_samples(
    measure: Callable[[int], float],
    *,
    number: int,
    repeat: int,
    min_s: float,
    best_s: float | None = None,
    budget_s: float = math.inf,
) -> Samples:
    """At least one sample and usually `repeat`; `number` 0 means as many calls as last `min_s`.

    With `best_s`, seconds per call of the best so far, samples are taken as in a race: none after
    the candidate `has_lost`, and `2 * repeat + 1` when the fastest is within `NEAR` of the best, or
    better. There are fewer when another would not fit in `budget_s` seconds.
    Raises ClockError.
    """
    start = time.monotonic()
    if number == 0:
        first = calibrate(measure, min_s, best_s)
        number = first.number
    else:
        seconds = check_time(measure(number))
        first = Samples([seconds], number, raced=has_lost([seconds], best_s))
    samples = first.seconds
    if first.raced:
        return first
    while time.monotonic() - start + number * samples[-1] <= budget_s and len(samples) < _wanted(
        samples, repeat, best_s
    ):
        samples.append(check_time(measure(number)))
        if len(samples) == 2 and len(samples) < repeat and has_lost(samples, best_s):
            return Samples(samples, number, raced=True)
    return Samples(samples, number)


def _wanted(samples: Sequence[float], repeat: int, best_s: float | None) -> int:
    """How many samples there should be, by those there are."""
    if best_s is None or len(samples) < repeat:
        return repeat
    return 2 * repeat + 1 if min(samples) <= NEAR * best_s else repeat
