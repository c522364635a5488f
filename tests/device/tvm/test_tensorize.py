"""Tiles computed by a function of the user's, as TVM's guide to tensorize shows."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from shim_cells import in_order

from autosched import tvm
from autosched.runtime.registry import register_symbol
from autosched.tvm import te, tir

N, M, LENGTH, FACTOR, STEP = 16, 32, 24, 8, 12


def gemv_update(result, vector, matrix, m: int, length: int, stride: int) -> int:
    """The C function of the guide, written in Python: result += matrix @ vector."""
    for i in range(m):
        for k in range(length):
            result[i] += matrix[i * stride + k] * vector[k]
    return 0


POINTER = ctypes.POINTER(ctypes.c_float)
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, POINTER, POINTER, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
GEMV = CALLBACK(gemv_update)


def gemv_reset(result, m: int) -> int:
    for i in range(m):
        result[i] = 0.0
    return 0


RESET_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, ctypes.c_int32)
RESET = RESET_CALLBACK(gemv_reset)


def intrin_gemv(m: int, length: int):
    a = te.placeholder((length,), name="a")
    b = te.placeholder((m, length), name="b")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    binds = {
        a: tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1]),
        b: tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1]),
        c: tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1]),
    }

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def update():
            ib = tir.ir_builder.create()
            ib.emit(
                tir.call_extern(
                    "int32",
                    "guide_gemv_update",
                    cc.access_ptr("rw"),
                    aa.access_ptr("r"),
                    bb.access_ptr("r"),
                    m,
                    length,
                    bb.strides[0],
                )
            )
            return ib.get()

        def reset():
            ib = tir.ir_builder.create()
            ib.emit(tir.call_extern("int32", "guide_gemv_reset", cc.access_ptr("w"), m))
            return ib.get()

        return tir.SeqStmt([reset(), update()]), reset(), update()

    return te.decl_tensor_intrin(c.op, intrin_func, binds=binds)


@pytest.mark.parametrize("split_sum", [False, True])
def test_rows_of_a_product_by_a_c_function(split_sum: bool) -> None:
    register_symbol("guide_gemv_update", ctypes.cast(GEMV, ctypes.c_void_p).value)
    register_symbol("guide_gemv_reset", ctypes.cast(RESET, ctypes.c_void_p).value)
    a, b = te.placeholder((N, LENGTH), name="A"), te.placeholder((M, LENGTH), name="B")
    k = te.reduce_axis((0, LENGTH), name="k")
    c = te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    x, y = c.op.axis
    (z,) = s[c].op.reduce_axis
    yo, yi = s[c].split(y, factor=FACTOR)
    if split_sum:
        zo, zi = s[c].split(z, factor=STEP)
        s[c].reorder(x, yo, zo, yi, zi)
    else:
        s[c].reorder(x, yo, yi, z)
    s[c].tensorize(yi, intrin_gemv(FACTOR, STEP if split_sum else LENGTH))
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert in_order(text, "guide_gemv_reset", "guide_gemv_update")
    rng = np.random.default_rng(0)
    left, right = rng.random((N, LENGTH), dtype="float32"), rng.random((M, LENGTH), dtype="float32")
    out = np.zeros((N, M), "float32")
    tvm.build(s, [a, b, c], "llvm")(left, right, out)
    tvm.testing.assert_allclose(out, left @ right.T, rtol=1e-5)
