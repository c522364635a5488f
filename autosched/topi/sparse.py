"""Products with sparse matrices: rows of values and the columns that they are of (CSR), or of blocks (BSR).

`indptr[r]` to `indptr[r + 1]` are the values of row r, so how long loops are is data: these run on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir.builder import create
from autosched.ir.expr import Expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, accumulator, check_calls, narrowed, number

Term = Callable[..., Expr]


def _row_sums(
    shape: Sequence[Dim],
    inputs: Sequence[Tensor],
    row: Callable[[Sequence[Expr]], Expr],
    inner: Dim,
    term: Term,
    name: str,
    axis: int,
    multiply: Callable[[Any, Any], Any],
) -> Tensor:
    """Sums over the values of a row: `inputs` end with `indptr`; `term` of their buffers, the output's indices, the
    value's number and one of `inner` elements of a block.

    axis:     of the other matrix, whose length is that of a row
    multiply: the sparse matrix, as an array, and the other one
    """
    of = accumulator(inputs[0].dtype)

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> object:
        ib = create()
        buffers, out = [ib.buffer_ptr(x) for x in ins], ib.buffer_ptr(outs[0])

        def nest(i: list[Expr]) -> None:
            if len(i) < len(shape):
                kind = "serial" if i else "parallel"
                with ib.for_range(0, shape[len(i)], name=f"i{len(i)}", kind=kind) as x:
                    nest([*i, x])
                return
            total = ib.allocate(of, (1,), name="total")
            total[0] = te.const(0, of)
            r, indptr = row(i), buffers[-1]
            count = indptr[r + 1] - indptr[r]
            with ib.for_range(0, count, name="e") as e, ib.for_range(0, inner, name="c") as c:
                total[0] = total[0] + term(buffers, i, indptr[r] + e, c).astype(of)
            out[tuple(i)] = total[0]

        nest([])
        return ib.get()

    def reference(*arrays: Any) -> Any:
        values, columns, other, begins = arrays
        blocks = values.reshape(len(values), *(values.shape[1:] or (1, 1)))
        height, width = blocks.shape[1:]
        full = np.zeros(((len(begins) - 1) * height, other.shape[axis]), values.dtype)
        for r in range(len(begins) - 1):
            for e in range(begins[r], begins[r + 1]):
                full[r * height : (r + 1) * height, columns[e] * width : (columns[e] + 1) * width] += blocks[e]
        return multiply(full, other)

    made: Tensor = te.extern(tuple(shape), list(inputs), body, dtype=of, name=name, reference=reference)
    return narrowed(made, inputs[0].dtype)


def _rows(indptr: Tensor) -> Expr:
    return simplify(indptr.shape[0] - 1)


def csrmm(data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply a sparse matrix [m, k] and a matrix [k, n], and add a number to each row of the result.

    >>> from autosched import te, topi
    >>> data = te.placeholder((5,), name="data")
    >>> indices, indptr = te.placeholder((5,), "int32", "indices"), te.placeholder((4,), "int32", "indptr")
    >>> topi.sparse.csrmm(data, indices, indptr, te.placeholder((8, 2), name="B")).shape
    (3, 2)
    """
    asked = "topi.sparse.csrmm"
    _vectors(asked, data, indices, indptr)
    if weight.ndim != 2:
        raise UsageError(f"{weight!r} is no matrix", asked=asked, legal="2 dimensions")

    def term(b: Sequence[Any], i: Sequence[Expr], e: Expr, _: Expr) -> Expr:
        product: Expr = b[0][e] * b[2][b[1][e], i[1]]
        return product

    shape, inputs = (_rows(indptr), weight.shape[1]), [data, indices, weight, indptr]
    made = _row_sums(shape, inputs, lambda i: i[0], 1, term, "csrmm", 0, lambda a, b: a @ b)
    return made if bias is None else te.compute(made.shape, lambda i, j: made(i, j) + bias(i), name="csrmm_bias")


