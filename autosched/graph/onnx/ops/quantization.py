"""Operators on quantised numbers: x = (q - zero point) * scale.

Contractions are int32 sums of products of bytes, which processors have instructions for. Zero points stay out of them:

    sum((a - p) * (b - q))  =  sum(a * b)  -  q * sum(a)  -  p * sum(b)  +  n * p * q
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.graph import small
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.ops.elementwise import element_type
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, broadcast_shapes, product
from autosched.topi.elementwise import stretched


def dtype_of(node: Node, number: int | None, default: object) -> DType:
    """The element type that an attribute names by its number in ONNX; the default for 0."""
    return element_type(node, number) if number else to_dtype(default)


def at_scale(node: Node, t: Tensor, x: Tensor) -> Callable[..., Expr]:
    """The element of a scale, or of a zero point, for a place of `x`: one for all, one for each place along an axis,
    or one for each block along it."""
    axis, block = node.attr("axis", 1), node.attr("block_size", 0)
    if t.ndim == 0 or (t.ndim == 1 and is_const(t.shape[0], 1)):
        return lambda *i: t(*[0] * t.ndim)
    at = axis_of(x, axis, f"{node.kind} {node.name}")
    if t.ndim == 1 and not block:
        return lambda *i: t(i[at])
    if t.ndim != x.ndim or not block:
        raise node.refused(f"scales of {t.ndim} dimensions for {x.ndim}", "none, one, or blocks along an axis")
    return lambda *i: t(*(te.floordiv(e, block) if k == at else e for k, e in enumerate(i)))


def quantized(value: Expr, zero: Expr | None, of: DType | np.dtype[Any]) -> Expr:
    """A float as the nearest of the integers of a type, ties to even, after the zero point is added."""
    sums = value.dtype if value.dtype.bits == 64 else to_dtype("float32")
    rounded = te.nearbyint(value.astype(sums))
    moved = rounded if zero is None else rounded + zero.astype(sums)
    if not isinstance(of, DType):
        (low, high), of = small.limits(of), small.carrier(of)
    else:
        low, high = of.min, of.max
    return te.max(te.min(moved, te.const(float(high), sums)), te.const(float(low), sums)).astype(of)


@operator("QuantizeLinear")
def quantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    of: Any = small.of_number(node.attr("output_dtype", 0)) or dtype_of(node, node.attr("output_dtype"), "uint8")
    if zero is not None:
        of = node.small.get(zero, zero.dtype)
    is_float = not isinstance(of, DType) and of.name.startswith("float")
    if isinstance(of, DType) and not of.is_integer:
        raise node.refused(f"{of} is no quantised type", "integers, and floats of 4 to 8 bits")
    inner = dtype_of(node, node.attr("precision"), scale.dtype if scale.dtype.is_float else "float32")
    scale_at, zero_at = at_scale(node, scale, x), None if zero is None else at_scale(node, zero, x)

    def body(*i: Expr) -> Expr:
        quotient = x(*i).astype(inner) / scale_at(*i).astype(inner)
        if is_float:
            return small.rounded(quotient, of, bool(node.attr("saturate", 1)))
        return quantized(quotient, None if zero_at is None else zero_at(*i), of)

    made = te.compute(x.shape, body, name="quantize")
    if not isinstance(of, DType):
        node.small[made] = of
    return made


@operator("DequantizeLinear")
def dequantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    of = dtype_of(node, node.attr("output_dtype"), scale.dtype)
    inner = accumulator(of)
    scale_at = at_scale(node, scale, x)
    zero_at = None if zero is None or _is_zero(node, zero) else at_scale(node, zero, x)

    def body(*i: Expr) -> Expr:
        q = x(*i).astype("int32") if x.dtype.is_integer else x(*i)
        moved = q if zero_at is None else q - zero_at(*i).astype(q.dtype)
        return (moved.astype(inner) * scale_at(*i).astype(inner)).astype(of)

    return te.compute(x.shape, body, name="dequantize")


@operator("DynamicQuantizeLinear")
def dynamic_quantize(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    zero = te.const(0.0, x.dtype)
    low, high = topi.min(x), topi.max(x)
    scale = te.compute((), lambda: (te.max(high(), zero) - te.min(low(), zero)) / 255.0, name="scale")

    def divisor() -> Expr:  # all elements are zero: so is the scale, and every quotient
        return te.select(scale() > 0, scale(), te.const(1, x.dtype))

    point = te.compute((), lambda: quantized(-te.min(low(), zero) / divisor(), None, to_dtype("uint8")), name="zero")
    y = te.compute(x.shape, lambda *i: quantized(x(*i) / divisor(), point(), point.dtype), name="quantize")
    return y, scale, point


def _is_zero(node: Node, t: Tensor | None) -> bool:
    """Whether a zero point is certainly zero."""
    return t is None or (node.is_known(t) and not np.any(node.values(t)))


# -- contractions -----------------------------------------------------------------------------------


def _times(a: Expr, b: Expr) -> Expr:
    return a.astype("int32") * b.astype("int32")


def _matrices(a: Tensor, b: Tensor) -> tuple[list[Expr], Callable[..., Tensor]]:
    """The shape of the products of matrices, and their sum of a function of two elements."""
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2], "MatMulInteger")
    shape = [*lead, a.shape[-2], b.shape[-1]]
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def summed(factors: Callable[[Expr, Expr], Expr], name: str) -> Tensor:
        def body(*i: Expr) -> object:
            before = i[:-2]
            left = [e if not is_const(d, 1) else as_expr(0) for e, d in _aligned(before, a)]
            right = [e if not is_const(d, 1) else as_expr(0) for e, d in _aligned(before, b)]
            return te.sum(factors(a(*left, i[-2], k), b(*right, k, i[-1])), axis=k)

        return te.compute(tuple(shape), body, name=name)

    return shape, summed


def _aligned(i: Sequence[Expr], t: Tensor) -> list[tuple[Expr, Expr]]:
    return list(zip(i[len(i) - (t.ndim - 2) :], t.shape[:-2], strict=True))


def _of_rows(t: Tensor) -> Tensor:
    """What belongs to rows of the left factor, in a shape that stretches over the product."""
    return topi.expand_dims(t, 1) if t.ndim == 1 and not is_const(t.shape[0], 1) else t


def matmul_integer(node: Node, a: Tensor, b: Tensor, p: Tensor | None, q: Tensor | None) -> Tensor:
    """int32 products of matrices, and of vectors, as `numpy.matmul`."""
    vectors = [t.ndim == 1 for t in (a, b)]
    a = topi.expand_dims(a, 0) if vectors[0] else a
    b = topi.expand_dims(b, 1) if vectors[1] else b
    shape, summed = _matrices(a, b)
    p = None if p is None else _of_rows(p)
    result = summed(_times, "matmul_integer")
    terms: list[Callable[..., Expr]] = []
    if p is not None and not _is_zero(node, p):
        k = te.reduce_axis((0, b.shape[-2]), "k")
        columns = te.compute(
            (*b.shape[:-2], 1, b.shape[-1]),
            lambda *i: te.sum(b(*i[:-2], k, i[-1]).astype("int32"), axis=k),
            name="columns",
        )
        terms.append(lambda *i: 0 - _times(_at(p, i, shape), _at(columns, i, shape)))
    if q is not None and not _is_zero(node, q):
        n = te.reduce_axis((0, a.shape[-1]), "k")
        rows = te.compute((*a.shape[:-1], 1), lambda *i: te.sum(a(*i[:-1], n).astype("int32"), axis=n), name="rows")
        terms.append(lambda *i: 0 - _times(_at(q, i, shape), _at(rows, i, shape)))
    if len(terms) == 2:
        terms.append(lambda *i: _times(_at(p, i, shape), _at(q, i, shape)) * a.shape[-1].astype("int32"))
    if terms:
        sums = result
        result = te.compute(tuple(shape), lambda *i: sum((t(*i) for t in terms), sums(*i)), name="moved")
    axes = [axis for axis, is_vector in zip((-2, -1), vectors, strict=True) if is_vector]
    return topi.squeeze(result, axes) if axes else result


def _at(t: Any, i: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The element of what stretches over a shape."""
    found = stretched(t, i, shape)
    assert isinstance(found, Expr)
    return found


