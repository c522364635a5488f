"""Boxes of object detection, and regions of images.

Rows of detections are [class, score, left, top, right, bottom], or as indices say; rows that are nothing are -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir.builder import create
from autosched.ir.expr import Expr, as_expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import check_calls, number
from autosched.topi.elementwise import full
from autosched.topi.regions import reorg as reorg
from autosched.topi.regions import roi_align_nchw as roi_align_nchw
from autosched.topi.regions import roi_align_nhwc as roi_align_nhwc
from autosched.topi.regions import roi_pool_nchw as roi_pool_nchw
from autosched.topi.sampling import clamped
from autosched.topi.sorting import first_places
from autosched.topi.transform import _injective, reshape

# -- boxes --------------------------------------------------------------------------------------------


def _packed(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Where the p-th of the set flags [b, n] of each line is, and how many there are [b]."""
    b, n = flags.shape

    def up_to(i: Expr, j: Expr) -> object:
        k = te.reduce_axis((0, n), "k")
        return te.sum(te.select(k.var <= j, flags(i, k.var), te.const(0)), axis=k)

    counts = te.compute((b, n), up_to, name="T_boxes_up_to")
    k = te.reduce_axis((0, n), "k")

    def found(i: Expr) -> tuple[Expr, Expr]:
        return te.select(flags(i, k.var) > 0, counts(i, k.var) - 1, te.const(-1)), k.var

    places = te.scatter_reduce((b, n), found, k, "max", name="T_boxes_places")
    return places, te.compute((b,), lambda i: counts(i, n - 1), name="T_boxes_count", tag="injective")


def _rows(data: Tensor, places: Tensor, count: Tensor, name: str) -> Tensor:
    """Rows of [b, n, m], or elements of [b, n], at places as long as there are any; then -1."""

    def body(i: Expr, p: Expr, *rest: Expr) -> object:
        at = te.max(te.min(places(i, p), data.shape[1] - 1), te.const(0))
        return te.if_then_else(p < count(i), data(i, at, *rest), te.const(-1, data.dtype))

    return _injective(data.shape, body, name)


def get_valid_counts(data: Tensor, score_threshold: Any = 0, id_index: int = 0, score_index: int = 1) -> list[Tensor]:
    """Move the boxes [b, n, row] with a score above the threshold, and of a class, to the front.

    Return their number [b], the rows, and where they were [b, n]. `id_index` -1: boxes have no class.
    """
    b, n, _ = data.shape
    least = as_expr(score_threshold() if isinstance(score_threshold, Tensor) else score_threshold, data.dtype)

    def flag(i: Expr, j: Expr) -> Expr:
        found = data(i, j, score_index) > least.astype(data.dtype)
        return (found if id_index < 0 else te.all(found, data(i, j, id_index) >= 0)).astype("int32")

    flags = te.compute((b, n), flag, name="T_boxes_valid")
    places, count = _packed(flags)

    def index(i: Expr, p: Expr) -> object:
        return te.select(p < count(i), places(i, p), te.const(-1))

    return [count, _rows(data, places, count, "valid_boxes"), _injective((b, n), index, "valid_indices")]


