"""Several values at once, as TVM's guide to tuple inputs shows: compute, argmax, and where producers go."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te

rng = np.random.default_rng(0)


def test_two_outputs_of_one_computation() -> None:
    m, n = te.var("m"), te.var("n")
    a0, a1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    b0, b1 = te.compute((m, n), lambda i, j: (a0[i, j] + 2, a1[i, j] * 3), name="B")
    assert b0.op is b1.op and b0.op.num_outputs == 2 and b1.value_index == 1 and len(b0.op.body) == 2
    s = te.create_schedule(b0.op)
    text = str(tvm.lower(s, [a0, a1, b0, b1], simple_mode=True))
    assert text.count("for i, j in T.grid(m, n):") == 1
    x, y = rng.random((2, 4, 6), dtype="float32")
    r0, r1 = np.zeros_like(x), np.zeros_like(y)
    tvm.build(s, [a0, a1, b0, b1], "llvm")(x, y, r0, r1)
    assert np.array_equal(r0, x + 2) and np.array_equal(r1, y * 3)


def fcombine(x, y):
    """The pair of index and value with the larger value; the first of equals."""
    lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
    rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
    return lhs, rhs


def fidentity(t0, t1):
    return tvm.tir.const(-1, t0), tvm.te.min_value(t1)


argmax = te.comm_reducer(fcombine, fidentity, name="argmax")


@pytest.mark.parametrize("schedule", ["default", "split", "factored"])
def test_argmax(schedule: str) -> None:
    m, n = te.var("m"), te.var("n")
    idx, val = te.placeholder((m, n), name="idx", dtype="int32"), te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    t0, t1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(t0.op)
    if schedule != "default":
        _, inner = s[t0].split(t0.op.reduce_axis[0], factor=4)
        if schedule == "factored":
            s.rfactor(t0, inner)
    index = np.broadcast_to(np.arange(11, dtype="int32"), (5, 11)).copy()
    values = rng.integers(-50, 50, (5, 11), dtype="int32")
    at, best = np.zeros(5, "int32"), np.zeros(5, "int32")
    tvm.build(s, [idx, val, t0, t1], "llvm")(index, values, at, best)
    assert np.array_equal(best, values.max(axis=1))
    assert np.array_equal(values[np.arange(5), at], best)
    if schedule != "factored":
        assert np.array_equal(at, values.argmax(axis=1))


def test_a_producer_of_several_values_in_its_consumer() -> None:
    m, n = te.var("m"), te.var("n")
    a0, a1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    b0, b1 = te.compute((m, n), lambda i, j: (a0[i, j] + 2, a0[i, j] * 3), name="B")
    c = te.compute((m, n), lambda i, j: a1[i, j] + b0[i, j], name="C")
    s = te.create_schedule(c.op)
    s[b0].compute_at(s[c], c.op.axis[0])
    x, y = rng.random((2, 3, 5), dtype="float32")
    out = np.zeros_like(x)
    tvm.build(s, [a0, a1, c], "llvm")(x, y, out)
    assert np.allclose(out, y + x + 2)
    assert b1.name != ""


def test_a_reducer_of_one_s_own() -> None:
    """A product, as the guide to reductions defines it."""
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: product(a[i, k], axis=k), name="b")
    x = rng.random((4, 6), dtype="float32") + 0.5
    out = np.zeros(4, "float32")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(x, out)
    tvm.testing.assert_allclose(out, x.prod(axis=1), rtol=1e-5)
