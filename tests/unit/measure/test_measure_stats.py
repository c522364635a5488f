from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.measure import judge, significantly_faster
from autosched.measure.stats import median_interval, ratio_interval, speedup_interval
from autosched.noise import typical


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Ranks of the 95 % interval as tables of the sign test give them.
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (15, 4, 12), (20, 6, 15), (25, 8, 18), (50, 18, 33)],
)
def test_ranks_are_those_of_the_tables(count: int, low: int, high: int) -> None:
    values = list(range(1, count + 1))
    assert median_interval(values[::-1]) == (low, high)


def test_too_few_samples_prove_nothing() -> None:
    for count in range(6):
        assert median_interval([1.0] * count) == (0.0, math.inf)
    assert not significantly_faster([1.0] * 5, [9.0] * 5)
    assert significantly_faster([1.0] * 6, [9.0] * 6)
    assert not significantly_faster([1.0] * 6, [9.0] * 6, confidence=0.99)


def test_interval_covers_the_median_as_often_as_it_says() -> None:
    """Skewed noise, as timing has it: most samples near the floor, some far above."""
    rng = np.random.default_rng(7)
    true_median = math.log(2)
    rounds = 2000
    for count in (6, 10, 15, 30):
        hits = 0
        for _ in range(rounds):
            low, high = median_interval(rng.exponential(size=count) + 1e-9)
            hits += low <= true_median <= high
        assert hits / rounds >= 0.94


def test_paired_rounds_cancel_what_they_share() -> None:
    """The machine becomes twice as slow half-way; a 2 % difference is still seen."""
    rng = np.random.default_rng(3)
    weather = np.repeat([1.0, 2.0], 5) * rng.uniform(0.9, 1.1, 10)
    a = weather * rng.normal(1.00, 0.002, 10)
    b = weather * rng.normal(1.02, 0.002, 10)
    assert significantly_faster(a, b) and not significantly_faster(b, a)
    assert not significantly_faster(a, b, min_gain=0.05)
    low, high = ratio_interval(b, a)
    assert 1.01 < low <= high < 1.03


def test_ratio_ignores_rounds_of_one_alone() -> None:
    assert ratio_interval([1.0] * 6 + [99.0], [2.0] * 6) == (0.5, 0.5)
    assert ratio_interval([], [1.0]) == (0.0, math.inf)


def test_equal_candidates_tie_and_the_first_given_wins() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 0.05, 10), rng.normal(1.0, 0.05, 10)
    for samples in ([a, b], [b, a]):
        verdict = judge(samples)
        assert verdict.tied_with_best == (0, 1) == verdict.ranking
        assert verdict.winner == 0


def test_groups() -> None:
    """Two slow ones that tie, two fast ones that tie, one that failed."""
    noise = np.linspace(0.99, 1.01, 11)
    verdict = judge([4 * noise, 2 * noise[::-1], [], 2 * noise, 4 * noise[::-1]])
    assert verdict.groups == ((1, 3), (0, 4))
    assert verdict.ranking == (1, 3, 0, 4)
    assert verdict.tied_with_best == (1, 3)
    assert verdict.medians == pytest.approx((4.0, 2.0, math.inf, 2.0, 4.0))


def test_nobody_ran() -> None:
    for samples in ([], [[], []]):
        verdict = judge(samples)
        assert verdict.ranking == verdict.groups == verdict.tied_with_best == ()
        assert verdict.winner is None


def test_the_same_samples_give_the_same_verdict() -> None:
    rng = np.random.default_rng(11)
    samples = rng.lognormal(0, 0.1, (6, 12)).tolist()
    assert judge(samples) == judge(samples)


@pytest.mark.parametrize("bad", [[1.0, math.nan], [1.0, math.inf], [0.0], [-1.0], [[1.0]]])
def test_impossible_samples(bad: list[float]) -> None:
    with pytest.raises(UsageError, match="finite and positive"):
        median_interval(bad)
    with pytest.raises(UsageError, match="finite and positive"):
        judge([[1.0], bad])


def test_impossible_confidence() -> None:
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(UsageError, match="confidence"):
            median_interval([1.0], confidence)


@pytest.mark.parametrize("candidates", [2, 8])
def test_identical_candidates_rarely_win_by_chance(candidates: int) -> None:
    """A/A under a busy neighbour: each claim of a gain over the default, the first, is a false one."""
    rng = np.random.default_rng(2026)
    false_winners = 0
    runs = 300
    for _ in range(runs):
        neighbour = np.where(rng.random(15) < 0.5, 1.6, 1.0)
        samples = neighbour * rng.lognormal(0, 0.03, (candidates, 15))
        false_winners += judge(samples.tolist()).winner != 0
    assert false_winners / runs <= 0.05


@pytest.mark.parametrize(("candidates", "rounds"), [(2, 6), (8, 9), (30, 11)])
def test_rounds_it_takes_to_see_a_difference(candidates: int, rounds: int) -> None:
    for count, is_seen in [(rounds - 1, False), (rounds, True)]:
        samples = [[1.0] * count, *[[2.0] * count] * (candidates - 1)]
        assert (judge(samples).tied_with_best == (0,)) is is_seen


def test_a_real_gain_is_seen_among_noise() -> None:
    """5 % faster than seven others, noise 1 % and a neighbour that comes and goes: found in most runs."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(100):
        neighbour = np.where(rng.random(15) < 0.5, 1.6, 1.0)
        samples = neighbour * rng.lognormal(0, 0.01, (8, 15))
        samples[5] *= 0.95
        found += judge(samples.tolist()).tied_with_best == (5,)
    assert found >= 95


def busy_machine(rng: np.random.Generator, seconds: list[float], rounds: int = 15) -> list[list[float]]:
    """Samples beside a program that has a core for most of the time: a parallel kernel has both cores, or waits."""
    waits = rng.random((len(seconds), rounds)) < 0.7
    clean = np.array(seconds)[:, None] * rng.lognormal(0, 0.01, waits.shape)
    return np.where(waits, clean + 7.6e-3, clean).tolist()


def test_a_slow_program_does_not_tie_with_fast_ones_whose_samples_have_two_modes() -> None:
    """The first, 22 times slower, waits for nobody; medians of the others say that they are slower than it."""
    wrong = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        samples = [[2.48e-3] * 15, *busy_machine(rng, [0.11e-3, 0.13e-3, 0.2e-3])]
        verdict = judge(samples)
        assert 0 not in verdict.tied_with_best
        assert verdict.medians[verdict.ranking[0]] < 0.15e-3
        wrong += verdict.winner != 1
    assert wrong <= 5


def test_equal_programs_tie_on_a_busy_machine() -> None:
    for seed in range(50):
        assert judge(busy_machine(np.random.default_rng(seed), [1e-3] * 4)).winner == 0


def test_few_rounds_do_not_make_the_fastest_sample_a_proof() -> None:
    assert judge([[3.0] * 3, [1.0] * 3]).winner == 0


def test_the_interval_of_a_speed_up_is_of_samples_that_nothing_disturbed() -> None:
    for seed in range(50):
        default, best = busy_machine(np.random.default_rng(seed), [2e-3, 1e-3])
        low, high = speedup_interval(default, best)
        assert low <= typical(default) / typical(best) <= high
        assert 1.85 < low <= high < 2.15
    quiet = [2.0, 2.02, 2.01, 2.0, 2.03, 2.0], [1.0, 1.01, 1.0, 1.0, 1.02, 1.0]
    low, high = speedup_interval(*quiet)
    assert 1.98 <= low <= 2.0 <= high <= 2.01
    assert speedup_interval([], [1.0]) == (0.0, math.inf)