@operator("MatMulInteger")
def read_matmul_integer(node: Node, a: Tensor, b: Tensor, p: Tensor | None = None, q: Tensor | None = None) -> Tensor:
    return matmul_integer(node, a, b, p, q)


@operator("QLinearMatMul")
def qlinear_matmul(
    node: Node, a: Tensor, sa: Tensor, p: Tensor, b: Tensor, sb: Tensor, q: Tensor, sy: Tensor, zy: Tensor
) -> Tensor:
    sums = matmul_integer(node, a, b, p, q)
    sa = _of_rows(sa) if a.ndim > 1 else sa
    return _requantized(sums, lambda i: (_at(sa, i, sums.shape), _at(sb, i, sums.shape)), sy, zy)


def _requantized(sums: Tensor, scales: Callable[..., tuple[Expr, Expr]], sy: Tensor, zy: Tensor) -> Tensor:
    """Sums of products as quantised numbers of another scale."""

    def body(*i: Expr) -> Expr:
        one, other = scales(i)
        factor = one * other / sy(*[0] * sy.ndim)
        inner = accumulator(factor.dtype)
        return quantized(sums(*i).astype(inner) * factor.astype(inner), zy(*[0] * zy.ndim), zy.dtype)

    return te.compute(sums.shape, body, name="requantize")


