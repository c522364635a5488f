"""Sums of products for the oracle, by `numpy.einsum` over views of the operands.

A factor of a product that is no read, such as an image with zeros around it, is tabulated first: it is evaluated once
for each value of the affine indices that it is made of, and read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from autosched.errors import BuildError
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, is_const, is_index
from autosched.te.tensor import IterVar

#: Integers are summed as float64, which is exact up to 2**53: so many products of 16-bit integers are.
MAX_EXACT_TERMS = 2**20
#: Elements of a tabulated factor, at most, and at least as many points for each.
MOST_TABULATED, LEAST_USES = 2**23, 4
#: What takes an axis apart: the quotient, and the remainder.
_DIVISIONS = ("floordiv", "floormod")
#: An axis as a whole, or its quotient by the number that it is divided by, with 0; the remainder with 1.
_Part = tuple[Expr, int]
#: `te.reference`'s evaluation: (expression, values of expressions, of tensors) -> an array that broadcasts
Evaluate = Callable[[Expr, dict[Expr, Any], dict[Any, Any]], Any]


@dataclass(frozen=True)
class _Affine:
    """`constant + sum(coefficients[p] * p)`."""

    coefficients: dict[_Part, int]
    constant: int

    def plus(self, other: _Affine, sign: int = 1) -> _Affine:
        total = dict(self.coefficients)
        for v, k in other.coefficients.items():
            total[v] = total.get(v, 0) + sign * k
        return _Affine(total, self.constant + sign * other.constant)

    def times(self, k: int) -> _Affine:
        return _Affine({v: k * c for v, c in self.coefficients.items()}, k * self.constant)


@dataclass(frozen=True)
class _Points:
    """The axes' `spans`, the numbers that some are divided by, and the values of what is no axis."""

    spans: Mapping[Expr, range]
    divisors: Mapping[Expr, int]
    env: Mapping[Expr, Any]

    def parts(self, v: Expr) -> dict[_Part, range]:
        """The ranges of an axis' parts."""
        span, divisor = self.spans[v], self.divisors.get(v)
        if divisor is None:
            return {(v, 0): span}
        return {(v, 0): range(span.start // divisor, span.stop // divisor), (v, 1): range(divisor)}

    def affine(self, e: Expr) -> _Affine | None:
        if e in self.spans:
            return _Affine({(e, 0): self.divisors[e], (e, 1): 1} if e in self.divisors else {(e, 0): 1}, 0)
        if e.op in _DIVISIONS and e.args[0] in self.divisors:
            return _Affine({(e.args[0], _DIVISIONS.index(e.op)): 1}, 0)
        if e in self.env:
            return _Affine({}, int(self.env[e]))
        if e.op == "const":
            return _Affine({}, int(e.value))
        if e.op not in ("add", "sub", "mul"):
            return None
        a, b = (self.affine(x) for x in e.args)
        if a is None or b is None:
            return None
        if e.op != "mul":
            return a.plus(b, 1 if e.op == "add" else -1)
        if a.coefficients:
            a, b = b, a
        return None if a.coefficients else b.times(a.constant)

    def range_of(self, index: _Affine) -> range:
        """From the least to the greatest value of an index."""
        spans = {p: span for v, _ in index.coefficients for p, span in self.parts(v).items()}
        ends = [sorted((k * spans[p][0], k * spans[p][-1])) for p, k in index.coefficients.items()]
        return range(index.constant + sum(e[0] for e in ends), index.constant + sum(e[1] for e in ends) + 1)


def contraction(
    body: Expr,
    axes: Sequence[IterVar],
    spans: Mapping[Expr, range],
    env: Mapping[Expr, Any],
    values: dict[Any, Any],
    evaluate: Evaluate,
) -> np.ndarray | None:
    """The reduction `body` over all points of its spatial `axes`, one dimension an axis (of length 1
    where it makes no difference): float64, or int64 for sums of integers.

    `spans` gives the range of every spatial and reduce axis. None where `body` is no sum of products
    of affine reads and of what can be tabulated, such as a condition; or sums of its type would not be exact, or a read
    is out of bounds.
    """
    source, condition, *inits = body.args
    if body.value.combiner != "sum" or inits or not all(map(len, spans.values())):
        return None
    masks = [] if is_const(condition, True) else [condition]
    factors = _factors(source, body.dtype)
    if factors is None:
        return None
    terms = int(np.prod([len(spans[a.var]) for a in body.value.axes], dtype=object))
    if not body.dtype.is_float and (terms > MAX_EXACT_TERMS or sum(f.dtype.bits for f in factors) > 32):
        return None
    factors += masks
    points = _Points(spans, _divisors(factors, spans), env)
    parts = {v: points.parts(v) for v in spans}
    lengths = {p: len(span) for some in parts.values() for p, span in some.items()}
    operands: list[Any] = []
    labels = {p: i for i, p in enumerate(lengths)}
    seen: set[_Part] = set()
    found: dict[Expr, tuple[np.ndarray, list[_Part]] | None] = {}  # a square reads the same twice
    for factor in factors:
        if factor not in found:
            found[factor] = _operand(factor, points, values, evaluate)
        view = found[factor]
        if view is None:
            return None
        array, steps = view
        seen.update(steps)
        operands += [array, [labels[p] for p in steps]]
    for a in axes:
        if seen & parts[a.var].keys():  # of an axis that counts, both parts do
            operands += [x for p in parts[a.var].keys() - seen for x in (np.ones(lengths[p]), [labels[p]])]
            seen.update(parts[a.var])
    result = np.einsum(*operands, [labels[p] for a in axes for p in parts[a.var] if p in seen], optimize=True)
    unseen = [lengths[p] for a in body.value.axes for p in parts[a.var] if p not in seen]
    shape = [len(spans[a.var]) if (a.var, 0) in seen else 1 for a in axes]
    result = result.reshape(shape) * float(np.prod(unseen))
    if masks and not np.isfinite(result).all():
        return None  # of what is masked, 0 times infinity counts, too
    return result if body.dtype.is_float else result.astype(np.int64)


def _factors(e: Expr, of: DType) -> list[Expr] | None:
    """The factors whose product `e` is, or None. Casts must not lose anything."""
    while e.op == "cast" and e.args[0].dtype.is_float == of.is_float and e.args[0].dtype.bits <= e.dtype.bits:
        if of.is_float and e.args[0].dtype.bits == e.dtype.bits:
            return None  # of bfloat16 and float16, neither holds the other
        if e.args[0].dtype.kind != e.dtype.kind and not (e.args[0].dtype.bits < e.dtype.bits and e.dtype.kind == "int"):
            return None
        e = e.args[0]
    if e.op != "mul" or e.dtype != of:
        return [e]
    left, right = (_factors(a, of) for a in e.args)
    return None if left is None or right is None else left + right


def _divisors(factors: Sequence[Expr], spans: Mapping[Expr, range]) -> dict[Expr, int]:
    """The axes that are divided by a number, as by the size of a group, which divides where they begin and end."""
    found: dict[Expr, set[int]] = {}
    for e in _below(factors):
        if e.op in _DIVISIONS and e.args[0] in spans and e.args[1].op == "const":
            found.setdefault(e.args[0], set()).add(int(e.args[1].value))
    return {
        v: divisor
        for v, divisors in found.items()
        for divisor in divisors
        if len(divisors) == 1 and divisor > 0 and spans[v].start % divisor == 0 == len(spans[v]) % divisor
    }


def _below(roots: Sequence[Expr]) -> set[Expr]:
    """All nodes of expressions. The oracle shares no code with what it judges, so it walks by itself."""
    found, waiting = set(roots), list(roots)
    while waiting:
        new = [a for a in waiting.pop().args if a not in found]
        found.update(new)
        waiting += new
    return found


def _operand(
    factor: Expr, points: _Points, values: dict[Any, Any], evaluate: Evaluate
) -> tuple[np.ndarray, list[_Part]] | None:
    """A factor at every point of the axes it mentions, without a copy of the elements it repeats."""
    if factor.op == "read":
        indices = [points.affine(i) for i in factor.args]
        known = [i for i in indices if i is not None]
        if len(known) == len(indices):
            return _view(known, points, np.asarray(values[factor.value]))
    places = _places(factor, points)
    ranges = [points.range_of(index) for index in places.values()]
    size = prod(map(len, ranges))
    if size > MOST_TABULATED or size * LEAST_USES > prod(map(len, points.spans.values())):
        return None
    if any(e.op == "call" for e in _below([factor])):  # which may be somebody's Python function
        return None
    shape = [len(r) for r in ranges]
    grids = np.meshgrid(*(np.arange(r.start, r.stop, dtype=np.int64) for r in ranges), indexing="ij", sparse=True)
    try:
        table = evaluate(factor, {**points.env, **dict(zip(places, grids, strict=True))}, values)
    except BuildError:  # values that do not occur together may lie outside, or an axis is met elsewhere, too
        return None
    table = np.broadcast_to(np.asarray(table).astype(np.float64), shape)
    moved = [i.plus(_Affine({}, -r.start)) for i, r in zip(places.values(), ranges, strict=True)]
    return _view(moved, points, table)


def _places(factor: Expr, points: _Points) -> dict[Expr, _Affine]:
    """The largest affine indices that a factor is made of."""
    found: dict[Expr, _Affine] = {}
    waiting, seen = [factor], {factor}
    while waiting:
        e = waiting.pop()
        index = points.affine(e) if is_index(e) and e.dtype.is_integer else None
        if index is not None:
            if index.coefficients:
                found[e] = index
            continue
        waiting += [a for a in e.args if a not in seen]
        seen.update(e.args)
    return found


def _view(indices: Sequence[_Affine], points: _Points, array: np.ndarray) -> tuple[np.ndarray, list[_Part]] | None:
    """The elements at these indices; None where one lies outside."""
    start = 0
    steps: dict[_Part, int] = {}
    wide = np.ascontiguousarray(array, dtype=np.float64)
    spans = {p: span for i in indices for v, _ in i.coefficients for p, span in points.parts(v).items()}
    for index, length, stride in zip(indices, array.shape, wide.strides, strict=False):
        reached = points.range_of(index)
        if reached.start < 0 or reached.stop > length:
            return None
        start += stride * (index.constant + sum(k * spans[p][0] for p, k in index.coefficients.items()))
        for p, k in index.coefficients.items():
            steps[p] = steps.get(p, 0) + stride * k
    at = wide.reshape(-1)[start // wide.itemsize :]
    shape = [len(spans[p]) for p in steps]
    return np.lib.stride_tricks.as_strided(at, shape, list(steps.values()), writeable=False), list(steps)
