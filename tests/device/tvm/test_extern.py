"""Operations written out as statements or done by functions, as TVM's guide to external tensor functions shows."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te, tir

rng = np.random.default_rng(0)


def test_a_python_function_over_whole_tensors() -> None:
    @tvm.register_func("guide.add_one", override=True)
    def add_one(x, y) -> None:
        y[...] = x + 1

    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.extern(a.shape, [a], lambda ins, outs: tir.call_packed("guide.add_one", ins[0], outs[0]), name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    x = rng.random(7, dtype="float32")
    out = np.zeros_like(x)
    tvm.build(s, [a, c], "llvm")(x, out)
    assert np.allclose(out, (x + 1) * 2)


def histogram(ins, outs):
    ib = tir.ir_builder.create()
    data, counts = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, outs[0].shape[0], name="b") as b:
        counts[b] = 0
    with ib.for_range(0, ins[0].shape[0], name="i") as i:
        at = ib.let("at", data[i] % 5)
        with ib.if_scope(at >= 0):
            counts[at] = counts[at] + 1
    return ib.get()


def test_statements_by_the_ir_builder() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.extern((5,), [a], histogram, name="B", dtype="int32")
    x = rng.integers(0, 100, 40, dtype="int32")
    out = np.zeros(5, "int32")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(x, out)
    assert np.array_equal(out, np.bincount(x % 5, minlength=5))


def test_a_kernel_by_the_ir_builder() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        ib.scope_attr(bx, "thread_extent", tir.indexdiv(n + 63, 64))
        ib.scope_attr(tx, "thread_extent", 64)
        i = bx.var * 64 + tx.var
        with ib.if_scope(ib.likely(i < n)):
            y[i] = x[i] * 3.0
        return ib.get()

    b = te.extern(a.shape, [a], body, name="B", dtype="float32")
    x = rng.random(100, dtype="float32")
    out = np.zeros_like(x)
    tvm.build(te.create_schedule(b.op), [a, b], "opencl")(x, out)
    assert np.allclose(out, x * 3)


def test_two_outputs_of_one_operation() -> None:
    @tvm.register_func("guide.min_max", override=True)
    def min_max(x, low, high) -> None:
        low[...], high[...] = x.min(axis=1), x.max(axis=1)

    a = te.placeholder((4, 9), name="A")
    low, high = te.extern(
        [(4,), (4,)],
        [a],
        lambda ins, outs: tir.call_packed("guide.min_max", ins[0], outs[0], outs[1]),
        name="range",
        dtype=["float32", "float32"],
    )
    span = te.compute((4,), lambda i: high[i] - low[i], name="span")
    x = rng.random((4, 9), dtype="float32")
    out = np.zeros(4, "float32")
    tvm.build(te.create_schedule(span.op), [a, span], "llvm")(x, out)
    assert np.allclose(out, np.ptp(x, axis=1))


def test_an_analyzer() -> None:
    x, n = te.var("x"), te.var("n")
    analyzer = tvm.arith.Analyzer()
    analyzer.bind(x, tvm.ir.Range(0, 8))
    assert analyzer.can_prove(x < 8) and not analyzer.can_prove(x < 7)
    assert analyzer.const_int_bound(x + 3).max_value == 10
    assert str(analyzer.simplify((x * 8 + n) - n)) == "x*8"
    assert analyzer.modular_set(x * 4 + 1).coeff == 4


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorize", "unroll"])
def test_loops_of_every_kind(kind: str) -> None:
    a = te.placeholder((16,), name="A")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 16, name="i", kind=kind) as i:
            y[i] = x[i] + 1.0
        return ib.get()

    b = te.extern(a.shape, [a], body, name="B", dtype="float32")
    x = rng.random(16, dtype="float32")
    out = np.zeros_like(x)
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(x, out)
    assert np.allclose(out, x + 1)
