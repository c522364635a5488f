"""Convolutions: one definition over named axes, and the names that TVM gives its cases.

    out[n, oc, y...] = sum over ic, r... of  data[n, ic, y*stride + r*dilation - pad] * weight[oc, ic, r...]

Layouts say in which order a tensor keeps its axes: `NCHW` for data, `OIHW` for weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import IterVar, Tensor
from autosched.topi.arguments import Dim, Dims, Pads, accumulator, narrowed, number, pair, same
from autosched.topi.nn.padding import Windows, dilate, pad, pads


def convolution(
    data: Tensor,
    weight: Tensor,
    strides: Dims = 1,
    padding: Pads = 0,
    dilation: Dims = 1,
    groups: Dim = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: object = None,
    tag: str = "conv2d",
) -> Tensor:
    """Convolve over any number of spatial dimensions, in any order of axes.

    `data_layout` has N, C and the spatial letters; `kernel_layout` O, I and the same ones. Channels come in `groups`,
    each with weights of its own. Sums are taken in `out_dtype`, in the order of the data's axes. Raises UsageError
    where sizes or layouts do not fit.
    """
    asked = f"topi.nn.{tag}"
    space = [x for x in data_layout if x not in "NC"]
    size, kernel = _sizes(data, weight, data_layout, kernel_layout, space, asked)
    taps = {x: kernel[x] for x in space}
    window = Windows.over(data, data_layout, taps, (strides, dilation, padding), asked, "pad_temp")
    if not same(kernel["I"] * groups, size["C"]):
        why = f"{size['C']!r} channels in {groups} groups meet weights for {kernel['I']!r}"
        raise UsageError(why, asked=asked, legal="as many of them")
    shape = {"N": size["N"], "C": kernel["O"], **window.count}
    c, over = _channels(kernel["I"], groups, "rc")
    r = {x: te.reduce_axis((0, kernel[x]), f"r{x.lower()}") for x in space}
    per_group = simplify(te.floordiv(kernel["O"], groups))

    def factors(*i: Expr) -> tuple[Expr, Expr]:
        at: dict[str, Any] = dict(zip(data_layout, i, strict=True))
        channel = c if groups == 1 else te.floordiv(at["C"], per_group) * kernel["I"] + c
        factor = weight(*({"O": at["C"], "I": c, **r}[x] for x in kernel_layout))
        return window.element({**at, "C": channel}, r), factor

    dims = [shape[x] for x in data_layout]
    order = [a for x in data_layout for a in (over if x == "C" else [r[x]] if x in r else [])]
    return _summed(data, dims, factors, order, out_dtype, f"{tag}_{data_layout.lower()}", tag)


def _channels(count: Dim, groups: Dim, name: str) -> tuple[Expr, list[IterVar]]:
    """A channel within a group, and the axes to sum over: none where each channel is a group of its own."""
    if groups != 1 and same(count, 1):
        return te.const(0), []
    axis = te.reduce_axis((0, count), name)
    return axis.var, [axis]


def _summed(
    data: Tensor,
    shape: Sequence[Dim],
    factors: Callable[..., tuple[Expr, Expr]],
    over: Sequence[IterVar],
    out_dtype: object,
    name: str,
    tag: str,
) -> Tensor:
    """Sums of products of two factors, as functions of the indices."""
    final = data.dtype if out_dtype is None else out_dtype
    of = accumulator(final)

    @wraps(factors)  # axes are called as its parameters
    def body(*i: Expr) -> object:
        element, factor = factors(*i)
        return te.sum(element.astype(of) * factor.astype(of), axis=list(over))

    return narrowed(te.compute(tuple(shape), body, name=name, tag=tag), final)


def _sizes(
    data: Tensor, weight: Tensor, data_layout: str, kernel_layout: str, space: Sequence[str], asked: str
) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """The dimensions of data and weights by their letters. Raises UsageError for layouts that do not fit."""
    if sorted(data_layout) != sorted(["N", "C", *space]) or sorted(kernel_layout) != sorted(["O", "I", *space]):
        raise UsageError(
            f"layouts {data_layout!r} and {kernel_layout!r}",
            asked=asked,
            legal="N, C and spatial letters for data, O, I and the same letters for weights",
        )
    for t, layout in ((data, data_layout), (weight, kernel_layout)):
        if t.ndim != len(layout):
            raise UsageError(f"{t!r} is not {layout}", asked=asked, legal=f"{len(layout)} dimensions")
    return dict(zip(data_layout, data.shape, strict=True)), dict(zip(kernel_layout, weight.shape, strict=True))


def conv2d(
    data: Tensor,
    weight: Tensor,
    strides: Dims,
    padding: Pads,
    dilation: Dims,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: object = None,
) -> Tensor:
    """Convolve in two dimensions; the kernel's layout follows from the data's unless given.

    >>> from autosched import te, topi
    >>> data, weight = te.placeholder((1, 3, 8, 8), name="data"), te.placeholder((4, 3, 3, 3), name="weight")
    >>> topi.nn.conv2d(data, weight, strides=1, padding=1, dilation=1).shape
    (1, 4, 8, 8)
    """
    usual = {"NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO"}
    if not kernel_layout and data_layout not in usual:
        raise UsageError(f"no usual kernel layout for {data_layout!r}", asked="topi.nn.conv2d", legal=", ".join(usual))
    layout = kernel_layout or usual[data_layout]
    return convolution(data, weight, strides, padding, dilation, 1, data_layout, layout, out_dtype)


def conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Data [n, c, h, w], weights [out, in, h, w]."""
    return convolution(Input, Filter, stride, padding, dilation, out_dtype=out_dtype)


def conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, out_dtype: object = "float32"
) -> Tensor:
    """Data [n, h, w, c], weights [h, w, in, out]."""
    return convolution(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype)


def conv2d_hwcn(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Data [h, w, c, n], weights [h, w, in, out]."""
    return convolution(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def group_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, groups: int, out_dtype: object = None
) -> Tensor:
    """Convolve channels in groups: weights [out, in per group, h, w]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, out_dtype=out_dtype, tag="group_conv2d")


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Pads = "VALID",
    dilation: Dims = 1,
    groups: int = 1,
    out_dtype: object = None,
) -> Tensor:
    """Convolve channels in groups: data [n, c, w], weights [out, in per group, w]."""
    return convolution(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype, "group_conv1d")


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Pads = "VALID",
    dilation: Dims = 1,
    groups: int = 1,
    out_dtype: object = None,
) -> Tensor:
    """Convolve channels in groups: data [n, w, c], weights [w, in per group, out]."""
    return convolution(data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype, "group_conv1d")


def group_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, groups: int, out_dtype: object = None
) -> Tensor:
    """Convolve channels in groups: weights [h, w, in per group, out]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype, "group_conv2d")


def conv1d(
    data: Tensor,
    weight: Tensor,
    strides: Dims = 1,
    padding: Pads = "VALID",
    dilation: Dims = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: object = None,
) -> Tensor:
    """Convolve in one dimension: `NCW` with weights `OIW`, or `NWC` with `WIO`."""
    layout = kernel_layout or {"NCW": "OIW", "NWC": "WIO"}.get(data_layout, "OIW")
    return convolution(data, weight, strides, padding, dilation, 1, data_layout, layout, out_dtype, "conv1d")


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Pads = "VALID",
    dilation: Dims = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, c, w], weights [out, in, w]."""
    return conv1d(data, kernel, strides, padding, dilation, "NCW", "", out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Pads = "VALID",
    dilation: Dims = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, w, c], weights [w, in, out]."""
    return conv1d(data, kernel, strides, padding, dilation, "NWC", "", out_dtype)


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Dims,
    padding: Pads,
    dilation: Dims,
    groups: int = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, c, d, h, w], weights [out, in, d, h, w]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype, "conv3d")


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Dims,
    padding: Pads,
    dilation: Dims,
    groups: int = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, d, h, w, c], weights [d, h, w, in, out]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype, "conv3d")


# -- each channel by itself ---------------------------------------------------------------------------


def _depthwise(
    data: Tensor, weight: Tensor, stride: Dims, padding: Pads, dilation: Dims, of: object, layout: str, kernel: str
) -> Tensor:
    name = f"depthwise_conv2d_{layout.lower()}"
    asked = f"topi.nn.{name}"
    size, kernel_size = _sizes(data, weight, layout, kernel, "HW", asked)  # O: channels, I: how many results of each
    taps = {x: kernel_size[x] for x in "HW"}
    window = Windows.over(data, layout, taps, (stride, dilation, padding), asked, "PaddedInput")
    channels, results = kernel_size["O"], kernel_size["I"]
    if not same(channels, size["C"]):
        raise UsageError(f"{size['C']!r} channels meet weights for {channels!r}", asked=asked, legal="as many")
    shape = {"N": size["N"], "C": simplify(channels * results), **window.count}
    r = {x: te.reduce_axis((0, taps[x]), f"d{k}") for x, k in zip("HW", "ij", strict=True)}

    def factors(*i: Expr) -> tuple[Expr, Expr]:
        at: dict[str, Any] = dict(zip(layout, i, strict=True))
        channel, which = te.floordiv(at["C"], results), te.floormod(at["C"], results)
        factor = weight(*({"O": channel, "I": which, **r}[x] for x in kernel))
        return window.element({**at, "C": channel}, r), factor

    dims = [shape[x] for x in layout]
    return _summed(data, dims, factors, list(r.values()), of, "DepthwiseConv2d", name)


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Convolve each channel by itself: weights [channel, multiplier, h, w]; result c*multiplier + m is of channel c."""
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, "NCHW", "OIHW")