def csrmv(data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply a sparse matrix [m, k] and a vector [k, 1], and add a number to each row."""
    return csrmm(data, indices, indptr, weight, bias)


def _vectors(asked: str, *tensors: Tensor) -> None:
    if any(t.ndim != 1 for t in tensors):
        raise UsageError(
            f"{list(tensors)!r}", asked=asked, legal="vectors: values, their columns, and where rows begin"
        )


def dense(data: Tensor, w_data: Tensor, w_indices: Tensor, w_indptr: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute a fully connected layer: data [batch, in], sparse weights [out, in]; `w_data` may be blocks of them.

    Blocks are [number, rows, columns], and `w_indices` count blocks.
    """
    asked = "topi.sparse.dense"
    height, width = _block(w_data, asked)

    def term(b: Sequence[Any], i: Sequence[Expr], e: Expr, c: Expr) -> Expr:
        value = b[0][e, te.floormod(i[1], height), c] if w_data.ndim == 3 else b[0][e]
        product: Expr = value * b[2][i[0], b[1][e] * width + c]
        return product

    shape = (data.shape[0], simplify(_rows(w_indptr) * height))
    inputs = [w_data, w_indices, data, w_indptr]
    row = lambda i: te.floordiv(i[1], height)  # noqa: E731
    made = _row_sums(shape, inputs, row, width, term, "sparse_dense", 1, lambda a, b: b @ a.T)
    return made if bias is None else te.compute(made.shape, lambda i, j: made(i, j) + bias(j), name="sparse_bias")


def _block(values: Tensor, asked: str) -> tuple[int, int]:
    if values.ndim == 1:
        return 1, 1
    if values.ndim != 3:
        raise UsageError(f"{values!r}", asked=asked, legal="a vector of values, or [number, rows, columns] of blocks")
    height, width = (number(d, asked) for d in values.shape[1:])
    return height, width


def dense_sparse_data(data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor) -> Tensor:
    """Compute a fully connected layer: sparse data [batch, in], or blocks of them, and weights [out, in]."""
    height, width = _block(data, "topi.sparse.dense_sparse_data")

    def term(b: Sequence[Any], i: Sequence[Expr], e: Expr, c: Expr) -> Expr:
        value = b[0][e, te.floormod(i[0], height), c] if data.ndim == 3 else b[0][e]
        product: Expr = value * b[2][i[1], b[1][e] * width + c]
        return product

    shape = (simplify(_rows(indptr) * height), weight.shape[0])
    inputs, row = [data, indices, weight, indptr], lambda i: te.floordiv(i[0], height)
    return _row_sums(shape, inputs, row, width, term, "sparse_dense", 1, lambda a, b: a @ b.T)


def csradd(dense_data: Tensor, data: Tensor, indices: Tensor, indptr: Tensor) -> Tensor:
    """Add a sparse matrix to a matrix."""

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> object:
        ib = create()
        matrix, values, columns, begins = (ib.buffer_ptr(x) for x in ins)
        out = ib.buffer_ptr(outs[0])
        with ib.for_range(0, dense_data.shape[0], name="r", kind="parallel") as r:
            with ib.for_range(0, dense_data.shape[1], name="c") as c:
                out[r, c] = matrix[r, c]
            with ib.for_range(0, begins[r + 1] - begins[r], name="e") as e:
                at = begins[r] + e
                out[r, columns[at]] = out[r, columns[at]] + values[at]
        return ib.get()

    _vectors("topi.sparse.csradd", data, indices, indptr)
    inputs = [dense_data, data, indices, indptr]

    def reference(matrix: Any, values: Any, columns: Any, begins: Any) -> Any:
        out = matrix.copy()
        np.add.at(out, (np.repeat(np.arange(len(out)), np.diff(begins)), columns), values)
        return out

    of = dense_data.dtype
    made: Tensor = te.extern(dense_data.shape, inputs, body, dtype=of, name="sparse_add", reference=reference)
    return made


def transpose(data: Tensor, indices: Tensor, indptr: Tensor) -> list[Tensor]:
    """Return the values, columns and beginnings of rows of a square sparse matrix that is transposed."""
    _vectors("topi.sparse.transpose", data, indices, indptr)
    count, rows = data.shape[0], _rows(indptr)

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> object:
        ib = create()
        values, columns, begins = (ib.buffer_ptr(x) for x in ins)
        new_values, new_rows, ends = (ib.buffer_ptr(x) for x in outs)
        # counted one place further, then moved on while rows are filled, `ends` becomes where rows begin
        with ib.for_range(0, rows + 1, name="r") as r:
            ends[r] = te.const(0, indptr.dtype)
        with ib.for_range(0, count, name="e") as e, ib.if_scope(columns[e] + 2 < rows + 1):
            ends[columns[e] + 2] = ends[columns[e] + 2] + te.const(1, indptr.dtype)
        with ib.for_range(0, rows, name="r") as r:
            ends[r + 1] = ends[r + 1] + ends[r]
        with ib.for_range(0, rows, name="r") as r, ib.for_range(0, begins[r + 1] - begins[r], name="e") as e:
            at = begins[r] + e
            place = ends[columns[at] + 1]
            new_values[place] = values[at]
            new_rows[place] = r.astype(indices.dtype)
            ends[columns[at] + 1] = place + te.const(1, indptr.dtype)
        return ib.get()

    shapes = [(count,), (count,), (simplify(rows + 1),)]
    types = [data.dtype, indices.dtype, indptr.dtype]

    def reference(values: Any, columns: Any, begins: Any) -> Any:
        order = np.argsort(columns, kind="stable")
        of_row = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        ends = np.cumsum(np.bincount(columns, minlength=len(begins) - 1))
        return values[order], of_row[order].astype(columns.dtype), np.concatenate([[0], ends]).astype(begins.dtype)

    made: list[Tensor] = te.extern(
        shapes, [data, indices, indptr], body, dtype=types, name="sparse_transpose", reference=reference
    )
    return made


check_calls(globals(), own="topi.sparse")

__all__ = [
    "csradd",
    "csrmm",
    "csrmv",
    "dense",
    "dense_sparse_data",
    "transpose",
]