def _kept(
    boxes: Tensor,
    candidates: Tensor,
    groups: Tensor | None,
    most: Expr,
    threshold: Expr,
    name: str,
    is_more: bool = False,
) -> Tensor:
    """Go through boxes [b, n, left top right bottom] of each line in order. Keep a candidate unless it shares at least
    this part of the union (with `is_more`, more of it) with a kept one of its group, and not more than `most` (all for
    a negative number)."""
    b, n, _ = boxes.shape
    of = boxes.dtype
    limits = [
        te.compute((1,), lambda _: most.astype("int32"), name="T_nms_most", tag="injective"),
        te.compute((1,), lambda _: threshold.astype(of), name="T_nms_threshold", tag="injective"),
    ]

    def body(ins: Sequence[Any], outs: Sequence[Any]) -> object:
        ib = create()
        box, candidate, limit, least, *group = (ib.buffer_ptr(x) for x in ins)
        kept = ib.buffer_ptr(outs[0])
        with ib.for_range(0, b, name="i", kind="parallel") as i:
            count = ib.allocate("int32", (1,), name="count")
            free = ib.allocate("int32", (1,), name="free")
            count[0] = te.const(0)
            with ib.for_range(0, n, name="j") as j:
                free[0] = te.select(te.any(limit[0] < 0, count[0] < limit[0]), candidate[i, j], te.const(0))
                with ib.if_scope(free[0] > 0), ib.for_range(0, j, name="k") as k:
                    near = te.all(kept[i, k] > 0, *(g[i, j] == g[i, k] for g in group))
                    with ib.if_scope(near):
                        share = _overlap([box[i, j, m] for m in range(4)], [box[i, k, m] for m in range(4)], of)
                        with ib.if_scope(share > least[0] if is_more else share >= least[0]):
                            free[0] = te.const(0)
                kept[i, j] = free[0]
                count[0] = count[0] + free[0]
        return ib.get()

    def reference(box: Any, candidate: Any, limit: Any, least: Any, *group: Any) -> Any:
        kept = np.zeros(candidate.shape, np.int32)
        for i, j in np.ndindex(*candidate.shape):
            if candidate[i, j] and (limit[0] < 0 or kept[i].sum() < limit[0]):
                near = [k for k in np.flatnonzero(kept[i, :j]) if all(g[i, j] == g[i, k] for g in group)]
                sides = np.minimum(box[i, j, 2:], box[i, near, 2:]) - np.maximum(box[i, j, :2], box[i, near, :2])
                shared = np.maximum(sides, 0).prod(-1)
                area = (box[i, :, 2:] - box[i, :, :2]).prod(-1)
                share = shared / np.maximum(area[j] + area[near] - shared, np.finfo("float32").tiny)
                kept[i, j] = not (share > least[0] if is_more else share >= least[0]).any()
        return kept

    inputs = [boxes, candidates, *limits, *([groups] if groups is not None else [])]
    made: Tensor = te.extern((b, n), inputs, body, dtype="int32", name=name, reference=reference)
    return made


def _overlap(a: Sequence[Expr], b: Sequence[Expr], of: Any) -> Expr:
    """The part of two boxes' union that both share."""
    zero = te.const(0, of)
    sides = [te.max(te.min(a[k + 2], b[k + 2]) - te.max(a[k], b[k]), zero) for k in range(2)]
    shared = sides[0] * sides[1]
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return te.select(union <= zero, zero, shared / te.select(union <= zero, te.const(1, of), union))


def _ordered(boxes: Callable[..., Expr], shape: Sequence[Any], name: str) -> Tensor:
    """Boxes as [b, n, left top right bottom], whichever corners they were given by."""

    def body(i: Expr, j: Expr, k: Expr) -> object:
        one, other = boxes(i, j, te.floormod(k, 2)), boxes(i, j, te.floormod(k, 2) + 2)
        return te.select(k < 2, te.min(one, other), te.max(one, other))

    return te.compute((*shape, 4), body, name=name, tag="injective")


def _scalar(x: Any, dtype: object) -> Expr:
    return (x() if x.ndim == 0 else x(0)).astype(dtype) if isinstance(x, Tensor) else as_expr(x).astype(dtype)


