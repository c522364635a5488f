"""The oracle at the edges of every type, against arithmetic that it does not share: Python's integers and mpmath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from edges import (
    CLASSES,
    COMPARISONS,
    EXACT,
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    ON_FLOATS,
    ON_INTEGERS,
    ON_ONE_INTEGER,
    assert_near,
    compared,
    converted,
    edges,
    on_floats,
    on_integers,
    on_one_float,
    pairs,
)

from autosched import te
from autosched.ir import expr as ir
from autosched.ir.dtype import SCALAR_DTYPES, dtype
from autosched.ir.expr import OPS, Expr, make
from autosched.te.reference import spread

#: NumPy's own float32 functions are up to two numbers away from the right one
STEPS = 2
#: NumPy leaves open which of two equal numbers, +0.0 and -0.0, comes out
EITHER_ZERO = ("min", "max", "nextafter")


def run(body: Callable[..., Expr | tuple[Expr, ...]], *arrays: np.ndarray) -> list[np.ndarray]:
    tensors = [te.placeholder(a.shape, a.dtype, name=f"x{k}") for k, a in enumerate(arrays)]
    made = te.compute(arrays[0].shape, lambda i: body(*(t[i] for t in tensors)), name="out")
    return te.reference([*tensors, *(made if isinstance(made, tuple) else (made,))], arrays)


def operator(op: str, to: str, *args: Any) -> Expr:
    """The operator itself: builders may write it as another one."""
    return make(op, dtype(to), args)


@pytest.mark.parametrize("of", INTEGERS)
def test_integers(of: str) -> None:
    one, (a, b) = edges(of), pairs(of, 32)
    ones = run(lambda x: tuple(operator(op, of, x) for op in ON_ONE_INTEGER), one)
    for op, found in zip(ON_ONE_INTEGER, ones, strict=True):
        assert_near(found, on_integers(op, of, one), 0, op, one)
    twos = run(lambda x, y: tuple(operator(op, of, x, y) for op in ON_INTEGERS), a, b)
    for op, found in zip(ON_INTEGERS, twos, strict=True):
        assert_near(found, on_integers(op, of, a, b), 0, op, a, b)


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_comparisons(of: str) -> None:
    a, b = pairs(of, 32)
    for op, found in zip(
        COMPARISONS, run(lambda x, y: tuple(ir.compare(op, x, y) for op in COMPARISONS), a, b), strict=True
    ):
        assert_near(found, compared(op, a, b), 0, op, a, b)


@pytest.mark.parametrize("of", FLOATS)
def test_functions(of: str) -> None:
    x = edges(of)
    for op, found in zip(FUNCTIONS, run(lambda v: tuple(operator(op, of, v) for op in FUNCTIONS), x), strict=True):
        assert_near(found, on_one_float(op, x), 0 if op in EXACT else STEPS, op, x)
    for op, found in zip(CLASSES, run(lambda v: tuple(ir.call(op, v) for op in CLASSES), x), strict=True):
        assert found.tolist() == [CLASSES[op](v) for v in x.tolist()]


@pytest.mark.parametrize("of", FLOATS)
def test_float_arithmetic(of: str) -> None:
    a, b = pairs(of, 32)
    ops = [*ON_FLOATS, "nextafter"]
    for op, found in zip(ops, run(lambda x, y: tuple(operator(op, of, x, y) for op in ops), a, b), strict=True):
        expected = on_floats(op, a, b)
        if op in EITHER_ZERO:
            found, expected = found + 0, expected + 0
        assert_near(found, expected, STEPS if op in ("pow", "hypot", "atan2") else 0, op, a, b)


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, -1.0, 3.0, np.inf, np.nan])
def test_powers_of_one_exponent(exponent: float, of: str) -> None:
    """NumPy's short cuts for a single exponent are wrong for infinities, zeros and what is not a number."""
    x = edges(of)
    (found,) = run(lambda v: te.pow(v, te.const(exponent, of)), x)
    assert_near(found, on_floats("pow", x, np.full_like(x, exponent)), STEPS, "pow", x)


