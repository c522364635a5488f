"""Types of less than a byte, and floats of a byte, against `ml_dtypes`."""

import ml_dtypes
import numpy as np
import pytest

from autosched import te
from autosched.graph import small

TYPES = [np.dtype(getattr(ml_dtypes, name)) for name in small.NAMES.values()]
FLOATS = [of for of in TYPES if of.name.startswith("float") and not of.name.startswith("float8_e8")]


def numbers(of: str) -> np.ndarray:
    """Numbers of all magnitudes, ties between small floats among them."""
    rng = np.random.default_rng(0)
    wide = rng.standard_normal(2000) * 2.0 ** rng.integers(-30, 30, 2000)
    ties = rng.integers(-600, 600, 2000) * 2.0 ** rng.integers(-14, 8, 2000)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 448, 464, 464.1, 57344, 61440, 61441, 2.0**-10, 1e-40, 3e38]
    with np.errstate(over="ignore"):
        return np.concatenate([wide, ties, special]).astype(of)


def rounded(x: np.ndarray, of: np.dtype, saturate: bool = True, mode: str = "up") -> np.ndarray:
    X = te.placeholder(x.shape, str(x.dtype), name="X")
    Y = te.compute(x.shape, lambda i: small.rounded(X[i], of, saturate, mode), name="Y")
    (found,) = te.reference([X, Y], [x])
    return found


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_the_nearest_value(of: np.dtype, source: str) -> None:
    x = numbers(source)
    with np.errstate(all="ignore"):
        expected = x.astype(of).astype("float32")
        info = ml_dtypes.finfo(of)
        nearest = np.clip(x, float(info.min), float(info.max)).astype(of).astype("float32")
    np.testing.assert_array_equal(rounded(x, of, saturate=False), expected)
    np.testing.assert_array_equal(rounded(x, of), nearest)
    assert not np.signbit(rounded(x, of)[x == 0]).any() or not of.name.endswith("uz")


@pytest.mark.parametrize("of", [t for t in TYPES if not t.name.startswith("float")], ids=str)
def test_integers_keep_their_low_bits(of: np.dtype) -> None:
    x = np.arange(-128, 128).astype("int8")
    np.testing.assert_array_equal(rounded(x, of), small.carried(x.astype(of)))


@pytest.mark.parametrize(
    ("mode", "expected"), [("up", [1, 2, 2, 4]), ("down", [1, 1, 1, 2]), ("nearest", [1, 1, 2, 4])]
)
def test_powers_of_two(mode: str, expected: list[int]) -> None:
    of = np.dtype(ml_dtypes.float8_e8m0fnu)
    x = np.array([1, 1.2, 1.5, 3], "float32")
    np.testing.assert_array_equal(rounded(x, of, True, mode), expected)
    beyond = np.array([np.nan, np.inf, 3e38, 0, 1e-45, 2.0**-127], "float32")
    least = 2.0**-127
    above = np.nan if mode == "nearest" else 2.0**127
    up = np.array([np.nan, 2.0**127, 2.0**127, least, least, least], "float32")
    np.testing.assert_array_equal(rounded(beyond, of, True, mode), up)
    strict = [np.nan, np.nan, above if mode != "up" else np.nan, np.nan, np.nan, least]
    np.testing.assert_array_equal(rounded(beyond, of, False, mode), np.array(strict, "float32"))


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_arrays_there_and_back(of: np.dtype) -> None:
    bits = {"2": 2, "4": 4}.get(of.name.removeprefix("u").removeprefix("int")[:1], 8)
    every = np.arange(1 << bits, dtype="uint8")
    values = every.view(of) if of.name.startswith("float8") else every.astype(of)
    found = small.carried(values)
    assert found.dtype == small.carrier(of).numpy
    np.testing.assert_array_equal(small.returned(found, of).astype("float32"), values.astype("float32"))
