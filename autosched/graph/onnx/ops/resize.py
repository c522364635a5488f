"""Resize: images, and tensors of any rank, made larger or smaller.

Along each axis, a place of the result stands at a place x of the input, a fraction (p*i + q) / r with whole numbers p,
q, r. So floors are divisions of integers, which the compiler sees through; weights are tables, or expressions where
sizes are symbolic. Axes are interpolated one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, gcd
from typing import Any

import numpy as np

from autosched import te
from autosched.graph.onnx.node import Dim, Node, operator
from autosched.graph.onnx.windows import plain
from autosched.ir.expr import Expr, as_expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, same
from autosched.topi.sampling import keys_weights

#: what an index is computed from stays below this
MOST = 2**30


@dataclass(frozen=True)
class _Axis:
    """Where the places of a result stand along an axis: the i-th at (p*i + q) / r of the input.

    scale:    the result's length by the input's, as the model says it; a fraction where it is known
    """

    size: Dim
    out: Dim
    p: Any
    q: Any
    r: Any
    scale: Fraction | None

    @property
    def is_known(self) -> bool:
        return all(isinstance(n, int) for n in (self.size, self.out, self.p, self.q, self.r))

    def floor_of(self, i: Expr, by: int = 1, plus: int = 0, more: bool = False) -> Expr:
        """floor(x + plus / by), or with `more` the ceiling of it."""
        p, q, r = self.p * by, self.q * by + self.r * plus, self.r * by
        if more:
            q = q + r - 1
        if self.is_known:
            common = gcd(p, r)
            p, q, r = p // common, q // common, r // common
        return simplify(te.floordiv(i * p + q, r))

    def places(self) -> list[Fraction]:
        """x of every place. Only for known sizes."""
        return [Fraction(self.p * i + self.q, self.r) for i in range(self.out)]  # type: ignore[arg-type]

    def inside(self, index: Expr, numbers: Sequence[int] | None = None) -> Expr:
        """An index, moved to the nearest one of the input; `numbers` are its values where they are known."""
        if numbers is None or min(numbers, default=0) < 0:
            index = te.max(index, te.const(0))
        if numbers is None or max(numbers, default=0) > self.size - 1:  # type: ignore[operator]
            index = te.min(index, as_expr(self.size) - 1)
        return index


def _fraction(x: float) -> Fraction:
    """The simple fraction that a float32 stands for."""
    simple = Fraction(float(x)).limit_denominator(4096)
    return simple if np.float32(float(simple)) == np.float32(x) else Fraction(float(x))


def _axis(node: Node, mode: str, size: Dim, out: Dim, scale: Fraction | None, roi: tuple[float, float]) -> _Axis:
    """The places of a result of `out` elements. Raises ModelError for a mode that the standard does not have."""
    # scale = num / den
    num, den = (out, size) if scale is None else (scale.numerator, scale.denominator)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        first: Dim = den - num
        if mode == "pytorch_half_pixel":
            first = plain(te.select(as_expr(out) > 1, as_expr(first), as_expr(0)))
        return _Axis(size, out, 2 * den, first, 2 * num, scale)
    if mode == "tf_half_pixel_for_nn" and node.opset < 13:  # which took it out
        return _Axis(size, out, 2 * den, den, 2 * num, scale)
    if mode == "asymmetric":
        return _Axis(size, out, den, 0, num, scale)
    if mode == "align_corners":  # by size * scale, which may be no whole number
        return _Axis(
            size,
            out,
            plain((as_expr(size) - 1) * (den if scale else 1)),
            0,
            plain(te.max(as_expr(size) * num - den if scale else as_expr(out) - 1, 1)),
            scale,
        )
    if not isinstance(size, int) or not isinstance(out, int):
        raise node.refused(f"{mode} of a symbolic dimension", "a number for it: see `shapes` of load")
    by = scale or Fraction(out, max(size, 1))
    whole = size * by
    start: Fraction
    if mode == "half_pixel_symmetric":
        start, step = Fraction(size, 2) * (1 - Fraction(out) / (size * by)) + 1 / (2 * by) - Fraction(1, 2), 1 / by
    elif mode == "tf_crop_and_resize":
        low, high = map(_fraction, roi)
        step = Fraction(0) if whole == 1 else (high - low) * (size - 1) / (whole - 1)
        start = low * (size - 1) + ((high - low) * (size - 1) / 2 if whole == 1 else 0)
    else:
        raise node.refused(f"coordinate_transformation_mode is {mode!r}", "one of the standard's")
    r = step.denominator * start.denominator // gcd(step.denominator, start.denominator)
    return _Axis(size, out, int(step * r), int(start * r), r, scale)


# -- kernels ------------------------------------------------------------------------------------------


def _linear(f: Any) -> list[Any]:
    return [1 - f, f]


def _hat(x: Any) -> Any:
    return np.clip(1 - np.abs(x), 0, 1)


def _keys(a: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        x = np.abs(x)
        near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((x - 5) * x + 8) * a * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))

    return kernel


def _nearest(node: Node, x: Tensor, at: int, axis: _Axis, mode: str) -> Tensor:
    floors = {
        "round_prefer_floor": (2, -1, True),
        "round_prefer_ceil": (2, 1, False),
        "floor": (1, 0, False),
        "ceil": (1, 0, True),
    }
    if mode not in floors:
        raise node.refused(f"nearest_mode is {mode!r}", ", ".join(floors))
    by, plus, more = floors[mode]
    numbers = None
    if axis.is_known:
        exact = [x + Fraction(plus, by) for x in axis.places()]
        numbers = [-floor(-x) if more else floor(x) for x in exact]
    place = _index(node, axis, numbers, lambda i: axis.floor_of(i, by, plus, more))

    def body(*i: Expr) -> Expr:
        return x(*(place(e) if k == at else e for k, e in enumerate(i)))

    return _stage(x, at, axis, body)


def _index(
    node: Node, axis: _Axis, numbers: Sequence[int] | None, of: Callable[[Expr], Expr]
) -> Callable[[Expr], Expr]:
    """A function that gives an index inside; a table where its numbers are large."""
    if numbers is not None and 2 * max(abs(axis.p) * max(axis.out, 1) + abs(axis.q), axis.r) >= MOST:  # type: ignore[type-var]
        inside = [max(min(n, axis.size - 1), 0) for n in numbers]  # type: ignore[operator,type-var]
        table = node.constant(np.array(inside), "int32")
        return lambda i: axis.inside(table(i))
    return lambda i: axis.inside(of(i), numbers)


def _stage(x: Tensor, at: int, axis: _Axis, body: Callable[..., Expr]) -> Tensor:
    shape = [axis.out if k == at else d for k, d in enumerate(x.shape)]
    return te.compute(tuple(shape), body, name="resize", tag="injective")


def _interpolated(
    node: Node, x: Tensor, at: int, axis: _Axis, weights: Callable[[Any], list[Any]], exclude: bool
) -> Tensor:
    """A sum of two or four neighbours by weights of what is left over from a floor."""
    count = len(weights(0.5))
    first = 1 - count // 2
    floors: list[int] | None = None
    tables: list[Tensor] = []
    if axis.is_known:
        places = axis.places()
        floors = [floor(p) for p in places]
        by = np.array(weights(np.array([float(p - f) for p, f in zip(places, floors, strict=True)])))
        if exclude:
            taps = np.array(floors) + np.arange(first, first + count)[:, None]
            by = np.where((taps >= 0) & (taps < int(axis.size)), by, 0)  # type: ignore[call-overload]
            by = by / np.where(by.sum(0) == 0, 1, by.sum(0))
        tables = [node.constant(w, x.dtype) for w in by]
    elif exclude:
        raise node.refused("exclude_outside of a symbolic dimension", "a number for it: see `shapes` of load")

    def shifted(k: int) -> Callable[[Expr], Expr]:
        values = None if floors is None else [f + k for f in floors]
        return _index(node, axis, values, lambda i: axis.floor_of(i) + k)

    indices = [shifted(first + k) for k in range(count)]

    def body(*i: Expr) -> Expr:
        if tables:
            factors = [t(i[at]) for t in tables]
        else:
            rest = te.floormod(i[at] * axis.p + axis.q, axis.r).astype(x.dtype)
            factors = weights(rest / as_expr(axis.r).astype(x.dtype))
        elements = (x(*(place(e) if k == at else e for k, e in enumerate(i))) for place in indices)
        total = None
        for f, e in zip(factors, elements, strict=True):
            total = f * e if total is None else total + f * e
        assert total is not None
        return total

    return _stage(x, at, axis, body)


def _averaged(
    node: Node, x: Tensor, at: int, axis: _Axis, kernel: Callable[[Any], Any], reach: int, exclude: bool
) -> Tensor:
    """A sum of all neighbours that a kernel reaches, which is as wide as the result is coarse: antialiasing."""
    if not axis.is_known or axis.scale is None:
        raise node.refused("antialias of a symbolic dimension", "a number for it: see `shapes` of load")
    scale = min(axis.scale, Fraction(1))
    first = floor(-reach / scale) + 1
    count = 2 - 2 * first
    places = axis.places()
    low = np.array([-floor(-p) - 1 for p in places], dtype=np.int64)  # so that 0 < left <= 1
    left = np.array([float(p - int(f)) for p, f in zip(places, low, strict=True)])
    steps = np.arange(first, first + count)
    by = kernel((steps - left[:, None]) * float(scale))
    by = by / by.sum(1, keepdims=True)
    if exclude:
        taps = low[:, None] + steps
        by = np.where((taps >= 0) & (taps < int(axis.size)), by, 0)  # type: ignore[call-overload]
        by = by / by.sum(1, keepdims=True)
    table, start = node.constant(by, x.dtype), node.constant(low + first, "int32")
    r = te.reduce_axis((0, count), "tap")

    def body(*i: Expr) -> Expr:
        place = axis.inside(start(i[at]) + r)
        return te.sum(table(i[at], r) * x(*(place if k == at else e for k, e in enumerate(i))), axis=r)

    return _stage(x, at, axis, body)


# -- operators ----------------------------------------------------------------------------------------


def _resized(node: Node, x: Tensor, axes: dict[int, _Axis], mode: str, nearest: Callable[[_Axis], str]) -> Tensor:
    """`x` with each of these axes resized."""
    exclude, antialias = bool(node.attr("exclude_outside", 0)), bool(node.attr("antialias", 0))
    a = node.attr("cubic_coeff_a", -0.75)
    crops = node.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    beyond = node.attr("extrapolation_value", 0.0)
    kernels = {"linear": (_linear, _hat, 1), "cubic": (keys_weights(a), _keys(a), 2)}
    if mode not in ("nearest", *kernels) or (mode == "nearest" and antialias):
        raise node.refused(f"mode is {mode!r}, antialias {antialias}", "nearest, linear, cubic; antialias for the last")
    moves = [(k, f) for k, f in axes.items() if not _is_identity(f)]
    sums = x.dtype if mode == "nearest" or not moves else accumulator(x.dtype if x.dtype.is_float else "float32")
    made = x if sums == x.dtype else te.compute(x.shape, lambda *i: x(*i).astype(sums), name="resize_wide")
    for k, axis in moves:
        if mode == "nearest":
            made = _nearest(node, made, k, axis, nearest(axis))
        elif antialias and axis.scale is not None and axis.scale < 1:
            made = _averaged(node, made, k, axis, *kernels[mode][1:], exclude)
        else:
            made = _interpolated(node, made, k, axis, kernels[mode][0], exclude)
        if crops and (outside := [not 0 <= p <= axis.size - 1 for p in axis.places()]) and any(outside):  # type: ignore[operator]
            made = _replaced(node, made, k, outside, beyond)
    return made if made.dtype == x.dtype else _rounded(made, x)


def _is_identity(axis: _Axis) -> bool:
    return same(axis.size, axis.out) and same(axis.p, axis.r) and same(axis.q, 0)


def _replaced(node: Node, t: Tensor, at: int, where: Sequence[bool], value: float) -> Tensor:
    mask = node.constant(np.array(where))
    return te.compute(
        t.shape, lambda *i: te.select(mask(i[at]), te.const(value, t.dtype), t(*i)), name="extrapolated", tag="elemwise"
    )


def _rounded(t: Tensor, x: Tensor) -> Tensor:
    """In the type of `x`; for integers, the nearest ones of its range."""

    def body(*i: Expr) -> Expr:
        e = t(*i)
        if x.dtype.is_integer:
            low, high = (te.const(float(n), e.dtype) for n in (x.dtype.min, x.dtype.max))
            e = te.max(te.min(te.nearbyint(e), high), low)
        return e.astype(x.dtype)

    return te.compute(t.shape, body, name="resize_rounded", tag="elemwise")


def _scaled_size(d: Expr, scale: Fraction, said: float) -> Dim:
    """floor(d * scale), in float32 as the standard's own shape inference has it."""
    size = plain(d)
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(said)))
    return simplify(te.floordiv(size * scale.numerator, scale.denominator))