def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:
    """Go through boxes [b, n, row] by score, and drop those that overlap a better one of their class.

    `valid_count` says how many rows of each image there are, `indices` [b, n] what they are called. At most
    `max_output_size` are kept, of the `top_k` best; -1 is all. `iou_threshold` is the part of a union that must be
    shared, 0 drops nothing; with `force_suppress` boxes of other classes count, too. Return what the kept boxes are
    called and how many they are, [b, n], [b, 1]; else the rows by score, -1 if dropped, or `invalid_to_bottom`.
    """
    b, n, _ = data.shape
    score = te.compute((b, n), lambda i, j: data(i, j, score_index), name="T_nms_score", tag="injective")
    order = first_places(score, n, 1, False, valid_count)

    def row(i: Expr, j: Expr, k: Any) -> Expr:
        return data(i, te.min(te.max(order(i, j), te.const(0)), n - 1), k)

    def candidate(i: Expr, j: Expr) -> Expr:
        parts = [j < valid_count(i).astype("int32"), row(i, j, score_index) > 0, *([j < top_k] if top_k > 0 else [])]
        return te.all(*parts).astype("int32")

    candidates = te.compute((b, n), candidate, name="T_nms_candidates", tag="injective")
    boxes = _ordered(lambda i, j, k: row(i, j, k + coord_start), (b, n), "T_nms_boxes")
    groups = None
    if not force_suppress and id_index >= 0:
        groups = te.compute((b, n), lambda i, j: row(i, j, id_index), name="T_nms_class", tag="injective")
    threshold = _scalar(iou_threshold, data.dtype)
    kept = _kept(boxes, candidates, groups, _scalar(max_output_size, "int32"), threshold, "nms")
    is_off = threshold <= te.const(0, data.dtype)

    def flag(i: Expr, j: Expr) -> Expr:
        return te.select(is_off, (j < valid_count(i).astype("int32")).astype("int32"), kept(i, j))

    flags = te.compute((b, n), flag, name="T_nms_flags", tag="injective")

    def place(i: Expr, j: Expr) -> Expr:
        return te.select(is_off, j, te.min(te.max(order(i, j), te.const(0)), n - 1))

    if return_indices:
        names = te.compute((b, n), lambda i, j: indices(i, place(i, j)), name="T_nms_names", tag="injective")
        places, count = _packed(flags)
        total = te.compute((b, 1), lambda i, _: count(i), name="T_nms_count", tag="injective")
        return [_rows(names, places, count, "T_nms_indices"), total]

    def kept_row(i: Expr, j: Expr, k: Expr) -> Expr:
        return te.if_then_else(flags(i, j) > 0, data(i, place(i, j), k), te.const(-1, data.dtype))

    out = _injective(data.shape, kept_row, "nms_rows")
    return _rows(out, *_packed(flags), "nms_rows") if invalid_to_bottom else out


def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str = "onnx",
) -> list[Tensor]:
    """Drop overlapping boxes of each image and class by itself: boxes [b, n, 4], scores [b, classes, n].

    Return, as ONNX has it, rows of image, class and box [b * classes * n, 3] and their number [1]; or as
    `tensorflow`, of each image rows of class and box [b, classes * n, 2], their scores, and their number [b].
    """
    asked = "topi.vision.all_class_non_max_suppression"
    if output_format not in ("onnx", "tensorflow"):
        raise UsageError(f"no output_format {output_format!r}", asked=asked, legal="onnx, tensorflow")
    b, classes, n = (number(d, asked) for d in scores.shape)
    flat = reshape(scores, (b * classes, n))
    order = first_places(flat, n, 1, False)
    least = _scalar(score_threshold, scores.dtype)
    lines = (b * classes, n)
    candidates = te.compute(
        lines, lambda i, j: (flat(i, order(i, j)) > least).astype("int32"), name="T_nms_candidates", tag="injective"
    )
    ordered = _ordered(lambda i, j, k: boxes(te.floordiv(i, classes), order(i, j), k), lines, "T_nms_boxes")
    limit, threshold = _scalar(max_output_boxes_per_class, "int32"), _scalar(iou_threshold, boxes.dtype)
    kept = _kept(ordered, candidates, None, limit, threshold, "all_class_nms")
    images = 1 if output_format == "onnx" else b
    each = b * classes * n // images
    found, count = _packed(reshape(kept, (images, each)))
    at = te.compute(
        (images, each), lambda i, p: clamped(found(i, p), te.const(each)) + i * each, name="T_nms_at", tag="injective"
    )

    def part(i: Expr, p: Expr, k: Expr) -> Expr:
        line, j = te.floordiv(at(i, p), n), te.floormod(at(i, p), n)
        named = [te.floordiv(line, classes), te.floormod(line, classes), order(line, j)][3 - parts :]
        value = named[-1]
        for m in reversed(range(parts - 1)):
            value = te.select(k == m, named[m], value)
        return value.astype("int64")

    if output_format == "onnx":
        parts = 3
        rows = _injective((each, 3), lambda p, k: part(te.const(0), p, k), "nms_rows")
        return [rows, te.compute((1,), lambda i: count(i).astype("int64"), name="nms_count", tag="injective")]
    parts = 2
    rows = _injective((b, each, 2), part, "nms_rows")

    def score(i: Expr, p: Expr) -> Expr:
        line = te.floordiv(at(i, p), n)
        return flat(line, order(line, te.floormod(at(i, p), n)))

    total = te.compute((b,), lambda i: count(i).astype("int64"), name="nms_count", tag="injective")
    return [rows, _injective((b, each), score, "nms_scores"), total]


