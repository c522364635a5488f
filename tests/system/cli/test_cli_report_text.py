from __future__ import annotations

import math

import pytest

from autosched.report import text
from autosched.tuning import Expectation


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.4e-3, "2.40 ms"),
        (4.12345e-4, "412 us"),
        (1.5, "1.50 s"),
        (8.5e-8, "85.0 ns"),
        (9.999e-4, "1.00 ms"),  # rounding decides the unit
        (0.99949, "999 ms"),
        (123.4, "123 s"),
        (5432.1, "5,430 s"),
        (1e-12, "0.00 ns"),
        (0.0, "0 s"),
        (math.inf, "-"),
        (math.nan, "-"),
    ],
)
def test_seconds(value: float, expected: str) -> None:
    assert text.seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(0.0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s")],
        *[(3599.7, "1 h 00 min"), (3780, "1 h 03 min"), (-1, "0.0 s"), (math.inf, "-")],
    ],
)
def test_duration(value: float, expected: str) -> None:
    assert text.duration(value) == expected


def test_counts_and_ratios() -> None:
    assert text.count(16385) == "16,385"
    assert text.count(1_234_567_890_123) == "1.2e+12"
    assert [text.plural(n, "sketch") for n in (0, 1, 2)] == ["0 sketches", "1 sketch", "2 sketches"]
    assert text.plural(1200, "trial") == "1,200 trials"
    assert text.ratio(5.8349) == "5.83x"
    assert text.ratio(math.nan) == text.ratio(math.inf) == text.ratio(0) == "-"


def test_more_time_has_one_line() -> None:
    line = "another 2 min 05 s (310 trials): 1.2 % faster expected (0 to 4 %)"
    assert text.more(Expectation(125.0, 310, 0.012, 0.039)) == line


def test_census_has_the_most_frequent_first_and_no_zeros() -> None:
    assert text.census({"timeout": 3, "compile": 9, "crash": 3, "lost": 0}) == "compile 9, crash 3, timeout 3"
    assert text.census({}) == ""


def test_table_aligns_columns() -> None:
    lines = text.table([("a", "1"), ("long", "200")], ("name", "n"), right=(1,))
    assert lines == ["name    n", "a       1", "long  200"]
    assert text.table([], ("name", "n")) == ["name  n"]
