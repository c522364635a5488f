"""What is decided for all emitters: which operators on halves are computed in float, and how their results become halves."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.codegen.legalize import HALF_ARITHMETIC, HALF_EMULATED, HALF_NATIVE, legal
from autosched.ir.calls import call_pure_extern
from autosched.ir.dtype import dtype
from autosched.ir.expr import OPS, call, cast, const, make, minimum, truncmod, var

HALF = dtype("float16")
#: of halves, a half: computed on them bit by bit, or of another type
APART = {"nextafter", "isnan", "isinf", "isfinite"}
ON_HALVES = {op for op, info in OPS.items() if info.kind in ("arith", "math") and info.numpy} - APART


@pytest.mark.parametrize("op", sorted(ON_HALVES - HALF_EMULATED - {"truncdiv"}))
def test_what_is_not_rounded_gives_a_half_of_halves(op: str) -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    operands = [halves, np.random.default_rng(0).permutation(halves)][: OPS[op].arity]
    compute = OPS[op].numpy
    assert compute is not None
    found = compute(*(x.astype(np.float32) for x in operands))
    np.testing.assert_array_equal(found.astype(np.float16).astype(np.float32), found)


def test_a_sum_is_rounded_once() -> None:
    a, b = var("a", HALF), var("b", HALF)
    e = a + b
    assert legal(e, HALF_NATIVE) is legal(e, HALF_ARITHMETIC) is e
    assert legal(e, HALF_EMULATED) is cast(HALF, cast("float32", a) + cast("float32", b))
    assert legal(minimum(a, b), HALF_EMULATED) is minimum(a, b)
    for computed in (HALF_ARITHMETIC, HALF_EMULATED):
        assert legal(call("sin", a), computed) is cast(HALF, call("sin", cast("float32", a)))


def test_conversions_to_halves() -> None:
    whole, single, double = var("i", "int32"), var("x", "float32"), var("y", "float64")
    assert legal(cast(HALF, whole), HALF_EMULATED) is cast(HALF, cast("float32", whole))
    for x in (single, double):  # to float first would round a double twice
        assert legal(cast(HALF, x), HALF_EMULATED) is cast(HALF, x)


def test_vectors_and_calls() -> None:
    a = var("a", "float16x4")
    wide = dtype("float32x4")
    product = legal(make("mul", a.dtype, (a, a)), HALF_EMULATED)
    assert product is make("cast", a.dtype, (make("mul", wide, (make("cast", wide, (a,)),) * 2),))
    outside = call_pure_extern("float16", "f", var("h", HALF))
    assert legal(outside, HALF_EMULATED).args[0].args is outside.args


def test_a_remainder_of_floats_is_fmod() -> None:
    x, y, n = var("x", "float32"), var("y", "float32"), var("n", "int32")
    assert legal(truncmod(x, y), HALF_NATIVE) is make("fmod", x.dtype, (x, y))
    assert legal(truncmod(n, const(3)), HALF_NATIVE) is truncmod(n, 3)
