"""Operators on constants give what NumPy gives, for every operator and pair of types.

Integers are checked against Python's own unbounded ones, cut to the type; floats against NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from index_fuzz import values

from autosched.ir.dtype import SCALAR_DTYPES, DType, dtype, promote
from autosched.ir.expr import (
    Expr,
    cast,
    compare,
    const,
    divide,
    floordiv,
    floormod,
    maximum,
    minimum,
    neg,
    truncdiv,
    truncmod,
)

INTEGERS = [t for t in SCALAR_DTYPES if "int" in t]
FLOATS = [t for t in SCALAR_DTYPES if "float" in t]


def samples(of: DType) -> list[int | float | bool]:
    """The values where something may go wrong."""
    if of.is_bool:
        return [False, True]
    if of.is_integer:
        picks = (of.min, of.min + 1, -7, -1, 0, 1, 2, 3, 7, 100, of.max - 1, of.max)
        return sorted({int(v) for v in picks if of.min <= v <= of.max})
    info = np.finfo(of.numpy)
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


def wrap(value: int, of: DType) -> int:
    wrapped = value % (1 << of.bits)
    return wrapped - (1 << of.bits) if of.kind == "int" and wrapped > of.max else wrapped


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


def _floor(a: int, b: int) -> int:
    return a // b if b else 0


def _trunc(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


#: builder, on integers, on floats
BINARY: dict[str, tuple[Callable[..., Expr], Callable[..., int] | None, Callable[..., object] | None]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b, np.add),
    "-": (lambda a, b: a - b, lambda a, b: a - b, np.subtract),
    "*": (lambda a, b: a * b, lambda a, b: a * b, np.multiply),
    "/": (divide, _trunc, np.divide),
    "floordiv": (floordiv, _floor, np.floor_divide),
    "floormod": (floormod, lambda a, b: a - b * _floor(a, b) if b else 0, np.remainder),
    "truncdiv": (truncdiv, _trunc, None),
    "truncmod": (truncmod, lambda a, b: a - b * _trunc(a, b) if b else 0, np.fmod),
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


@pytest.mark.parametrize("of", INTEGERS)
def test_shifts(of: str) -> None:
    """A shift by the width or more leaves 0, or the sign."""
    t = dtype(of)
    for x in samples(t):
        for by in (0, 1, 5, t.bits - 1, t.bits, t.bits + 3, 100):
            left = 0 if by >= t.bits else wrap(x << by, t)
            assert folded(const(x, t) << const(by, t)) == left
            assert folded(const(x, t) >> const(by, t)) == (x >> by)


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_negation(of: str) -> None:
    t = dtype(of)
    for x in samples(t):
        expected = -x if t.is_float else wrap(-int(x), dtype("int32") if t.is_bool else t)
        assert same(folded(neg(const(x, t))), expected)


@pytest.mark.parametrize("to", SCALAR_DTYPES)
@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_casts(of: str, to: str) -> None:
    """Float to integer saturates, NaN to 0; integer to integer wraps; all else is NumPy's."""
    source, target = dtype(of), dtype(to)
    for x in [*samples(source), *([2.0**63, 3e9, -3e9, 255.9, -0.9] if source == "float64" else [])]:
        got = cast(to, const(x, of)).value
        if source.is_float and target.is_integer:
            exact = (
                0
                if math.isnan(x)
                else target.max
                if x > target.max
                else target.min
                if x < target.min
                else math.trunc(x)
            )
            assert same(got, exact), f"{to}({of}({x}))"
        else:
            with np.errstate(all="ignore"):
                assert same(got, np.asarray(x, source.numpy).astype(target.numpy).item()), f"{to}({of}({x}))"


@pytest.mark.parametrize("value", [2**24 + 1, 2**53 + 1, 9007199791611905, -(2**62) - 2**38 - 1, 2**63 - 1])
def test_an_integer_is_rounded_once_on_its_way_to_a_float(value: int) -> None:
    """Through a Python float, 9007199791611905 would be rounded to float64 first and then again."""
    assert cast("float32", const(value, "int64")).value == float(np.int64(value).astype(np.float32))


@pytest.mark.parametrize("of", INTEGERS)
def test_the_most_negative_by_minus_one(of: str) -> None:
    t = dtype(of)
    least, minus = const(t.min, t), const(-1, t)
    assert folded(floordiv(least, minus)) == wrap(_floor(int(t.min), int(minus.value)), t)
    assert folded(truncdiv(least, minus)) == wrap(_trunc(int(t.min), int(minus.value)), t)
    assert folded(floormod(least, minus)) == folded(truncmod(least, minus)) == int(t.min) % int(minus.value)


@pytest.mark.parametrize("of", INTEGERS)
@pytest.mark.parametrize("divide_by", [divide, floordiv, floormod, truncdiv, truncmod])
def test_integers_divided_by_zero_give_zero(divide_by: Callable[..., Expr], of: str) -> None:
    for x in samples(dtype(of)):
        assert folded(divide_by(const(x, of), const(0, of))) == 0


def test_random_pairs() -> None:
    """Beyond the edges: random operands of every integer type."""
    rng = np.random.default_rng(11)
    for of in INTEGERS:
        t = dtype(of)
        pairs = rng.integers(int(t.min), int(t.max), size=(60, 2), dtype=t.numpy, endpoint=True)
        for x, y in ((int(p), int(q)) for p, q in pairs):
            for name, (build, on_int, _) in BINARY.items():
                assert folded(build(const(x, t), const(y, t))) == wrap(on_int(x, y), t), f"{of}({x}) {name} {of}({y})"
