"""Images of another size, and parts of images: samples between elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, as_expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, Dims, Pads, accumulator, check_calls, narrowed, number, pair, same
from autosched.topi.nn.padding import Windows
from autosched.topi.sampling import Read, clamped, keys_weights, linear, or_zero, weighted, whole
from autosched.topi.transform import _parse_layout, transpose

# -- another size -------------------------------------------------------------------------------------


_MODES = "half_pixel align_corners asymmetric pytorch_half_pixel tf_half_pixel_for_nn tf_crop_and_resize".split()
#: (p, q, r): the i-th element of a result stands at (p*i + q) / r of the input
_Place = tuple[Any, Any, Any]


def _place_of(size: Any, out: Any, mode: str, part: tuple[float, float], asked: str) -> _Place:
    """The places of a result's elements. Raises UsageError for an unknown mode."""
    if not (isinstance(size, int) and isinstance(out, int)):
        return _open_place(size, out, mode, asked)
    step, start = Fraction(size, out), Fraction(0)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        start = step / 2 - Fraction(1, 2)
        step, start = (step, start) if mode == "half_pixel" or out > 1 else (Fraction(0), Fraction(0))
    elif mode == "align_corners":
        step = Fraction(size - 1, max(out - 1, 1))
    elif mode == "tf_half_pixel_for_nn":
        start = step / 2
    elif mode == "tf_crop_and_resize":
        low, high = (Fraction(float(x)).limit_denominator(4096) for x in part)
        start = low * (size - 1) if out > 1 else (low + high) * (size - 1) / 2
        step = (high - low) * (size - 1) / max(out - 1, 1) if out > 1 else Fraction(0)
    elif mode != "asymmetric":
        raise UsageError(f"no coordinate_transformation_mode {mode!r}", asked=asked, legal=", ".join(_MODES))
    r = (step.denominator * start.denominator) if start else step.denominator
    return int(step * r), int(start * r), r


def _open_place(size: Any, out: Any, mode: str, asked: str) -> _Place:
    """The same where a length is known at run time only."""
    size, out = as_expr(size), as_expr(out)
    if mode == "half_pixel":
        return 2 * size, size - out, 2 * out
    if mode == "pytorch_half_pixel":
        several = out > 1
        return te.select(several, 2 * size, 0), te.select(several, size - out, 0), 2 * out
    if mode == "align_corners":
        return size - 1, 0, te.max(out - 1, 1)
    if mode == "tf_half_pixel_for_nn":
        return 2 * size, size, 2 * out
    if mode == "asymmetric":
        return size, 0, out
    legal = f"sizes that are numbers, or one of {', '.join(m for m in _MODES if m != 'tf_crop_and_resize')}"
    raise UsageError(f"{mode} of {size!r} elements to {out!r}", asked=asked, legal=legal)


def _nearest(i: Expr, place: _Place, how: str, asked: str) -> Expr:
    p, q, r = place
    at = i * p + q
    if how == "floor":
        return te.floordiv(at, r)
    if how == "ceil":
        return te.floordiv(at + r - 1, r)
    if how == "round_prefer_ceil":
        return te.floordiv(2 * at + r, 2 * r)
    if how == "round_prefer_floor":
        return te.floordiv(2 * at + r - 1, 2 * r)
    if how == "round":  # halves away from zero
        return te.select(at >= 0, te.floordiv(2 * at + r, 2 * r), te.floordiv(2 * at + r - 1, 2 * r))
    legal = "round, floor, ceil, round_prefer_floor, round_prefer_ceil"
    raise UsageError(f"no rounding_method {how!r}", asked=asked, legal=legal)


def _resized(
    x: Tensor, at: int, out: Any, place: _Place, weights: Callable[[Expr], list[Expr]], first: int,
    exclude: bool, beyond: float | None,
) -> Tensor:  # fmt: skip
    """Another number of elements along one axis: sums of neighbours, those outside at the edge or left out."""
    p, q, r = place
    last = x.shape[at] - 1

    def body(*i: Expr) -> Expr:
        low = simplify(te.floordiv(i[at] * p + q, r))
        f = te.floormod(i[at] * p + q, r).astype(x.dtype) / as_expr(r).astype(x.dtype)
        taps = [low + first + t for t in range(2 - 2 * first)]
        by = weights(f)
        if exclude:
            zero = te.const(0, x.dtype)
            by = [te.select(te.all(t >= 0, t <= last), w, zero) for t, w in zip(taps, by, strict=True)]
        total: Any = None
        for tap, w in zip(taps, by, strict=True):
            term = x(*(clamped(tap, last + 1) if k == at else e for k, e in enumerate(i))) * w
            total = term if total is None else total + term
        total = total / sum(by[1:], by[0]) if exclude else total
        if beyond is None:
            return total
        inside = te.all(i[at] * p + q >= 0, i[at] * p + q <= last * r)
        return te.select(inside, total, te.const(beyond, x.dtype))

    shape = [out if k == at else d for k, d in enumerate(x.shape)]
    return te.compute(tuple(shape), body, name="resize", tag="injective")


