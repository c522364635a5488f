"""Larger pictures, and depth in place of width."""

from __future__ import annotations

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.shapes import number

__all__ = ["depth_to_space", "space_to_depth", "upsampling"]


def upsampling(
    data: Tensor,
    scale_h: int,
    scale_w: int,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Tensor:
    """`scale_h` and `scale_w` times as large: by the nearest element, or `bilinear`.

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
    """Blocks of channels spread over squares of `block_size`: depth first (`DCR`) or column first (`CRD`)."""
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
    """Squares of `block_size` as blocks of channels."""
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
