"""Intrinsics called in the functions of `te.compute`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import tvm
from autosched.runtime import c_compiler, registry
from autosched.tvm import te, tir

pytestmark = pytest.mark.skipif(c_compiler.find_compiler() is None, reason="no C compiler")
SOURCE = """
int called_add(float *c, const float *a, const float *b, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
  return 0;
}
int called_gemv(float *z, const float *w, const float *x, int m, int n, int ld) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) z[i] += w[i * ld + j] * x[j];
  return 0;
}
int called_zero(float *z, int m) {
  for (int i = 0; i < m; ++i) z[i] = 0;
  return 0;
}
"""
RNG = np.random.default_rng(5)


@pytest.fixture(scope="module", autouse=True)
def functions() -> None:
    registry.import_c(SOURCE, "called")


def add(n: int) -> te.TensorIntrin:
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")

    def body(ins, outs):
        pointers = outs[0].access_ptr("w"), *(b.access_ptr("r") for b in ins)
        return tir.call_extern("int32", "called_add", *pointers, n)

    return te.decl_tensor_intrin(z.op, body, name="called_add", default_buffer_params={"offset_factor": 16})


def gemv(m: int, n: int) -> te.TensorIntrin:
    w, x = te.placeholder((m, n), name="w"), te.placeholder((n,), name="x")
    k = te.reduce_axis((0, n), name="k")
    z = te.compute((m,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")
    rows = tir.decl_buffer(w.shape, w.dtype, name="W", offset_factor=16, strides=[te.var("ld"), 1])

    def body(ins, outs):
        pointers = outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
        update = tir.call_extern("int32", "called_gemv", *pointers, m, n, ins[0].strides[0])
        return update, tir.call_extern("int32", "called_zero", pointers[0], m), update

    return te.decl_tensor_intrin(z.op, body, name="called_gemv", binds={w: rows})


def test_of_parts_of_rows() -> None:
    A, B, intrinsic = te.placeholder((8, 32), name="A"), te.placeholder((8, 32), name="B"), add(16)
    C = te.compute((8, 16), lambda i: intrinsic(A[i, 16:32], B[i, :16]), name="C")
    s = te.create_schedule(C.op)
    assert [a.name for a in C.op.axis] == ["i", "ax0"]
    s[C].split(C.op.axis[0], 4)
    loops = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert "called_add" in loops and "grid(2, 4)" in loops
    a, b = RNG.random((2, 8, 32), "float32")
    np.testing.assert_array_equal(tvm.build(s, [A, B, C])(a, b), a[:, 16:] + b[:, :16])
    np.testing.assert_array_equal(te.reference([A, B, C], [a, b])[0], a[:, 16:] + b[:, :16])


def test_of_numbers_among_the_operands() -> None:
    seen: list[tuple[int, float]] = []

    @tvm.register_func("called_axpy", override=True)
    def called_axpy(x, z, v, w):
        seen.append((v, w))
        z.copyfrom(x.numpy() * v + w)

    x, v, w = te.placeholder((16,), name="x"), te.var("v"), te.var("w", "float32")
    z = te.compute((16,), lambda i: x[i] * v + w, name="z")

    def body(ins, outs, numbers):
        return tir.call_packed("called_axpy", ins[0], outs[0], *numbers)

    axpy = te.decl_tensor_intrin(z.op, body, name="called_axpy", scalar_params=[v, w])
    A = te.placeholder((5, 32), name="A")
    C = te.compute((5, 16), lambda i: axpy(i * i + 1, A[i, 8:24], i + 2.5), name="C")
    a = RNG.random((5, 32), "float32")
    made = tvm.build(te.create_schedule(C.op), [A, C])(a)
    i = np.arange(5, dtype="float32")[:, None]
    np.testing.assert_allclose(made, a[:, 8:24] * (i * i + 1) + (i + 2.5), rtol=1e-6)
    assert seen == [(n * n + 1, n + 2.5) for n in range(5)]
    with pytest.raises(tvm.TVMError, match="these are no operands of it\n.*for each of x.*; a number for each of v, w"):
        axpy(A[0, 0:16], 1)
    with pytest.raises(tvm.TVMError, match="these are no operands of it"):
        axpy(1, A[0, 0:16], A[0, 1])


def test_a_sum_of_sums() -> None:
    A, B = te.placeholder((2, 4, 4, 8), name="A"), te.placeholder((16, 4, 8), name="B")
    k, intrinsic = te.reduce_axis((0, 4), name="k"), gemv(4, 8)
    C = te.compute((2, 16, 4), lambda i, j: intrinsic(A[i, k, 0:4, 0:8], B[j, k, 0:8], reduce_axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j, _ = s[C].op.axis
    outer, inner = s[C].split(j, 4)
    s[C].reorder(outer, i, inner)
    copies = s.cache_read(A, "local", [C])
    s[copies].compute_at(s[C], i)
    assert "called_gemv" in str(tvm.lower(s, [A, B, C], simple_mode=True))
    a, b = RNG.random((2, 4, 4, 8), "float32"), RNG.random((16, 4, 8), "float32")
    np.testing.assert_allclose(tvm.build(s, [A, B, C])(a, b), np.einsum("ikxr,jkr->ijx", a, b), rtol=1e-5)


def test_a_cache_takes_the_intrinsic() -> None:
    A, B, intrinsic = te.placeholder((8, 16), name="A"), te.placeholder((8, 16), name="B"), add(16)
    C = te.compute((8, 16), lambda i: intrinsic(A[i, 0:16], B[i, 0:16]), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AL = s.cache_read(A, "local", CL)
    outer, _ = s[C].split(C.op.axis[0], 2)
    s[CL].compute_at(s[C], outer)
    s[AL].compute_at(s[CL], CL.op.axis[0])
    loops = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert "called_add" in loops and "C_local" in loops and "A_local" in loops
    a, b = RNG.random((2, 8, 16), "float32")
    np.testing.assert_array_equal(tvm.build(s, [A, B, C])(a, b), a + b)
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 2)
    with pytest.raises(tvm.TVMError, match=r"C.ax0 \(tensorize\) is marked, and the loops start anew"):
        s.cache_write(C, "local")


def test_calls_that_cannot_be() -> None:
    A, B, intrinsic = te.placeholder((8, 4, 32), name="A"), te.placeholder((8, 32), name="B"), add(16)
    k = te.reduce_axis((0, 4), name="k")

    def made(shape: tuple[int, ...], f: Callable[[te.Expr], object]) -> Callable[[], object]:
        return lambda: te.compute(shape, f, name="C")

    for call, why in (
        (lambda: intrinsic(B[0, 0:16]), r"called_add\(B\[0, 0:16\]\): these are no operands of it\n  a region for each of x, y"),
        (lambda: intrinsic(B[0, 0:16], B[0, 1]), "these are no operands of it"),
        (lambda: intrinsic(B[0, 0:16], B[1, 0:16], reduce_axis=k), "it is no reduction\n  no reduce_axis"),
        (made((8, 16), lambda i: intrinsic(A[i, 0:4, 0:16], B[i, 0:16])), "2 of its dimensions are sliced\n  1, as many"),
        (made((8, 16, 2), lambda i: intrinsic(B[i, 0:16], B[i, 0:16])), "its result has 1 dimensions\n  2 more axes"),
        (made((8, 16), lambda i: B[i, 0]), "the function takes 1 axes, the shape has 2 dimensions"),
    ):  # fmt: skip
        with pytest.raises(tvm.TVMError, match=why):
            call()
