"""Pooling, larger pictures, depth in place of width."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.expr import Expr, as_expr, ceildiv, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dims, Pads, accumulator, narrowed, number, pair
from autosched.topi.nn.padding import Windows, pads


def _letters(layout: str) -> str:
    """A layout without the size of a block of channels, as in NCHW4c, which is that of the data."""
    return re.sub(r"\d+", "", layout)


def _axes(data: Tensor, layout: str, space: str, asked: str) -> list[int]:
    layout = _letters(layout)
    if data.ndim != len(layout) or any(x not in layout for x in space):
        raise UsageError(f"{data!r} is not {layout}", asked=asked, legal=f"{len(layout)} dimensions, {space} in them")
    return [layout.index(x) for x in space]


def _pool(
    data: Tensor,
    kernel: Dims,
    stride: Dims,
    dilation: Dims,
    padding: Pads,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
    space: str,
) -> Tensor:
    asked = f"topi.nn.pool{len(space)}d"
    _axes(data, layout, space, asked)
    steps, layout, counted = (stride, dilation, padding), _letters(layout), padding if count_include_pad else 0
    return _pooled(data, kernel, steps, pool_type, ceil_mode, layout, counted, space, asked)


def pool(
    data: Tensor,
    kernel: Dims,
    stride: Dims = 1,
    dilation: Dims = 1,
    padding: Pads = 0,
    pool_type: str = "max",
    counted: Pads | None = None,
) -> Tensor:
    """Do as `pool2d`, for any number of spatial dimensions, which come last: [n, c, ...]; `sum` is a pool_type, too.

    `counted` is the part of the padding that a mean counts, by default all of it.
    """
    layout = "NC" + _SPACE[2 - data.ndim :]
    asked = "topi.nn.pool"
    if not 2 < data.ndim <= len(_SPACE) + 2:
        raise UsageError(f"{data!r} has {data.ndim} dimensions", asked=asked, legal=f"3 to {len(_SPACE) + 2}")
    part = padding if counted is None else counted
    return _pooled(data, kernel, (stride, dilation, padding), pool_type, False, layout, part, layout[2:], asked)


#: letters of spatial dimensions
_SPACE = "QRSTUDHW"


def _pooled(
    data: Tensor,
    kernel: Dims,
    sliding: tuple[Dims, Dims, Pads],
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    counted: Pads,
    space: str,
    asked: str,
) -> Tensor:
    if pool_type not in ("max", "avg", "sum"):
        raise UsageError(f"no pool_type {pool_type!r}", asked=asked, legal="max, avg")
    taps = dict(zip(space, pair(kernel, len(space), asked)))
    value = te.min_value(data.dtype) if pool_type == "max" else te.const(0, data.dtype)
    window = Windows.over(data, layout, taps, sliding, asked, "pad_temp", value, ceil_mode)
    size = dict(zip(layout, data.shape))
    shape = tuple(window.count.get(x, d) for x, d in size.items())
    over = {x: te.reduce_axis((0, taps[x]), f"rv{n}") for n, x in enumerate(space)}
    axis = list(over.values())

    def element(i: Sequence[Expr]) -> Expr:
        return window.element(dict(zip(layout, i)), over)

    if pool_type == "max":
        return te.compute(shape, lambda *i: te.max(element(i), axis=axis), name="pool_max", tag="pool_max")
    sums = accumulator(data.dtype)
    total = te.compute(shape, lambda *i: te.sum(element(i), axis=axis, dtype=sums), name="pool_sum", tag="pool_sum")
    if pool_type == "sum":
        return narrowed(total, data.dtype)
    reach = [(taps[x] - 1) * window.spread[x] + 1 for x in space]
    before, after = (dict(zip(space, p)) for p in pads(counted, reach, asked))

    def count(i: Sequence[Expr]) -> Expr:
        """The elements of a window that are in the tensor, or in padding that counts."""
        elements: Expr = te.const(1)
        for x, length in zip(space, reach, strict=True):
            low = i[layout.index(x)] * window.step[x] - window.before[x]
            last = (window.count[x] - 1) * window.step[x] - window.before[x] + length
            end = size[x] + after[x]
            if is_const(simplify(te.all(as_expr(window.before[x]) <= before[x], last <= end)), True):
                elements = elements * taps[x]
                continue
            skipped = te.max(ceildiv(-as_expr(before[x]) - low, window.spread[x]), te.const(0))
            kept = te.min(ceildiv(end - low, window.spread[x]), as_expr(taps[x]))
            elements = elements * te.max(kept - skipped, te.const(0))
        return te.max(elements, te.const(1))

    def mean(*i: Expr) -> Expr:
        return ir.cast(data.dtype, te.div(total(*i), count(i).astype(sums)))

    return te.compute(total.shape, mean, name="pool_avg", tag="elemwise")


def pool1d(
    data: Tensor,
    kernel: Dims,
    stride: Dims,
    dilation: Dims,
    padding: Pads,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Do as `pool2d`, for one spatial dimension, W."""
    return _pool(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, "W")