@pytest.mark.parametrize("of", FLOATS)
def test_floor_division(of: str) -> None:
    """NumPy's, which is Python's where that does not raise; the remainder has the divisor's sign."""
    a, b = pairs(of, 32)
    quotient, rest = run(lambda x, y: (x // y, x % y), a, b)
    with np.errstate(all="ignore"):
        x, y = (v.astype("float32") if of == "bfloat16" else v for v in (a, b))  # NumPy's of bfloat16 rounds in between
        assert_near(quotient, np.floor_divide(x, y).astype(of), 0, "floordiv", a, b)
        assert_near(rest, np.remainder(x, y).astype(of), 0, "floormod", a, b)
    if of == "float64":
        for x, y, q, r in zip(a.tolist(), b.tolist(), quotient.tolist(), rest.tolist(), strict=True):
            if np.isfinite(x) and y:
                assert (x % y == r) or np.isnan(r), (x, y)
                assert (x // y == q) or np.isnan(q) or np.isinf(q), (x, y)


@pytest.mark.parametrize("of", FLOATS)
def test_powers_of_two(of: str) -> None:
    exponents = np.array(
        [0, 1, -1, 10, -10, -14, -15, -24, -126, -149, 127, 128, -1022, -1074, 1023, 1024, 5000, -5000]
    )
    values = edges(of)[::3]
    a, n = (g.ravel() for g in np.meshgrid(values, exponents.astype("int32"), indexing="ij"))
    (found,) = run(te.ldexp, a, n)
    assert_near(found, on_floats("ldexp", a, n), 0, "ldexp", a, n)


@pytest.mark.parametrize("to", SCALAR_DTYPES)
@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_casts(of: str, to: str) -> None:
    x = edges(of)
    (found,) = run(lambda v: v.astype(to), x)
    assert_near(found, converted(x, to), 0, to, x)


def test_every_operator_is_looked_at() -> None:
    seen = {*ON_INTEGERS, *ON_ONE_INTEGER, *COMPARISONS, *FUNCTIONS, *CLASSES, *ON_FLOATS, "nextafter", "ldexp"}
    computed = ("arith", "bits", "compare", "math")
    assert seen >= {op for op, info in OPS.items() if info.kind in computed}


@pytest.mark.parametrize(
    ("op", "of", "x", "expected"),
    [
        ("round", "float32", 0.49999997, 0.0),
        ("round", "float32", 8388609.0, 8388609.0),
        ("round", "float64", 0.49999999999999994, 0.0),
        ("round", "float64", 2.0**52 + 1, 2.0**52 + 1),
        ("round", "float16", 1025.0, 1025.0),
        ("round", "float32", -2.5, -3.0),
        ("nearbyint", "float32", -2.5, -2.0),
    ],
)
def test_rounding_looks_at_what_is_cut_off(op: str, of: str, x: float, expected: float) -> None:
    (found,) = run(lambda v: te.MATH[op](v), np.array([x], of))
    assert found.tolist() == [expected]


# -- literals -------------------------------------------------------------------------------------


def constant_only(n: int, body: Callable[[Any], Expr]) -> Sequence[Any]:
    unused = te.placeholder((1,), name="unused")
    return te.reference([unused, te.compute((n,), body, name="out")], [np.zeros(1, "float32")])[0].tolist()


@pytest.mark.parametrize("of", ["uint8", "int8", "uint16", "int16", "uint32"])
def test_arithmetic_on_narrow_and_unsigned_literals_wraps_before_it_is_used(of: str) -> None:
    """No read is in it, and yet it is no index arithmetic: how `i > 1` is found out must make no difference."""
    t = dtype(of)
    most, two = te.const(int(t.max), of), te.const(2, of)
    chosen = constant_only(4, lambda i: ((te.select(i > 1, most, two) + two) // two).astype("int64"))
    assert chosen == [2, 2] + [wrapped(int(t.max) + 2, of) // 2] * 2
    assert constant_only(4, lambda i: te.select(te.select(i > 1, most, two) + two > two, 1, 0)) == [1, 1, 0, 0]


def wrapped(value: int, of: str) -> int:
    return int(np.array(value % 2 ** dtype(of).bits, f"uint{dtype(of).bits}").view(of))


# -- rounding by chance ---------------------------------------------------------------------------
def warped(smooth: bool) -> tuple[list[te.Tensor], list[np.ndarray]]:
    """An image read at computed coordinates: interpolated between neighbours, or the one to the left."""
    image, scale = te.placeholder((4000,), "float32", name="image"), te.placeholder((1,), "float32", name="scale")
    at = te.compute((3000,), lambda i: scale[0] * i.astype("float32") + 0.1, name="at")

    def element(i):
        left = te.floor(at[i])
        place, share = te.max(te.min(left.astype("int32"), 3998), 0), at[i] - left
        near = image[place]
        return near * (1 - share) + image[place + 1] * share if smooth else near

    inputs = [np.random.default_rng(0).uniform(0, 255, 4000).astype("float32"), np.float32([1.2987])]
    return [image, scale, te.compute((3000,), element, name="out")], inputs


def test_what_moves_smoothly_with_last_bits_is_told_from_what_leaps() -> None:
    args, inputs = warped(smooth=True)
    expected = te.reference(args, inputs)
    (moves,) = spread(args, inputs, expected)
    # coordinates around 3900 have last bits worth 2.4e-4, twice rounded, and neighbours are 255 apart at most
    assert 1e-3 < moves < 255 * 5e-4
    assert np.array_equal(te.reference(args, inputs), expected)  # rounded as before
    args, inputs = warped(smooth=False)
    assert spread(args, inputs, te.reference(args, inputs)) == [0.0]  # few elements hang on the last bit


def test_what_is_exact_is_not_rounded_otherwise() -> None:
    a = te.placeholder((64,), "float32", name="a")
    halves = te.compute((64,), lambda i: te.floor(i.astype("float32") * 0.5) + te.max(a[i], 1.0) * 4.0, name="halves")
    counts = te.compute((64,), lambda i: (a[i] * 0.3).astype("int32"), name="counts")
    x = np.arange(64, dtype="float32")
    assert spread([a, halves, counts], [x], te.reference([a, halves, counts], [x])) == [0.0, 0.0]
    empty = te.placeholder((0,), "float32", name="empty")
    twice = te.compute((0,), lambda i: empty[i] * 0.3, name="twice")
    assert spread([empty, twice], [x[:0]], te.reference([empty, twice], [x[:0]])) == [0.0]


ALONG = {
    "as it is": lambda i, j, most: (i, j),
    "transposed": lambda i, j, most: (j, i),
    "steps": lambda i, j, most: (2 * i + 1, 6 - j),
    "clamped": lambda i, j, most: (most(i, 2), j + 1),
    "a column": lambda i, j, most: (i, 3),
    "a diagonal": lambda i, j, most: (i, i),
    "skewed": lambda i, j, most: (i + j, j),
    "one element": lambda i, j, most: (1, 2),
}


@pytest.mark.parametrize("index", ALONG.values(), ids=ALONG)
@pytest.mark.parametrize("is_guarded", [False, True])
def test_reads_along_axes_are_those_of_single_elements(index, is_guarded):
    """A view of the tensor, or what is taken axis by axis; with a guard, places outside are never asked for."""
    a = te.placeholder((12, 9), "int32", name="a")
    data = np.arange(108, dtype="int32").reshape(12, 9)

    def value(i, j):
        y, x = index(i, j, lambda p, q: te.select(p > q, p, q))
        if not is_guarded:
            return a[y, x]
        return te.if_then_else(te.all(y + 8 < 12, x >= 2), a[y + 8, x - 2], -1)

    def one(i, j):
        y, x = index(i, j, max)
        if not is_guarded:
            return data[y, x]
        return data[y + 8, x - 2] if y + 8 < 12 and x >= 2 else -1

    (found,) = te.reference([a, te.compute((5, 4), value)], [data])
    np.testing.assert_array_equal(found, [[one(i, j) for j in range(4)] for i in range(5)])


def test_two_indices_along_one_dimension_take_no_square_of_elements():
    """A recurrence in space reads `state[t - 1, i]` where both indices have an element for each i."""
    n = 2_000_000  # a square of so many float32 elements does not fit into any memory
    row = np.arange(n)[None, :]
    source = np.arange(2 * n, dtype="float32").reshape(2, n)
    assert np.array_equal(te.reference.__globals__["_gather"](source, [row * 0 + 1, row], None, "state"), source[1:])


@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 1, 4)])
def test_scans_read_along_axes(shape):
    first = te.placeholder((1, *shape), name="first")
    state = te.placeholder((4, *shape), name="state")
    start = te.compute((1, *shape), lambda t, *i: first[(t, *i)], name="start")
    step = te.compute(
        (4, *shape), lambda t, *i: state[(t - 1, *i)] + state[(t - 1, *i[:-1], te.max(i[-1] - 1, 0))], name="step"
    )
    states = te.scan(start, step, state, name="states")
    x = np.random.default_rng(0).integers(-9, 9, (1, *shape)).astype("float32")
    expected = [x[0]]
    for _ in range(3):
        previous = expected[-1]
        expected.append(previous + previous[..., np.maximum(np.arange(shape[-1]) - 1, 0)])
    assert np.array_equal(te.reference([first, states], [x])[0], np.stack(expected))
