"""Convolutions: one definition over named axes, and the names that TVM gives its cases.

    out[n, oc, y...] = sum over ic, r... of  data[n, ic, y*stride + r*dilation - pad] * weight[oc, ic, r...]

Layouts say in which order a tensor keeps its axes: `NCHW` for data, `OIHW` for weights.
"""

from __future__ import annotations

from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.nn.padding import dilate, pad, pads
from autosched.topi.shapes import Dim, Dims, accumulator, narrowed, number, pair, same, windows


def convolution(
    data: Tensor,
    weight: Tensor,
    strides: Dims = 1,
    padding: Dims | str = 0,
    dilation: Dims = 1,
    groups: Dim = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: object = None,
    tag: str = "conv2d",
) -> Tensor:
    """A convolution of any number of spatial dimensions, in any order of axes.

    `data_layout` has N, C and the spatial letters; `kernel_layout` O, I and the same ones. Channels
    come in `groups`, each with weights of its own. Sums are taken in `out_dtype`. Raises UsageError
    where sizes or layouts do not fit.
    """
    asked = f"topi.nn.{tag}"
    space = [x for x in data_layout if x not in "NC"]
    _check(data, weight, data_layout, kernel_layout, space, asked)
    size = {x: data.shape[data_layout.index(x)] for x in data_layout}
    kernel = {x: weight.shape[kernel_layout.index(x)] for x in kernel_layout}
    step = dict(zip(space, pair(strides, len(space), asked), strict=True))
    spread = dict(zip(space, pair(dilation, len(space), asked), strict=True))
    reach = [(kernel[x] - 1) * spread[x] + 1 for x in space]
    before, after = (dict(zip(space, p, strict=True)) for p in pads(padding, reach, asked))
    if not same(kernel["I"] * groups, size["C"]):
        raise UsageError(
            f"{size['C']!r} channels in {groups} groups meet weights for {kernel['I']!r}",
            asked=asked,
            legal="as many of them",
        )
    final = data.dtype if out_dtype is None else out_dtype
    of = accumulator(final)
    low, high = ([p.get(x, 0) for x in data_layout] for p in (before, after))
    padded = pad(data, low, high, name="pad_temp")
    out = {x: windows(size[x], kernel[x], step[x], spread[x], before[x], after[x]) for x in space}
    shape = {"N": size["N"], "C": kernel["O"], **out}
    c = te.reduce_axis((0, kernel["I"]), "rc")
    r = {x: te.reduce_axis((0, kernel[x]), f"r{x.lower()}") for x in space}
    per_group = simplify(te.floordiv(kernel["O"], groups))

    def body(*i: Expr) -> object:
        at: dict[str, Any] = dict(zip(data_layout, i, strict=True))
        channel = c.var if groups == 1 else te.floordiv(at["C"], per_group) * kernel["I"] + c
        places: dict[str, Any] = {x: at[x] * step[x] + r[x].var * spread[x] for x in space}
        element = padded(*({"N": at["N"], "C": channel, **places}[x] for x in data_layout))
        factor = weight(*({"O": at["C"], "I": c, **r}[x] for x in kernel_layout))
        return te.sum(element.astype(of) * factor.astype(of), axis=[c, *r.values()])

    made = te.compute(tuple(shape[x] for x in data_layout), body, name=f"{tag}_{data_layout.lower()}", tag=tag)
    return narrowed(made, final)


def _check(data: Tensor, weight: Tensor, data_layout: str, kernel_layout: str, space: list[str], asked: str) -> None:
    if sorted(data_layout) != sorted(["N", "C", *space]) or sorted(kernel_layout) != sorted(["O", "I", *space]):
        raise UsageError(
            f"layouts {data_layout!r} and {kernel_layout!r}",
            asked=asked,
            legal="N, C and spatial letters for data, O, I and the same letters for weights",
        )
    for t, layout in ((data, data_layout), (weight, kernel_layout)):
        if t.ndim != len(layout):
            raise UsageError(f"{t!r} is not {layout}", asked=asked, legal=f"{len(layout)} dimensions")


def conv2d(
    data: Tensor,
    weight: Tensor,
    strides: Dims,
    padding: Dims | str,
    dilation: Dims,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: object = None,
) -> Tensor:
    """A two-dimensional convolution; the kernel's layout follows from the data's unless given.

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
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Dims | str, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Data [n, c, h, w], weights [out, in, h, w]."""
    return convolution(Input, Filter, stride, padding, dilation, out_dtype=out_dtype)


def conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Dims | str, dilation: Dims, out_dtype: object = "float32"
) -> Tensor:
    """Data [n, h, w, c], weights [h, w, in, out]."""
    return convolution(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype)