def _by_scales(node: Node, x: Tensor, axes: Sequence[int], scales: Sequence[float]) -> list[tuple[Dim, Fraction]]:
    if len(scales) != len(axes) or not all(np.isfinite(s) and s > 0 for s in scales):
        raise node.refused(f"scales are {list(scales)}", f"{len(axes)} numbers above 0")
    exact = [_fraction(s) for s in scales]
    return [(_scaled_size(x.shape[k], f, s), f) for k, f, s in zip(axes, exact, scales, strict=True)]


def _by_sizes(node: Node, x: Tensor, axes: Sequence[int], sizes: list[Dim]) -> list[tuple[Dim, Fraction | None]]:
    """Lengths and scales, by the policy for the ratio of sides."""
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if len(sizes) != len(axes) or any(isinstance(n, int) and n < 0 for n in sizes):
        raise node.refused(f"sizes are {sizes}", f"{len(axes)} numbers")
    old = [plain(x.shape[k]) for k in axes]
    scales = [
        Fraction(n, d) if isinstance(n, int) and isinstance(d, int) and n * d else None
        for n, d in zip(sizes, old, strict=True)
    ]
    if policy == "stretch":
        return list(zip(sizes, scales, strict=True))
    known = [s for s in scales if s is not None]
    if policy not in ("not_larger", "not_smaller") or len(known) < len(scales):
        raise node.refused(f"keep_aspect_ratio_policy is {policy!r}, sizes {sizes}", "known sizes; stretch, not_larger")
    scale = min(known) if policy == "not_larger" else max(known)
    return [(floor(scale * d + Fraction(1, 2)), scale) for d in old]  # type: ignore[operator]


