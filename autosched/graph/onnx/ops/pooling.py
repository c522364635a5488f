"""Windows, and whole images, reduced to a number each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched import te, topi
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.windows import Sliding, fixed, numbers, sliding, spatial
from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, narrowed, product, unravel
from autosched.topi.elementwise import elementwise


def _windows(node: Node, x: Tensor) -> Sliding:
    return sliding(node, x, numbers(node, "kernel_shape", spatial(node, x), 0, 1))


@operator("MaxPool")
def max_pool(node: Node, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    of = _windows(node, x)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return topi.nn.pool(x, of.kernel, of.strides, of.dilations, of.reached, "max")
    size = x.shape[2:]
    r = [te.reduce_axis((0, k), f"rv{n}") for n, k in enumerate(of.kernel)]

    def greatest(n: Expr, c: Expr, *i: Expr) -> object:
        at = [e * s + k * d - b for e, s, k, d, b in zip(i, of.strides, r, of.dilations, of.before, strict=True)]
        inside = te.all(*(cond for e, d in zip(at, size, strict=True) for cond in (e >= 0, e < d)))
        return te.argmax((row_major_offset(at, size), x(n, c, *at)), axis=r, where=inside)

    place, value = te.compute((*x.shape[:2], *of.count), greatest, name="pool_argmax")
    columns_first = bool(node.attr("storage_order", 0))

    def index(n: Expr, c: Expr, *i: Expr) -> Expr:
        at = place(n, c, *i)
        if columns_first:
            at = row_major_offset(unravel(at, size)[::-1], size[::-1])
        return (n * x.shape[1] + c).astype("int64") * product(size).astype("int64") + at.astype("int64")

    return value, te.compute(value.shape, index, name="pool_indices")


@operator("AveragePool")
def average_pool(node: Node, x: Tensor) -> Tensor:
    of = _windows(node, x)
    counted = of.padding if node.attr("count_include_pad", 0) else 0
    return topi.nn.pool(x, of.kernel, of.strides, of.dilations, of.reached, "avg", counted)


@operator("LpPool")
def lp_pool(node: Node, x: Tensor) -> Tensor:
    of = _windows(node, x)
    power, root = _norm(node, x)
    return narrowed(root(topi.nn.pool(power, of.kernel, of.strides, of.dilations, of.reached, "sum")), x.dtype)


def _norm(node: Node, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The powers whose sums make a norm, and its root of such a sum."""
    p, sums = node.attr("p", 2), accumulator(x.dtype)
    if p < 1:
        raise node.refused(f"p is {p}", "1 or more")

    def power(*i: Expr) -> Expr:
        e = x(*i).astype(sums)
        return te.abs(e) if p == 1 else e * e if p == 2 else te.power(te.abs(e), te.const(p, sums))

    def root(t: Tensor) -> Tensor:
        if p == 1:
            return t
        return elementwise(t, lambda e: te.sqrt(e) if p == 2 else te.power(e, te.const(1 / p, sums)), "root")

    return te.compute(x.shape, power, name="T_power", tag="elemwise"), root


def _image(node: Node, x: Tensor) -> Sequence[int]:
    """The axes of an image."""
    return list(range(2, 2 + spatial(node, x)))


@operator("GlobalAveragePool")
def global_average_pool(node: Node, x: Tensor) -> Tensor:
    return topi.mean(x, _image(node, x), True)


@operator("GlobalMaxPool")
def global_max_pool(node: Node, x: Tensor) -> Tensor:
    return topi.max(x, _image(node, x), True)


@operator("GlobalLpPool")
def global_lp_pool(node: Node, x: Tensor) -> Tensor:
    power, root = _norm(node, x)
    return narrowed(root(topi.sum(power, _image(node, x), True)), x.dtype)


@operator("MaxUnpool")
def max_unpool(node: Node, x: Tensor, places: Tensor, output_shape: Tensor | None = None) -> Tensor:
    """Elements at places of a tensor of zeros. Of several for one place, the last one counts."""
    rank = spatial(node, x)
    taps = numbers(node, "kernel_shape", rank, 0, 1)
    strides, pads = numbers(node, "strides", rank, 1, 1), numbers(node, "pads", 2 * rank, 0, 0)
    image = [
        (d - 1) * s + k - b - a
        for d, s, k, b, a in zip(x.shape[2:], strides, taps, pads[:rank], pads[rank:], strict=True)
    ]
    shape = [*x.shape[:2], *image]
    r = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(x.shape)]
    at = row_major_offset([a.var for a in r], x.shape)
    owner = te.scatter_reduce((product(shape),), lambda: (places(*r), at), axis=r, combiner="max", name="unpool_owner")
    out = shape if output_shape is None else node.dims(output_shape)
    if len(out) != x.ndim:
        raise node.refused(f"output_shape is {out}", f"{x.ndim} numbers")

    def body(*i: Expr) -> Expr:
        inside = te.all(*(e < d for e, d in zip(i, shape, strict=True)))
        of = te.if_then_else(inside, owner(row_major_offset(i, shape)), te.const(-1))
        return te.if_then_else(of >= 0, x(*unravel(of, x.shape)), te.const(0, x.dtype))

    return te.compute(tuple(out), body, name="max_unpool")


@operator("MaxRoiPool")
def max_roi_pool(node: Node, x: Tensor, rois: Tensor) -> Tensor:
    """The greatest elements of parts of regions: rows of `rois` are image, x1, y1, x2, y2."""
    bins = numbers(node, "pooled_shape", 2, 0, 1)
    if x.ndim != 4 or rois.ndim != 2 or fixed(node, rois.shape[1]) != 5:
        raise node.refused(f"{x!r} and regions {rois!r}", "4 dimensions, and regions of 5 numbers")
    scale = te.const(node.attr("spatial_scale", 1.0), "float32")
    r = [te.reduce_axis((0, d), f"k{n}") for n, d in enumerate(x.shape[2:])]

    def inside(n: Expr, k: int, e: Expr) -> list[Expr]:
        low, high = (te.round(rois(n, c).astype("float32") * scale) for c in (2 - k, 4 - k))
        size = te.max(high - low + 1, 1.0) / te.const(bins[k], "float32")
        first, last = te.floor(e.astype("float32") * size) + low, te.ceil((e + 1).astype("float32") * size) + low
        return [r[k].var.astype("float32") >= first, r[k].var.astype("float32") < last]

    def greatest(n: Expr, c: Expr, y: Expr, z: Expr) -> Expr:
        image = te.max(te.min(rois(n, 0).astype("int32"), x.shape[0] - 1), te.const(0))
        here = te.all(*inside(n, 0, y), *inside(n, 1, z))
        return te.max(x(image, c, *r), axis=r, where=here)

    made = te.compute((rois.shape[0], x.shape[1], *bins), greatest, name="roi_pool")
    least = te.min_value(x.dtype)  # of no elements

    def body(*i: Expr) -> Expr:
        return te.select(made(*i) > least, made(*i), te.const(0, x.dtype))

    return te.compute(made.shape, body, name="max_roi_pool", tag="elemwise")
