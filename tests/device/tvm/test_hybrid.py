"""Hybrid scripts: as operations they compute what they compute as plain Python."""

# mypy: ignore-errors
# ruff: noqa: F821 - scripts use names that mean something inside them alone

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te
from autosched.tvm.te.hybrid import script

TABLE = [[1, 2], [3, 4]]


@script
def outer_product(a, b):
    """Of two vectors."""
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            assert i >= 0, "never"
            c[i, j] = a[i] * b[j] + TABLE[1][0]
    return c


@script
def means(a, b):
    three = 3.0
    c = output_tensor((a.shape[0] - 2,), a.dtype)
    d = output_tensor((4, 2), "int32")
    for i in parallel(a.shape[0] - 2):
        total = 0.0
        for j in unroll(3):
            total += a[i + j]
        c[i] = total / three
    for i in serial(8):
        if 2 <= i < 6 and i % 2 == 0:
            d[i // 2, i % 2] = popcount(i) - 1 if b[0] > 0 else int32(b[i])
    return c, d


@script
def in_place(a, b):
    out = output_tensor(a.shape, a.dtype)
    for i in range(8):
        a[i] = max(a[i], b[i]) + i
    keep = a[0]
    a[0] = a[1]
    a[1] = keep
    table = outer_product(a, b)
    flag = 1
    for i in range(8):
        if table[i, 0] > 40:
            flag = 2
        for k in const_range(len(TABLE)):
            out[i] += table[i, 0] * flag + TABLE[0][k]
    return out


def example(length: int = 8) -> Any:
    return np.random.default_rng(length).integers(-9, 9, length).astype("float32")


@pytest.mark.parametrize("f", [outer_product, means, in_place])
def test_an_operation_computes_what_python_does(f: Any) -> None:
    n = te.size_var("n") if f is means else 8
    a, b = te.placeholder((n,), name="a"), te.placeholder((8,), name="b")
    made = f(a, b)
    outputs = made if isinstance(made, list) else [made]
    arrays = [example(8 if f is not means else 11), example(8)]
    expected = f(*(x.copy() for x in arrays))
    wanted = expected if isinstance(expected, tuple) else (expected,)
    results = [np.full(w.shape, 77, w.dtype) for w in wanted]
    before = [x.copy() for x in arrays]
    tvm.build(te.create_schedule(outputs[0].op), [a, b, *outputs])(*arrays, *results)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)
    for told in (results, te.reference([a, b, *outputs], arrays)):
        for result, w in zip(told, wanted, strict=True):
            np.testing.assert_allclose(result, w, rtol=1e-6)


def test_a_script_of_one_store_is_scheduled_as_a_compute() -> None:
    a, b = te.placeholder((64,), name="a"), te.placeholder((64,), name="b")
    c = outer_product(a, b)
    d = te.compute((64, 64), lambda i, j: c[i, j] + 1.0, name="d")
    s = te.create_schedule(d.op)
    i, j = c.op.axis
    io, ii = s[c].split(i, 4)
    s[c].reorder(ii, io, j)
    s[c].compute_at(s[d], d.op.axis[0])
    x, y, out = example(64), example(64)[::-1].copy(), np.zeros((64, 64), "float32")
    tvm.build(s, [a, b, d])(x, y, out)
    np.testing.assert_allclose(out, outer_product(x, y) + 1)
    assert [loop.name for loop in s[c].loops] == ["i.inner", "i.outer", "j"]


def test_the_loops_of_a_schedule_are_a_script(tmp_path: Any) -> None:
    a, b = te.placeholder((11,), name="a"), te.placeholder((8,), name="b")
    outputs = means(a, b)
    dumped = te.hybrid.build(te.create_schedule(outputs[0].op), [a, b], outputs, name="again")
    dumped.save(str(tmp_path / "again"))
    loaded = te.hybrid.HybridModule()
    loaded.load(str(tmp_path / "again.py"))
    x, y = example(11), example(8)
    for f in (dumped, loaded):
        for result, expected in zip(f(x, y), means(x, y), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-6)
    c, d = loaded(a, b)
    results = [np.zeros(9, "float32"), np.zeros((4, 2), "int32")]
    tvm.build(te.create_schedule(c.op), [a, b, c, d])(x, y, *results)
    for result, expected in zip(results, means(x, y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_a_kernel_of_bound_loops() -> None:
    @script
    def blocks(a):
        b = output_tensor(a.shape, a.dtype)
        for i in bind("blockIdx.x", 4):
            for j in bind("threadIdx.x", ceil_div(a.shape[0] + 1, 4)):
                if i * 16 + j < 60:
                    b[i * 16 + j] = sqrt(a[i * 16 + j])
        return b

    a = te.placeholder((60,), name="a")
    b = blocks(a)
    x, out = np.abs(example(60)), np.zeros(60, "float32")
    tvm.build(te.create_schedule(b.op), [a, b], "opencl")(x, out)
    np.testing.assert_allclose(out, blocks(x), rtol=1e-6)
