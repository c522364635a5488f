"""Intervals of values: what they say holds for every input, and functions leave out what it rules out."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, te
from autosched.codegen.formulas import usual
from autosched.codegen.value_range import ValueRanges
from autosched.ir.dtype import dtype as dtype_of
from autosched.ir.expr import Expr, const, var
from autosched.ir.ops import evaluated
from autosched.ir.ranges import Interval, Ranges
from autosched.schedule import create_schedule

X = var("x", "uint32", "let")
Y = var("y", "int8", "let")
Z = var("z", "float32", "let")


def _of(e: Expr) -> Interval | None:
    return ValueRanges.of(e, Ranges())


def test_of_hashes_and_bytes() -> None:
    unit = _of((X >> 8).astype("float32") * (1 / (1 << 24)))
    assert unit is not None and unit.low == 0 and 1 - 2**-20 < unit.high < 1 + 2**-20
    positive = _of(((X >> 8) + 1).astype("float32") * (1 / (1 << 24)))
    assert positive is not None and positive.low > 2**-25
    assert _of(X + 1) == Interval(0, 2**32 - 1), "what may wrap is anything"
    assert _of(te.max(Y.astype("float32"), 3.0)) is not None
    assert _of(X & 7) == Interval(0, 7)


def test_nothing_is_known_of_what_may_be_nan() -> None:
    huge = const(3e38, "float32")
    number = Y.astype("float32")
    for e in (Z, Z * 0.0, te.min(Z, 1.0), number * huge * huge, te.select(Y > 0, Z, number), te.exp(number)):
        assert _of(e) is None, e


@pytest.mark.parametrize("seed", range(8))
def test_values_lie_in_their_intervals(seed: int) -> None:
    draw = np.random.default_rng(seed)
    numbers = [Y.astype("float32"), (X >> 20).astype("float32"), (Y * Y).astype("float32"), (X & 255).astype("float32")]
    for _ in range(12):
        a, b = (numbers[i] for i in draw.integers(0, len(numbers), 2))
        c = float(np.float32(draw.normal()))
        made = [a + b, a - b, a * c, te.min(a, b * c), te.max(a, c), te.select(Y > 3, a, b), a * b]
        numbers.append(made[draw.integers(0, len(made))])
    for x, y in zip(draw.integers(0, 2**32, 20), draw.integers(-128, 128, 20), strict=True):
        env = {X: np.uint32(x), Y: np.int8(y)}
        for e in numbers:
            found = _of(e)
            assert found is None or found.low <= _value(e, env) <= found.high, e


def _value(e: Expr, env: dict[Expr, object]) -> float:
    if e in env:
        return env[e]  # type: ignore[return-value]
    if e.op == "const":
        return e.dtype.numpy.type(e.value)
    args = [_value(a, env) for a in e.args]
    with np.errstate(over="ignore"):
        return np.asarray(args[0]).astype(e.dtype.numpy)[()] if e.op == "cast" else evaluated(e.op, e.dtype, args)[()]


@pytest.mark.parametrize("name", ["exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits_where_nothing_special_is_needed(name: str, dtype: str) -> None:
    """Beside the same function of values of which nothing is known."""
    x, scaled = te.placeholder((256,), "uint8", name="x"), te.placeholder((256,), dtype, name="scaled")
    function = getattr(te, name)
    near = te.compute((256,), lambda i: function((x[i].astype("int32") + 1).astype(dtype) * 0.125), name="near")
    far = te.compute((256,), lambda i: function(scaled[i]), name="far")
    s = create_schedule([near, far])
    for stage in (near, far):
        s[stage].vectorize(s[stage].split(s[stage].loops[0], factor=8)[1])
    module = build(s, "llvm", args=[x, scaled, near, far])
    numbers = np.arange(256).astype("uint8")
    results = np.empty(256, dtype), np.empty(256, dtype)
    module(numbers, (numbers.astype(dtype) + 1) * np.array(0.125, dtype), *results)
    assert np.array_equal(*results)
    assert np.allclose(results[0], getattr(np, name, lambda v: 10.0**v)((numbers + 1.0) / 8), 1e-5)
    assert (f"math.{name}.usual" in module.source) == (usual(name, dtype_of(dtype)) is not None)
