from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.measure import verify
from autosched.measure.verify import allowed_error, compare, differing_bytes, poison, sample_positions
from autosched.te.rounding import Rounding


def exact(got: np.ndarray, expected: np.ndarray) -> str:
    return compare(got, expected, 0.0, 0.0)


def test_equal_outputs_say_nothing() -> None:
    for dtype in ("bool", "uint8", "int64", "float16", "float32", "float64"):
        a = np.arange(12).reshape(3, 4).astype(dtype)
        assert exact(a, a.copy()) == ""
    assert exact(np.zeros((0, 3)), np.zeros((0, 3))) == ""
    assert exact(np.array(2.0), np.array(2.0)) == ""


def test_text_names_count_index_and_values() -> None:
    expected = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    got = expected.copy()
    got[1, 2, 3] = 7
    got[2, 0, 0] = 255
    assert exact(got, expected) == (
        "2 of 60 elements differ, first at [1, 2, 3]: got 7, expected 33; largest difference 215"
    )
    assert exact(np.array(1), np.array(2)) == (
        "1 of 1 elements differ, first at []: got 1, expected 2; largest difference 1"
    )


def test_integers_are_exact_even_where_floats_would_round() -> None:
    expected = np.array([2**62], dtype=np.int64)
    assert "1 of 1" in exact(expected + 1, expected)


def test_a_poisoned_bool_is_not_true() -> None:
    expected = np.ones(4, dtype=np.bool_)
    got = expected.copy()
    poison(got, 0)
    assert exact(got, expected).startswith("4 of 4 elements differ, first at [0]: got byte 0xa5, expected True")


def test_float_tolerance_has_two_terms() -> None:
    expected = np.array([0.0, 100.0], dtype=np.float32)
    assert compare(np.array([0.5, 100.9], np.float32), expected, 0.01, 0.5) == ""
    assert "first at [0]" in compare(np.array([0.6, 100.0], np.float32), expected, 0.01, 0.5)
    assert "first at [1]" in compare(np.array([0.0, 101.6], np.float32), expected, 0.01, 0.5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_floats(dtype: str) -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=dtype)
    assert compare(special, special.copy(), 0.1, 0.1) == ""
    assert compare(np.array([-0.0], dtype), np.array([0.0], dtype), 0.0, 0.0) == ""
    for got, expected in [(1.0, np.nan), (np.nan, 1.0), (np.inf, -np.inf), (1.0, np.inf), (np.inf, 1.0)]:
        assert compare(np.array([got], dtype), np.array([expected], dtype), 0.1, 0.1).startswith("1 of 1")


def test_difference_in_a_later_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_CHUNK", 7)
    expected = np.arange(100, dtype=np.float32)
    got = expected.copy()
    got[[20, 50, 99]] += [1, 2, 3]
    assert exact(got, expected) == (
        "3 of 100 elements differ, first at [20]: got 21, expected 20; largest difference 3"
    )
    assert differing_bytes(got, expected) == 3


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63])
def test_one_element_wherever_it_is(dtype: str, size: int) -> None:
    """Eight bytes are compared together, and what is left of them by itself; arrays need not be aligned."""
    expected = np.zeros(size + 1, dtype)[1:]
    assert differing_bytes(expected.copy(), expected) == 0
    for place in range(size):
        got = expected.copy()
        got[place] = 1
        assert differing_bytes(got, expected) == 1
        assert exact(got, expected).startswith(f"1 of {size} elements differ, first at [{place}]")


