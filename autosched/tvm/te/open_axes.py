"""Reduce axes whose ends depend on the element that is computed, or on data:

    te.compute((n,), lambda i: te.sum(A[te.reduce_axis((0, i + 1))], ..))                      prefix sums
    te.reduce_axis((0, indptr[row + 1] - indptr[row]))                                         a row of a sparse matrix

A reduction here runs over sizes, under a condition. So such an axis gets the largest number of values that it can have
(of all elements, or the length of a tensor that it is an index of), and the condition that it is inside, which lowering
makes the end of the loop again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from autosched import te as _te
from autosched.errors import UsageError
from autosched.ir.dims import Range
from autosched.ir.expr import Expr, compare, const, logical_and, make, variables
from autosched.ir.simplify import simplify
from autosched.ir.visit import post_order, rewrite, substitute
from autosched.te.tensor import IterVar, as_shape, is_size
from autosched.tvm.arith.analyzer import Analyzer


@dataclass
class _Open:
    """The function that `te.compute` calls: ranges of its axes, and the reduce axes that it has made."""

    ranges: dict[Expr, Range]
    axes: dict[IterVar, tuple[Expr, Expr]] = field(default_factory=dict)  #: axis -> where it begins, how long it is


_running: ContextVar[_Open | None] = ContextVar("running", default=None)


@wraps(_te.reduce_axis)
def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: object = None) -> IterVar:
    """`te.reduce_axis`; in a function of `te.compute`, ends may depend on its axes and on elements of tensors."""
    inside = _running.get()
    if inside is not None and (isinstance(dom, Range) or (isinstance(dom, (tuple, list)) and len(dom) == 2)):
        domain = dom if isinstance(dom, Range) else Range(*dom)
        ends = simplify(domain.min), simplify(domain.extent)
        if not all(map(is_size, ends)) and all(e.dtype.is_integer for e in ends):
            made = IterVar(name, 1, "reduce")
            inside.axes[made] = ends
            return made
    return _te.reduce_axis(dom, name, thread_tag, span)


def closing(make_op: Callable[..., Any]) -> Callable[..., Any]:
    """`te.compute`, or what has its first arguments, whose function may make such axes."""

    @wraps(make_op)
    def made(shape: Any, fcompute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        dims = as_shape(shape)

        @wraps(fcompute)
        def closed(*axes: Expr) -> Any:
            ranges = {a: Range.from_min_extent(const(0), d) for a, d in zip(axes, dims)}
            with _open(_Open(ranges)) as inside:
                result = fcompute(*axes)
            return _closed(result, inside) if inside.axes else result

        return make_op(shape, closed if callable(fcompute) else fcompute, *args, **kwargs)

    return made


@contextmanager
def _open(inside: _Open) -> Iterator[_Open]:
    before = _running.set(inside)
    try:
        yield inside
    finally:
        _running.reset(before)


def _closed(result: Any, inside: _Open) -> Any:
    """What the function returned, with reductions over sizes, under conditions."""
    if isinstance(result, (list, tuple)):
        return type(result)(_closed(x, inside) for x in result)
    if not isinstance(result, Expr):
        return result
    return rewrite(result, lambda e, args: _reduction(e, args, inside) if e.op == "reduce" else None)


def _reduction(e: Expr, args: tuple[Expr, ...], inside: _Open) -> Expr | None:
    own = [a for a in e.value.axes if a in inside.axes]
    if not own:
        return None
    sources, condition, first = e.value.parts(args)
    for axis in own:
        start, extent = inside.axes[axis]
        moved = {axis.var: simplify(start + axis.var)}
        sources = tuple(substitute(x, moved) for x in sources)
        condition = logical_and(compare("lt", axis.var, extent), substitute(condition, moved))
        axis.extent = _longest(axis, extent, sources, inside)
    return make("reduce", e.dtype, (*sources, condition, *first), e.value)


def _longest(axis: IterVar, extent: Expr, sources: tuple[Expr, ...], inside: _Open) -> Expr:
    """The largest number of values that an axis can have. Raises UsageError where nothing says so."""
    if not any(e.op == "read" for e in post_order(extent)):
        ranges = {v: r for v, r in inside.ranges.items() if v in variables(extent)}
        most = Analyzer().int_set(extent, ranges).max_value
        if is_size(most) and not any(v.name.endswith("_inf") for v in variables(most)):
            return simplify(most) if most.op != "const" else const(max(0, most.value))
    lengths = [
        simplify(dim)
        for e in post_order(sources)
        if e.op == "read"
        for index, dim in zip(e.args, e.value.shape, strict=True)
        if _counts(index, axis.var)
    ]
    known = [d for d in lengths if d.op == "const"]
    if not lengths:
        why = f"nothing says how large {extent!r} can be: {axis.name} is no index of a tensor that is read"
        legal = "te.reduce_axis over a size, with where= in te.sum"
        raise UsageError(why, asked=f"reduce_axis {axis.name}", legal=legal)
    return min(known, key=lambda d: int(d.value)) if known else lengths[0]


def _counts(index: Expr, v: Expr) -> bool:
    """Whether an index is a variable, plus what does not depend on it."""
    terms, with_v = [index], []
    while terms:
        e = terms.pop()
        if e.op == "add":
            terms += e.args
        elif v in variables(e):
            with_v.append(e.args[0] if e.op == "cast" else e)
    return len(with_v) == 1 and with_v[0] is v
