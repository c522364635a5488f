"""The notes on TVM: te and its module, functions as blocks, topi, a pass in the middle of lowering."""

from __future__ import annotations

import numpy as np
import pytest
from shim_cells import Notebook, in_order

from autosched import tvm
from autosched.tvm import te, tir, topi


@pytest.fixture
def notes() -> Notebook:
    return Notebook("seed_003")


def test_a_product_of_matrices_element_by_element(notes: Notebook) -> None:
    text = notes.run("mult")
    assert in_order(text, "target triple", "define", "@mult", "@I.ir_module", "for i, j in T.grid(m, n):")
    a, b = np.random.default_rng(0).random((2, 5, 7), dtype="float32")
    c = np.zeros_like(a)
    notes.names["mult"](a, b, c)
    assert np.array_equal(c, a * b)


#: cell -> what it prints, as the notes have it
BLOCKS = {
    "prim_func": ["i0", "B[i0_1] = A[i0_1] + T.float32(1)"],
    "split": ["for i0_0, i0_1, i0_2 in T.grid(2, 2, 2):", 'with T.block("B"):', "i0_0 * 4 + i0_1 * 2 + i0_2"],
    "reorder": ["for i0_0, i0_2, i0_1 in T.grid(2, 2, 2):", 'with T.block("B"):', "i0_0 * 4 + i0_1 * 2 + i0_2"],
    "bind": [
        'for i0_0 in T.thread_binding(2, thread="blockIdx.x"):',
        'for i0_2 in T.thread_binding(2, thread="threadIdx.x"):',
        'with T.block("B"):',
        "i0_0 * 4 + i0_1 * 2 + i0_2",
    ],
}


def test_functions_as_blocks(notes: Notebook) -> None:
    printed = {cell: notes.run(cell) for cell in ("prim_func", "schedule", "split", "reorder", "bind")}
    for cell, phrases in BLOCKS.items():
        assert in_order(printed[cell], "@I.ir_module", "def main(A: T.Buffer((8,)", *phrases), printed[cell]
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    notes.names["mod"](a, b)
    assert np.array_equal(b, a + 1)
    b[:] = 0
    tvm.build(notes.names["sch"].mod, target="opencl")(a, b)
    assert np.array_equal(b, a + 1)


def test_sums_by_te_and_by_topi(notes: Notebook) -> None:
    notes.names.update(te=te, tvm=tvm, topi=topi)
    notes.run("matrix", "sum", "topi_sum")
    names = notes.names
    x = np.random.default_rng(1).random((4, 9), dtype="float32")
    for s, out in ((names["s"], names["B"]), (names["ts"], names["C"])):
        y = np.zeros(4, "float32")
        tvm.build(s, [names["A"], out], "llvm")(x, y)
        tvm.testing.assert_allclose(y, x.sum(axis=1), rtol=1e-5)


def test_a_pass_after_phase_one(notes: Notebook) -> None:
    """The notes leave the pass and the schedule to the guide they link."""
    seen = []

    @tir.transform.prim_func_pass(opt_level=0)
    def vectorize(f, mod, ctx):
        tir.stmt_functor.post_order_visit(f.body, lambda op: seen.append(op) if isinstance(op, tir.For) else None)
        return f

    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: a[i] * b[i], name="c")
    notes.names.update(tvm=tvm, vectorize=vectorize, sch=te.create_schedule(c.op), a=a, b=b, c=c)
    assert "for i in range(8):" in notes.run("pass")
    assert [op.loop_var.name for op in seen] == ["i"]
