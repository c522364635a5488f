"""Reduce axes whose ends depend on the element, or on data, in programs written for TVM."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import UsageError
from autosched.tvm import te


def prefix_sums(n: object) -> tuple[te.Tensor, te.Tensor]:
    A = te.placeholder((n,), name="A")

    def sums(i: te.Expr) -> te.Expr:
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(A[k], axis=k)

    return A, te.compute((n,), sums, name="B")


def test_ends_that_depend_on_the_element() -> None:
    A, B = prefix_sums(10)
    s = te.create_schedule(B.op)
    assert "for k in range(i + 1)" in str(tvm.lower(s, [A, B]))  # no condition in the loop
    x, out = np.random.rand(10).astype("float32"), np.zeros(10, "float32")
    tvm.build(s, [A, B])(x, out)
    np.testing.assert_allclose(out, np.cumsum(x), rtol=1e-5)


def test_of_any_size_and_scheduled() -> None:
    A, B = prefix_sums(te.var("n"))
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=4)
    ko, _ = s[B].split(B.op.reduce_axis[0], factor=8)
    s[B].reorder(outer, ko, inner)
    f = tvm.build(s, [A, B])
    for n in (1, 7, 40):
        x, out = np.random.rand(n).astype("float32"), np.zeros(n, "float32")
        f(x, out)
        np.testing.assert_allclose(out, np.cumsum(x), rtol=1e-5)


def test_a_band_that_begins_at_the_element_and_may_be_empty() -> None:
    A = te.placeholder((12,), name="A", dtype="int32")

    def band(i: te.Expr, j: te.Expr) -> te.Expr:
        k = te.reduce_axis((i, te.min(i + j, 12)), name="k")
        return te.max(A[k] * (k + 1), axis=k)

    B = te.compute((12, 4), band, name="B")
    x, out = np.random.randint(-9, 9, 12).astype("int32"), np.zeros((12, 4), "int32")
    tvm.build(te.create_schedule(B.op), [A, B])(x, out)
    scaled = x * np.arange(1, 13)
    least = np.iinfo("int32").min
    wanted = [[max(scaled[i : min(i + j, 12)], default=least) for j in range(4)] for i in range(12)]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_of_a_sparse_matrix(is_known: bool) -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((6, 5)).astype("float32") * (rng.random((6, 5)) < 0.4)
    dense[2] = 0
    rows, columns = np.nonzero(dense)
    data, indptr = dense[rows, columns], np.searchsorted(rows, np.arange(7)).astype("int32")
    m, nnz = (6, len(data)) if is_known else (te.var("m"), te.var("nnz"))
    D, J = te.placeholder((nnz,), name="D"), te.placeholder((nnz,), name="J", dtype="int32")
    P, V = te.placeholder((m + 1,), name="P", dtype="int32"), te.placeholder((5,), name="V")

    def row(i: te.Expr) -> te.Expr:
        k = te.reduce_axis((0, P[i + 1] - P[i]), name="k")
        return te.sum(D[P[i] + k] * V[J[P[i] + k]], axis=k)

    Y = te.compute((m,), row, name="Y")
    v, out = rng.random(5).astype("float32"), np.zeros(6, "float32")
    f = tvm.build(te.create_schedule(Y.op), [D, J, P, V, Y])
    f(data, columns.astype("int32"), indptr, v, out)
    np.testing.assert_allclose(out, dense @ v, rtol=1e-5)


def test_what_nothing_bounds_is_refused() -> None:
    P = te.placeholder((8,), name="P", dtype="int32")

    def count(i: te.Expr) -> te.Expr:
        k = te.reduce_axis((0, P[i]), name="k")
        return te.sum(k + 0, axis=k)

    with pytest.raises(UsageError, match="nothing says how large"):
        te.compute((8,), count, name="B")
    with pytest.raises(UsageError, match="not an integer over size variables"):
        te.reduce_axis((0, P[0]))