def _length(d: object) -> Any:
    """A dimension as a number, or as it is where it is known at run time only."""
    e = as_expr(d)
    return int(e.value) if e.op == "const" else e


def _linear_weights(f: Expr) -> list[Expr]:
    return [1 - f, f]


def _resize(space: str, called: str) -> Callable[..., Tensor]:
    def resize(
        data: Tensor,
        roi: Any,
        size: Dims,
        layout: str = f"NC{space}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        bicubic_alpha: float = -0.5,
        bicubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: object = None,
        output_shape: object = None,
    ) -> Tensor:
        asked, mode = f"topi.image.{called}", coordinate_transformation_mode
        names = [name for name, _ in _parse_layout(layout)]
        if len(names) != data.ndim or not set(space) <= set(names):
            raise UsageError(f"{data!r} is not {layout}", asked=asked, legal=f"a letter for each, {space} in them")
        if method not in ("linear", "nearest_neighbor", "cubic"):
            raise UsageError(f"no method {method!r}", asked=asked, legal="linear, nearest_neighbor, cubic")
        axes = [names.index(x) for x in space]
        counts = list(map(_length, pair(size, len(space), asked)))
        result = data.dtype if out_dtype is None else out_dtype
        beyond = extrapolation_value if mode == "tf_crop_and_resize" else None
        places = []
        for n, (at, out) in enumerate(zip(axes, counts, strict=True)):
            part = (roi[n], roi[n + len(axes)]) if roi is not None and len(roi) == 2 * len(axes) else (0.0, 1.0)
            places.append(_place_of(_length(data.shape[at]), out, mode, part, asked))
        if method == "nearest_neighbor":
            how = rounding_method or ("round" if mode == "align_corners" else "floor")
            return narrowed(_chosen(data, axes, counts, places, how, asked), result)
        sums = accumulator(data.dtype if data.dtype.is_float else "float32")
        made = te.compute(data.shape, lambda *i: data(*i).astype(sums), name="resize_wide", tag="elemwise")
        for at, out, place in zip(axes, counts, places, strict=True):
            weights = _linear_weights if method == "linear" else keys_weights(bicubic_alpha)
            first = 0 if method == "linear" else -1
            made = _resized(made, at, out, place, weights, first, bool(bicubic_exclude) and first < 0, beyond)
        return narrowed(made, result)

    resize.__name__ = called
    resize.__doc__ = f"""Give {", ".join(space)} of an image another size.

    roi:    for mode tf_crop_and_resize, the part of the image: begins of {", ".join(space)}, then ends, from 0 to 1
    size:   of the result, one for each; numbers, or sizes that a call knows (not in mode tf_crop_and_resize)
    layout: a letter for each dimension, blocks as in `layout_transform`
    method: linear, nearest_neighbor, cubic (with `bicubic_alpha`, neighbours outside left out by `bicubic_exclude`)
    rounding_method: of nearest_neighbor: round, floor, ceil, round_prefer_floor, round_prefer_ceil
    """
    return resize


def _chosen(
    x: Tensor, axes: Sequence[int], counts: Sequence[Any], places: Sequence[_Place], how: str, asked: str
) -> Tensor:
    """The nearest elements, along all axes at once."""
    of = dict(zip(axes, places, strict=True))
    shape = dict(zip(axes, counts, strict=True))

    def body(*i: Expr) -> Expr:
        nearest = {k: clamped(simplify(_nearest(i[k], place, how, asked)), x.shape[k]) for k, place in of.items()}
        return x(*(nearest.get(k, e) for k, e in enumerate(i)))

    return te.compute(tuple(shape.get(k, d) for k, d in enumerate(x.shape)), body, name="resize", tag="injective")


resize1d, resize2d, resize3d = (_resize("DHW"[3 - n :], f"resize{n}d") for n in (1, 2, 3))