# -- anchors ------------------------------------------------------------------------------------------


def multibox_prior(
    data: Tensor,
    sizes: Sequence[float] = (1,),
    ratios: Sequence[float] = (1,),
    steps: Sequence[float] = (-1, -1),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> Tensor:
    """Return boxes around each place of [n, c, h, w]: one of each size, and of the first size in each other ratio.

    They are [1, h * w * boxes, left top right bottom], as parts of the image. (Liu et al. 2016, SSD.)
    """
    asked = "topi.vision.multibox_prior"
    h, w = (number(d, asked) for d in data.shape[2:])
    half = [(s * h / w / 2, s / 2) for s in sizes]
    half += [(sizes[0] * h / w * r**0.5 / 2, sizes[0] / r**0.5 / 2) for r in ratios[1:]]
    by = [s if s > 0 else 1 / d for s, d in zip(steps, (h, w))]

    def body(_: Expr, p: Expr, k: Expr) -> Expr:
        box, place = te.floormod(p, len(half)), te.floordiv(p, len(half))
        x = (te.floormod(place, w).astype("float32") + te.const(offsets[1], "float32")) * te.const(by[1], "float32")
        y = (te.floordiv(place, w).astype("float32") + te.const(offsets[0], "float32")) * te.const(by[0], "float32")
        reach = te.const(0.0, "float32")
        for m, (wide, high) in enumerate(half):
            side = te.select(te.floormod(k, 2) == 0, te.const(wide, "float32"), te.const(high, "float32"))
            reach = te.select(box == m, side, reach)
        middle = te.select(te.floormod(k, 2) == 0, x, y)
        e = te.select(k < 2, middle - reach, middle + reach)
        return te.max(te.min(e, te.const(1.0, "float32")), te.const(0.0, "float32")) if clip else e

    return _injective((1, h * w * len(half), 4), body, "multibox_prior")


def multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> list[Tensor]:
    """Turn scores [b, classes, n] and shifts [b, n * 4] of anchors [1, n, 4] into rows of detections [b, n, 6].

    Those of class 0, or below the threshold, are left out unless `keep_background`. Return the rows and their number.
    """
    b, classes, n = cls_prob.shape
    of = loc_pred.dtype
    first = 0 if keep_background else 1

    def best(i: Expr, j: Expr) -> object:
        k = te.reduce_axis((0, classes - first), "k")
        return te.argmax((k.var + first, cls_prob(i, k.var + first, j)), axis=k)

    which, score = te.compute((b, n), best, name="T_multibox_best")

    def class_of(i: Expr, j: Expr) -> Expr:
        return te.select(score(i, j) < te.const(threshold, score.dtype), te.const(0), which(i, j))

    def flag(i: Expr, j: Expr) -> Expr:
        return te.const(1) if keep_background else (class_of(i, j) > 0).astype("int32")

    flags = te.compute((b, n), flag, name="T_multibox_flags")

    def box(i: Expr, j: Expr, k: Expr) -> Expr:
        """The coordinate 0 to 3 of the box of an anchor."""
        m = te.floormod(k, 2)
        low, high = anchor(0, j, m), anchor(0, j, m + 2)
        side, middle = high - low, (low + high) / 2
        shift, grow = (
            te.select(m == 0, te.const(v[0], of), te.const(v[1], of)) for v in (variances[:2], variances[2:])
        )
        at = loc_pred(i, j * 4 + m) * shift * side + middle
        reach = te.exp(loc_pred(i, j * 4 + 2 + m) * grow) * side / 2
        e = te.select(k < 2, at - reach, at + reach)
        return te.max(te.min(e, te.const(1, of)), te.const(0, of)) if clip else e

    def row(i: Expr, j: Expr, k: Expr) -> Expr:
        name = (class_of(i, j) - first).astype(of)
        head = te.select(k == 0, name, score(i, j).astype(of))
        return te.if_then_else(k < 2, head, box(i, j, te.max(k - 2, te.const(0))))

    rows = te.compute((b, n, 6), row, name="T_multibox_rows", tag="injective")
    places, count = _packed(flags)
    return [_rows(rows, places, count, "multibox_transform_loc"), count]


def multibox_detection(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> Tensor:
    """Do as `multibox_transform_loc`, and drop overlapping boxes: rows by score, those dropped -1."""
    rows, count = multibox_transform_loc(cls_prob, loc_pred, anchor, clip, threshold, variances)
    names = te.compute(rows.shape[:2], lambda _, j: j, name="T_multibox_names", tag="injective")
    made: Tensor = non_max_suppression(
        rows, count, names, -1, nms_threshold, force_suppress, nms_topk, return_indices=False
    )
    return made


def _anchors(scales: Sequence[float], ratios: Sequence[float], size: int) -> list[list[float]]:
    """Boxes around the middle of a square of `size`, in each ratio and scale (Ren et al. 2015, Faster R-CNN)."""
    found = []
    for ratio, scale in product(ratios, scales):
        width = math.floor(math.sqrt(math.floor(size * size / ratio)) + 0.5)
        half = [0.5 * (w * scale - 1) for w in (width, math.floor(width * ratio + 0.5))]
        middle = 0.5 * (size - 1)
        found.append([middle - half[0], middle - half[1], middle + half[0], middle + half[1]])
    return found


def _anchored(
    bbox_pred: Tensor,
    im_info: Tensor,
    anchors: Sequence[Sequence[float]],
    feature_stride: int,
    iou_loss: bool,
    place: Callable[[Expr], tuple[Expr, Expr, Expr]],
    total: int,
) -> Tensor:
    """The regions [b, total, left top right bottom] that shifts of anchors make, inside of the image."""
    of = bbox_pred.dtype
    one = te.const(1, of)

    def corner(i: Expr, p: Expr, k: Expr) -> Expr:
        """The coordinate 0 to 3 of a region, inside of the image."""
        a, y, x = place(p)
        m = te.floormod(k, 2)
        ends = []
        for side in range(2):
            base: Any = te.const(0, of)
            for n, anchor in enumerate(anchors):
                left, top = (te.const(e, of) for e in anchor[2 * side : 2 * side + 2])
                base = te.select(a == n, te.select(m == 0, left, top), base)
            ends.append(base + te.select(m == 0, x, y).astype(of) * te.const(feature_stride, of))
        shifts = [bbox_pred(i, a * 4 + m + 2 * side, y, x) for side in range(2)]
        if iou_loss:
            found = te.select(k < 2, ends[0] + shifts[0], ends[1] + shifts[1])
        else:
            side = ends[1] - ends[0] + one
            middle = shifts[0] * side + ends[0] + (side - one) / 2
            reach = (te.exp(shifts[1]) * side - one) / 2
            found = te.select(k < 2, middle - reach, middle + reach)
        last = te.select(m == 0, im_info(i, 1), im_info(i, 0)).astype(of) - one
        return te.max(te.min(found, last), te.const(0, of))

    return te.compute((bbox_pred.shape[0], total, 4), corner, name="T_proposal_boxes")


def _scored(
    cls_prob: Tensor,
    im_info: Tensor,
    small: Tensor,
    feature_stride: int,
    place: Callable[[Expr], tuple[Expr, Expr, Expr]],
    count: int,
) -> Tensor:
    """Scores of regions [b, total]; -1 of those that are small, or of places outside of the image."""

    def score(i: Expr, p: Expr) -> Expr:
        a, y, x = place(p)
        size = [im_info(i, m) / te.const(feature_stride, im_info.dtype) for m in range(2)]
        outside = te.any(*(d >= te.floor(e).astype("int32") for d, e in zip((y, x), size, strict=True)))
        value = cls_prob(i, a + count, y, x)
        return te.select(te.any(outside, small(i, p)), te.const(-1, value.dtype), value)

    return te.compute(small.shape, score, name="T_proposal_scores")


def _repeated(boxes: Tensor, kept: Tensor, count: int) -> Tensor:
    """Rows of image and box [b * count, 5] of the kept boxes [b, n, 4], over and over where they are fewer."""
    places, left = _packed(kept)

    def row(r: Expr, k: Expr) -> Expr:
        i = te.floordiv(r, count)
        at = te.floormod(te.floormod(r, count), te.max(left(i), te.const(1)))
        box = boxes(i, clamped(places(i, at), boxes.shape[1]), te.max(k - 1, te.const(0)))
        return te.select(k == 0, i.astype(boxes.dtype), box)

    return _injective((boxes.shape[0] * count, 5), row, "proposal")


def proposal(
    cls_prob: Tensor,
    bbox_pred: Tensor,
    im_info: Tensor,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> Tensor:
    """Propose regions: rows of image, left, top, right, bottom [b * rpn_post_nms_top_n, 5] (Ren et al. 2015).

    cls_prob:  [b, 2 * anchors, h, w], those of objects last
    bbox_pred: [b, 4 * anchors, h, w], shifts of anchors; with `iou_loss` distances of corners
    im_info:   rows of height, width, scale
    threshold: part of a union that two regions may share

    Regions are repeated where fewer are left.
    """
    asked = "topi.vision.proposal"
    b, h, w = (number(cls_prob.shape[k], asked) for k in (0, 2, 3))
    anchors, of = _anchors(scales, ratios, feature_stride), bbox_pred.dtype
    count, total = len(anchors), h * w * len(anchors)
    most = min(rpn_pre_nms_top_n, total) if rpn_pre_nms_top_n > 0 else total
    one = te.const(1, of)

    def place(p: Expr) -> tuple[Expr, Expr, Expr]:
        at = te.floordiv(p, count)
        return te.floormod(p, count), te.floordiv(at, w), te.floormod(at, w)

    clipped = _anchored(bbox_pred, im_info, anchors, feature_stride, iou_loss, place, total)

    least = te.compute((b,), lambda i: im_info(i, 2).astype(of) * te.const(rpn_min_size, of), name="T_proposal_least")

    def is_small(i: Expr, p: Expr) -> Expr:
        return te.any(*(clipped(i, p, m + 2) - clipped(i, p, m) + one < least(i) for m in range(2)))

    small = te.compute((b, total), is_small, name="T_proposal_small")
    scores = _scored(cls_prob, im_info, small, feature_stride, place, count)
    order = first_places(scores, most, 1, False)

    def grown(i: Expr, j: Expr, k: Expr) -> Expr:
        by = te.select(k < 2, -least(i), least(i)) / 2
        return clipped(i, order(i, j), k) + te.select(small(i, order(i, j)), by, te.const(0, of))

    boxes = te.compute((b, most, 4), grown, name="T_proposal_sorted")

    def wider(i: Expr, j: Expr, k: Expr) -> Expr:  # a region from pixel 3 to pixel 3 is one wide
        return boxes(i, j, k) + te.select(k < 2, te.const(0, of), one)

    wide = te.compute(boxes.shape, wider, name="T_proposal_wide")
    everything = full((b, most), "int32", 1)
    kept = _kept(wide, everything, None, te.const(-1), te.const(threshold, of), "proposal_nms", True)
    return _repeated(boxes, kept, rpn_post_nms_top_n)


check_calls(globals(), own="topi.vision")

__all__ = [
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_detection",
    "multibox_prior",
    "multibox_transform_loc",
    "non_max_suppression",
    "proposal",
    "reorg",
    "roi_align_nchw",
    "roi_align_nhwc",
    "roi_pool_nchw",
]
