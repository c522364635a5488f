"""Regions of images, divided into parts of equal number: names of `topi.vision`."""

from __future__ import annotations

from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dims, accumulator, check_calls, narrowed, number, pair
from autosched.topi.sampling import clamped, corners
from autosched.topi.transform import _injective, reshape, transpose


def _regions(data: Tensor, rois: Tensor, pooled_size: Dims, asked: str) -> list[int]:
    if data.ndim != 4 or rois.ndim != 2 or number(rois.shape[1], asked) != 5:
        raise UsageError(
            f"{data!r}, regions {rois!r}", asked=asked, legal="4 dimensions; rows of image, x1, y1, x2, y2"
        )
    return [number(d, asked) for d in pair(pooled_size, 2, asked)]


def roi_align_nchw(
    data: Tensor, rois: Tensor, pooled_size: Dims, spatial_scale: float, mode: Any, sample_ratio: int = -1
) -> Tensor:
    """Average (`avg`), or take the greatest (`max`), of samples in parts of regions (He et al. 2017).

    rois:         rows of image, x1, y1, x2, y2, in units of 1 / spatial_scale elements
    pooled_size:  parts of each region, high and wide
    sample_ratio: samples along each side of a part; by default one for each element that begins in it, for regions of
                  up to twice the image
    """
    asked = "topi.vision.roi_align"
    bins = _regions(data, rois, pooled_size, asked)
    how = {b"avg": "avg", 0: "avg", b"max": "max", 1: "max"}.get(mode, mode)
    if how not in ("avg", "max"):
        raise UsageError(f"no mode {mode!r}", asked=asked, legal="avg, max")
    of, size = accumulator(data.dtype), data.shape[2:]

    def span(n: Expr, k: int) -> tuple[Expr, Expr]:
        """Where a region begins along an axis, and how long a part of it is."""
        low, high = (rois(n, c).astype(of) * te.const(spatial_scale, of) for c in (2 - k, 4 - k))
        return low, te.max(high - low, te.const(1, of)) / te.const(bins[k], of)

    most = [sample_ratio if sample_ratio > 0 else 2 * (-(-number(d, asked) // b)) + 1 for d, b in zip(size, bins)]

    def count(n: Expr, k: int) -> Expr:
        if sample_ratio > 0:
            return te.const(sample_ratio)
        return te.min(te.max(te.ceil(span(n, k)[1]), te.const(1, of)), te.const(most[k], of)).astype("int32")

    r = [te.reduce_axis((0, m), f"s{k}") for k, m in enumerate(most)]

    def body(n: Expr, c: Expr, *i: Expr) -> object:
        at = []
        for k in range(2):
            low, part = span(n, k)
            at.append(low + i[k].astype(of) * part + (r[k].var.astype(of) + 0.5) * part / count(n, k).astype(of))
        image = clamped(rois(n, 0).astype("int32"), data.shape[0])
        parts = corners(lambda *j: data(image, c, *j).astype(of), at, size)
        inside = te.all(*(r[k] < count(n, k) for k in range(2)))
        value = sum(parts[1:], parts[0])
        return (te.sum if how == "avg" else te.max)(value, axis=r, where=inside)

    made = te.compute((rois.shape[0], data.shape[1], *bins), body, name="roi_samples")
    if how == "max":
        return narrowed(made, data.dtype)

    def mean(n: Expr, *i: Expr) -> Expr:
        return (made(n, *i) / (count(n, 0) * count(n, 1)).astype(of)).astype(data.dtype)

    return te.compute(made.shape, mean, name="roi_align", tag="pool,roi_align_nchw")


def roi_align_nhwc(
    data: Tensor, rois: Tensor, pooled_size: Dims, spatial_scale: float, mode: Any, sample_ratio: int = -1
) -> Tensor:
    """Do as of NCHW, for images [n, h, w, c]."""
    moved = transpose(data, [0, 3, 1, 2])
    return transpose(roi_align_nchw(moved, rois, pooled_size, spatial_scale, mode, sample_ratio), [0, 2, 3, 1])


def roi_pool_nchw(data: Tensor, rois: Tensor, pooled_size: Dims, spatial_scale: float) -> Tensor:
    """Take the greatest element in each part of regions, which are rounded to elements; 0 of an empty part.

    rois: rows of image, x1, y1, x2, y2, in units of 1 / spatial_scale elements
    """
    asked = "topi.vision.roi_pool"
    bins = _regions(data, rois, pooled_size, asked)
    size = [number(d, asked) for d in data.shape[2:]]

    def ends(n: Expr, k: int, i: Expr) -> tuple[Expr, Expr]:
        low, high = (te.round(rois(n, c) * te.const(spatial_scale, rois.dtype)).astype("int32") for c in (2 - k, 4 - k))
        width = te.max(high - low + 1, te.const(1)).astype("float32") / te.const(bins[k], "float32")
        begin = te.floor(i.astype("float32") * width).astype("int32") + low
        end = te.ceil((i + 1).astype("float32") * width).astype("int32") + low
        return te.min(te.max(begin, te.const(0)), te.const(size[k])), te.min(
            te.max(end, te.const(0)), te.const(size[k])
        )

    r = [te.reduce_axis((0, d), f"r{k}") for k, d in enumerate(size)]
    least = te.min_value(data.dtype)

    def body(n: Expr, c: Expr, *i: Expr) -> object:
        image = clamped(rois(n, 0).astype("int32"), data.shape[0])
        parts = [t for k in range(2) for low, high in [ends(n, k, i[k])] for t in (r[k] >= low, r[k] < high)]
        return te.max(te.if_then_else(te.all(*parts), data(image, c, r[0].var, r[1].var), least), axis=r)

    made = te.compute((rois.shape[0], data.shape[1], *bins), body, name="roi_pool_max")

    def result(n: Expr, c: Expr, *i: Expr) -> Expr:
        empty = te.any(*(high <= low for k in range(2) for low, high in [ends(n, k, i[k])]))
        return te.select(empty, te.const(0, data.dtype), made(n, c, *i))

    return te.compute(made.shape, result, name="roi_pool", tag="pool,roi_pool_nchw")


def reorg(data: Tensor, stride: int) -> Tensor:
    """Turn squares into channels as Darknet does, whose order is that of a smaller number of channels."""
    asked = "topi.vision.reorg"
    n, c, h, w = data.shape
    kept = number(c, asked) // (stride * stride)
    if data.ndim != 4 or kept < 1:
        raise UsageError(f"{data!r}, stride {stride}", asked=asked, legal="[n, c, h, w], stride * stride channels")

    # the flat result, seen as [n, c, h, w], at (b, k, j, i) is the flat input, seen as [n, kept, h * s, w * s]
    def body(b: Expr, k: Expr, j: Expr, i: Expr) -> object:
        part = te.floordiv(k, kept)
        x, y = i * stride + te.floormod(part, stride), j * stride + te.floordiv(part, stride)
        place = x + w * stride * (y + h * stride * (te.floormod(k, kept) + kept * b))
        inside = te.floormod(place, c * h * w)
        row = te.floordiv(inside, w)
        return data(te.floordiv(place, c * h * w), te.floordiv(row, h), te.floormod(row, h), te.floormod(inside, w))

    made = _injective((n, c, h, w), body, "reorg")
    return reshape(made, (n, c * (stride * stride), simplify(te.floordiv(h, stride)), simplify(te.floordiv(w, stride))))


check_calls(globals(), own="topi.vision")
