"""Sums, extremes, statistics, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.ir.expr import Expr
from autosched.tracing.functions.joins import where
from autosched.tracing.functions.shapes import broadcast_to, expand_dims, ravel, reshape
from autosched.tracing.functions.table import axis_number, traces
from autosched.tracing.traced import Traced, computed, element_type, refuse, value


def _axes(axis: Any, ndim: int, asked: str) -> list[int]:
    if axis is None or (ndim == 0 and axis in (0, -1)):  # which NumPy takes for a value without axes
        return list(range(ndim))
    axes = [axis_number(k, ndim, asked) for k in ([axis] if isinstance(axis, (int, np.integer)) else axis)]
    if len(set(axes)) < len(axes):
        refuse(asked, "an axis is named twice")
    return sorted(axes)


def _reduced(x: Traced, reducer: Callable[..., Any], axis: Any, keepdims: bool, name: str, of: str | None) -> Traced:
    """A reduction over some axes, computed in type `of`."""
    axes = _axes(axis, x.ndim, f"np.{name}")
    t = x.__te_tensor__()
    kept = [k for k in range(x.ndim) if k not in axes]
    shape = [d if k in kept else 1 for k, d in enumerate(x.shape)] if keepdims else [x.shape[k] for k in kept]
    if not axes:
        return x.astype(of or x.dtype)
    over = [te.reduce_axis((0, x.shape[k]), f"r{k}") for k in axes]

    def body(*i: Expr) -> Any:
        free = iter([i[k] for k in kept] if keepdims else i)
        inner = iter(over)
        e = t(*(next(inner) if k in axes else next(free) for k in range(t.ndim)))
        return reducer(e if of is None else e.astype(of), axis=over)

    return computed(shape, body, name)


def _with_initial(x: Traced, f: Any, initial: Any) -> Traced:
    return x if initial is None else f(x, initial)


def _sum_type(x: Traced, dtype: Any) -> np.dtype[Any]:
    """The type of NumPy's sums: small integers and truths become the platform's."""
    if dtype is not None:
        return np.dtype(dtype)
    if x.dtype.kind in "b" or (x.dtype.kind == "i" and x.dtype.itemsize < 8):
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if x.dtype.kind == "u" else x.dtype


def _masked(x: Traced, mask: Any, neutral: Any) -> Traced:
    return x if mask is True else where(mask, x, np.array(neutral, x.dtype))


def _accumulated(x: Traced, reducer: Any, axis: Any, keepdims: bool, name: str, dtype: Any) -> Traced:
    to = _sum_type(x, dtype)
    through = np.dtype(np.float32) if to.itemsize == 2 and to.kind not in "iu" else to
    found = _reduced(x, reducer, axis, keepdims, name, element_type(through))
    return found if through == to else found.astype(to)


@traces(np.sum)
def total(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Traced:
    x = _masked(value(a, "np.sum"), where, 0)
    return _with_initial(_accumulated(x, te.sum, axis, keepdims, "sum", dtype), np.add, initial)


@traces(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Traced:
    x = _masked(value(a, "np.prod"), where, 1)
    return _with_initial(_accumulated(x, te.prod, axis, keepdims, "prod", dtype), np.multiply, initial)


def _extreme(name: str) -> Callable[..., Traced]:
    reducer, combine = getattr(te, name), np.maximum if name == "max" else np.minimum

    def f(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None) -> Traced:
        x = value(a, f"np.{name}")
        if initial is None and any(not x.shape[k] for k in _axes(axis, x.ndim, f"np.{name}")):
            refuse(f"np.{name}", "an axis without elements has none", "initial=..")
        if x.dtype == bool:
            return f(x.astype(np.uint8), axis, keepdims=keepdims, initial=initial).astype(bool)
        return _with_initial(_reduced(x, reducer, axis, keepdims, name, None), combine, initial)

    f.__name__ = name
    return f


maximum_of = traces(np.max, np.amax)(_extreme("max"))
minimum_of = traces(np.min, np.amin)(_extreme("min"))


@traces(np.ptp)
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Traced:
    return maximum_of(a, axis, keepdims=keepdims) - minimum_of(a, axis, keepdims=keepdims)


def _count(x: Traced, axis: Any, asked: str) -> int:
    return math.prod(x.shape[k] for k in _axes(axis, x.ndim, asked))


@traces(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Traced:
    x = value(a, "np.mean")
    to = np.dtype(dtype) if dtype is not None else np.dtype(np.float64) if x.dtype.kind in "iub" else x.dtype
    through = np.dtype(np.float32) if to.itemsize == 2 else to
    total = _reduced(x, te.sum, axis, keepdims, "mean", element_type(through))
    found = total / np.array(_count(x, axis, "np.mean"), through)
    return found if through == to else found.astype(to)


@traces(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Traced:
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    x, w = value(a, "np.average"), value(weights, "np.average")
    if w.shape != x.shape and axis is not None and w.ndim == 1:
        w = reshape(w, [-1 if k == axis_number(axis, x.ndim, "np.average") else 1 for k in range(x.ndim)])
    return total(x * w, axis, keepdims=keepdims) / total(broadcast_to(w, x.shape), axis, keepdims=keepdims)


@traces(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Traced:
    x = value(a, "np.var")
    to = np.dtype(dtype) if dtype is not None else np.dtype(np.float64) if x.dtype.kind in "iub" else x.dtype
    apart = x.astype(to) - mean(x, axis, to, keepdims=True)
    n = _count(x, axis, "np.var") - (ddof if correction is None else correction)
    return total(apart * apart, axis, keepdims=keepdims) / np.array(max(n, 0), to)


@traces(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None
) -> Traced:
    return np.sqrt(var(a, axis, dtype, ddof=ddof, keepdims=keepdims, correction=correction))  # type: ignore[return-value]


@traces(np.all)
def all_of(a: Any, axis: Any = None, *, keepdims: bool = False) -> Traced:
    x = value(a, "np.all").astype(bool).astype(np.uint8)
    return _reduced(x, te.min, axis, keepdims, "all", None).astype(bool)


@traces(np.any)
def any_of(a: Any, axis: Any = None, *, keepdims: bool = False) -> Traced:
    x = value(a, "np.any").astype(bool).astype(np.uint8)
    return _reduced(x, te.max, axis, keepdims, "any", None).astype(bool)


@traces(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Traced:
    return total(value(a, "np.count_nonzero").astype(bool), axis, keepdims=keepdims)


@traces(np.argmax)
def argmax(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Traced:
    return _place(a, axis, keepdims, topi.argmax, "argmax")


@traces(np.argmin)
def argmin(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Traced:
    return _place(a, axis, keepdims, topi.argmin, "argmin")


def _place(a: Any, axis: int | None, keepdims: bool, f: Any, name: str) -> Traced:
    x = value(a, f"np.{name}")
    axis = axis if x.ndim else None
    flat = ravel(x) if axis is None else x
    at = 0 if axis is None else axis_number(axis, x.ndim, f"np.{name}")
    found = Traced(f(flat.__te_tensor__(), at)).astype(np.int64)
    if not keepdims:
        return found
    return reshape(found, [1] * x.ndim) if axis is None else expand_dims(found, axis)


def _running(name: str) -> Callable[..., Traced]:
    f = getattr(topi, name)

    def running(a: Any, axis: int | None = None, dtype: Any = None) -> Traced:
        x = value(a, f"np.{name}")
        x = ravel(x) if axis is None or not x.ndim else x
        k = axis_number(axis or 0, x.ndim, f"np.{name}")
        to = _sum_type(x, dtype)
        return x.astype(to) if not x.size else Traced(f(x.astype(to).__te_tensor__(), k))

    running.__name__ = name
    return running


cumsum = traces(np.cumsum)(_running("cumsum"))
cumprod = traces(np.cumprod)(_running("cumprod"))


@traces(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1) -> Traced:
    x = value(a, "np.diff")
    k = axis_number(axis, x.ndim, "np.diff")
    for _ in range(n):
        later, sooner = (slice(None),) * k + (slice(1, None),), (slice(None),) * k + (slice(None, -1),)
        x = x[later] ^ x[sooner] if x.dtype == bool else x[later] - x[sooner]
    return x


@traces(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Traced:
    x = value(a, "np.nansum")
    x = where(np.isnan(x), np.array(0, x.dtype), x) if x.dtype.kind == "f" else x
    return total(x, axis, dtype, keepdims=keepdims)


@traces(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Traced:
    v = value(x, "np.linalg.norm")
    v = v.astype(np.float64) if v.dtype.kind in "iub" else v
    if ord in (None, 2, "fro") and (ord is None or ord == "fro" or isinstance(axis, int) or v.ndim == 1):
        return np.sqrt(total(v * v, axis, keepdims=keepdims))  # type: ignore[return-value]
    if (isinstance(axis, int) or v.ndim == 1) and ord in (1, np.inf):
        return (total if ord == 1 else maximum_of)(np.abs(v), axis, keepdims=keepdims)
    refuse("np.linalg.norm", f"ord={ord!r} of {v.ndim} dimensions", "None, 'fro'; 1, 2 and inf of vectors")