def depthwise_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Pads, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Convolve each channel by itself: weights [h, w, channel, multiplier]."""
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, "NHWC", "HWOI")


# -- turned around ------------------------------------------------------------------------------------


def convolution_transpose(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Pads = 0,
    output_padding: Dims = 0,
    dilation: Dims = 1,
    groups: int = 1,
    out_dtype: object = None,
    tag: str = "",
) -> Tensor:
    """Compute the gradient of a convolution with respect to its data, over any number of spatial dimensions.

    Data are [n, c, ...], weights [c, results of each group, ...]. `padding` is that of the convolution: so many
    elements of the result are left out at its ends; a negative number adds as many. Raises UsageError where sizes do
    not fit.

    >>> from autosched import te, topi
    >>> data, weight = te.placeholder((1, 3, 8), name="data"), te.placeholder((3, 4, 3), name="weight")
    >>> topi.nn.convolution_transpose(data, weight, strides=2, padding=1, output_padding=1).shape
    (1, 4, 16)
    """
    rank = data.ndim - 2
    asked = f"topi.nn.{tag}" if tag else "topi.nn.convolution_transpose"
    if rank < 1 or kernel.ndim != data.ndim:
        raise UsageError(f"{data!r} meets weights {kernel!r}", asked=asked, legal="as many dimensions, three at least")
    if not same(data.shape[1], kernel.shape[0]):
        raise UsageError(
            f"{data.shape[1]!r} channels meet weights for {kernel.shape[0]!r}", asked=asked, legal="as many"
        )
    of_group, results = te.floordiv(data.shape[1], groups), kernel.shape[1]
    if not same(of_group * groups, data.shape[1]):
        raise UsageError(f"{data.shape[1]!r} channels do not make {groups} groups", asked=asked, legal="a divisor")
    steps = [number(s, asked) for s in pair(strides, rank, asked)]
    extra, spread = pair(output_padding, rank, asked, least=0), pair(dilation, rank, asked)
    reach = [simplify((t - 1) * d + 1) for t, d in zip(kernel.shape[2:], spread, strict=True)]
    before, after = pads(padding, reach, asked)
    wide = dilate(data, [1, 1, *steps], name="data_dilate")
    low = [t - 1 - as_expr(p) for t, p in zip(reach, before, strict=True)]
    high = [t - 1 - as_expr(p) + e for t, p, e in zip(reach, after, extra, strict=True)]
    padded = pad(wide, [0, 0, *map(simplify, low)], [0, 0, *map(simplify, high)], name="data_pad")
    out = [simplify(d - (t - 1)) for d, t in zip(padded.shape[2:], reach, strict=True)]
    c, over = _channels(of_group, groups, "dc")
    r = [te.reduce_axis((0, t), f"d{x}") for t, x in zip(kernel.shape[2:], "dhw"[-rank:].rjust(rank, "u"), strict=True)]

    def factors(n: Expr, o: Expr, *i: Expr) -> tuple[Expr, Expr]:
        channel = c if groups == 1 else te.floordiv(o, results) * of_group + c
        element = padded(n, channel, *(x + k * d for x, k, d in zip(i, r, spread, strict=True)))
        which = o if groups == 1 else te.floormod(o, results)
        return element, kernel(channel, which, *(t - 1 - k.var for t, k in zip(kernel.shape[2:], r, strict=True)))

    dims = [data.shape[0], simplify(results * groups), *out]
    return _summed(data, dims, factors, [*over, *r], out_dtype, "compute", tag or "conv_transpose")


def _ranked(data: Tensor, rank: int, tag: str) -> str:
    if data.ndim != rank + 2:
        raise UsageError(f"{data!r} has {data.ndim} dimensions", asked=f"topi.nn.{tag}", legal=f"{rank + 2} dimensions")
    return tag


def conv2d_transpose_nchw(
    Input: Tensor, Filter: Tensor, strides: Dims, padding: Pads, out_dtype: object = None, output_padding: Dims = 0
) -> Tensor:
    """Transposed convolution: data [n, c, h, w], weights [in, out, h, w]; the result is `strides` times as large."""
    tag = _ranked(Input, 2, "conv2d_transpose")
    return convolution_transpose(Input, Filter, strides, padding, output_padding, 1, 1, out_dtype, tag)


def conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Dims, padding: Pads, out_dtype: object = None, output_padding: Dims = 0
) -> Tensor:
    """Transposed convolution: data [n, c, w], weights [in, out, w]."""
    tag = _ranked(data, 1, "conv1d_transpose")
    return convolution_transpose(data, kernel, stride, padding, output_padding, 1, 1, out_dtype, tag)


def conv3d_transpose_ncdhw(
    Input: Tensor, Filter: Tensor, strides: Dims, padding: Pads, out_dtype: object = None, output_padding: Dims = 0
) -> Tensor:
    """Transposed convolution: data [n, c, d, h, w], weights [in, out, d, h, w]."""
    tag = _ranked(Input, 3, "conv3d_transpose")
    return convolution_transpose(Input, Filter, strides, padding, output_padding, 1, 1, out_dtype, tag)


def _in_groups(rank: int, name: str, letters: str) -> Any:
    def operator(
        data: Tensor,
        kernel: Tensor,
        stride: Dims,
        padding: Pads,
        out_dtype: object = None,
        output_padding: Dims = 0,
        groups: int = 1,
    ) -> Tensor:
        tag = _ranked(data, rank, f"group_{name}")
        return convolution_transpose(data, kernel, stride, padding, output_padding, 1, groups, out_dtype, tag)

    operator.__doc__ = f"Transposed convolution of channels in groups: weights [in, out per group, {letters}]."
    operator.__name__ = f"group_{name}_nc{letters.replace(', ', '')}"
    return operator


group_conv1d_transpose_ncw = _in_groups(1, "conv1d_transpose", "w")
group_conv2d_transpose_nchw = _in_groups(2, "conv2d_transpose", "h, w")
group_conv3d_transpose_ncdhw = _in_groups(3, "conv3d_transpose", "d, h, w")


# -- blocks of channels -------------------------------------------------------------------------------


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Dims,
    padding: Pads,
    dilation: Dims,
    layout: str = "NCHWc",
    out_layout: str = "NCHWc",
    out_dtype: object = None,
) -> Tensor:
    """Convolve channels in blocks: data [n, C, h, w, c], weights [O, I, h, w, i, o]; result [n, O, h, w, o].

    Where data have more blocks than weights, the blocks come in groups, each with weights of its own. Weights may have
    neighbouring channels at the end, [O, I, h, w, i, o, 4], as products of bytes take them.
    """
    asked = "topi.nn.conv2d_NCHWc"
    if data.ndim != 5 or kernel.ndim not in (6, 7):
        raise UsageError(f"{data!r} and {kernel!r}", asked=asked, legal="5 and 6 dimensions; see topi.layout_transform")
    n, chunks, _, _, block = data.shape
    outer, inner, kh, kw, i_block, o_block = kernel.shape[:6]
    part = kernel.shape[6] if kernel.ndim == 7 else te.const(1)
    i_block = simplify(i_block * part)
    groups = simplify(te.floordiv(chunks, inner))
    if not (same(inner * groups, chunks) and same(block, i_block)):
        raise UsageError(f"{data!r} does not meet {kernel!r}", asked=asked, legal="channel blocks that are equal")
    taps = {"H": kh, "W": kw}
    window = Windows.over(data, "NCHWc", taps, (stride, dilation, padding), asked, "data_pad")
    chunk, c = te.reduce_axis((0, inner), "ic_outer"), te.reduce_axis((0, block), "ic_inner")
    y, x = te.reduce_axis((0, kh), "kh"), te.reduce_axis((0, kw), "kw")

    def factors(b: Expr, oc: Expr, h: Expr, w: Expr, o: Expr) -> tuple[Expr, Expr]:
        first = 0 if is_const(groups, 1) else te.floordiv(oc, te.floordiv(outer, groups)) * inner
        element = window.element({"N": b, "C": chunk.var + first, "H": h, "W": w, "c": c.var}, {"H": y, "W": x})
        if kernel.ndim == 7:
            return element, kernel(oc, chunk, y, x, te.floordiv(c.var, part), o, te.floormod(c.var, part))
        return element, kernel(oc, chunk, y, x, c, o)

    dims = [n, outer, window.count["H"], window.count["W"], o_block]
    return _summed(data, dims, factors, [chunk, y, x, c], out_dtype, "conv2d_NCHWc", "conv2d_NCHWc")


def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: Dims,
    padding: Pads,
    dilation: Dims,
    layout: str = "NCHWc",
    out_layout: str = "NCHWc",
    out_dtype: object = None,
) -> Tensor:
    """Convolve each channel by itself: data [n, C, h, w, c], weights [C, M, h, w, m, c]; M * m results of each."""
    asked = "topi.nn.depthwise_conv2d_NCHWc"
    if Input.ndim != 5 or Filter.ndim != 6:
        raise UsageError(
            f"{Input!r} and {Filter!r}", asked=asked, legal="5 and 6 dimensions; see topi.layout_transform"
        )
    outer, mult_outer, kh, kw, mult_inner, block = Filter.shape
    window = Windows.over(Input, "NCHWc", {"H": kh, "W": kw}, (stride, dilation, padding), asked, "data_pad")
    results = simplify(mult_outer * mult_inner)
    y, x = te.reduce_axis((0, kh), "kh"), te.reduce_axis((0, kw), "kw")

    def factors(b: Expr, oc: Expr, h: Expr, w: Expr, o: Expr) -> tuple[Expr, Expr]:
        channel = te.floordiv(oc * block + o, results)
        places = {"N": b, "C": te.floordiv(channel, Input.shape[4]), "H": h, "W": w}
        at = {**places, "c": te.floormod(channel, Input.shape[4])}
        which = te.floormod(oc * block + o, results)
        factor = Filter(oc, te.floordiv(which, mult_inner), y, x, te.floormod(which, mult_inner), o)
        return window.element(at, {"H": y, "W": x}), factor

    if not same(outer * block, Input.shape[1] * Input.shape[4] * results):
        raise UsageError(f"{Input!r} does not meet {Filter!r}", asked=asked, legal="weights for each channel's results")
    dims = [Input.shape[0], outer, window.count["H"], window.count["W"], block]
    return _summed(Input, dims, factors, [y, x], out_dtype, "DepthwiseConv2d_NCHWc", "depthwise_conv2d_NCHWc")
