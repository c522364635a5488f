"""Fully connected layers and products of many matrices."""

from __future__ import annotations

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, broadcast_shapes, narrowed, product, same, unravel
from autosched.topi.elementwise import elementwise
from autosched.topi.linalg import einsum, matrix_product


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: object = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """Multiply matrices, and add a bias to each column. The result is of `out_dtype`; float16 is summed in float32.

    More dimensions than two are batches, which go together as NumPy's.
    """
    result = tensor_a.dtype if out_dtype is None else out_dtype
    if max(tensor_a.ndim, tensor_b.ndim) > 2:
        left, right = ("ji" if transpose_a else "ij"), ("kj" if transpose_b else "jk")
        of = accumulator(result)
        wide = [elementwise(t, lambda e: e.astype(of), "cast") if t.dtype != of else t for t in (tensor_a, tensor_b)]
        total = einsum(f"...{left},...{right}->...ik", *wide)
        return narrowed(total if bias is None else bias_add(total, bias), result)
    name = f"T_matmul_{'NT'[transpose_a]}{'NT'[transpose_b]}"
    made = matrix_product(
        tensor_a, tensor_b, transpose_a, transpose_b, accumulator(result), "topi.nn.matmul", name, "dense"
    )
    return narrowed(made if bias is None else bias_add(made, bias), result)


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: object = None) -> Tensor:
    """Compute a fully connected layer: data [batch, in], weights [out, in].

    >>> from autosched import te, topi
    >>> topi.nn.dense(te.placeholder((2, 8), name="x"), te.placeholder((4, 8), name="w")).shape
    (2, 4)
    """
    if data.ndim != 2 or weight.ndim != 2:
        why = f"{data!r} and {weight!r} are not matrices"
        raise UsageError(why, asked="topi.nn.dense", legal="[batch, in] and [out, in]; topi.nn.matmul for batches")
    return matmul(data, weight, bias, out_dtype, False, True)


def bias_add(data: Tensor, bias: Tensor, axis: int = -1) -> Tensor:
    """Add a number for each place along an axis."""
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
    """Multiply the matrices of each batch: [b, m, k] and [b, n, k], or as the flags say.

    A batch of one meets every batch of the other. `oshape` follows from the other arguments and changes nothing.
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
    """Reshape [batch, ...] to [batch, all the rest]."""
    rest = data.shape[1:]

    def body(b: Expr, j: Expr) -> object:
        return data(b, *unravel(j, rest))

    return te.compute((data.shape[0], product(rest)), body, name="tensor", tag="injective")
