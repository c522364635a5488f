"""Copies: arrays put together, repeated, padded, created, chosen from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.ir import expr as ir
from autosched.ir.expr import Expr, as_expr
from autosched.tracing.functions.shapes import (
    atleast_1d,
    atleast_2d,
    broadcast_to,
    diagonal,
    expand_dims,
    ravel,
    reshape,
)
from autosched.tracing.functions.table import axis_number, traces
from autosched.tracing.traced import Traced, computed, element, element_type, lifted, refuse, value


@traces(np.copy, np.ascontiguousarray, np.asarray, np.array)
def copied(a: Any, *_: Any, **__: Any) -> Traced:
    return value(a, "np.copy").copy()


@traces(np.astype)
def astype(x: Any, dtype: Any, *, copy: bool = True) -> Traced:
    return value(x, "np.astype").astype(dtype)


@traces(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Traced:
    x = value(a, "np.roll")
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, (int, np.integer)) else list(shift)
    for k, n in zip(axes, shifts, strict=True):
        x = _rolled(x, axis_number(k, x.ndim, "np.roll"), int(n))
    return x


def _rolled(x: Traced, axis: int, shift: int) -> Traced:
    size = x.shape[axis]
    if not size or not shift % size:
        return x.copy()
    t, by = x.__te_tensor__(), shift % size

    def body(*i: Expr) -> Expr:
        before = te.if_then_else(i[axis] < by, i[axis] + (size - by), i[axis] - by)
        return t(*i[:axis], before, *i[axis + 1 :])

    return computed(x.shape, body, "roll")


@traces(np.concatenate)
def concatenate(arrays: Any, axis: int | None = 0, *, dtype: Any = None) -> Traced:
    values = [value(a, "np.concatenate") for a in arrays]
    if axis is None:
        values, axis = [ravel(v) for v in values], 0
    of = np.result_type(*(v.dtype for v in values)) if dtype is None else np.dtype(dtype)
    tensors = [(v if v.dtype == of else v.astype(of)).__te_tensor__() for v in values]
    return Traced(topi.concatenate(tensors, axis))


@traces(np.stack)
def stack(arrays: Any, axis: int = 0, *, dtype: Any = None) -> Traced:
    values = [value(a, "np.stack") for a in arrays]
    return concatenate([expand_dims(v, axis) for v in values], axis, dtype=dtype)


@traces(np.vstack)
def vstack(tup: Any, *, dtype: Any = None) -> Traced:
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


@traces(np.hstack)
def hstack(tup: Any, *, dtype: Any = None) -> Traced:
    values = [atleast_1d(a) for a in tup]
    return concatenate(values, 0 if values[0].ndim == 1 else 1, dtype=dtype)


@traces(np.dstack)
def dstack(tup: Any) -> Traced:
    values = [atleast_2d(a) for a in tup]
    return concatenate([v if v.ndim > 2 else v[:, :, None] for v in values], 2)


@traces(np.column_stack)
def column_stack(tup: Any) -> Traced:
    values = [value(a, "np.column_stack") for a in tup]
    return concatenate([v[:, None] if v.ndim < 2 else v for v in values], 1)


@traces(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Traced]:
    x = value(ary, "np.split")
    axis = axis_number(axis, x.ndim, "np.split")
    n = indices_or_sections
    if isinstance(n, (int, np.integer)):
        if x.shape[axis] % n:
            refuse("np.split", f"{x.shape[axis]} places in {n} equal parts")
        cuts = [x.shape[axis] // n * k for k in range(1, n)]
    else:
        cuts = [int(c) for c in n]
    ends = [0, *cuts, x.shape[axis]]
    return [x[(slice(None),) * axis + (slice(a, b),)] for a, b in pairwise(ends)]


@traces(np.repeat)
def repeat(a: Any, repeats: int, axis: int | None = None) -> Traced:
    if not isinstance(repeats, (int, np.integer)):
        refuse("np.repeat", "a number of repeats for each element", "one number")
    x = value(a, "np.repeat")
    x = ravel(x) if axis is None or not x.ndim else x
    k = axis_number(axis or 0, x.ndim, "np.repeat")
    t, n = x.__te_tensor__(), int(repeats)
    shape = [*x.shape[:k], x.shape[k] * n, *x.shape[k + 1 :]]
    return computed(shape, lambda *i: t(*i[:k], te.floordiv(i[k], n), *i[k + 1 :]), "repeat")


@traces(np.tile)
def tile(A: Any, reps: Any) -> Traced:
    x = value(A, "np.tile")
    times = [reps] if isinstance(reps, int) else list(reps)
    x = reshape(x, [1] * (len(times) - x.ndim) + list(x.shape)) if len(times) > x.ndim else x
    times = [1] * (x.ndim - len(times)) + times
    t, sizes = x.__te_tensor__(), x.shape
    shape = [d * n for d, n in zip(sizes, times, strict=True)]
    return computed(shape, lambda *i: t(*(te.floormod(j, d) for j, d in zip(i, sizes, strict=True))), "tile")


@traces(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Traced:
    x = value(array, "np.pad")
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - x.ndim, (0, 0))) for k in range(x.ndim)]
    widths = [(int(p), int(q)) for p, q in np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))]
    if any(p < 0 or q < 0 for p, q in widths):
        refuse("np.pad", "a negative width")
    t, shape = x.__te_tensor__(), [p + d + q for d, (p, q) in zip(x.shape, widths, strict=True)]
    if mode == "constant":
        fill = lifted(constant_values, "np.pad")
        if not isinstance(fill, (bool, int, float)) and fill.ndim:
            refuse("np.pad", "a value for each border", "one number")

        def padded(*i: Expr) -> Expr:
            inside = []
            for j, d, (p, q) in zip(i, x.shape, widths, strict=True):
                inside += [ir.compare("ge", j, as_expr(p))] if p else []
                inside += [j < p + d] if q else []
            own = t(*(j - p for j, (p, _) in zip(i, widths, strict=True)))
            return te.if_then_else(te.all(*inside), own, element(fill, (), (), str(x.dtype))) if inside else own

        return computed(shape, padded, "pad")
    if mode not in _BORDERS:
        refuse("np.pad", f"the mode {mode!r}", f"constant, {', '.join(_BORDERS)}")
    place = _BORDERS[mode]
    if any(d == 0 and (p or q) for d, (p, q) in zip(x.shape, widths, strict=True)):
        refuse("np.pad", f"mode {mode!r} of an axis without elements")
    return computed(
        shape,
        lambda *i: t(*(place(j - p, d) if p or q else j for j, d, (p, q) in zip(i, x.shape, widths, strict=True))),
        "pad",
    )


def _reflected(j: Expr, d: int) -> Expr:
    """... 2 1 | 0 1 2 ... n-1 | n-2 ..."""
    if d == 1:
        return as_expr(0)
    at = te.floormod(j, 2 * (d - 1))
    return te.min(at, 2 * (d - 1) - at)


def _mirrored(j: Expr, d: int) -> Expr:
    """... 1 0 | 0 1 2 ... n-1 | n-1 ..."""
    at = te.floormod(j, 2 * d)
    return te.min(at, 2 * d - 1 - at)


_BORDERS: dict[str, Callable[[Expr, int], Expr]] = {
    "edge": lambda j, d: te.max(te.min(j, as_expr(d - 1)), as_expr(0)),
    "reflect": _reflected,
    "symmetric": _mirrored,
    "wrap": lambda j, d: te.floormod(j, d),
}


@traces(np.diag)
def diag(v: Any, k: int = 0) -> Traced:
    x = value(v, "np.diag")
    if x.ndim == 2:
        return diagonal(x, k)
    n, t = x.shape[0] + abs(k), x.__te_tensor__()
    zero = te.const(0, str(x.dtype))

    def body(i: Expr, j: Expr) -> Expr:
        at = i if k >= 0 else j
        return te.if_then_else(te.all(ir.compare("eq", j - i, as_expr(k)), at < x.shape[0]), t(at), zero)

    return computed((n, n), body, "diag")


@traces(np.tril)
def tril(m: Any, k: int = 0) -> Traced:
    return _triangle(m, lambda i, j: ir.compare("ge", i + k, j), "tril")


@traces(np.triu)
def triu(m: Any, k: int = 0) -> Traced:
    return _triangle(m, lambda i, j: ir.compare("ge", j, i + k), "triu")


def _triangle(m: Any, keeps: Callable[[Expr, Expr], Expr], name: str) -> Traced:
    x = value(m, f"np.{name}")
    if x.ndim == 1:  # NumPy stretches the row to a square
        x = broadcast_to(x, (x.size, x.size))
    t, zero = x.__te_tensor__(), te.const(0, str(x.dtype))
    return computed(x.shape, lambda *i: te.select(keeps(i[-2], i[-1]), t(*i), zero), name)


# -- creation
def _full(shape: Sequence[int], fill: Any, dtype: Any, name: str) -> Traced:
    of, x = element_type(dtype), lifted(fill, f"np.{name}")
    return computed(shape, lambda *i: element(x, i, tuple(shape), of), name)


def _shape_like(a: Any, shape: Any) -> tuple[int, ...]:
    return value(a, "an array").shape if shape is None else _shape(shape)


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, [shape] if isinstance(shape, (int, np.integer)) else shape))


@traces(np.zeros_like, np.empty_like)
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Traced:
    return _full(_shape_like(a, shape), 0, value(a, "np.zeros_like").dtype if dtype is None else dtype, "zeros_like")


@traces(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Traced:
    return _full(_shape_like(a, shape), 1, value(a, "np.ones_like").dtype if dtype is None else dtype, "ones_like")


@traces(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Traced:
    of = value(a, "np.full_like").dtype if dtype is None else dtype
    return _full(_shape_like(a, shape), fill_value, of, "full_like")


@traces(np.zeros, np.empty)
def zeros(shape: Any, dtype: Any = float, order: str = "C", device: Any = None) -> Traced:
    """With `like=`, as all four: NumPy makes others itself."""
    return _full(_shape(shape), 0, dtype, "zeros")


@traces(np.ones)
def ones(shape: Any, dtype: Any = None, order: str = "C", device: Any = None) -> Traced:
    return _full(_shape(shape), 1, float if dtype is None else dtype, "ones")


@traces(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", device: Any = None) -> Traced:
    of = (fill_value if isinstance(fill_value, Traced) else np.asarray(fill_value)).dtype if dtype is None else dtype
    return _full(_shape(shape), fill_value, of, "full")


# -- choice
@traces(np.where)
def where(condition: Any, x: Any, y: Any) -> Traced:
    c, a, b = (lifted(v, "np.where") for v in (condition, x, y))
    types = [
        v.dtype if isinstance(v, Traced) and not v.weak else v if not isinstance(v, Traced) else 1.0 for v in (a, b)
    ]
    of = element_type(np.result_type(*types))
    shape = np.broadcast_shapes(*(v.shape for v in (c, a, b) if isinstance(v, Traced)))

    def body(*i: Expr) -> Expr:
        return te.select(element(c, i, shape, "bool"), element(a, i, shape, of), element(b, i, shape, of))

    return computed(shape, body, "where")


@traces(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Traced:
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = where(condition, choice, found)
    return value(found, "np.select")


@traces(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Traced:
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    x = value(a, "np.clip")
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


@traces(np.take)
def take(a: Any, indices: Any, axis: int | None = None, *, mode: str = "raise") -> Traced:
    x = value(a, "np.take")
    x = ravel(x) if axis is None or not x.ndim else x
    k = axis_number(axis or 0, x.ndim, "np.take")
    places = value(indices, "np.take")
    if mode == "wrap":
        places = places % x.shape[k]
    return x[(slice(None),) * k + (places,)]  # type: ignore[no-any-return]


@traces(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Traced:
    x, at = value(arr, "np.take_along_axis"), value(indices, "np.take_along_axis")
    if axis is None:
        return take_along_axis(ravel(x), at, 0)
    k = axis_number(axis, x.ndim, "np.take_along_axis")
    grid = np.ogrid[tuple(slice(0, n) for n in at.shape)]
    return x[tuple(at if d == k else grid[d] for d in range(x.ndim))]  # type: ignore[no-any-return]


@traces(np.gradient)
def gradient(f: Any, *spacing: float, axis: Any = None) -> Any:
    """By central differences, one-sided at the ends; distances are numbers, one for all axes or one for each."""
    x = value(f, "np.gradient")
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    along = [axis_number(k, x.ndim, "np.gradient") for k in axes]
    steps = list(spacing or [1.0]) * (len(along) if len(spacing) < 2 else 1)
    if len(steps) != len(along) or not all(isinstance(s, (int, float)) for s in steps):
        refuse("np.gradient", "these distances", "numbers, one for all axes or one for each")
    found = [_slope(x, k, float(s)) for k, s in zip(along, steps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(x: Traced, axis: int, step: float) -> Traced:
    n, t, of = x.shape[axis], x.__te_tensor__(), str(x.dtype)
    if n < 2:
        refuse("np.gradient", f"an axis of {n}", "two places at least")

    def body(*i: Expr) -> Expr:
        at = i[axis]
        later, sooner = te.min(at + 1, as_expr(n - 1)), te.max(at - 1, as_expr(0))
        rise = t(*i[:axis], later, *i[axis + 1 :]) - t(*i[:axis], sooner, *i[axis + 1 :])
        inside = te.all(ir.compare("ge", at, as_expr(1)), at < n - 1)
        return rise / te.select(inside, te.const(2 * step, of), te.const(step, of))

    return computed(x.shape, body, "gradient")


@traces(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Traced:
    v = value(x, "np.nan_to_num")
    if v.dtype.kind != "f":
        return v.copy()
    limits = np.finfo(v.dtype)
    high, low = float(limits.max) if posinf is None else posinf, float(limits.min) if neginf is None else neginf
    v = where(np.isnan(v), np.array(nan, v.dtype), v)
    return where(np.isinf(v), where(v > 0, np.array(high, v.dtype), np.array(low, v.dtype)), v)


@traces(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Traced:
    x, y = value(a, "np.isclose"), value(b, "np.isclose")
    near = np.logical_and(np.isfinite(y), np.less_equal(np.abs(x - y), atol + rtol * np.abs(y)))
    return np.logical_or(near, x == y)  # type: ignore[no-any-return]


@traces(np.round, np.around)
def around(a: Any, decimals: int = 0) -> Traced:
    x = value(a, "np.round")
    if x.dtype.kind in "iub":
        return x.copy()
    if decimals == 0:
        return np.rint(x)  # type: ignore[return-value]
    scale = 10.0 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale  # type: ignore[return-value]


@traces(np.real)
def real(val: Any) -> Traced:
    return value(val, "np.real")