def test_sampled_comparison_reports_true_positions() -> None:
    expected = np.zeros((10, 10), dtype=np.int32)
    got = expected.copy()
    got[4, 2] = 5
    positions = np.array([0, 42, 99])
    assert compare(got, expected, 0, 0, positions).startswith("1 of 3 sampled elements differ, first at [4, 2]")
    assert compare(got, expected, 0, 0, np.array([0, 41, 99])) == ""


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1_000_000))
def test_sample_positions(size: int) -> None:
    positions = sample_positions(size)
    assert (np.diff(positions) > 0).all()
    assert len(positions) >= min(size, 4096)
    if size:
        assert positions[0] == 0 and positions[-1] == size - 1
        gaps = np.diff(positions)
        assert len(gaps) == 0 or gaps.max() <= max(1, size // 1000)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "float64"])
def test_no_value_survives_both_poisons(dtype: str) -> None:
    """An element that is never written differs from any expected value under one of the two."""
    left, right = np.zeros(4, dtype), np.zeros(4, dtype)
    poison(left, 0)
    poison(right, 1)
    bits = f"u{left.dtype.itemsize}"
    assert (left.view(bits) != right.view(bits)).all()
    for expected in (left, right):
        assert any(compare(got, expected, 1e-2, 1.0) for got in (left, right))


def test_default_tolerances_scale_with_the_output() -> None:
    assert allowed_error(np.array([3, 4]), None, None) == (0.0, 0.0)
    rtol, atol = allowed_error(np.array([1e-6, -2e-6, np.inf, np.nan], np.float32), None, None)
    assert rtol == 1e-4
    assert atol == pytest.approx(2e-11)
    assert allowed_error(np.array([5.0], np.float32), 0.5, 0.25) == (0.5, 0.25)
    assert allowed_error(np.zeros(3), None, None) == (1e-9, 0.0)


def test_tolerances_that_are_given_hold_for_integers_too() -> None:
    expected = np.array([0, 100, -100, 127], np.int8)
    assert allowed_error(expected, 0.25, 2.0) == (0.25, 2.0)
    assert compare(np.array([1, 101, -101, 126], np.int8), expected, 0.0, 1.0) == ""
    assert compare(np.array([1, 101, -101, 125], np.int8), expected, 0.0, 1.0).startswith(
        "1 of 4 elements differ, first at [3]"
    )
    assert compare(np.array([0, 110, -110, 127], np.int8), expected, 0.1, 0.0) == ""
    assert "2 of 4" in compare(np.array([1, 110, -111, 127], np.int8), expected, 0.1, 0.0)
    wide = np.array([2**64 - 1, 0, 5], np.uint64)  # differences that no float and no int64 holds
    assert compare(np.array([2**64 - 2, 1, 4], np.uint64), wide, 0.0, 1.0) == ""
    assert "3 of 3" in compare(np.array([0, 2**64 - 1, 2**63], np.uint64), wide, 0.0, 1.0)
    ends = np.array([-(2**63), 2**63 - 1])
    assert "2 of 2" in compare(ends[::-1].copy(), ends, 0.0, 1.0)
    assert allowed_error(np.array([True]), 1.0, 1.0) == (0.0, 0.0)
    assert compare(np.array([False]), np.array([True]), 1.0, 1.0) != ""


def test_a_rounding_adds_to_the_default_and_not_to_what_is_given() -> None:
    step = Rounding(step=1.0)
    assert allowed_error(np.array([3], np.uint8), None, None, step) == (0.0, 1.0)
    assert allowed_error(np.array([3], np.uint8), None, 0.0, step) == (0.0, 0.0)
    assert allowed_error(np.array([100.0], np.float32), None, None, step) == (1e-4, pytest.approx(1.001))
    assert allowed_error(np.array([True]), None, None, step) == (0.0, 0.0)


def test_infinities_of_either_sign_are_equal_only_where_a_zero_may_be() -> None:
    got, expected = np.array([np.inf, 1.0], "f4"), np.array([-np.inf, 1.0], "f4")
    assert "1 of 2" in compare(got, expected, 1e-4, 0.0)
    free = Rounding(either_sign=True)
    assert compare(got, expected, 1e-4, 0.0, rounding=free) == ""
    assert "1 of 2" in compare(np.array([1e38, 1.0], "f4"), expected, 1e-4, 0.0, rounding=free)


def test_what_the_program_leaves_open_is_said_after_a_difference() -> None:
    told = compare(np.array([1]), np.array([9]), 0.0, 0.0, rounding=Rounding(undecided="a float decides"))
    assert told.endswith(
        "largest difference 8; a float decides: -strict in the target keeps multiply-adds apart; see docs/semantics.md"
    )
