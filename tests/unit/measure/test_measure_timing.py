from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.measure import timing
from autosched.measure.timing import (
    CLEAR,
    HOPELESS,
    NEAR,
    PIECES,
    SLOWER,
    ClockError,
    Samples,
    Strain,
    check_time,
    fastest,
    has_lost,
    next_number,
    take_samples,
)

ONE_CALL: dict[str, Any] = {"number": 1, "repeat": 3, "min_s": 0.0}


class Clock:
    """A kernel that takes `seconds` per call on a clock of its own."""

    def __init__(self, seconds: float, overhead: float = 0.0) -> None:
        self.seconds, self.overhead = seconds, overhead
        self.numbers: list[int] = []
        self.now = 0.0

    def measure(self, number: int) -> float:
        self.numbers.append(number)
        self.now += number * self.seconds + self.overhead
        return self.seconds + self.overhead / number

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("bad", [0.0, -1e-9, math.nan, math.inf, -math.inf])
def test_impossible_times(bad: float) -> None:
    with pytest.raises(ClockError, match="the clock measured"):
        check_time(bad)
    with pytest.raises(ClockError):
        take_samples(lambda number: bad, number=0, repeat=3, min_s=0.01)
    with pytest.raises(ClockError):
        take_samples(lambda number: bad, number=5, repeat=3, min_s=0.01)


@pytest.mark.parametrize("number", [0, timing.MAX_NUMBER])
def test_a_sample_of_nothing_ends(number: int) -> None:
    clock = Clock(0.0, 3e-8)
    assert fastest(clock.measure, number, 0.1) == (3e-8 / timing.MAX_NUMBER, timing.MAX_NUMBER)
    assert len(clock.numbers) < 200


@settings(deadline=None)
@given(st.floats(1e-9, 10.0), st.floats(0, 1e-6), st.floats(1e-4, 0.1))
def test_a_sample_lasts_long_enough(seconds: float, overhead: float, min_s: float) -> None:
    clock = Clock(seconds, overhead)
    found, number = fastest(clock.measure, 0, min_s)
    assert number == clock.numbers[-1]
    assert number * seconds + overhead >= 0.45 * min_s / PIECES or number == timing.MAX_NUMBER
    assert found == seconds + overhead / number
    assert 0.9 * min_s <= clock.now <= 3 * min_s + 2 * seconds + 40 * overhead  # and does not waste time
    assert clock.numbers == sorted(clock.numbers)


def test_first_reading_may_be_absurd() -> None:
    """A clock too coarse for one call must not lead to a billion calls at once."""
    assert next_number(1, 1e-15, 0.02) == 100
    assert next_number(1, 1e-3, 0.02) == 22
    assert next_number(1, 0.02, 0.02) is None
    assert next_number(10_000_000, 1e-15, 0.02) is None


def test_all_samples_are_kept() -> None:
    readings = iter([5.0, 3.0, 4.0])
    samples = take_samples(lambda n: next(readings), number=7, repeat=3, min_s=0.0)
    assert samples == Samples([5.0, 3.0, 4.0], 7)


@pytest.mark.parametrize(
    ("best", "count", "raced"),
    [
        (None, 4, False),
        (1 / HOPELESS - 0.01, 1, True),  # far behind: one sample
        (1 / HOPELESS + 0.01, 2, True),
        (1 / SLOWER - 0.01, 2, True),  # behind: a second sample says so too
        (1 / SLOWER + 0.01, 2, False),  # two agree
        (1 / NEAR - 0.01, 2, False),
        (1 / NEAR + 0.01, 4, False),  # near the best: as many as are asked for
        (2.0, 4, False),  # a new best
    ],
)
def test_the_nearer_to_the_best_the_more_samples(best: float | None, count: int, raced: bool) -> None:
    samples = take_samples(lambda n: 1.0, number=1, repeat=4, min_s=0.0, best_s=best)
    assert samples == Samples([1.0] * count, 1, raced)


@pytest.mark.parametrize(
    ("best", "readings"),
    [
        (1.0, [1.0, 1.03, 1.005, 1.01]),  # near the best: three agree with the fastest
        (1.0, [1.03, 1.0, 1.02, 1.04, 1.03, 1.02, 1.05]),  # never do, seven is the end
        (1.0, [1.008, 1.0, 1.005]),
        (0.8, [1.03, 1.0, 1.005]),  # behind: two agree
        (0.8, [1.06, 1.03, 1.0]),  # never do, three is the end
    ],
)
def test_samples_are_taken_until_they_agree(best: float, readings: list[float]) -> None:
    clock = iter([*readings, *[1.0] * 9])
    assert take_samples(lambda n: next(clock), **ONE_CALL, best_s=best) == Samples(readings, 1, False)


