"""Operators that move elements to, or from, places that values tell; and those that put them in order.

A place that is negative counts from the end. One outside, which no valid model has, is read at the nearest one inside,
and written nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.graph.known import evaluated
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.ops.elementwise import converted, literal
from autosched.graph.onnx.ops.movement import axis_of, check_rank, check_shape, moved
from autosched.ir import expr as ir
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import number, product
from autosched.topi.scatter import COMBINE, from_end, scattered
from autosched.topi.sorting import first_places


def _inside(e: Expr, extent: Expr) -> Expr:
    e = from_end(e, extent)
    return te.max(te.min(e, extent - 1), te.const(0, e.dtype))


def _places(node: Node, t: Tensor, extent: Expr) -> Callable[..., Expr]:
    """The elements of a tensor as places along a dimension: checked and made positive now, if they are known now."""
    array = node.constants.get(t)
    if array is None or not is_const(extent):
        return lambda *i: _inside(t(*i), extent)
    length = int(extent.value)
    if array.size and not -length <= array.min() <= array.max() < length:
        raise node.refused(f"a place is outside: {array.min()} to {array.max()}", f"{-length} to {length - 1}")
    known = literal(node, node.constant(np.where(array < 0, array + length, array), t.dtype))
    return known if isinstance(known, Tensor) else lambda *i: known


@operator("Gather")
def gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    at = axis_of(node, node.attr("axis", 0), x.ndim)
    place, end = _places(node, indices, x.shape[at]), at + indices.ndim
    shape = [*x.shape[:at], *indices.shape, *x.shape[at + 1 :]]
    return moved(shape, lambda *i: x(*i[:at], place(*i[at:end]), *i[end:]), "gather")


def _check_inside(node: Node, indices: Tensor, x: Tensor, axis: int) -> None:
    """Raise ModelError where places of indices, but for an axis, are none of a tensor."""
    check_rank(node, indices, x.ndim)
    for k, (d, e) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if k != axis and is_const(d) and is_const(e) and d.value > e.value:
            raise node.refused(f"{indices!r} is longer than {x!r} along axis {k}", f"{e} at most")


@operator("GatherElements")
def gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    at = axis_of(node, node.attr("axis", 0), x.ndim)
    _check_inside(node, indices, x, at)
    place = _places(node, indices, x.shape[at])
    return moved(indices.shape, lambda *i: x(*i[:at], place(*i), *i[at + 1 :]), "gather_elements")


@operator("GatherND")
def gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    batch, outer = node.attr("batch_dims", 0), indices.ndim - 1
    depth = number(indices.shape[-1], node.kind)
    if batch + depth > x.ndim or not 0 <= batch <= outer:
        raise node.refused(f"{depth} indices and {batch} batch dimensions for {x.ndim}", "at most one for each")
    check_shape(node, indices, [*x.shape[:batch], *indices.shape[batch:]])

    def body(*i: Expr) -> object:
        place = [_inside(indices(*i[:outer], m), x.shape[batch + m]) for m in range(depth)]
        return x(*i[:batch], *place, *i[outer:])

    return moved([*indices.shape[:-1], *x.shape[batch + depth :]], body, "gather_nd")


def _scattered(
    node: Node, x: Tensor, updates: Tensor, outer: int, place: Callable[[Sequence[Expr]], Sequence[Expr]]
) -> Tensor:
    how = node.attr("reduction", "none")
    if how != "none" and how not in COMBINE:
        raise node.refused(f"reduction={how!r} is unknown", f"none, {', '.join(COMBINE)}")

    def known(last: Tensor) -> Tensor:
        values = evaluated(last, node.constants)
        return last if values is None else node.constant(values)

    return scattered(x, updates, outer, place, "update" if how == "none" else how, known)


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = axis_of(node, node.attr("axis", 0), x.ndim)
    check_rank(node, indices, x.ndim)
    check_shape(node, updates, indices.shape)

    def place(p: Sequence[Expr]) -> Sequence[Expr]:
        return [*p[:axis], from_end(indices(*p), x.shape[axis]), *p[axis + 1 :]]

    return _scattered(node, x, updates, x.ndim, place)


@operator("ScatterND")
def scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    depth = number(indices.shape[-1], node.kind)
    if not 1 <= depth <= x.ndim:
        raise node.refused(f"{depth} indices for {x.ndim} dimensions", "1 at least, and at most one for each")
    check_shape(node, updates, [*indices.shape[:-1], *x.shape[depth:]])

    def place(p: Sequence[Expr]) -> Sequence[Expr]:
        return [from_end(indices(*p, m), x.shape[m]) for m in range(depth)]

    return _scattered(node, x, updates, indices.ndim - 1, place)


@operator("TensorScatter")
def tensor_scatter(node: Node, x: Tensor, update: Tensor, begins: Tensor | None = None) -> Tensor:
    at, mode = axis_of(node, node.attr("axis", -2), x.ndim), node.attr("mode", "linear")
    if mode not in ("linear", "circular"):
        raise node.refused(f"mode={mode!r} is unknown", "linear, circular")
    check_shape(node, update, [update.shape[at] if k == at else d for k, d in enumerate(x.shape)])
    if begins is not None:
        check_shape(node, begins, x.shape[:1])

    def body(*i: Expr) -> object:
        p: Any = i[at] if begins is None else i[at] - begins(i[0]).astype("int32")
        p = te.floormod(p, x.shape[at]) if mode == "circular" else p
        new = update(*(p if k == at else e for k, e in enumerate(i)))
        return te.if_then_else((p >= 0) & (p < update.shape[at]), new, x(*i))

    return moved(x.shape, body, "tensor_scatter")


@operator("OneHot")
def one_hot(node: Node, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    (count,) = node.dims(depth) if depth.dtype.is_integer else [int(node.number(depth))]
    at = axis_of(node, node.attr("axis", -1), indices.ndim + 1)
    check_shape(node, values, [2])
    found = node.constants.get(values)
    off, on = values(0), values(1)
    if found is not None:
        off, on = (te.const(v.item(), values.dtype) for v in found)

    def body(*i: Expr) -> object:
        place = from_end(indices(*i[:at], *i[at + 1 :]).astype("int64"), ir.as_expr(count))
        return te.select(ir.compare("eq", place, i[at]), on, off)

    return moved([*indices.shape[:at], count, *indices.shape[at:]], body, "one_hot")


# -- order ------------------------------------------------------------------------------------------------


@operator("TopK")
def top_k(node: Node, x: Tensor, k: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """By ranks: how many elements come before each; of equal ones, those in front do."""
    at = axis_of(node, node.attr("axis", -1), x.ndim)
    (count,) = [node.attrs["k"]] if k is None else node.dims(k)
    length = x.shape[at]
    if isinstance(count, int) and (count < 0 or is_const(length) and count > int(length.value)):
        raise node.refused(f"the first {count} of {length}", "as many as there are, at most")
    places = first_places(x, count, at, not node.attr("largest", 1))

    def body(*i: Expr) -> object:
        return x(*(_inside(places(*i), length) if d == at else e for d, e in enumerate(i)))

    return moved(places.shape, body, "topk"), converted(places, "int64")


@operator("NonZero")
def non_zero(node: Node, x: Tensor) -> Tensor:
    values = node.values(x)
    found = np.stack(np.nonzero(values)) if values.ndim else np.zeros((0, int(bool(values))))
    return node.constant(found, "int64")


@operator("Compress")
def compress(node: Node, x: Tensor, condition: Tensor) -> Tensor:
    places = node.constant(np.flatnonzero(node.values(condition)), "int64")
    if "axis" not in node.attrs:
        x = topi.reshape(x, [product(x.shape)])
    return gather(node, x, places)


@operator("Unique")
def unique(node: Node, x: Tensor) -> tuple[Tensor, ...]:
    axis, values = node.attr("axis"), node.values(x)
    values = values.reshape(-1) if axis is None else values
    along = 0 if axis is None else axis_of(node, axis, x.ndim)
    _, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=along
    )
    order = np.arange(len(first)) if node.attr("sorted", 1) else np.argsort(first, kind="stable")
    inverse = np.argsort(order)[inverse.reshape(-1)]
    found = np.take(values, first[order], along)
    return node.constant(found), *(node.constant(t, "int64") for t in (first[order], inverse, counts[order]))
