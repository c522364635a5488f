"""What programs of loops cost: `tir.analysis.estimate_tir_flops` and `calculate_workspace_bytes`."""

from __future__ import annotations

import pytest

from autosched import tvm
from autosched.errors import UsageError
from autosched.tvm import te, tir, topi
from autosched.tvm.script import tir as T

FLOPS, BYTES = tir.analysis.estimate_tir_flops, tir.analysis.calculate_workspace_bytes


def convolution() -> list[te.Tensor]:
    X, W = te.placeholder((1, 12, 12, 3), name="X"), te.placeholder((3, 3, 3, 8), name="W")
    return [X, W, topi.nn.conv2d_nhwc(X, W, 1, 1, 1)]


def test_operators_of_sums_count_and_indices_do_not() -> None:
    f = te.create_prim_func(convolution())
    assert FLOPS(f) == 12 * 12 * 8 * 27 * 2  # not the conditions of the padding
    assert FLOPS(tvm.IRModule({"one": f, "other": f})) == 2 * FLOPS(f)
    assert FLOPS(f.with_attr("estimated_flops", 7)) == 7
    args = convolution()
    assert FLOPS(tvm.lower(te.create_schedule(args[-1].op), args, simple_mode=True)["main"].body) == FLOPS(f)
    with pytest.raises(UsageError, match="is no program"):
        FLOPS("f")


def test_the_dearer_branch_and_the_longest_loop_count() -> None:
    @T.prim_func
    def branches(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
        for i in range(16):
            if b[i] < T.float32(1):
                a[i] = b[i]
            else:
                a[i] = b[i] * b[i] + T.float32(1)

    @T.prim_func
    def triangle(a: T.Buffer((16,), "float32")):
        for i in range(16):
            for k in range(i):
                a[k] = a[k] + T.float32(1)

    assert FLOPS(branches) == 2 * 16
    assert FLOPS(triangle) == 16 * 15


def test_an_expression_that_is_shared_counts_where_it_stands() -> None:
    A = te.placeholder((4,), name="A")

    def doubled(i: tir.Var) -> tir.PrimExpr:
        e = A[i]
        for _ in range(50):
            e = e + e
        return e

    assert FLOPS(te.create_prim_func([A, te.compute((4,), doubled, name="B")])) == 4 * (2**50 - 1)


def test_memory_that_is_held_at_a_time() -> None:
    A = te.placeholder((100,), name="A", dtype="int8")
    B = te.compute((100,), lambda i: A[i] + A[99 - i], name="B")
    C = te.compute((100,), lambda i: B[i].astype("int64"), name="C")
    one = te.create_prim_func([A, te.compute((100,), lambda i: B[i] + B[99 - i], name="D")])
    two = te.create_prim_func([A, te.compute((100,), lambda i: C[i] + C[99 - i], name="E")])
    assert str(B.dtype) == "int8"
    assert (BYTES(one, 1), BYTES(one, 64)) == (100, 128)
    assert (BYTES(two, 1), BYTES(two, 64)) == (100 + 800, 128 + 832)
    inside = tir.Schedule(two)
    inside.compute_at(inside.get_block("B"), inside.get_loops(inside.get_block("C"))[0])
    assert BYTES(inside.mod["main"], 1) < BYTES(two, 1)
    with pytest.raises(UsageError, match="is no program"):
        BYTES(None, 1)