@dataclass
class Watch:
    """A strain that is known beforehand."""

    is_none: bool


@pytest.mark.parametrize(
    ("behind", "is_none", "count"),
    [
        (CLEAR + 0.01, True, 1),  # nothing disturbed it: it is as slow as it looks
        (CLEAR + 0.01, False, 2),
        (CLEAR - 0.01, True, 2),  # too near to be judged by one sample
        (SLOWER + 0.01, True, 1),
        (SLOWER + 0.01, False, 2),
    ],
)
def test_a_slow_sample_that_nothing_disturbed_needs_no_other(behind: float, is_none: bool, count: int) -> None:
    options = {"number": 0, "repeat": 3, "min_s": 0.02, "best_s": 1e-5 / behind}
    found = take_samples(Clock(1e-5).measure, **options, watch=lambda: cast(Strain, Watch(is_none)))
    assert len(found.seconds) == count


def test_a_sample_of_few_pieces_is_confirmed_though_nothing_disturbed_it() -> None:
    options = {"number": 0, "repeat": 3, "min_s": 0.02, "best_s": 0.01 / (CLEAR + 0.01)}
    found = take_samples(Clock(0.01).measure, **options, watch=lambda: cast(Strain, Watch(True)))
    assert len(found.seconds) == 2


def test_strain_is_none_only_where_no_thread_waits_or_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "waited", lambda: 0.0)
    monkeypatch.setattr(timing, "rests_until", lambda: 0.0)
    before = Strain.now()
    assert before.is_none
    monkeypatch.setattr(timing, "rests_until", lambda: before.at + 0.1)
    assert not before.is_none
    monkeypatch.setattr(timing, "rests_until", lambda: 0.0)
    monkeypatch.setattr(timing, "waited", lambda: 1e9)
    assert not before.is_none


def test_one_sample_near_the_best_is_confirmed_by_another() -> None:
    assert take_samples(lambda n: 1.0, number=1, repeat=1, min_s=0.0, best_s=1.0) == Samples([1.0, 1.0], 1, False)
    assert take_samples(lambda n: 1.0, number=1, repeat=1, min_s=0.0, best_s=0.9) == Samples([1.0], 1, False)


def test_a_disturbed_sample_does_not_end_the_race() -> None:
    for readings in ([4.0, 1.02, 1.01], [1.02, 4.0, 1.01], [1.02, 1.01, 4.0]):
        clock = iter([*readings, *[1.0] * 9])
        found = take_samples(lambda n, clock=clock: next(clock), **ONE_CALL, best_s=1.0)
        assert not found.raced and found.seconds == [*readings, 1.0, 1.0]


def test_a_good_candidate_with_two_bad_samples_gets_more() -> None:
    readings = iter([1.3, 1.0, 1.3, 1.0, 1.0, 1.0, 1.0])
    found = take_samples(lambda n: next(readings), **ONE_CALL, best_s=1.0)
    assert statistics.median(found.seconds) == 1.0


def test_a_hopeless_candidate_costs_a_part_of_a_sample() -> None:
    clock = Clock(1e-5)
    assert take_samples(clock.measure, number=0, repeat=3, min_s=0.02, best_s=1e-6).raced
    assert 0.005 <= clock.now <= 0.006
    clock = Clock(1e-5)
    assert not take_samples(clock.measure, number=0, repeat=3, min_s=0.02, best_s=0.9e-5).raced
    assert clock.now >= 0.036


def test_a_disturbed_first_reading_does_not_decide_how_long_pieces_are() -> None:
    """6 us a call, and the first takes 8 ms, because another program had the core."""
    readings = iter([8e-3])
    found, number = fastest(lambda n: next(readings, 6e-6), 0, 0.02)
    assert (found, number) == (6e-6, 92)


