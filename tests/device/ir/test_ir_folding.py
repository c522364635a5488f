"""Operators on constants give what NumPy gives, for every operator and pair of types.

Integers are checked against Python's own unbounded ones, cut to the type; floats against NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from edges import (
    CLASSES,
    COMPARISONS,
    EXACT,
    FUNCTIONS,
    ON_FLOATS,
    ON_INTEGERS,
    ON_ONE_INTEGER,
    assert_near,
    compared,
    edges,
    finfo,
    floored,
    on_floats,
    on_integers,
    on_one_float,
    pairs,
    truncated,
    wrap,
)
from edges import converted as exactly_converted
from index_fuzz import values

from autosched.ir.dtype import SCALAR_DTYPES, DType, dtype, promote
from autosched.ir.evaluate import evaluate, evaluate_float
from autosched.ir.expr import (
    Expr,
    cast,
    compare,
    const,
    divide,
    floordiv,
    floormod,
    fold,
    make,
    maximum,
    minimum,
    truncdiv,
    truncmod,
    var,
)
from autosched.ir.node import INDEX_OPS
from autosched.ir.ops import OPS
from autosched.runtime.interpreter import _EXACT as INTERPRETED

INTEGERS = [t for t in SCALAR_DTYPES if "int" in t]
FLOATS = [t for t in SCALAR_DTYPES if "float" in t]


def samples(of: DType) -> list[int | float | bool]:
    """The values where something may go wrong."""
    if of.is_bool:
        return [False, True]
    if of.is_integer:
        picks = (of.min, of.min + 1, -7, -1, 0, 1, 2, 3, 7, 100, of.max - 1, of.max)
        return sorted({int(v) for v in picks if of.min <= v <= of.max})
    info = finfo(of.numpy)
    return [
        0.0,
        -0.0,
        0.5,
        1.0,
        -1.5,
        2.0,
        -7.25,
        100.0,
        float(info.max),
        float(info.tiny),
        math.inf,
        -math.inf,
        math.nan,
    ]


def folded(e: Expr) -> int | float | bool:
    """The value of an expression over constants: folded, or an int32 that is exact until it is a value."""
    if e.op == "const":
        return e.value
    assert e.dtype == "int32", f"{e!r} was left unfolded"
    return wrap(int(values(e, {})), e.dtype)


def same(got: object, expected: object) -> bool:
    """Equal, a NaN to a NaN and -0.0 only to -0.0."""
    if isinstance(expected, float):
        return isinstance(got, float) and (repr(got) == repr(expected) or (math.isnan(got) and math.isnan(expected)))
    return type(got) is type(expected) and got == expected


#: builder, on integers, on floats
BINARY: dict[str, tuple[Callable[..., Expr], Callable[..., int] | None, Callable[..., object] | None]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b, np.add),
    "-": (lambda a, b: a - b, lambda a, b: a - b, np.subtract),
    "*": (lambda a, b: a * b, lambda a, b: a * b, np.multiply),
    "/": (divide, truncated, np.divide),
    "floordiv": (floordiv, floored, np.floor_divide),
    "floormod": (floormod, lambda a, b: a - b * floored(a, b) if b else 0, np.remainder),
    "truncdiv": (truncdiv, truncated, None),
    "truncmod": (truncmod, lambda a, b: a - b * truncated(a, b) if b else 0, np.fmod),
    "min": (minimum, min, np.minimum),
    "max": (maximum, max, np.maximum),
    "&": (lambda a, b: a & b, lambda a, b: a & b, None),
    "|": (lambda a, b: a | b, lambda a, b: a | b, None),
    "^": (lambda a, b: a ^ b, lambda a, b: a ^ b, None),
}
COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def converted(value: int | float | bool, of: DType, to: DType) -> int | float | bool:
    """What an operand becomes in the common type, by NumPy."""
    with np.errstate(all="ignore"):
        return np.asarray(value, of.numpy).astype(to.numpy).item()


@pytest.mark.parametrize("b", SCALAR_DTYPES)
@pytest.mark.parametrize("a", SCALAR_DTYPES)
def test_binary_operators(a: str, b: str) -> None:
    s, t = dtype(a), dtype(b)
    to = promote(s, t)
    every = 1 if a == b else 3  # what is left to see of two types is how they meet
    for x in samples(s)[::every]:
        for y in samples(t)[::-every]:
            u, v = converted(x, s, to), converted(y, t, to)
            for name, (build, on_int, on_float) in BINARY.items():
                if to.is_float and on_float is None:
                    continue
                with np.errstate(all="ignore"):
                    got = folded(build(const(x, s), const(y, t)))
                    if to.is_float:
                        expected: object = on_float(to.numpy.type(u), to.numpy.type(v)).item()
                    elif to.is_bool and name in ("min", "max", "&", "|", "^"):
                        expected = bool(on_int(int(u), int(v)))
                    else:
                        expected = wrap(on_int(int(u), int(v)), dtype("int32") if to.is_bool else to)
                assert same(got, expected), f"{a}({x}) {name} {b}({y}) is {expected}, not {got}"
            for op, ufunc in COMPARE.items():
                got = compare(op, const(x, s), const(y, t)).value
                assert got is bool(ufunc(to.numpy.type(u), to.numpy.type(v))), f"{a}({x}) {op} {b}({y})"


@pytest.mark.parametrize("value", [2**24 + 1, 2**53 + 1, 9007199791611905, -(2**62) - 2**38 - 1, 2**63 - 1])
def test_an_integer_is_rounded_once_on_its_way_to_a_float(value: int) -> None:
    """Through a Python float, 9007199791611905 would be rounded to float64 first and then again."""
    assert cast("float32", const(value, "int64")).value == float(np.int64(value).astype(np.float32))


# -- at every edge, against arithmetic that shares nothing with the tables -------------------------


def _points(*arrays: np.ndarray) -> list[tuple[Expr, ...]]:
    return [tuple(const(x, a.dtype) for a, x in zip(arrays, point, strict=True)) for point in zip(*arrays, strict=True)]


def _folds(op: str, to: str, points: list[tuple[Expr, ...]]) -> np.ndarray:
    """What `fold` makes of constants; an int32 that it leaves alone is exact, and wraps once it is a value."""
    return np.array([folded(fold(op, dtype(to), args)) for args in points], to)


@pytest.mark.parametrize("of", INTEGERS)
def test_integers_fold_to_what_exact_arithmetic_gives(of: str) -> None:
    one, (a, b) = edges(of), pairs(of, 32)
    for op in ON_ONE_INTEGER:
        assert_near(_folds(op, of, _points(one)), on_integers(op, of, one), 0, op, one)
    within = (b >= 0) & (b < dtype(of).bits)  # a shift further than that is refused or made another one by builders
    for op in ON_INTEGERS:
        x, y = (a[within], b[within]) if op in ("shl", "shr") else (a, b)
        assert_near(_folds(op, of, _points(x, y)), on_integers(op, of, x, y), 0, op, x, y)


@pytest.mark.parametrize("of", INTEGERS)
def test_shifts_by_any_constant(of: str) -> None:
    a, b = pairs(of, 32)
    for op, build in (("shl", lambda x, y: x << y), ("shr", lambda x, y: x >> y)):
        found = np.array([folded(build(x, y)) for x, y in _points(a, b)], of)
        assert_near(found, on_integers(op, of, a, b), 0, op, a, b)


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_comparisons_fold_to_what_exact_arithmetic_gives(of: str) -> None:
    a, b = pairs(of, 32)
    for op in COMPARISONS:
        found = np.array([compare(op, x, y).value for x, y in _points(a, b)])
        assert_near(found, compared(op, a, b), 0, op, a, b)


@pytest.mark.parametrize("of", FLOATS)
def test_floats_fold_to_what_exact_arithmetic_gives(of: str) -> None:
    one, (a, b) = edges(of), pairs(of, 32)
    for op in FUNCTIONS:
        assert_near(_folds(op, of, _points(one)), on_one_float(op, one), 0 if op in EXACT else 2, op, one)
    for op in CLASSES:
        assert _folds(op, "bool", _points(one)).tolist() == [CLASSES[op](x) for x in one.tolist()]
    for op in ON_FLOATS:
        found, expected = _folds(op, of, _points(a, b)), on_floats(op, a, b)
        if op in ("min", "max"):
            found, expected = found + 0, expected + 0  # either zero
        assert_near(found, expected, 2 if op in ("pow", "hypot", "atan2") else 0, op, a, b)


@pytest.mark.parametrize("to", SCALAR_DTYPES)
@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_casts_fold_to_what_exact_arithmetic_gives(of: str, to: str) -> None:
    x = edges(of)
    found = np.array([cast(to, e).value for (e,) in _points(x)], to)
    assert_near(found, exactly_converted(x, to), 0, to, x)


def test_whatever_evaluates_index_arithmetic_agrees() -> None:
    """Batches, the interpreter, and the table that folding, witnesses and the dimensions of signatures share."""
    a, b = pairs("int32")
    x, y = var("x"), var("y")
    given = {x: a.astype("int64"), y: b.astype("int64")}
    for op, exact in ON_INTEGERS.items():
        e = make(op, dtype("int32"), (x, y))
        if op not in INDEX_OPS:
            continue
        expected = [exact(int(p), int(q), 64) for p, q in zip(a, b, strict=True)]
        assert evaluate([e], given)[0].tolist() == expected, op
        shared = OPS[op].exact
        assert shared is not None
        for table in (INTERPRETED[op], shared):
            assert [table(int(p), int(q)) for p, q in zip(a, b, strict=True)] == expected, op
        within = np.abs(np.array(expected, float)) < 2**53
        assert evaluate_float([e], given)[0][within].tolist() == np.array(expected, float)[within].tolist(), op
