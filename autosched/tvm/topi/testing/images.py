"""Images resized and sampled, and regions of them, in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.topi.nn.padding import pads
from autosched.tvm.topi.testing.windows import Array, listed, padded, window_view

# -- elements at places between elements --------------------------------------------------------------


def cubic_weights(f: Array, alpha: float) -> list[Array]:
    """Of the four neighbours, for the part that a place is behind the second (Keys 1981)."""

    def near(x: Array) -> Array:
        return ((alpha + 2) * x - (alpha + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((alpha * x - 5 * alpha) * x + 8 * alpha) * x - 4 * alpha

    return [far(1 + f), near(f), near(1 - f), far(2 - f)]


def _sampled(
    data: Array, at: Sequence[Array], weights: Callable[[Array], list[Array]], first: int, move: Callable[..., Array]
) -> Array:
    """Weighted sums of neighbours of places, which are arrays of one shape, one for each of the last dimensions of
    `data`. Neighbours that `move` leaves outside are zero."""
    size = data.shape[data.ndim - len(at) :]
    low = [np.floor(p) for p in at]
    by = [weights(p - f) for p, f in zip(at, low, strict=True)]
    total: Any = 0.0
    for taps in itertools.product(range(len(by[0])), repeat=len(at)):
        places = [move(f.astype(int) + first + t, n) for f, t, n in zip(low, taps, size, strict=True)]
        inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, size, strict=True)])
        value = data[(..., *(np.clip(p, 0, n - 1) for p, n in zip(places, size, strict=True)))]
        total = total + np.where(inside, value, 0) * np.prod([b[t] for b, t in zip(by, taps, strict=True)], axis=0)
    return np.asarray(total)


def _linear(f: Array) -> list[Array]:
    return [1 - f, f]


def _stay(i: Array, n: int) -> Array:
    return i


def _reflected(i: Array, n: int, aligned: bool) -> Array:
    """Places reflected at the first and last element, or half an element outside of them."""
    start, span = (0.0, n - 1) if aligned else (-0.5, n)
    far = np.abs(i - start) % (2 * max(span, 1e-9))
    return np.clip(start + np.minimum(far, 2 * span - far), 0, n - 1)


def grid_sample_python(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Array:
    """Samples of [n, c, ...] at places from -1 to 1 along each dimension: grid [n, dimensions, ...], the last first."""
    size = data.shape[2:]
    cubic = method == "bicubic"

    def outside(i: Array, n: int) -> Array:
        if padding_mode == "border":
            return np.clip(i, 0, n - 1)
        return _reflected(i, n, align_corners) if padding_mode == "reflection" else i

    out = []
    for image, places in zip(data, grid, strict=True):
        at = []
        for p, n in zip(places[::-1].astype("float64"), size, strict=True):
            e = (p + 1) * (n - 1) / 2 if align_corners else (p + 1) * n / 2 - 0.5
            at.append(e if cubic else outside(e, n))
        if method == "nearest":
            at = [np.trunc(e + np.copysign(0.5, e)) for e in at]
        if cubic:
            move = lambda i, n: outside(i.astype(float), n).astype(int)  # noqa: E731
            out.append(_sampled(image, at, lambda f: cubic_weights(f, -0.75), -1, move))
        else:
            out.append(_sampled(image, at, _linear, 0, _stay))
    return np.stack(out)


def affine_grid_python(data: Array, target_shape: Sequence[int]) -> Array:
    """Places of `grid_sample` for the affine maps [n, 2, 3] of an image of that shape."""
    y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in target_shape), indexing="ij")
    return np.einsum("nij,jhw->nihw", data, np.stack([x, y, np.ones_like(x)]))


# -- sizes --------------------------------------------------------------------------------------------


def _resized(a: Array, axis: int, count: int, method: str, mode: str) -> Array:
    """Another number of elements along one axis."""
    size = a.shape[axis]
    i = np.arange(count)
    at = {
        "half_pixel": (i + 0.5) * (size / count) - 0.5,
        "align_corners": i * ((size - 1) / max(count - 1, 1)),
        "asymmetric": i * (size / count),
    }[mode]
    taps: tuple[int, list[Any]]
    if method == "nearest_neighbor":
        at = np.floor(at + 0.5 if mode == "align_corners" else at)
        taps = 0, [np.ones(count)]
    elif method == "linear":
        taps = 0, _linear(at - np.floor(at))
    else:
        taps = -1, cubic_weights(at - np.floor(at), -0.5)
    weights = np.zeros((count, size))
    for t, w in enumerate(taps[1]):
        np.add.at(weights, (i, np.clip(np.floor(at).astype(int) + taps[0] + t, 0, size - 1)), w)
    return np.moveaxis(np.tensordot(weights, a, (1, axis)), 0, axis)


def _resize(data: Array, scale: Sequence[float], axes: Sequence[int], method: str, mode: str) -> Array:
    out = data
    for axis, s in zip(axes, scale, strict=True):
        out = _resized(out, axis, round(data.shape[axis] * s), method, mode)
    return out.astype(data.dtype)


def resize1d_python(
    data: Array,
    scale: Sequence[float],
    layout: str = "NCW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> Array:
    """W times a scale; layouts may have blocks of channels at the end."""
    return _resize(data, scale, [layout.index("W")], method, coordinate_transformation_mode)


def resize2d_python(
    data: Array,
    scale: Sequence[float],
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> Array:
    """H and W times their scales."""
    return _resize(data, scale, [layout.index(x) for x in "HW"], method, coordinate_transformation_mode)


def resize3d_python(
    data: Array,
    scale: Sequence[float],
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> Array:
    """D, H and W times their scales."""
    return _resize(data, scale, [layout.index(x) for x in "DHW"], method, coordinate_transformation_mode)


def crop_and_resize_python(
    image: Array,
    boxes: Array,
    box_indices: Array,
    crop_size: Sequence[int],
    layout: str,
    method: str = "bilinear",
    extrapolation_value: float = 0,
) -> Array:
    """Boxes (rows of y1, x1, y2, x2 as parts of the image) in one size."""
    images = image.transpose(0, 3, 1, 2) if layout == "NHWC" else image
    out = []
    for box, index in zip(boxes, box_indices, strict=True):
        at = []
        for k, (n, count) in enumerate(zip(images.shape[2:], crop_size, strict=True)):
            step = np.float32((n - 1) * (box[2 + k] - box[k])) / np.float32(count - 1)
            at.append(box[k] * (n - 1) + step * np.arange(count))
        y, x = np.meshgrid(*at, indexing="ij")
        inside = (y >= 0) & (y <= images.shape[2] - 1) & (x >= 0) & (x <= images.shape[3] - 1)
        places = [y, x] if method == "bilinear" else [np.round(y), np.round(x)]
        out.append(np.where(inside, _sampled(images[int(index)], places, _linear, 0, _stay), extrapolation_value))
    found = np.stack(out)
    return found.transpose(0, 2, 3, 1) if layout == "NHWC" else found


# -- regions ------------------------------------------------------------------------------------------


def roi_align_nchw_python(
    a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float, sample_ratio: int, mode: Any = b"avg"
) -> Array:
    """Means (`avg`) or maxima of samples in parts of regions: rows of image, x1, y1, x2, y2."""
    bins = listed(pooled_size, 2)
    out = []
    for roi in rois_np:
        image = a_np[int(roi[0])]
        low, high = roi[[2, 1]] * spatial_scale, roi[[4, 3]] * spatial_scale
        at = []
        for k in range(2):
            part = max(high[k] - low[k], 1.0) / bins[k]
            count = int(sample_ratio) if sample_ratio > 0 else int(np.ceil(part))
            at.append(low[k] + np.arange(bins[k] * count) * (part / count) + 0.5 * part / count)
        y, x = np.meshgrid(*at, indexing="ij")
        near = [np.clip(p, 0, n - 1) for p, n in zip((y, x), image.shape[1:], strict=True)]
        outside = np.logical_or.reduce([(p < -1) | (p > n) for p, n in zip((y, x), image.shape[1:], strict=True)])
        value = np.where(outside, 0, _sampled(image, near, _linear, 0, _stay))
        parts = value.reshape(len(image), bins[0], -1, bins[1], len(at[1]) // bins[1])
        out.append(parts.mean((2, 4)) if mode in (b"avg", "avg", 0) else parts.max((2, 4)))
    return np.stack(out).astype(a_np.dtype)


def roi_align_nhwc_python(
    a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float, sample_ratio: int, mode: Any = b"avg"
) -> Array:
    """As of NCHW, for images [n, h, w, c]."""
    moved = a_np.transpose(0, 3, 1, 2)
    return roi_align_nchw_python(moved, rois_np, pooled_size, spatial_scale, sample_ratio, mode).transpose(0, 2, 3, 1)


def roi_pool_nchw_python(a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float) -> Array:
    """The greatest elements in parts of regions: rows of image, x1, y1, x2, y2; 0 of an empty part."""
    bins = listed(pooled_size, 2)
    out = np.zeros((len(rois_np), a_np.shape[1], *bins), a_np.dtype)
    for n, roi in enumerate(rois_np):
        first, last = ([round(float(roi[c]) * spatial_scale) for c in pair] for pair in ((2, 1), (4, 3)))
        for place in np.ndindex(*bins):
            part = []
            for k in range(2):
                width, length = max(last[k] - first[k] + 1, 1) / bins[k], a_np.shape[2 + k]
                begin = int(np.floor(place[k] * width)) + first[k]
                end = int(np.ceil((place[k] + 1) * width)) + first[k]
                part.append(slice(min(max(begin, 0), length), min(max(end, 0), length)))
            window = a_np[(int(roi[0]), slice(None), *part)]
            out[(n, slice(None), *place)] = window.max((1, 2)) if window.size else 0
    return out


# -- windows that move --------------------------------------------------------------------------------


def correlation_nchw_python(
    data1: Array,
    data2: Array,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: int,
    is_multiply: bool,
) -> Array:
    """Means over windows of products, or distances, of two images, for each displacement of the second."""
    a, b = (padded(x.astype("float64"), [padding] * 2, [padding] * 2) for x in (data1, data2))
    border = max_displacement + (kernel_size - 1) // 2
    count = [(n - 2 * border) // stride1 for n in a.shape[2:]]
    steps = range(-(max_displacement // stride2) * stride2, max_displacement + 1, stride2)
    views = [window_view(x, [kernel_size] * 2, [1, 1], [1, 1]) for x in (a, b)]

    def at(view: Array, dy: int, dx: int) -> Array:
        cut = [
            slice(s, s + n * stride1, stride1) for s, n in zip((max_displacement + dy, max_displacement + dx), count)
        ]
        return view[(slice(None), slice(None), *cut)]

    here = at(views[0], 0, 0)
    found = []
    for dy, dx in itertools.product(steps, repeat=2):
        there = at(views[1], dy, dx)
        found.append((here * there if is_multiply else np.abs(here - there)).mean((1, 4, 5)))
    return np.stack(found, 1)


def deformable_conv2d_nchw_python(
    a_np: Array,
    offset_np: Array,
    w_np: Array,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
) -> Array:
    """A convolution [n, c, h, w] whose taps are moved by offsets [n, groups * taps * 2, y, x] (Dai et al. 2017)."""
    step, spread = listed(stride, 2), listed(dilation, 2)
    kernel, size = w_np.shape[2:], a_np.shape[2:]
    before, _ = pads(padding, kernel, "deformable_conv2d")
    out_size = offset_np.shape[2:]
    grid = np.ogrid[tuple(slice(0, n) for n in (*out_size, *kernel))]
    base = [grid[k] * step[k] - before[k] + grid[2 + k] * spread[k] for k in range(2)]
    out = []
    for image, moves in zip(a_np, offset_np, strict=True):
        by = moves.reshape(deformable_groups, *kernel, 2, *out_size).transpose(0, 3, 4, 5, 1, 2)
        parts = []
        for channels, move in zip(np.split(image, deformable_groups, 0), by, strict=True):
            at = [base[k] + move[k] for k in range(2)]
            inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(at, size, strict=True)])
            parts.append(np.where(inside, _sampled(channels, at, _linear, 0, _stay), 0))
        of = np.concatenate(parts)
        split = zip(np.split(of, groups, 0), np.split(w_np, groups, 0), strict=True)
        out.append(np.concatenate([np.einsum("cyxij,ocij->oyx", x, w) for x, w in split]))
    return np.stack(out).astype(a_np.dtype)


def deformable_conv2d_nhwc_python(a_np: Array, offset_np: Array, w_np: Array, *args: Any) -> Array:
    """As of NCHW, with data, offsets and result [n, h, w, c] and weights [h, w, in, out]."""
    data, offset = (x.transpose(0, 3, 1, 2) for x in (a_np, offset_np))
    return deformable_conv2d_nchw_python(data, offset, w_np.transpose(3, 2, 0, 1), *args).transpose(0, 2, 3, 1)