def crop_and_resize(
    data: Tensor,
    boxes: Tensor,
    box_indices: Tensor,
    crop_size: Dims,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float | None = None,
    out_dtype: object = None,
) -> Tensor:
    """Give boxes of images one size: rows of y1, x1, y2, x2 from 0 to 1, each with the number of its image.

    method: bilinear, nearest_neighbor. Samples outside of an image are `extrapolation_value`, or 0.
    """
    asked = "topi.image.crop_and_resize"
    if layout not in ("NCHW", "NHWC") or data.ndim != 4 or method not in ("bilinear", "nearest_neighbor"):
        why = f"{data!r}, {layout!r}, {method!r}"
        raise UsageError(why, asked=asked, legal="4 dimensions, NCHW or NHWC; bilinear or nearest_neighbor")
    count = [number(d, asked) for d in pair(crop_size, 2, asked)]
    size = [data.shape[layout.index(x)] for x in "HW"]
    of = accumulator(data.dtype if data.dtype.is_float else "float32")
    extent = {"N": boxes.shape[0], "C": data.shape[layout.index("C")], "H": count[0], "W": count[1]}
    outside = te.const(extrapolation_value or 0.0, of)

    def body(*i: Expr) -> Expr:
        at = dict(zip(layout, i, strict=True))
        places = []
        for k, x in enumerate("HW"):
            low, high = (boxes(at["N"], k + 2 * m).astype(of) for m in range(2))
            last = (size[k] - 1).astype(of)
            step = (high - low) * last / te.const(max(count[k] - 1, 1), of)
            start = low * last if count[k] > 1 else (low + high) * last / 2
            places.append(start + at[x].astype(of) * step)
        inside = te.all(*(c for e, d in zip(places, size) for c in (e >= 0.0, e <= (d - 1).astype(of))))
        image = clamped(box_indices(at["N"]).astype("int32"), data.shape[layout.index("N")])

        def read(h: Expr, w: Expr) -> Expr:
            return data(*({"N": image, "C": at["C"], "H": h, "W": w}[x] for x in layout)).astype(of)

        if method == "bilinear":
            found = linear(read, places, size)
        else:
            found = read(*(clamped(whole(te.round(e), d), d) for e, d in zip(places, size)))
        return te.select(inside, found, outside)

    made = te.compute(tuple(extent[x] for x in layout), body, name="crop_and_resize", tag="injective")
    return narrowed(made, data.dtype if out_dtype is None else out_dtype)


# -- grids --------------------------------------------------------------------------------------------


def sample_grid(
    x: Tensor,
    coordinate: Callable[..., Expr],
    shape: Sequence[Dim],
    places_type: DType,
    mode: str,
    border: str,
    aligned: bool,
    nearest: Callable[[Expr], Expr] = te.nearbyint,
) -> Tensor:
    """Return samples of [n, c, ...] at places that run from -1 to 1 along each spatial dimension.

    coordinate: of the k-th spatial dimension, image n, at indices of `shape`
    mode:       bilinear, nearest, bicubic; `border` is zeros, border, reflection
    aligned:    -1 and 1 are the middles of the outermost elements, rather than their edges
    """
    of, size, rank = accumulator(places_type), x.shape[2:], x.ndim - 2

    def place(n: Expr, *i: Expr) -> Expr:
        found = None
        for k, d in enumerate(size):
            e, length = coordinate(k, n, *i[:-1]).astype(of), d.astype(of)
            e = (e + 1) / 2 * (length - 1) if aligned else ((e + 1) * length - 1) / 2
            if (mode, border) != ("bicubic", "border"):  # there, only elements are those of the border, as in PyTorch
                e = _brought_inside(nearest(e) if mode == "nearest" else e, length, border, aligned)
            found = e if found is None else te.select(i[-1] <= k - 1, found, e)
        assert found is not None
        return found

    places = te.compute((x.shape[0], *shape, rank), place, name="places")
    pixel = _pixel(border, aligned)
    sums = accumulator(x.dtype)

    def body(n: Expr, c: Expr, *i: Expr) -> Expr:
        at = [places(n, *i, k) for k in range(rank)]
        read = lambda *j: x(n, c, *j).astype(sums)  # noqa: E731
        if mode == "nearest":
            return pixel(read, [whole(e, d) for e, d in zip(at, size, strict=True)], size)
        if mode == "bicubic":
            return weighted(read, at, size, keys_weights(-0.75), -1, pixel)
        return linear(read, at, size, pixel)

    return narrowed(te.compute((*x.shape[:2], *shape), body, name="grid_sample"), x.dtype)


def _brought_inside(e: Expr, n: Expr, border: str, aligned: bool) -> Expr:
    """A coordinate beyond the border, clamped or reflected."""
    zero = te.const(0, e.dtype)
    first, last = (zero, n - 1) if aligned else (zero - 0.5, n - 0.5)
    if border == "zeros":
        return e
    if border == "border":
        moved = te.max(te.min(e, n - 1), zero)
    else:
        span = last - first
        far = te.abs(e - first)
        rest = far - 2 * span * te.floor(far / (2 * span))
        moved = te.select(span > zero, first + te.min(rest, 2 * span - rest), first)
    return te.select(te.any(e < first, e > last), moved, e)


