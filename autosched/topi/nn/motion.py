"""Windows that move: deformable convolutions, and correlation of two images."""

from __future__ import annotations

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dims, Pads, accumulator, at_least, narrowed, number, pair, same
from autosched.topi.nn.convolution import convolution
from autosched.topi.nn.padding import pad, pads
from autosched.topi.sampling import linear
from autosched.topi.transform import transpose


def deformable_conv2d_nchw(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Dims,
    padding: Pads,
    dilation: Dims,
    deformable_groups: int,
    groups: int,
    out_dtype: object = None,
) -> Tensor:
    """Convolve where every tap is moved by an offset of its own, and read between elements (Dai et al. 2017).

    Data [n, c, h, w], weights [out, in of a group, h, w], offsets [n, deformable_groups * taps * 2, y, x], each a
    distance down and to the right. Elements outside are 0.
    """
    asked = "topi.nn.deformable_conv2d"
    if data.ndim != 4 or offset.ndim != 4 or kernel.ndim != 4:
        raise UsageError(f"{data!r}, {offset!r}, {kernel!r}", asked=asked, legal="4 dimensions each")
    kh, kw = (number(d, asked) for d in kernel.shape[2:])
    channels, size = number(data.shape[1], asked), data.shape[2:]
    if channels % deformable_groups or not same(offset.shape[1], deformable_groups * kh * kw * 2):
        why = f"{offset.shape[1]!r} offsets for {deformable_groups} groups of {kh} x {kw} taps"
        raise UsageError(why, asked=asked, legal="two for each tap, groups that divide the channels")
    step, spread = pair(strides, 2, asked), pair(dilation, 2, asked)
    before, _ = pads(padding, [(k - 1) * as_expr(d) + 1 for k, d in zip((kh, kw), spread, strict=True)], asked)
    of = accumulator(data.dtype)
    per_group = channels // deformable_groups

    def sample(n: Expr, c: Expr, y: Expr, r: Expr, x: Expr, s: Expr) -> Expr:
        tap = (te.floordiv(c, per_group) * kh * kw + r * kw + s) * 2
        taps = zip((y, x), (r, s), step, spread, before, strict=True)
        at = [
            (i * st + k * d - p).astype(of) + offset(n, tap + m, y, x).astype(of)
            for m, (i, k, st, d, p) in enumerate(taps)
        ]
        inside = te.all(*(t for e, d in zip(at, size, strict=True) for t in (e >= 0.0, e < d.astype(of))))
        found = linear(lambda h, w: data(n, c, h, w).astype(of), at, size)
        return te.select(inside, found, te.const(0, of)).astype(data.dtype)

    # taps side by side: a convolution whose windows do not overlap
    n, _, oh, ow = offset.shape
    moved = te.compute(
        (n, channels, simplify(oh * kh), simplify(ow * kw)),
        lambda b, c, y, x: sample(b, c, te.floordiv(y, kh), te.floormod(y, kh), te.floordiv(x, kw), te.floormod(x, kw)),
        name="data_deform",
    )
    return convolution(moved, kernel, [kh, kw], 0, 1, groups, out_dtype=out_dtype, tag="deformable_conv2d")


def deformable_conv2d_nhwc(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Dims,
    padding: Pads,
    dilation: Dims,
    deformable_groups: int,
    groups: int,
    out_dtype: object = None,
) -> Tensor:
    """Do as of NCHW: data and offsets [n, h, w, c], weights [h, w, in of a group, out]."""
    moved, by = (transpose(t, [0, 3, 1, 2]) for t in (data, offset))
    weights = transpose(kernel, [3, 2, 0, 1])
    how = (strides, padding, dilation, deformable_groups, groups, out_dtype)
    found = deformable_conv2d_nchw(moved, by, weights, *how)
    return transpose(found, [0, 2, 3, 1])


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: int,
    is_multiply: bool,
) -> Tensor:
    """Compare windows of two images for each displacement of the second: the mean of products, or of distances.

    Displacements are multiples of `stride2` up to `max_displacement`, those down first; windows of `kernel_size`
    stand `stride1` apart. (Dosovitskiy et al. 2015, FlowNet.)
    """
    asked = "topi.nn.correlation"
    at_least(1, [kernel_size, stride1, stride2], asked)
    if data1.ndim != 4 or data2.ndim != 4 or not all(map(same, data1.shape, data2.shape)):
        raise UsageError(f"{data1!r} and {data2!r}", asked=asked, legal="[n, c, h, w], of one shape")
    border = [0, 0, padding, padding]
    wide = [pad(t, border, border, name="pad_data") for t in (data1, data2)]
    reach = max_displacement + (kernel_size - 1) // 2
    side = 2 * (max_displacement // stride2) + 1
    count = [simplify(te.floordiv(d - 2 * reach, stride1)) for d in wide[0].shape[2:]]
    of = accumulator(data1.dtype)
    c = te.reduce_axis((0, data1.shape[1]), "rc")
    r, s = te.reduce_axis((0, kernel_size), "ry"), te.reduce_axis((0, kernel_size), "rx")

    def body(n: Expr, q: Expr, y: Expr, x: Expr) -> object:
        at = [y * stride1 + max_displacement + r.var, x * stride1 + max_displacement + s.var]
        by = [(p - side // 2) * stride2 for p in (te.floordiv(q, side), te.floormod(q, side))]
        a = wide[0](n, c.var, *at).astype(of)
        b = wide[1](n, c.var, at[0] + by[0], at[1] + by[1]).astype(of)
        return te.sum(a * b if is_multiply else te.abs(a - b), axis=[c, r, s])

    total = te.compute((data1.shape[0], side * side, *count), body, name="correlation_sum")
    size = data1.shape[1] * (kernel_size * kernel_size)
    mean = te.compute(total.shape, lambda *i: total(*i) / size.astype(of), name="correlation", tag="elemwise")
    return narrowed(mean, data1.dtype)
