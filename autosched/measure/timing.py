"""Taking samples: calls in a piece, pieces in a sample, samples of a candidate; and the strain of other programs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.runtime.team import rests_until

#: Seconds that threads may wait for CPUs, for each second of a sample that nothing disturbed. On an idle machine nine
#: of ten samples have less than half of it.
QUIET = 0.01
#: Seconds, about, for which another program keeps a core that was taken away.
_SLICE_S = 4e-3


@dataclass(frozen=True)
class Strain:
    """The seconds that all threads of this process together had waited for CPUs at a moment."""

    waited_s: float
    at: float

    @staticmethod
    def now() -> Strain:
        return Strain(waited(), time.monotonic())

    @property
    def is_none(self) -> bool:
        """Whether nothing has disturbed this process since then: no thread waited for a CPU, or rests because it had
        to (`runtime.team`)."""
        return rests_until() <= self.at and self.share() <= QUIET

    def share(self) -> float:
        """Seconds that threads have waited for CPUs since then, for each second that has passed.

        It is 0.5 where one of two threads had a core of its own and the other shared one.
        """
        passed = time.monotonic() - self.at
        return max(0.0, waited() - self.waited_s) / passed if passed > 0 else 0.0


def waited() -> float:
    """Seconds, without those of threads that have ended."""
    total, found = 0, False
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        threads = []
    for thread in threads:
        try:
            total += int(Path("/proc/self/task", thread, "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):  # it ended, or the system keeps no such figures
            continue
        found = True
    if found:
        return total * 1e-9
    try:
        import resource  # which Windows has not
    except ImportError:
        return 0.0
    return _SLICE_S * resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


#: Two samples in a row of this many times the best time end the race: chance, or another program, would have to hit
#: both.
SLOWER = 1.5
#: One sample of this many times the best time ends it, too.
HOPELESS = 5.0
#: A candidate whose fastest sample is at most this many times the best gets more samples, until enough of them agree.
NEAR = 1.05
#: A first sample of more than this many times the best time needs no confirmation where nothing disturbed it: of 279
#: such samples above 1.1 times the best (box blur, layer norm, softmax) 2 were more than that above a later one, by
#: stalls that no counter shows. It was chosen on these samples: with 1.1, 10 that were within 5 % of the best had lost.
CLEAR = 1.2
#: Samples agree with the fastest up to this many times it: more of them would move their median by less than noise.
SAME = 1.01
#: Pieces of a sample where nothing disturbs it and calls are short; the fastest counts.
PIECES = 40
#: A sample may last this many times as long where too few pieces agree on the fastest.
LONGEST = 4.0

_GROWTH = 100  # the shortest readings are the least reliable: approach the goal in steps
MAX_NUMBER = 10_000_000
_FULL = 0.9  # share of its length that a piece, or a sample, lasts at least
_TRUSTED = 0.25  # share of a sample after which it may be over for a hopeless candidate; for one that is slower, twice
_TOO_SHORT = 0.5  # share of its length below which a piece is made longer after all
_SOME = 3  # pieces in a sample that may need no confirmation
_AGREEING = 4  # pieces within `NEAR` of the fastest, or as many as a sample has


class ClockError(RuntimeError):
    """A time that cannot be: zero, negative, infinite or not a number."""


@dataclass(frozen=True)
class Samples:
    """`seconds` per call of each sample, `number` of calls in one piece of it.

    `raced`: the candidate was stopped early. Then `seconds` are the samples that decided it.
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
    if number * seconds >= _FULL * min_s or number >= MAX_NUMBER:
        return None
    wanted = math.ceil(1.1 * min_s / seconds)
    return max(number + 1, min(wanted, number * _GROWTH, MAX_NUMBER))