def _axes_of(
    node: Node, x: Tensor, chosen: Sequence[int], lengths: Sequence[tuple[Dim, Fraction | None]], mode: str, roi: Any
) -> dict[int, _Axis]:
    """The axes that are resized. Raises ModelError where elements would come out of nothing."""
    found = {}
    for n, (k, (out, scale)) in enumerate(zip(chosen, lengths, strict=True)):
        size = plain(x.shape[k])
        if size == 0 and out != 0:
            raise node.refused(f"axis {k} has no elements, and {out!r} are wanted", "an input with elements")
        part = (0.0, 1.0) if roi is None else (float(roi[n]), float(roi[len(chosen) + n]))
        found[k] = _axis(node, mode, size, out, scale, part) if out != 0 else _Axis(size, 0, 1, 0, 1, scale)
    return found


@operator("Resize")
def resize(
    node: Node, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    if node.opset < 11:  # the second input is the scales
        assert roi is not None
        return _simple(node, x, node.values(roi).reshape(-1).tolist())
    axes = [axis_of(x, k, node.kind) for k in node.attr("axes") or range(x.ndim)]
    if len(set(axes)) < len(axes):
        raise node.refused(f"axes are {axes}", "each once")
    given = None if scales is None else node.values(scales).reshape(-1).tolist()
    if given:
        lengths: Sequence[tuple[Dim, Fraction | None]] = _by_scales(node, x, axes, given)
    elif sizes is not None:
        lengths = _by_sizes(node, x, axes, node.dims(sizes))
    else:
        raise node.refused("it has neither scales nor sizes", "one of them")
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    part = None
    if mode == "tf_crop_and_resize":
        part = [] if roi is None else node.values(roi).reshape(-1).tolist()
        if len(part) != 2 * len(axes) or not all(map(np.isfinite, part)):
            raise node.refused(f"roi is {part}", f"{2 * len(axes)} numbers")
    found = _axes_of(node, x, axes, lengths, mode, part)
    rounding = node.attr("nearest_mode", "round_prefer_floor")
    return _resized(node, x, found, node.attr("mode", "nearest"), lambda axis: rounding)


@operator("Upsample")
def upsample(node: Node, x: Tensor, scales: Tensor | None = None) -> Tensor:
    given = node.attr("scales") if scales is None else node.values(scales).reshape(-1).tolist()
    return _simple(node, x, given or [])


def _simple(node: Node, x: Tensor, scales: Sequence[float]) -> Tensor:
    """As before opset 11: x = i / scale, rounded down, or up where the result is smaller."""
    chosen = range(x.ndim)
    axes = _axes_of(node, x, chosen, _by_scales(node, x, chosen, scales), "asymmetric", None)
    mode = {"bilinear": "linear"}.get(node.attr("mode", "nearest"), node.attr("mode", "nearest"))
    return _resized(node, x, axes, mode, lambda axis: "ceil" if axis.scale is not None and axis.scale < 1 else "floor")