def conv2d_hwcn(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Dims | str, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Data [h, w, c, n], weights [h, w, in, out]."""
    return convolution(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Dims,
    padding: Dims | str,
    dilation: Dims,
    groups: int,
    out_dtype: object = None,
) -> Tensor:
    """Channels in groups: weights [out, in per group, h, w]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, out_dtype=out_dtype, tag="group_conv2d")


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Dims,
    padding: Dims | str,
    dilation: Dims,
    groups: int,
    out_dtype: object = None,
) -> Tensor:
    """Channels in groups: weights [h, w, in per group, out]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype, "group_conv2d")


def conv1d(
    data: Tensor,
    weight: Tensor,
    strides: Dims = 1,
    padding: Dims | str = "VALID",
    dilation: Dims = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: object = None,
) -> Tensor:
    """A one-dimensional convolution: `NCW` with weights `OIW`, or `NWC` with `WIO`."""
    layout = kernel_layout or {"NCW": "OIW", "NWC": "WIO"}.get(data_layout, "OIW")
    return convolution(data, weight, strides, padding, dilation, 1, data_layout, layout, out_dtype, "conv1d")


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Dims | str = "VALID",
    dilation: Dims = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, c, w], weights [out, in, w]."""
    return conv1d(data, kernel, strides, padding, dilation, "NCW", "", out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Dims = 1,
    padding: Dims | str = "VALID",
    dilation: Dims = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, w, c], weights [w, in, out]."""
    return conv1d(data, kernel, strides, padding, dilation, "NWC", "", out_dtype)


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Dims,
    padding: Dims | str,
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
    padding: Dims | str,
    dilation: Dims,
    groups: int = 1,
    out_dtype: object = None,
) -> Tensor:
    """Data [n, d, h, w, c], weights [d, h, w, in, out]."""
    return convolution(Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype, "conv3d")


# -- each channel by itself ---------------------------------------------------------------------------


def _depthwise(
    data: Tensor,
    weight: Tensor,
    stride: Dims,
    padding: Dims | str,
    dilation: Dims,
    of: object,
    layout: str,
    kernel: str,
) -> Tensor:
    asked = f"topi.nn.depthwise_conv2d_{layout.lower()}"
    _check(data, weight, layout, kernel, ["H", "W"], asked)
    size = {x: data.shape[layout.index(x)] for x in layout}
    taps = {x: weight.shape[kernel.index(x)] for x in kernel}  # O: channels, I: how many results of each
    step = dict(zip("HW", pair(stride, 2, asked), strict=True))
    spread = dict(zip("HW", pair(dilation, 2, asked), strict=True))
    reach = [(taps[x] - 1) * spread[x] + 1 for x in "HW"]
    before, after = (dict(zip("HW", p, strict=True)) for p in pads(padding, reach, asked))
    if not same(taps["O"], size["C"]):
        raise UsageError(f"{size['C']!r} channels meet weights for {taps['O']!r}", asked=asked, legal="as many")
    low, high = ([p.get(x, 0) for x in layout] for p in (before, after))
    padded = pad(data, low, high, name="PaddedInput")
    out = {x: windows(size[x], taps[x], step[x], spread[x], before[x], after[x]) for x in "HW"}
    shape = {"N": size["N"], "C": simplify(taps["O"] * taps["I"]), **out}
    r = {x: te.reduce_axis((0, taps[x]), f"d{k}") for x, k in zip("HW", "ij", strict=True)}
    final = data.dtype if of is None else of
    result = accumulator(final)

    def body(*i: Expr) -> object:
        at: dict[str, Any] = dict(zip(layout, i, strict=True))
        channel, which = te.floordiv(at["C"], taps["I"]), te.floormod(at["C"], taps["I"])
        places: dict[str, Any] = {x: at[x] * step[x] + r[x].var * spread[x] for x in "HW"}
        element = padded(*({"N": at["N"], "C": channel, **places}[x] for x in layout))
        factor = weight(*({"O": channel, "I": which, **r}[x] for x in kernel))
        return te.sum(element.astype(result) * factor.astype(result), axis=list(r.values()))

    name = f"depthwise_conv2d_{layout.lower()}"
    return narrowed(te.compute(tuple(shape[x] for x in layout), body, name="DepthwiseConv2d", tag=name), final)


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Dims | str, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Each channel by itself: weights [channel, multiplier, h, w]; result c*multiplier + m is of channel c."""
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, "NCHW", "OIHW")


def depthwise_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Dims, padding: Dims | str, dilation: Dims, out_dtype: object = None
) -> Tensor:
    """Each channel by itself: weights [h, w, channel, multiplier]."""
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, "NHWC", "HWOI")


# -- turned around ------------------------------------------------------------------------------------


