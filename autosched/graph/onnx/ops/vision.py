"""Parts of images: sampled, cropped, selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.graph.onnx.node import Dim, Node, operator
from autosched.graph.onnx.windows import plain, spatial
from autosched.ir.expr import Expr, as_expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, same
from autosched.topi.image import sample_grid
from autosched.topi.sampling import clamped, corners, whole

# -- grids --------------------------------------------------------------------------------------------


@operator("GridSample")
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    """Elements at places that run from -1 to 1 along each axis, the last axis first."""
    rank = spatial(node, x)
    if grid.ndim != x.ndim or not same(grid.shape[-1], rank) or not same(grid.shape[0], x.shape[0]):
        raise node.refused(f"{x!r} and places {grid!r}", f"[N, C, ...] and [N, ..., {rank}]")
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(node.attr("mode", "linear"), node.attr("mode", "linear"))
    border, aligned = node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0))
    if mode not in ("bilinear", "bicubic", "nearest") or border not in ("zeros", "border", "reflection"):
        legal = "linear, cubic, nearest; zeros, border, reflection"
        raise node.refused(f"mode is {mode!r}, padding_mode {border!r}", legal)

    def coordinate(k: int, n: Expr, *i: Expr) -> Expr:
        return grid(n, *i, rank - 1 - k)

    return sample_grid(x, coordinate, grid.shape[1:-1], grid.dtype, mode, border, aligned)


@operator("AffineGrid")
def affine_grid(node: Node, theta: Tensor, size: Tensor) -> Tensor:
    dims = node.dims(size)
    image = dims[2:]
    rank = len(image)
    if rank not in (2, 3) or theta.ndim != 3 or not (same(theta.shape[1], rank) and same(theta.shape[2], rank + 1)):
        raise node.refused(f"{theta!r} for {dims}", "[N, 2, 3] for four dimensions, [N, 3, 4] for five")
    sums, aligned = accumulator(theta.dtype), bool(node.attr("align_corners", 0))

    def at(i: Expr, d: Expr) -> Expr:
        """The middle of a pixel, or with aligned corners its place, from -1 to 1."""
        e, n = i.astype(sums), d.astype(sums)
        if aligned:
            return te.select(d > 1, e * (te.const(2, sums) / te.max(n - 1, te.const(1, sums))) - 1, te.const(0, sums))
        return (2 * e + 1) / n - 1

    def body(n: Expr, *i: Expr) -> Expr:
        total = theta(n, i[-1], rank).astype(sums)
        for k, d in enumerate(image):
            total = total + theta(n, i[-1], rank - 1 - k).astype(sums) * at(i[k], as_expr(d))
        return total.astype(theta.dtype)

    return te.compute((theta.shape[0], *image, rank), body, name="affine_grid")


@operator("CenterCropPad")
def center_crop_pad(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    wanted = node.dims(shape)
    axes = [axis_of(x, k, node.kind) for k in node.attr("axes") or range(x.ndim)]
    if len(wanted) != len(axes) or len(set(axes)) < len(axes):
        raise node.refused(f"shape is {wanted} for axes {axes}", "a number for each")
    before: list[Dim] = [0] * x.ndim
    after = list(before)
    for k, d in zip(axes, wanted, strict=True):
        more = as_expr(d) - x.shape[k]
        before[k] = plain(te.truncdiv(more, 2))
        after[k] = plain(more - before[k])
    return topi.nn.pad(x, before, after, name="center_crop_pad")


# -- regions ------------------------------------------------------------------------------------------


@operator("RoiAlign")
def roi_align(node: Node, x: Tensor, rois: Tensor, images: Tensor) -> Tensor:
    """The mean, or the greatest, of samples in parts of regions: rows of `rois` are x1, y1, x2, y2."""
    if x.ndim != 4 or rois.ndim != 2 or not same(rois.shape[1], 4) or images.ndim != 1:
        raise node.refused(f"{x!r}, regions {rois!r} of {images!r}", "4 dimensions; regions of 4 numbers")
    bins = [int(node.attr(name, 1)) for name in ("output_height", "output_width")]
    ratio, mode = int(node.attr("sampling_ratio", 0)), node.attr("mode", "avg")
    half = node.opset >= 16 and node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if min(bins) < 1 or ratio < 0 or mode not in ("avg", "max"):
        raise node.refused(f"bins of {bins}, {ratio} samples, mode {mode!r}", "1 or more; 0 or more; avg, max")
    sums = accumulator(x.dtype)
    scale, offset = te.const(node.attr("spatial_scale", 1.0), sums), te.const(0.5 if half else 0.0, sums)

    def span(n: Expr, k: int) -> tuple[Expr, Expr]:
        """Where a region begins along an axis, and how long a part of it is."""
        low, high = (rois(n, c).astype(sums) * scale - offset for c in (1 - k, 3 - k))
        length = high - low if half else te.max(high - low, te.const(1, sums))
        return low, length / te.const(bins[k], sums)

    def samples(n: Expr, k: int) -> Expr:
        return te.const(ratio) if ratio else whole(te.ceil(span(n, k)[1]), te.const(_MOST_SAMPLES))

    most = [ratio, ratio] if ratio else _most_samples(node, rois, bins)
    r = [te.reduce_axis((0, m), f"s{k}") for k, m in enumerate(most)]

    def sample(n: Expr, c: Expr, *i: Expr) -> tuple[Expr, Expr]:
        image = clamped(images(n).astype("int32"), x.shape[0])
        at = []
        for k in range(2):
            low, part = span(n, k)
            place = (r[k].var.astype(sums) + 0.5) * part / te.max(samples(n, k), te.const(1)).astype(sums)
            at.append(low + i[k].astype(sums) * part + place)
        parts = corners(lambda *j: x(image, c, *j).astype(sums), at, x.shape[2:])
        value = sum(parts[1:], parts[0]) if mode == "avg" else te.max(*parts)
        return value, te.all(*(r[k] < samples(n, k) for k in range(2)))

    def body(*i: Expr) -> Expr:
        value, inside = sample(*i)
        return (te.sum if mode == "avg" else te.max)(value, axis=r, where=inside)

    made = te.compute((rois.shape[0], x.shape[1], *bins), body, name="roi_samples")

    def result(n: Expr, *i: Expr) -> Expr:
        count = te.max(samples(n, 0), te.const(0)) * te.max(samples(n, 1), te.const(0))
        e = made(n, *i) / te.max(count, te.const(1)).astype(sums) if mode == "avg" else made(n, *i)
        return te.select(count > 0, e, te.const(0, sums)).astype(x.dtype)

    return te.compute(made.shape, result, name="roi_align")


#: samples along an axis of a part of a region
_MOST_SAMPLES = 4096


def _most_samples(node: Node, rois: Tensor, bins: Sequence[int]) -> list[int]:
    """How many samples along each axis the largest region needs, which only its numbers say."""
    known = node.values(rois).astype(np.float64) * node.attr("spatial_scale", 1.0)
    spans = [known[:, 3 - k] - known[:, 1 - k] for k in range(2)]
    most = [
        int(np.ceil(max(s.max(initial=1.0), 1.0) / b)) + 1 if np.isfinite(s).all() else -1 for s, b in zip(spans, bins)
    ]
    if not all(0 < m <= _MOST_SAMPLES for m in most):
        raise node.refused("its regions are too large", f"{_MOST_SAMPLES} samples along an axis of a part")
    return most


@operator("NonMaxSuppression")
def non_max_suppression(
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:
    """Rows of image, class, box: how many there are only the numbers say, so they are read with them."""
    limit = 0 if most is None else max(int(node.number(most)), 0)
    threshold = 0.0 if overlap is None else node.number(overlap)
    least_score = None if least is None else node.number(least)
    corners, known = _box_corners(node.values(boxes), bool(node.attr("center_point_box", 0))), node.values(scores)
    if corners.ndim != 3 or known.ndim != 3 or corners.shape[1] != known.shape[2] or len(corners) != len(known):
        raise node.refused(f"boxes {boxes!r}, scores {scores!r}", "[N, boxes, 4] and [N, classes, boxes]")
    found: list[tuple[int, int, int]] = []
    for image, of_class in np.ndindex(*known.shape[:2]):
        chosen: list[int] = []
        by_score = np.argsort(-known[image, of_class], kind="stable")
        for box in by_score:
            if len(chosen) >= limit or (least_score is not None and not known[image, of_class, box] > least_score):
                break
            if not _overlaps(corners[image], box, chosen, threshold):
                chosen.append(int(box))
        found += [(image, of_class, box) for box in chosen]
    return node.constant(np.array(found, np.int64).reshape(-1, 3), "int64")


def _box_corners(boxes: np.ndarray[Any, Any], centred: bool) -> np.ndarray[Any, Any]:
    """Boxes as y1, x1, y2, x2 with the lesser numbers first."""
    if centred:
        half = boxes[..., 2:] / 2
        middle = boxes[..., :2]
        return np.concatenate([middle - half, middle + half], -1)
    return np.concatenate([np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], -1)


def _overlaps(corners: np.ndarray[Any, Any], box: int, others: Sequence[int], threshold: float) -> bool:
    """Whether a box shares more than this part of a union with one of the others."""
    a, b = corners[box], corners[list(others)]
    sides = np.minimum(a[2:], b[:, 2:]) - np.maximum(a[:2], b[:, :2])
    shared = np.where((sides > 0).all(-1), sides.prod(-1), 0)
    areas = (b[:, 2:] - b[:, :2]).prod(-1), (a[2:] - a[:2]).prod()
    union = areas[0] + areas[1] - shared
    counts = (shared > 0) & (areas[0] > 0) & (areas[1] > 0) & (union > 0)
    return bool(np.any(counts & (shared / np.where(counts, union, 1) > threshold)))