def fastest(
    measure: Callable[[int], float], number: int, min_s: float, best_s: float | None = None
) -> tuple[float, int]:
    """One sample: seconds per call of its fastest piece, and the calls in a piece.

    `measure(number)` is seconds per call over `number` calls. Pieces are taken until they last `min_s` together and
    some of them agree on the fastest, for `LONGEST * min_s` at most. With `number` 0, the calls in a piece are found
    here: as many as last `min_s / PIECES`. With `best_s`, a sample ends early for a candidate that looks lost.
    Raises ClockError.
    """
    piece_s = min_s / PIECES
    is_fixed, number = number > 0, number or 1
    pieces: list[float] = []
    spent = 0.0
    while True:
        pieces.append(check_time(measure(number)))
        spent += number * pieces[-1]
        found = min(pieces)
        # A first reading that was disturbed made a piece look long enough.
        share = _FULL if len(pieces) == 1 else _TOO_SHORT
        if not is_fixed and number * found < share * piece_s and number < MAX_NUMBER:
            number, pieces = next_number(number, found, piece_s) or number + 1, []
            continue
        if best_s is not None and found > SLOWER * best_s and len(pieces) > 1:
            trusted = _TRUSTED if found > HOPELESS * best_s else 2 * _TRUSTED
            if spent >= trusted * min_s:
                return found, number
        wanted = min(_AGREEING, math.ceil(_FULL * min_s / (number * found)))
        is_nothing = number >= MAX_NUMBER and number * found < _TOO_SHORT * piece_s
        if is_nothing and len(pieces) >= LONGEST * PIECES:  # a computation of nothing never lasts
            return found, number
        if spent >= LONGEST * min_s or (spent >= _FULL * min_s and _agreeing(pieces) >= wanted):
            return found, number


def _agreeing(pieces: Sequence[float]) -> int:
    limit = NEAR * min(pieces)
    return sum(p <= limit for p in pieces)


def has_lost(samples: Sequence[float], best_s: float | None) -> bool:
    """Whether a candidate with these first samples (seconds per call) is clearly slower than the best.

    >>> has_lost([2.0], best_s=1.0), has_lost([2.0, 1.6], best_s=1.0), has_lost([2.0, 1.4], best_s=1.0)
    (False, True, False)
    """
    if best_s is None or not samples:
        return False
    return min(samples) > (SLOWER if len(samples) > 1 else HOPELESS) * best_s


def take_samples(
    measure: Callable[[int], float],
    *,
    number: int,
    repeat: int,
    min_s: float,
    best_s: float | None = None,
    budget_s: float = math.inf,
    watch: Callable[[], Strain] | None = None,
) -> Samples:
    """At least one sample and usually `repeat`, each the fastest of pieces that last `min_s` together.

    number: calls in a piece; 0 finds as many as make it a short part of a sample. With `min_s` 0 a sample is one piece.

    With `best_s`, seconds per call of the best so far, samples are taken as in a race: none after the candidate
    `has_lost`; for one that is within `NEAR` of the best, or better, until `repeat` of them agree, and at most
    `2 * repeat + 1`; for any other until two agree, and at most `repeat`. There are fewer when another would not fit in
    `budget_s` seconds.

    `watch` tells the strain from now on, where that shows whatever may disturb `measure`. One sample that nothing
    disturbed is enough then for a candidate that is clearly behind (`CLEAR`).
    Raises ClockError.
    """
    start, strain = time.monotonic(), None if watch is None else watch()
    seconds, number = fastest(measure, number, min_s, best_s)
    samples = [seconds]
    is_behind = best_s is not None and seconds > CLEAR * best_s and _SOME * number * seconds <= min_s
    if has_lost(samples, best_s) or (is_behind and strain is not None and strain.is_none):
        return Samples(samples, number, raced=True)
    longest = max(time.monotonic() - start, number * seconds)
    while time.monotonic() - start + longest <= budget_s and len(samples) < _wanted(samples, repeat, best_s):
        samples.append(fastest(measure, number, min_s, best_s)[0])
        if len(samples) == 2 and len(samples) < repeat and has_lost(samples, best_s):
            return Samples(samples, number, raced=True)
    return Samples(samples, number)


def _wanted(samples: Sequence[float], repeat: int, best_s: float | None) -> int:
    """The number of samples to take, judged by those there are."""
    if best_s is None:
        return repeat
    is_near = min(samples) <= NEAR * best_s
    enough = max(2, repeat) if is_near else min(2, repeat)
    if sum(s <= SAME * min(samples) for s in samples) >= enough:
        return len(samples)
    return 2 * repeat + 1 if is_near else repeat
