"""Products of vectors, matrices and tensors; convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.tracing.functions.joins import pad
from autosched.tracing.functions.reductions import total
from autosched.tracing.functions.shapes import atleast_1d, diagonal, expand_dims, flip, ravel, reshape
from autosched.tracing.functions.table import axis_number, traces
from autosched.tracing.traced import Traced, computed, element_type, refuse, value


def _einsum(subscripts: str, *operands: Any) -> Traced:
    values = [value(x, "a product") for x in operands]
    of = np.result_type(*(v.dtype for v in values))
    if of.kind == "b":
        return _einsum(subscripts, *(v.astype(np.uint8) for v in values)).astype(bool)
    through = np.dtype(np.float32) if of.itemsize == 2 and of.kind not in "iu" else of
    tensors = [(v if v.dtype == through else v.astype(through)).__te_tensor__() for v in values]
    found = Traced(topi.einsum(subscripts, *tensors))
    return found if found.dtype == of else found.astype(of)


@traces(np.einsum)
def einsum(subscripts: str, *operands: Any, optimize: Any = False) -> Traced:
    return _einsum(subscripts.replace(" ", ""), *operands)


def matmul(a: Any, b: Any) -> Traced:
    x, y = value(a, "np.matmul"), value(b, "np.matmul")
    if not x.ndim or not y.ndim:
        refuse("np.matmul", "an operand without dimensions", "*")
    inner = x.shape[-1], y.shape[0 if y.ndim == 1 else -2]
    if inner[0] != inner[1]:
        refuse("np.matmul", f"{list(x.shape)} and {list(y.shape)}: {inner[0]} is not {inner[1]}")
    left, right = ("k" if x.ndim == 1 else "...ik"), ("k" if y.ndim == 1 else "...kj")
    out = ("..." if max(x.ndim, y.ndim) > 2 else "") + ("" if x.ndim == 1 else "i") + ("" if y.ndim == 1 else "j")
    if x.ndim <= 2:
        left = left.replace("...", "")
    if y.ndim <= 2:
        right = right.replace("...", "")
    return _einsum(f"{left},{right}->{out}", x, y)


def vecdot(a: Any, b: Any) -> Traced:
    return total(np.multiply(a, b), -1)


#: products that are ufuncs to NumPy
PRODUCTS: dict[str, Callable[[Any, Any], Traced]] = {
    "matmul": matmul,
    "vecdot": vecdot,
    "matvec": lambda a, b: matmul(a, expand_dims(b, -1))[..., 0],
    "vecmat": lambda a, b: matmul(expand_dims(a, -2), b)[..., 0, :],
}


@traces(np.dot)
def dot(a: Any, b: Any) -> Traced:
    x, y = value(a, "np.dot"), value(b, "np.dot")
    if not x.ndim or not y.ndim:
        return np.multiply(x, y)  # type: ignore[return-value]
    return matmul(x, y) if y.ndim <= 2 else tensordot(x, y, ([x.ndim - 1], [y.ndim - 2]))


@traces(np.inner)
def inner(a: Any, b: Any) -> Traced:
    x, y = value(a, "np.inner"), value(b, "np.inner")
    return np.multiply(x, y) if not x.ndim or not y.ndim else tensordot(x, y, ([-1], [-1]))  # type: ignore[return-value]


@traces(np.outer)
def outer(a: Any, b: Any) -> Traced:
    return np.multiply(reshape(a, [-1, 1]), reshape(b, [1, -1]))  # type: ignore[return-value]


@traces(np.vdot)
def vdot(a: Any, b: Any) -> Traced:
    return matmul(ravel(a), ravel(b))


@traces(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Traced:
    x, y = value(a, "np.tensordot"), value(b, "np.tensordot")
    if isinstance(axes, (int, np.integer)):
        axes = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    pairs = [[v] if isinstance(v, int) else list(v) for v in axes]
    p, q = ([axis_number(k, n, "np.tensordot") for k in v] for v, n in zip(pairs, (x.ndim, y.ndim), strict=True))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = [next(letters) for _ in range(x.ndim)], [next(letters) for _ in range(y.ndim)]
    for k, m in zip(p, q, strict=True):
        right[m] = left[k]
    out = [c for k, c in enumerate(left) if k not in p] + [c for k, c in enumerate(right) if k not in q]
    return _einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


@traces(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    return total(diagonal(a, offset, axis1, axis2), -1)


@traces(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Traced:
    x, w = atleast_1d(a), atleast_1d(v)
    return correlate(x, flip(w, 0), mode) if x.size >= w.size else correlate(w, flip(x, 0), mode)


@traces(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Traced:
    x, w = atleast_1d(a), atleast_1d(v)
    if x.ndim != 1 or w.ndim != 1 or not x.size or not w.size:
        refuse("np.correlate", "arrays of one dimension, with elements")
    if w.size > x.size:
        return flip(correlate(w, x, mode), 0)
    n, m = x.size, w.size
    before = {"valid": 0, "same": (m - 1) // 2 if mode == "same" else 0, "full": m - 1}.get(mode)
    if before is None:
        refuse("np.correlate", f"the mode {mode!r}", "valid, same, full")
    if mode == "same":
        before = m // 2
    count = {"valid": n - m + 1, "same": n, "full": n + m - 1}[mode]
    x = pad(x, (before, max(0, count + m - 1 - n - before)))
    if x.dtype == w.dtype == bool:
        return correlate(x.astype(np.int32), w.astype(np.int32)).astype(bool)
    of = element_type(np.result_type(x.dtype, w.dtype))
    k, s, t = te.reduce_axis((0, m), "k"), x.__te_tensor__(), w.__te_tensor__()
    return computed((count,), lambda i: te.sum(s(i + k).astype(of) * t(k).astype(of), axis=k), "correlate")
