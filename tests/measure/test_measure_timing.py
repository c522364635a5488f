from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.measure import timing
from autosched.measure.timing import ClockError, calibrate, check_time, next_number, take_samples


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


@settings(deadline=None)
@given(st.floats(1e-9, 10.0), st.floats(0, 1e-4), st.floats(1e-4, 0.1))
def test_calibrated_sample_lasts_long_enough(seconds: float, overhead: float, min_s: float) -> None:
    clock = Clock(seconds, overhead)
    number, _ = calibrate(clock.measure, min_s)
    assert number == clock.numbers[-1]
    assert number * seconds + overhead >= 0.9 * min_s * 0.999 or number == timing._MAX_NUMBER
    assert clock.now <= 3 * min_s + 2 * seconds + 40 * overhead  # and does not waste time
    assert all(a < b for a, b in zip(clock.numbers, clock.numbers[1:], strict=False))


def test_first_reading_may_be_absurd() -> None:
    """A clock too coarse for one call must not lead to a billion calls at once."""
    assert next_number(1, 1e-15, 0.02) == 100
    assert next_number(1, 1e-3, 0.02) == 22
    assert next_number(1, 0.02, 0.02) is None
    assert next_number(10_000_000, 1e-15, 0.02) is None


def test_all_samples_are_kept() -> None:
    readings = iter([5.0, 3.0, 4.0])
    samples, number = take_samples(lambda n: next(readings), number=7, repeat=3, min_s=0.0)
    assert (samples, number) == ([5.0, 3.0, 4.0], 7)


def test_a_slow_candidate_gets_one_sample() -> None:
    for best, count in [(1.0, 4), (0.34, 4), (0.33, 1), (None, 4)]:
        samples, _ = take_samples(lambda n: 1.0, number=1, repeat=4, min_s=0.0, best_s=best)
        assert len(samples) == count


def test_the_budget_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1.0)
    monkeypatch.setattr(timing.time, "monotonic", clock.monotonic)
    samples, _ = take_samples(clock.measure, number=2, repeat=10, min_s=0.0, budget_s=7.0)
    assert len(samples) == 3  # 6 s; a fourth would end at 8 s
    samples, _ = take_samples(clock.measure, number=2, repeat=10, min_s=0.0, budget_s=0.5)
    assert len(samples) == 1