def pool2d(
    data: Tensor,
    kernel: Dims,
    stride: Dims,
    dilation: Dims,
    padding: Pads,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Take the greatest (`max`) or the mean (`avg`) of each window; H and W are found in `layout`.

    `ceil_mode` keeps windows that end outside. The mean counts padding unless told otherwise.

    >>> from autosched import te, topi
    >>> A = te.placeholder((1, 3, 8, 8), name="A")
    >>> topi.nn.pool2d(A, kernel=(3, 3), stride=2, dilation=1, padding=1, pool_type="max").shape
    (1, 3, 4, 4)
    """
    return _pool(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, "HW")


def pool3d(
    data: Tensor,
    kernel: Dims,
    stride: Dims,
    dilation: Dims,
    padding: Pads,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Do as `pool2d`, for three spatial dimensions, D, H and W."""
    return _pool(data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, "DHW")


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool over one window, all of H and W."""
    axes = _axes(data, layout, "HW", "topi.nn.global_pool")
    kernel = [data.shape[k] for k in axes]
    return pool2d(data, kernel, 1, 1, 0, pool_type, layout=layout)


def adaptive_pool(data: Tensor, output_size: Dims, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Divide H and W into so many windows, of lengths that differ by one where they do not divide."""
    return _adaptive(data, output_size, pool_type, layout, "HW")


def adaptive_pool1d(data: Tensor, output_size: Dims, pool_type: str, layout: str = "NCW") -> Tensor:
    """Do as `adaptive_pool`, for one spatial dimension, W."""
    return _adaptive(data, output_size, pool_type, layout, "W")


def adaptive_pool3d(data: Tensor, output_size: Dims, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """Do as `adaptive_pool`, for three spatial dimensions, D, H and W."""
    return _adaptive(data, output_size, pool_type, layout, "DHW")


def _adaptive(data: Tensor, output_size: Dims, pool_type: str, layout: str, space: str) -> Tensor:
    asked = "topi.nn.adaptive_pool"
    axes = _axes(data, layout, space, asked)
    if pool_type not in ("max", "avg"):
        raise UsageError(f"no pool_type {pool_type!r}", asked=asked, legal="max, avg")
    count = dict(zip(axes, (number(d, asked) for d in pair(output_size, len(axes), asked)), strict=True))
    length = {k: number(data.shape[k], asked) for k in axes}
    longest = {k: max(-(-(i + 1) * length[k] // n) - i * length[k] // n for i in range(n)) for k, n in count.items()}
    over = {k: te.reduce_axis((0, longest[k]), f"rv{n}") for n, k in enumerate(axes)}
    sums = accumulator(data.dtype)
    shape = [count.get(k, d) for k, d in enumerate(data.shape)]

    def start(i: Sequence[Expr], k: int) -> Expr:
        return te.floordiv(i[k] * length[k], count[k])

    def end(i: Sequence[Expr], k: int) -> Expr:
        return ceildiv((i[k] + 1) * length[k], count[k])

    def window(*i: Expr) -> Expr:
        element = data(*(start(i, k) + over[k] if k in over else x for k, x in enumerate(i)))
        inside = te.all(*(start(i, k) + over[k] < end(i, k) for k in axes))
        if pool_type == "max":
            return te.max(element, axis=list(over.values()), where=inside)
        return te.sum(element, axis=list(over.values()), where=inside, dtype=sums)

    pooled = te.compute(tuple(shape), window, name=f"adaptive_pool_{pool_type}", tag=f"adaptive_pool_{pool_type}")
    if pool_type == "max":
        return pooled

    def mean(*i: Expr) -> Expr:
        elements: Expr = te.const(1)
        for k in axes:
            elements = elements * (end(i, k) - start(i, k))
        return ir.cast(data.dtype, te.div(pooled(*i), elements.astype(sums)))

    return te.compute(pooled.shape, mean, name="adaptive_pool_avg", tag="elemwise")


def upsampling(
    data: Tensor,
    scale_h: int,
    scale_w: int,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Tensor:
    """Enlarge by `scale_h` and `scale_w`: by the nearest element, or `bilinear`.

    Bilinear samples at half-pixel centres, edges repeated, or with `align_corners` so that corners meet.
    """
    asked = "topi.nn.upsampling"
    if layout not in ("NCHW", "NHWC") or method not in ("nearest_neighbor", "bilinear"):
        why = f"layout {layout!r}, method {method!r}"
        raise UsageError(why, asked=asked, legal="NCHW or NHWC; nearest_neighbor or bilinear")
    y, x = layout.index("H"), layout.index("W")
    scale = {y: scale_h, x: scale_w}
    shape = [simplify(d * scale[k]) if k in scale else d for k, d in enumerate(data.shape)]
    if method == "nearest_neighbor":
        return te.compute(
            tuple(shape),
            lambda *i: data(*(te.floordiv(e, scale[k]) if k in scale else e for k, e in enumerate(i))),
            name="upsampling",
            tag="injective",
        )
    edge = te.repeat_edge(data, [y, x])
    of = data.dtype if data.dtype.is_float else "float32"

    def position(e: Expr, k: int) -> Expr:
        at = e.astype("float32")
        if align_corners:
            old, new = number(data.shape[k], asked), number(shape[k], asked)
            return at * te.const((old - 1) / max(new - 1, 1), "float32")
        return (at + 0.5) * te.const(1 / scale[k], "float32") - 0.5

    def body(*i: Expr) -> object:
        low = {k: te.floor(position(i[k], k)) for k in scale}
        part = {k: (position(i[k], k) - low[k]).astype(of) for k in scale}
        whole = {k: low[k].astype("int32") for k in scale}

        def corner(dy: int, dx: int) -> Expr:
            step = {y: dy, x: dx}
            return edge(*(whole[k] + step[k] if k in scale else e for k, e in enumerate(i))).astype(of)

        top = corner(0, 0) + (corner(0, 1) - corner(0, 0)) * part[x]
        bottom = corner(1, 0) + (corner(1, 1) - corner(1, 0)) * part[x]
        return (top + (bottom - top) * part[y]).astype(data.dtype)

    return te.compute(tuple(shape), body, name="upsampling", tag="injective")


def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Spread blocks of channels over squares of `block_size`: depth first (`DCR`) or column first (`CRD`)."""
    c, y, x = _channel_first(data, layout, "topi.nn.depth_to_space")
    if mode not in ("DCR", "CRD"):
        raise UsageError(f"no mode {mode!r}", asked="topi.nn.depth_to_space", legal="DCR, CRD")
    b = block_size
    channels = te.floordiv(data.shape[c], b * b)
    scale = {y: data.shape[y] * b, x: data.shape[x] * b, c: channels}
    shape = [simplify(scale.get(k, d)) for k, d in enumerate(data.shape)]

    def body(*i: Expr) -> object:
        square = te.floormod(i[y], b) * b + te.floormod(i[x], b)
        channel = square * channels + i[c] if mode == "DCR" else i[c] * (b * b) + square
        place = {c: channel, y: te.floordiv(i[y], b), x: te.floordiv(i[x], b)}
        return data(*(place.get(k, e) for k, e in enumerate(i)))

    return te.compute(tuple(shape), body, name="depth_to_space", tag="injective")


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Turn squares of `block_size` into blocks of channels."""
    c, y, x = _channel_first(data, layout, "topi.nn.space_to_depth")
    b = block_size
    channels = data.shape[c]
    scale = {y: te.floordiv(data.shape[y], b), x: te.floordiv(data.shape[x], b), c: channels * (b * b)}
    shape = [simplify(scale.get(k, d)) for k, d in enumerate(data.shape)]

    def body(*i: Expr) -> object:
        square = te.floordiv(i[c], channels)
        place = {
            c: te.floormod(i[c], channels),
            y: i[y] * b + te.floordiv(square, b),
            x: i[x] * b + te.floormod(square, b),
        }
        return data(*(place.get(k, e) for k, e in enumerate(i)))

    return te.compute(tuple(shape), body, name="space_to_depth", tag="injective")


def _channel_first(data: Tensor, layout: str, asked: str) -> tuple[int, int, int]:
    if layout not in ("NCHW", "NHWC") or data.ndim != 4:
        raise UsageError(f"{data!r} in layout {layout!r}", asked=asked, legal="4 dimensions, NCHW or NHWC")
    return layout.index("C"), layout.index("H"), layout.index("W")
