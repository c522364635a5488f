"""Fully connected layers and products of many matrices."""

from __future__ import annotations

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.shapes import accumulator, axis_of, broadcast_shapes, narrowed, product, same


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: object = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """A matrix product of type `out_dtype` with an optional bias for each column; float16 is summed in float32."""
    if tensor_a.ndim != 2 or tensor_b.ndim != 2:
        raise UsageError(f"{tensor_a!r} and {tensor_b!r} are not matrices", asked="topi.nn.matmul", legal="two of them")
    rows, inner = (tensor_a.shape[1], tensor_a.shape[0]) if transpose_a else tensor_a.shape
    other, columns = (tensor_b.shape[1], tensor_b.shape[0]) if transpose_b else tensor_b.shape
    if not same(inner, other):
        raise UsageError(f"{inner!r} columns meet {other!r} rows", asked="topi.nn.matmul", legal="as many of them")
    result = tensor_a.dtype if out_dtype is None else out_dtype
    of = accumulator(result)
    k = te.reduce_axis((0, inner), "k")

    def body(i: Expr, j: Expr) -> object:
        left = tensor_a(k, i) if transpose_a else tensor_a(i, k)
        right = tensor_b(j, k) if transpose_b else tensor_b(k, j)
        return te.sum(left.astype(of) * right.astype(of), axis=k)

    made = te.compute((rows, columns), body, name=f"T_matmul_{'NT'[transpose_a]}{'NT'[transpose_b]}", tag="dense")
    return narrowed(made if bias is None else bias_add(made, bias), result)


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: object = None) -> Tensor:
    """Data [batch, in], weights [out, in]: a fully connected layer.

    >>> from autosched import te, topi
    >>> topi.nn.dense(te.placeholder((2, 8), name="x"), te.placeholder((4, 8), name="w")).shape
    (2, 4)
    """
    return matmul(data, weight, bias, out_dtype, False, True)


def bias_add(data: Tensor, bias: Tensor, axis: int = -1) -> Tensor:
    """A number for each place along an axis, added."""
    at = axis_of(data, axis, "topi.nn.bias_add")
    return te.compute(data.shape, lambda *i: data(*i) + bias(i[at]).astype(data.dtype), name="T_add", tag="broadcast")


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: object = None,
    out_dtype: object = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Products of matrices, one for each batch: [b, m, k] and [b, n, k], or as the flags say.

    A batch of one meets every batch of the other. `oshape` is what TVM takes for shapes that it
    cannot see, and follows from the others here.
    """
    asked = "topi.nn.batch_matmul"
    if tensor_a.ndim != 3 or tensor_b.ndim != 3:
        raise UsageError(
            f"{tensor_a!r} and {tensor_b!r} are not batches of matrices", asked=asked, legal="3 dimensions"
        )
    (batch,) = broadcast_shapes(tensor_a.shape[:1], tensor_b.shape[:1], asked)
    inner, rows = tensor_a.shape[1:] if transpose_a else reversed(tensor_a.shape[1:])
    columns, other = tensor_b.shape[1:] if transpose_b else reversed(tensor_b.shape[1:])
    if not same(inner, other):
        raise UsageError(f"{inner!r} columns meet {other!r} rows", asked=asked, legal="as many of them")
    result = tensor_a.dtype if out_dtype is None else out_dtype
    of = accumulator(result)
    k = te.reduce_axis((0, inner), "k")

    def body(b: Expr, i: Expr, j: Expr) -> object:
        at_a, at_b = (0 if is_const(t.shape[0], 1) and not is_const(batch, 1) else b for t in (tensor_a, tensor_b))
        left = tensor_a(at_a, k, i) if transpose_a else tensor_a(at_a, i, k)
        right = tensor_b(at_b, j, k) if transpose_b else tensor_b(at_b, k, j)
        return te.sum(left.astype(of) * right.astype(of), axis=k)

    name = f"T_batch_matmul_{'NT'[transpose_a]}{'NT'[transpose_b]}"
    return narrowed(te.compute((batch, rows, columns), body, name=name, tag="batch_matmul"), result)


def flatten(data: Tensor) -> Tensor:
    """[batch, ...] as [batch, all the rest]."""
    rest = data.shape[1:]
    width = product(rest)

    def body(b: Expr, j: Expr) -> object:
        index: list[Expr] = []
        for n, d in enumerate(reversed(rest)):
            index.insert(0, j if n == len(rest) - 1 else te.floormod(j, d))
            j = te.floordiv(j, d)
        return data(b, *index)

    return te.compute((data.shape[0], width), body, name="tensor", tag="injective")
