"""Traced functions compute what NumPy computes: the same types, and the same values as far as rounding allows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from unit.tracing.numpy_cases import BINARY, OF_MATRIX, UNARY, Function

import autosched
from autosched import te
from autosched.errors import UsageTypeError
from autosched.tracing.jit import Jitted
from autosched.tracing.program import described, restored

TYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool")


def by_oracle(f: Function, *args: Any) -> Any:
    """What the traced program of a function computes, by `te.reference`."""
    jitted: Jitted = autosched.jit(f)
    arrays: list[Any] = []
    for a in args:
        described(a, arrays)
    traced = jitted._traced(args, {})
    given = [*(np.asarray(arrays[k]) for k in traced.used), *traced.constants]
    found = te.reference(traced.program.args, given)
    return restored(traced.result, found)


def assert_alike(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, Mapping):
        assert ours.keys() == theirs.keys()
        for k in theirs:
            assert_alike(ours[k], theirs[k])
    elif isinstance(theirs, (tuple, list)):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_alike(a, b)
    else:
        theirs = np.asarray(theirs)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind == "f":
            digits = {2: 5e-3, 4: 2e-5, 8: 1e-12}[theirs.dtype.itemsize]
            np.testing.assert_allclose(ours, theirs, rtol=digits, atol=digits)
        else:
            np.testing.assert_array_equal(ours, theirs)


def compare(f: Function, *args: Any) -> None:
    """Compare with NumPy; what NumPy refuses has to be refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            theirs = f(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in args))
        except (TypeError, OverflowError):
            with pytest.raises((UsageTypeError, TypeError)):
                by_oracle(f, *args)
            return
        assert_alike(by_oracle(f, *args), theirs)


def sample(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if dtype == "uint8" else -3
    return (rng.integers(low, 4, shape) + (rng.random(shape) if dtype.startswith("f") else 0)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, dtype: str) -> None:
    x = sample(dtype, (7,), 1)
    compare(UNARY[name], x + (x == 0).astype(x.dtype) if name == "reciprocal" else x)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, dtype: str) -> None:
    x, y = sample(dtype, (4, 5), 1), sample(dtype, (5,), 2)
    if name.endswith("_shift"):
        y = np.abs(y).astype(y.dtype)
    if dtype in ("int8", "uint8", "int32", "int64") and name in ("float_power", "floor_divide", "remainder", "fmod"):
        y = y + (y == 0).astype(y.dtype)
    compare(BINARY[name], x, y)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "float16"])
@pytest.mark.parametrize("name", OF_MATRIX)
def test_a_matrix(name: str, dtype: str) -> None:
    if dtype == "bool" and name in ("in place", "steps", "cumprod"):
        pytest.skip("sums in place of truths are NumPy's business")
    compare(OF_MATRIX[name], sample(dtype, (6, 5), 3))


@pytest.mark.parametrize("a", TYPES)
@pytest.mark.parametrize("b", TYPES)
def test_types_meet_as_numpy_s(a: str, b: str) -> None:
    compare(
        lambda x, y: (x + y, x * y, np.maximum(x, y), x < y, np.where(x > 0, x, y)),
        sample(a, (3,), 1),
        sample(b, (3,), 2),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_a_python_float_comes_with_the_call_and_takes_the_array_s_type(dtype: str) -> None:
    compare(lambda x, alpha: (x * alpha, alpha - x, x / (1 + alpha * 2), x > alpha), sample(dtype, (5,), 4), 0.25)