# -- convolutions -----------------------------------------------------------------------------------


def conv_integer(node: Node, x: Tensor, w: Tensor, p: Tensor | None, q: Tensor | None) -> Tensor:
    """int32 convolutions. The border is of the zero point, so that it counts as zero."""
    space = x.ndim - 2
    strides, dilations = (list(node.attr(name) or [1] * space) for name in ("strides", "dilations"))
    groups = node.attr("group", 1)
    before, after = _border(node, x, w, strides, dilations)
    has_p, has_q = (t is not None and not _is_zero(node, t) for t in (p, q))
    if any(before) or any(after):
        value = p(*[0] * p.ndim) if p is not None and has_p else 0
        x = topi.nn.pad(x, [0, 0, *before], [0, 0, *after], value)
    letters = "DHW"[-space:] if space <= 3 else "ABCDEFGH"[:space]

    def convolved(weights: Tensor) -> Tensor:
        return topi.nn.convolution(
            x, weights, strides, 0, dilations, groups, f"NC{letters}", f"OI{letters}", "int32", "conv_integer"
        )

    sums = convolved(w)
    terms: list[Callable[..., Expr]] = []
    axes = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(w.shape[1:])]
    if has_p:
        weights = te.compute(w.shape[:1], lambda o: te.sum(w(o, *axes).astype("int32"), axis=axes), name="weight_sums")
        terms.append(lambda *i: 0 - _times(p(*[0] * p.ndim), weights(i[1])))
    if has_q:
        inside = convolved(
            node.constant(np.ones([groups, *(topi.arguments.number(d, node.kind) for d in w.shape[1:])], np.int8))
        )
        per_group = te.floordiv(w.shape[0], groups)
        terms.append(lambda *i: 0 - _times(_channel(q, i[1]), inside(i[0], te.floordiv(i[1], per_group), *i[2:])))
    if len(terms) == 2:
        count = product(w.shape[1:])
        terms.append(lambda *i: _times(p(*[0] * p.ndim), _channel(q, i[1])) * count.astype("int32"))
    if not terms:
        return sums
    return te.compute(sums.shape, lambda *i: sum((t(*i) for t in terms), sums(*i)), name="moved")


def _channel(t: Tensor, c: Expr) -> Expr:
    """What belongs to a channel: one for all, or one each."""
    return t(*[0] * t.ndim) if t.ndim == 0 or is_const(t.shape[0], 1) else t(c)


def _border(
    node: Node, x: Tensor, w: Tensor, strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[Any], list[Any]]:
    """How far windows begin before the data, and end after it, along each axis in space."""
    rule, space = node.attr("auto_pad", "NOTSET"), x.ndim - 2
    if rule == "NOTSET":
        pads = list(node.attr("pads") or [0] * 2 * space)
        return pads[:space], pads[space:]
    if rule == "VALID":
        return [0] * space, [0] * space
    totals = []
    for size, taps, step, spread in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True):
        n, k = (topi.arguments.number(d, node.kind) for d in (size, taps))
        totals.append(max(0, (-(-n // step) - 1) * step + (k - 1) * spread + 1 - n))
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (less, more) if rule == "SAME_UPPER" else (more, less)


@operator("ConvInteger")
def read_conv_integer(node: Node, x: Tensor, w: Tensor, p: Tensor | None = None, q: Tensor | None = None) -> Tensor:
    return conv_integer(node, x, w, p, q)


@operator("QLinearConv")
def qlinear_conv(
    node: Node, x: Tensor, sx: Tensor, p: Tensor, w: Tensor, sw: Tensor, q: Tensor, sy: Tensor, zy: Tensor,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    sums = conv_integer(node, x, w, p, q)
    if bias is not None:
        sums = topi.nn.bias_add(sums, bias, 1)
    return _requantized(sums, lambda i: (sx(*[0] * sx.ndim), _channel(sw, i[1])), sy, zy)
