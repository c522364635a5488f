"""Operators on bits, fixed-point products and traces, as TVM's `tir` has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import BuildError, UsageError
from autosched.ir.expr import Expr, as_expr, const, is_const
from autosched.ir.functions import register_func

RNG = np.random.default_rng(11)


def everywhere(body: Callable[..., Expr], *arrays: np.ndarray) -> np.ndarray:
    """`body` of elements, by scalars and vectors of llvm and C, and by the reference; they must agree."""
    n = len(arrays[0])
    inputs = [te.placeholder((n,), str(a.dtype), name=f"A{k}") for k, a in enumerate(arrays)]
    out = te.compute((n,), lambda i: body(*(t[i] for t in inputs)), name="out")
    expected = te.reference([*inputs, out], list(arrays))[0]
    for target, vector in (("llvm", False), ("llvm", True), ("c", False), ("c", True)):
        s = te_schedule(out, vector)
        result = np.zeros(n, out.dtype.numpy)
        autosched.build(s, target, args=[*inputs, out])(*arrays, result)
        np.testing.assert_array_equal(result, expected, err_msg=target)
    return expected


def te_schedule(out: te.Tensor, vector: bool) -> autosched.Schedule:
    s = autosched.create_schedule(out.op)
    if vector:
        s[out].vectorize(s[out].split(out.op.axis[0], factor=8)[1])
    return s


def test_popcount_counts_the_bits_of_twos_complement() -> None:
    for of in ("int8", "int16", "int32", "int64", "uint8", "uint64"):
        a = np.array([0, 1, 5, 100, *(-1, -2, np.iinfo(of).min, -100)] if of[0] == "i" else range(8), of)
        a = np.resize(a, 24)
        found = everywhere(te.popcount, a)
        bits = np.iinfo(of).bits
        assert found.tolist() == [(int(v) % 2**bits).bit_count() for v in a]


def test_vectors_of_c_count_bits_in_their_registers() -> None:
    """A call for each lane, whose sum goes through memory, takes seven times as long."""
    a = te.placeholder((64,), "uint32", name="a")
    s = te_schedule(te.compute((64,), lambda i: te.popcount(a[i]) + a[i], name="out"), vector=True)
    source = autosched.build(s, "c").source
    assert "popcount_uint32_t_x8((uint32_t_x8)*(const uint32_t_x8_at *)(a + i_outer * 8))" in source


def test_clz() -> None:
    for of in ("int8", "uint16", "int32", "uint64"):
        bits = np.iinfo(of).bits
        a = np.array([0, 1, 2, 3, 7, 100, np.iinfo(of).max, np.iinfo(of).min], of)
        found = everywhere(te.clz, a)
        assert found.dtype == np.int32
        assert found.tolist() == [bits - (int(v) % 2**bits).bit_length() for v in a]
    assert is_const(te.clz(const(0, "int16")), 16)


def test_the_next_number_and_powers_of_two() -> None:
    a, b = RNG.normal(size=(2, 32)).astype("float32")
    np.testing.assert_array_equal(everywhere(te.nextafter, a, b), np.nextafter(a, b))
    n = RNG.integers(-60, 60, 32)
    for of in ("int8", "int32", "int64"):
        np.testing.assert_array_equal(everywhere(te.ldexp, a, n.astype(of)), np.ldexp(a, n))
    big = np.array([2**40, -(2**40), 5, -5], "int64")
    np.testing.assert_array_equal(everywhere(te.ldexp, np.ones(4), big), [np.inf, 0, 32, 1 / 32])
    np.testing.assert_array_equal(everywhere(lambda x: te.ldexp(x, 3), a), a * 8)
    with pytest.raises(UsageError, match="ldexp needs an integer"):
        te.ldexp(const(1.0), 2.0)


def test_the_same_bits() -> None:
    a = RNG.normal(size=32).astype("float32")
    np.testing.assert_array_equal(everywhere(lambda x: te.reinterpret("int32", x), a), a.view("int32"))
    np.testing.assert_array_equal(everywhere(lambda x: te.reinterpret("float32", x), a.view("uint32")), a)
    x = te.var("x", "float32")
    assert te.reinterpret("float32", te.reinterpret("uint32", x)) is x
    assert is_const(te.reinterpret("int32", const(1.0)), 0x3F800000)
    assert repr(te.reinterpret("int32", x)) == "reinterpret(int32, x)"
    with pytest.raises(UsageError, match="float32 has 32 bits, int64 has 64"):
        te.reinterpret("int64", x)


def test_a_product_of_fixed_point_numbers() -> None:
    """Against rational arithmetic."""
    a = RNG.integers(-(2**20), 2**20, 64).astype("int32")
    b = RNG.integers(2**30, 2**31 - 1, 64).astype("int32")
    for shift in (-7, -1, 0, 3):
        found = everywhere(lambda x, y, s=shift: te.q_multiply_shift(x, y, 31, s), a, b)
        exact = [(2 * int(x) * int(y) * 2**10 // 2 ** (31 - shift) + 2**10) // 2**11 for x, y in zip(a, b, strict=True)]
        assert found.tolist() == exact
    with pytest.raises(UsageError, match="multiplies int32"):
        te.q_multiply_shift(te.var("x", "int16"), 1, 15, 0)


def test_four_products_at_once() -> None:
    a, b = RNG.integers(-128, 128, (2, 64)).astype("int8")
    expected = (a.astype("int32") * b).reshape(-1, 4).sum(axis=1) + 3
    packed = everywhere(lambda x, y: te.dp4a(x, y, 3), a.view("int32"), b.view("int32"))
    assert packed.tolist() == expected.tolist()
    unsigned = everywhere(te.dp4a, a.view("uint32"), b.view("int32"))
    assert unsigned.tolist() == (a.view("uint8").astype("int32") * b).reshape(-1, 4).sum(axis=1).tolist()
    x, y = te.placeholder((16, 4), "int8"), te.placeholder((16, 4), "int8")
    out = te.compute((16,), lambda i: te.dp4a([x[i, k] for k in range(4)], [y[i, k] for k in range(4)]))
    (found,) = te.reference([x, y, out], [a.reshape(16, 4), b.reshape(16, 4)])
    assert found.tolist() == (expected - 3).tolist()
    with pytest.raises(UsageError, match="four 8-bit integers"):
        te.dp4a(as_expr(1.0), 2)


def test_derivatives() -> None:
    a = te.placeholder((4,), "float64", name="a")
    b = te.compute((4,), lambda i: te.ldexp(a[i], i) * te.reinterpret("float64", const(1, "int64") << 62), name="b")
    head = te.placeholder((4,), "float64", name="head")
    (g,) = te.gradient(b, [a], head)
    (found,) = te.reference([a, head, g], [np.ones(4), np.array([1.0, 3, 1, 1])])
    assert found.tolist() == [2, 12, 8, 16]
    c = te.compute((4,), lambda i: te.nextafter(a[i], a[i] + 1), name="c")
    with pytest.raises(UsageError, match="nextafter has no derivative"):
        te.gradient(c, [a])


def test_trace_shows_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    a = te.placeholder((3,), name="a")
    b = te.compute((3,), lambda i: te.trace([i, a[i]]) + 1, name="b")
    data, result = np.array([2.5, 0.5, 1], "float32"), np.zeros(3, "float32")
    autosched.build(autosched.create_schedule(b.op), "llvm")(data, result)
    assert result.tolist() == [3.5, 1.5, 2]
    assert capsys.readouterr().out == "[0, 2.5]\n[1, 0.5]\n[2, 1.0]\n"
    assert te.reference([a, b], [data])[0].tolist() == [3.5, 1.5, 2]


def test_trace_with_a_function_of_ones_own() -> None:
    seen = []

    def action(i: int, x: float) -> float | None:
        seen.append((i, x))
        return -x if i == 1 else None

    register_func("test.trace", action, override=True)
    a = te.placeholder((2,), name="a")
    b = te.compute((2,), lambda i: te.trace([i, a[i]], "test.trace"), name="b")
    result = np.zeros(2, "float32")
    autosched.build(autosched.create_schedule(b.op), "llvm")(np.array([4, 5], "float32"), result)
    assert result.tolist() == [4, -5]
    assert seen == [(0, 4.0), (1, 5.0)]
    with pytest.raises(BuildError, match="no Python function is registered"):
        te.trace([1], "test.missing")
    with pytest.raises(UsageError, match="nothing to trace"):
        te.trace([])
