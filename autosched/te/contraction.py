"""Sums of products, for the oracle: matrix products and convolutions by `numpy.einsum`.

Going through the reduce axes point by point is right for every reduction and takes minutes where the
axes are long. A sum over products of reads at affine indices is what `einsum` computes: each read is
a strided view of its array, one dimension for each axis it mentions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import IterVar, Tensor

__all__ = ["contraction"]

#: Integers are summed as float64, which is exact up to 2**53: so many products of 16-bit integers are.
MAX_EXACT_TERMS = 2**20


@dataclass(frozen=True)
class _Affine:
    """`constant + sum(coefficients[v] * v)`."""

    coefficients: dict[Expr, int]
    constant: int

    def plus(self, other: _Affine, sign: int = 1) -> _Affine:
        total = dict(self.coefficients)
        for v, k in other.coefficients.items():
            total[v] = total.get(v, 0) + sign * k
        return _Affine(total, self.constant + sign * other.constant)

    def times(self, k: int) -> _Affine:
        return _Affine({v: k * c for v, c in self.coefficients.items()}, k * self.constant)


def contraction(
    body: Expr, axes: Sequence[IterVar], spans: Mapping[Expr, range], env: Mapping[Expr, Any], values: dict[Tensor, Any]
) -> np.ndarray | None:
    """The reduction `body` over all points of its spatial `axes`, one dimension an axis (of length 1
    where it makes no difference): float64, or int64 for sums of integers.

    `spans` gives the range of every spatial and reduce axis. None where `body` is no sum of products
    of affine reads, or sums of its type would not be exact, or a read is out of bounds.
    """
    source, condition, *inits = body.args
    if body.value.combiner != "sum" or inits or not is_const(condition, True) or not all(map(len, spans.values())):
        return None
    factors = _factors(source, body.dtype)
    if factors is None:
        return None
    terms = int(np.prod([len(spans[a.var]) for a in body.value.axes], dtype=object))
    if not body.dtype.is_float and (terms > MAX_EXACT_TERMS or sum(f.dtype.bits for f in factors) > 32):
        return None
    operands: list[Any] = []
    labels = {v: i for i, v in enumerate(spans)}
    seen: set[Expr] = set()
    for read in factors:
        view = _view(read, spans, env, values[read.value])
        if view is None:
            return None
        array, variables = view
        seen.update(variables)
        operands += [array, [labels[v] for v in variables]]
    kept = [a.var for a in axes if a.var in seen]
    result = np.einsum(*operands, [labels[v] for v in kept], optimize=True)
    unseen = [len(spans[a.var]) for a in body.value.axes if a.var not in seen]
    shape = [len(spans[a.var]) if a.var in seen else 1 for a in axes]
    result = result.reshape(shape) * float(np.prod(unseen))
    return result if body.dtype.is_float else result.astype(np.int64)


def _factors(e: Expr, of: DType) -> list[Expr] | None:
    """The reads whose product `e` is, or None. Casts must not lose anything."""
    while e.op == "cast" and e.args[0].dtype.is_float == of.is_float and e.args[0].dtype.bits <= e.dtype.bits:
        if e.args[0].dtype.kind != e.dtype.kind and not (e.args[0].dtype.bits < e.dtype.bits and e.dtype.kind == "int"):
            return None
        e = e.args[0]
    if e.op == "read":
        return [e]
    if e.op != "mul" or e.dtype != of:
        return None
    left, right = (_factors(a, of) for a in e.args)
    return None if left is None or right is None else left + right


def _affine(e: Expr, spans: Mapping[Expr, range], env: Mapping[Expr, Any]) -> _Affine | None:
    if e in spans:
        return _Affine({e: 1}, 0)
    if e in env:
        return _Affine({}, int(env[e]))
    if e.op == "const":
        return _Affine({}, int(e.value))
    if e.op not in ("add", "sub", "mul"):
        return None
    a, b = (_affine(x, spans, env) for x in e.args)
    if a is None or b is None:
        return None
    if e.op != "mul":
        return a.plus(b, 1 if e.op == "add" else -1)
    if a.coefficients:
        a, b = b, a
    return None if a.coefficients else b.times(a.constant)


def _view(
    read: Expr, spans: Mapping[Expr, range], env: Mapping[Expr, Any], array: np.ndarray
) -> tuple[np.ndarray, list[Expr]] | None:
    """`read` at every point of the axes it mentions, without a copy of the elements it repeats."""
    start = 0
    steps: dict[Expr, int] = {}
    wide = np.ascontiguousarray(array, dtype=np.float64)
    for e, length, stride in zip(read.args, wide.shape, wide.strides, strict=True):
        index = _affine(e, spans, env)
        if index is None:
            return None
        ends = [[k * spans[v][0], k * spans[v][-1]] for v, k in index.coefficients.items()]
        if index.constant + sum(map(min, ends)) < 0 or index.constant + sum(map(max, ends)) >= length:
            return None
        start += stride * (index.constant + sum(k * spans[v][0] for v, k in index.coefficients.items()))
        for v, k in index.coefficients.items():
            steps[v] = steps.get(v, 0) + stride * k
    at = wide.reshape(-1)[start // wide.itemsize :]
    shape = [len(spans[v]) for v in steps]
    return np.lib.stride_tricks.as_strided(at, shape, list(steps.values()), writeable=False), list(steps)
