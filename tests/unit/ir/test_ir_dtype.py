"""Element types: their spellings, their limits, and what two of them have in common."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.ir.dtype import BOOL, INT32, SCALAR_DTYPES, DType, dtype, promote

KINDS = [dtype(t) for t in SCALAR_DTYPES]


@pytest.mark.parametrize("of", KINDS)
def test_limits_are_numpys(of: DType) -> None:
    assert of.numpy == np.dtype(str(of)) and of.numpy.name == of
    assert of.bytes == of.numpy.itemsize
    if of.is_integer:
        info = np.iinfo(of.numpy)
        assert (of.min, of.max, of.bits) == (info.min, info.max, info.bits)
    if of.is_float:
        assert (of.min, of.max) == (-np.inf, np.inf)
    if of.is_bool:
        assert (of.min, of.max) == (0, 1)
    assert [of.is_float, of.is_bool, of.is_integer].count(True) == 1


@pytest.mark.parametrize("lanes", [2, 7, 96])
@pytest.mark.parametrize("of", KINDS)
def test_vectors(of: DType, lanes: int) -> None:
    wide = of.with_lanes(lanes)
    assert wide == f"{of}x{lanes}"
    assert (wide.lanes, wide.scalar, wide.kind, wide.bits, wide.numpy) == (lanes, of, of.kind, of.bits, of.numpy)
    assert wide.bytes == lanes * of.bytes
    assert wide.with_lanes(1) is of


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("uint8", "uint8"),
        (np.uint8, "uint8"),
        (np.dtype("float16"), "float16"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (dtype("int8x4"), "int8x4"),
    ],
)
def test_spellings(spec: object, name: str) -> None:
    assert dtype(spec) == name
    assert dtype(spec) is dtype(name), "one object for each type, so that `is` compares them"


@pytest.mark.parametrize(
    "spec",
    ["", "int", "float", "int7", "uint128", "float8", "bfloat8", "string", "int32x", "int32x0", "int32x1", "int32x04"]
    + ["int032", " int32", "int32 ", "INT32", "boolx", "handle", "int32x4x4", "float32x9999999"]
    + [None, 5, object(), [], np.dtype("U3"), np.dtype([("a", "i4")]), complex],
)
def test_no_such_type(spec: object) -> None:
    with pytest.raises(UsageError, match="no such element type") as caught:
        dtype(spec)
    assert "int8" in caught.value.legal
    assert "float16" in caught.value.legal


def test_promotion_by_the_rule() -> None:
    """Float beats integer, wider beats narrower, signed beats unsigned, bool gives way."""
    expected = {
        ("int8", "uint8"): "int8",
        ("int8", "uint16"): "int16",
        ("uint8", "int32"): "int32",
        ("uint64", "int8"): "int64",
        ("uint8", "uint32"): "uint32",
        ("int64", "float16"): "float16",
        ("float16", "float64"): "float64",
        ("int64", "bfloat16"): "bfloat16",
        ("bfloat16", "float16"): "float32",
        ("bfloat16", "float32"): "float32",
        ("bool", "uint8"): "uint8",
        ("bool", "bool"): "bool",
    }
    assert {pair: promote(dtype(pair[0]), dtype(pair[1])) for pair in expected} == expected


@pytest.mark.parametrize(("a", "b"), itertools.product(KINDS, KINDS))
def test_promotion_is_symmetric_and_never_narrows(a: DType, b: DType) -> None:
    both = promote(a, b)
    assert both is promote(b, a)
    assert both.bits >= max(t.bits for t in (a, b) if t.kind == both.kind)
    assert promote(a, both) is both
    if a.kind == b.kind:
        mixed = {a, b} == {"bfloat16", "float16"}  # NumPy asks for a cast
        assert mixed or both.numpy == np.result_type(a.numpy, b.numpy)


def test_a_type_is_its_text() -> None:
    assert {INT32: 1}["int32"] == 1
    assert f"{BOOL}" == "bool"
    assert isinstance(BOOL, str)