class Slices:
    """A kernel on two cores of which another program has one for half of the time, in slices of 4 ms.

    Both threads run in 0.2 ms; while the other program has the core, all wait at a barrier for the end of its slice.
    """

    def __init__(self, seconds: float, start: float = 0.0) -> None:
        self.seconds, self.now = seconds, start

    def measure(self, number: int) -> float:
        begun = self.now
        for _ in range(number):
            if self.now % 8e-3 >= 4e-3:
                self.now += 8e-3 - self.now % 8e-3
            self.now += self.seconds
        return (self.now - begun) / number


@pytest.mark.parametrize("start", [0.0, 1e-3, 3.9e-3, 5e-3])
def test_samples_beside_another_program_are_those_of_a_quiet_machine(start: float) -> None:
    """A mean over the whole sample is of the other program's slices."""
    kernel = Slices(0.2e-3, start)
    assert kernel.measure(100) > 0.35e-3
    found = take_samples(Slices(0.2e-3, start).measure, number=0, repeat=3, min_s=0.02)
    assert found.seconds == pytest.approx([0.2e-3] * 3)


def test_a_slow_serial_program_does_not_look_faster_than_a_parallel_one_beside_another_program() -> None:
    parallel = take_samples(Slices(6e-6, 4e-3).measure, number=0, repeat=3, min_s=0.02, best_s=2e-5)
    assert not parallel.raced and max(parallel.seconds) < 7e-6


def test_pieces_that_do_not_agree_are_taken_longer() -> None:
    """The fastest piece is alone for a while: the sample goes on until others are like it."""
    readings = iter([1e-3] * 10 + [0.5e-3] + [1e-3] * 12 + [0.5e-3] * 100)
    seen: list[float] = []

    def measure(number: int) -> float:
        seen.append(next(readings))
        return seen[-1]

    assert fastest(measure, 1, 0.02)[0] == 0.5e-3
    assert sum(s == 0.5e-3 for s in seen) == 4 and len(seen) == 26


class Machine:
    """Candidates with known times on a machine that others use too: their stalls only add time."""

    def __init__(self, seed: int, stall_every: float) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.true = 1e-3 * np.exp(np.abs(rng.normal(0, 1.0, 150)))
        self.true[rng.integers(150)] = 0.9e-3
        self.stall_every, self.now = stall_every, 0.0

    def measure(self, i: int, number: int) -> float:
        busy = number * self.true[i] * (1 + 0.01 * self.rng.random())
        stalls = self.rng.exponential(8e-3, self.rng.poisson(busy / self.stall_every)).sum()
        self.now += busy + stalls
        return float((busy + stalls) / number)

    def search(self, race: bool) -> tuple[int, list[int]]:
        """(the winner, the candidates that were stopped)."""
        best, winner, stopped = math.inf, -1, []
        for i in range(len(self.true)):
            known = best if race and winner >= 0 else None
            found = take_samples(partial(self.measure, i), number=0, repeat=3, min_s=0.02, best_s=known)
            if found.raced:
                stopped.append(i)
            seconds = statistics.median(found.seconds)
            if seconds < best:
                best, winner = seconds, i
                assert not found.raced
        return winner, stopped


@pytest.mark.parametrize("stall_every", [0.1, 1.0])
def test_racing_finds_the_same_winner_in_less_time(stall_every: float) -> None:
    shares = []
    right = {True: 0, False: 0}
    for seed in range(20):
        raced, patient = Machine(seed, stall_every), Machine(seed, stall_every)
        winner, stopped = raced.search(race=True)
        right[True] += winner == raced.true.argmin()
        right[False] += patient.search(race=False)[0] == raced.true.argmin()
        assert len(stopped) > 50
        shares.append(raced.now / patient.now)
        seen = np.minimum.accumulate(raced.true)
        assert all(raced.true[i] > seen[i] for i in stopped)
    assert statistics.mean(shares) < 0.7  # of the simulated time
    assert right[True] >= right[False] >= 18 and (right[True] == right[False] == 20 or stall_every < 1)


def test_has_lost_needs_a_best_time() -> None:
    assert not has_lost([1e9, 1e9], None)
    assert not has_lost([], 1.0)


def test_the_budget_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1.0)
    monkeypatch.setattr(timing.time, "monotonic", clock.monotonic)
    samples = take_samples(clock.measure, number=2, repeat=10, min_s=0.0, budget_s=7.0)
    assert len(samples.seconds) == 3  # 6 s; a fourth would end at 8 s
    samples = take_samples(clock.measure, number=2, repeat=10, min_s=0.0, budget_s=0.5)
    assert len(samples.seconds) == 1