def _pixel(border: str, aligned: bool) -> Callable[[Read, Sequence[Expr], Sequence[Expr]], Expr]:
    """An element at integer places, some of which may be outside."""
    if border == "zeros":
        return or_zero

    def reflected(i: Expr, d: Expr) -> Expr:
        period = te.max(2 * (d - 1), te.const(1)) if aligned else 2 * d
        rest = te.floormod(i, period)
        return clamped(te.min(rest, period - rest if aligned else period - 1 - rest), d)

    move = clamped if border == "border" else reflected
    return lambda read, at, size: read(*(move(i, d) for i, d in zip(at, size, strict=True)))


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Sample [n, c, ...] at places [n, dimensions, ...] that run from -1 to 1, the last dimension's first.

    method: bilinear, nearest, bicubic. `padding_mode` says what lies outside: zeros, border, reflection.
    """
    asked, rank = "topi.image.grid_sample", data.ndim - 2
    if (
        layout not in ("NCHW", "NCDHW")
        or len(layout) != data.ndim
        or grid.ndim != data.ndim
        or not same(grid.shape[1], rank)
    ):
        raise UsageError(
            f"{data!r} in layout {layout!r}, places {grid!r}", asked=asked, legal="NCHW, NCDHW; [n, dimensions, ..]"
        )
    if method not in ("bilinear", "nearest", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        why = f"method {method!r}, padding_mode {padding_mode!r}"
        raise UsageError(why, asked=asked, legal="bilinear, nearest, bicubic; zeros, border, reflection")

    def coordinate(k: int, n: Expr, *i: Expr) -> Expr:
        return grid(n, rank - 1 - k, *i)

    return sample_grid(data, coordinate, grid.shape[2:], grid.dtype, method, padding_mode, align_corners, te.round)


def affine_grid(data: Tensor, target_shape: Dims) -> Tensor:
    """Return the places of `grid_sample` for affine maps [n, 2, 3] of an image of that height and width."""
    size = [number(d, "topi.image.affine_grid") for d in pair(target_shape, 2, "topi.image.affine_grid")]
    of = accumulator(data.dtype)

    def at(i: Expr, n: int) -> Expr:
        return i.astype(of) * te.const(2 / max(n - 1, 1), of) - 1

    def body(n: Expr, d: Expr, y: Expr, x: Expr) -> Expr:
        total = data(n, d, 0).astype(of) * at(x, size[1]) + data(n, d, 1).astype(of) * at(y, size[0]) + data(n, d, 2)
        return ir.cast(data.dtype, total)

    return te.compute((data.shape[0], 2, *size), body, name="affine_grid", tag="injective")


# -- the greatest sums of windows ---------------------------------------------------------------------


def dilation2d_nchw(
    input: Tensor, filter: Tensor, stride: Dims, padding: Pads, dilations: Dims, out_dtype: object = None
) -> Tensor:
    """Dilate [n, c, h, w]: the greatest of elements plus weights [c, h, w] in each window."""
    asked = "topi.image.dilation2d"
    if input.ndim != 4 or filter.ndim != 3 or not same(input.shape[1], filter.shape[0]):
        raise UsageError(f"{input!r} and weights {filter!r}", asked=asked, legal="[n, c, h, w] and [c, h, w]")
    of = input.dtype if out_dtype is None else out_dtype
    taps = dict(zip("HW", filter.shape[1:], strict=True))
    low = te.min_value(input.dtype)
    window = Windows.over(input, "NCHW", taps, (stride, dilations, padding), asked, "pad_temp", low)
    r = {x: te.reduce_axis((0, as_expr(taps[x])), f"r{x.lower()}") for x in "HW"}

    def body(*i: Expr) -> object:
        element = window.element(dict(zip("NCHW", i, strict=True)), r).astype(of)
        return te.max(element + filter(i[1], r["H"].var, r["W"].var).astype(of), axis=list(r.values()))

    shape = (*input.shape[:2], window.count["H"], window.count["W"])
    return te.compute(shape, body, name="dilation2d", tag="dilation2d_nchw")


def dilation2d_nhwc(
    input: Tensor, filter: Tensor, stride: Dims, padding: Pads, dilations: Dims, out_dtype: object = None
) -> Tensor:
    """Dilate [n, h, w, c]: the greatest of elements plus weights [h, w, c] in each window."""
    moved = transpose(input, [0, 3, 1, 2])
    found = dilation2d_nchw(moved, transpose(filter, [2, 0, 1]), stride, padding, dilations, out_dtype)
    return transpose(found, [0, 2, 3, 1])


check_calls(globals(), own="topi.image")

__all__ = [
    "affine_grid",
    "crop_and_resize",
    "dilation2d_nchw",
    "dilation2d_nhwc",
    "grid_sample",
    "resize1d",
    "resize2d",
    "resize3d",
    "sample_grid",
]