def _transposed(
    data: Tensor, kernel: Tensor, strides: Dims, padding: Dims | str, output_padding: Dims, of: object, space: str
) -> Tensor:
    """The gradient of a convolution with respect to its data: weights [in, out, ...]."""
    asked = f"topi.nn.conv{len(space)}d_transpose"
    steps = [number(s, asked) for s in pair(strides, len(space), asked)]
    extra = pair(output_padding, len(space), asked, least=0)
    taps = [number(d, asked) for d in kernel.shape[2:]]
    before, after = pads(padding, taps, asked)
    for t in (data, kernel):
        if t.ndim != len(space) + 2:
            raise UsageError(f"{t!r} has {t.ndim} dimensions", asked=asked, legal=f"{len(space) + 2} dimensions")
    if not same(data.shape[1], kernel.shape[0]):
        raise UsageError(
            f"{data.shape[1]!r} channels meet weights for {kernel.shape[0]!r}", asked=asked, legal="as many"
        )
    wide = dilate(data, [1, 1, *steps], name="data_dilate")
    low = [t - 1 - as_expr(p) for t, p in zip(taps, before, strict=True)]
    high = [t - 1 - as_expr(p) + e for t, p, e in zip(taps, after, extra, strict=True)]
    padded = pad(wide, [0, 0, *map(simplify, low)], [0, 0, *map(simplify, high)], name="data_pad")
    out = [simplify(d - (t - 1)) for d, t in zip(padded.shape[2:], taps, strict=True)]
    c = te.reduce_axis((0, data.shape[1]), "dc")
    r = [te.reduce_axis((0, t), f"d{x.lower()}") for t, x in zip(taps, space, strict=True)]
    final = data.dtype if of is None else of
    result = accumulator(final)

    def body(n: Expr, o: Expr, *i: Expr) -> object:
        element = padded(n, c, *(x + k for x, k in zip(i, r, strict=True)))
        factor = kernel(c, o, *(t - 1 - k.var for t, k in zip(taps, r, strict=True)))
        return te.sum(element.astype(result) * factor.astype(result), axis=[c, *r])

    made = te.compute((data.shape[0], kernel.shape[1], *out), body, name="compute", tag=asked.rpartition(".")[2])
    return narrowed(made, final)


def conv2d_transpose_nchw(
    Input: Tensor,
    Filter: Tensor,
    strides: Dims,
    padding: Dims | str,
    out_dtype: object = None,
    output_padding: Dims = 0,
) -> Tensor:
    """Data [n, c, h, w], weights [in, out, h, w]; `stride` times as large, so to say."""
    return _transposed(Input, Filter, strides, padding, output_padding, out_dtype, "HW")


def conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Dims, padding: Dims | str, out_dtype: object = None, output_padding: Dims = 0
) -> Tensor:
    """Data [n, c, w], weights [in, out, w]."""
    return _transposed(data, kernel, stride, padding, output_padding, out_dtype, "W")


# -- blocks of channels -------------------------------------------------------------------------------


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Dims,
    padding: Dims | str,
    dilation: Dims,
    layout: str = "NCHWc",
    out_layout: str = "NCHWc",
    out_dtype: object = None,
) -> Tensor:
    """Channels in blocks: data [n, C, h, w, c], weights [O, I, h, w, i, o]; the result is [n, O, h, w, o]."""
    asked = "topi.nn.conv2d_NCHWc"
    if data.ndim != 5 or kernel.ndim != 6:
        raise UsageError(f"{data!r} and {kernel!r}", asked=asked, legal="5 and 6 dimensions; see topi.layout_transform")
    n, chunks, height, width, block = data.shape
    outer, inner, kh, kw, i_block, o_block = kernel.shape
    if not (same(chunks, inner) and same(block, i_block)):
        raise UsageError(f"{data!r} does not meet {kernel!r}", asked=asked, legal="channel blocks that are equal")
    (sh, sw), (dh, dw) = pair(stride, 2, asked), pair(dilation, 2, asked)
    (top, left), (bottom, right) = pads(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1], asked)
    padded = pad(data, [0, 0, top, left, 0], [0, 0, bottom, right, 0], name="data_pad")
    oh = windows(height, kh, sh, dh, top, bottom)
    ow = windows(width, kw, sw, dw, left, right)
    chunk, c = te.reduce_axis((0, chunks), "ic_outer"), te.reduce_axis((0, block), "ic_inner")
    y, x = te.reduce_axis((0, kh), "kh"), te.reduce_axis((0, kw), "kw")
    final = data.dtype if out_dtype is None else out_dtype
    of = accumulator(final)

    def body(b: Expr, oc: Expr, h: Expr, w: Expr, o: Expr) -> object:
        element = padded(b, chunk, h * sh + y.var * dh, w * sw + x.var * dw, c)
        return te.sum(element.astype(of) * kernel(oc, chunk, y, x, c, o).astype(of), axis=[chunk, y, x, c])

    made = te.compute((n, outer, oh, ow, o_block), body, name="conv2d_NCHWc", tag="conv2d_NCHWc")
    return narrowed(made, final)
