"""Operators that make constants and shapes, and move elements to places that shapes and attributes tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.graph.onnx.node import Dim, Node, operator
from autosched.graph.onnx.ops.elementwise import element, element_type
from autosched.ir.expr import Expr, as_expr, ceildiv, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import broadcast_shapes, product
from autosched.topi.elementwise import stretched


def moved(shape: Sequence[Dim], body: Callable[..., object], name: str) -> Tensor:
    """A tensor of elements from elsewhere."""
    made: Tensor = te.compute(tuple(shape), body, name=f"T_{name}", tag="injective")
    return made


def check_rank(node: Node, x: Tensor, rank: int) -> None:
    """Raise ModelError for a tensor of another number of dimensions."""
    if x.ndim != rank:
        raise node.refused(f"{x!r} has {x.ndim} dimensions", f"{rank}")


def check_shape(node: Node, x: Tensor, shape: Sequence[Dim]) -> None:
    """Raise ModelError for a tensor that is certainly of another shape: what is read by its places would be outside."""
    if x.ndim != len(shape) or any(
        is_const(d) and is_const(e) and d.value != e.value for d, e in zip(x.shape, map(as_expr, shape), strict=True)
    ):
        raise node.refused(f"{x!r} does not go with the other operands", f"a tensor of shape {list(shape)}")


def lengths_of(node: Node, t: Tensor) -> list[Dim]:
    """The elements of a tensor as dimensions, or multiples of these."""
    found = node.dims(t)
    if wrong := [d for d in found if isinstance(d, int) and not 0 <= d < 2**40]:
        raise node.refused(f"{wrong[0]} is no length", "0 or more, as memory has room for")
    return found


def axis_of(node: Node, axis: int, rank: int) -> int:
    """An axis counted from 0. Raises ModelError for one that a tensor of that rank does not have."""
    if not -rank <= axis < rank:
        raise node.refused(f"there is no axis {axis}", f"{-rank} to {rank - 1}")
    return axis % rank


def axes_of(node: Node, given: Tensor | None, rank: int) -> list[int] | None:
    """The axes that an input has, or the attribute `axes`; None where neither is there."""
    listed = node.attr("axes") if given is None else node.values(given).reshape(-1).tolist()
    found = None if listed is None else [axis_of(node, int(a), rank) for a in listed]
    if found is not None and len(set(found)) < len(found):
        raise node.refused(f"an axis is named twice: {found}", "each axis once")
    return found


# -- constants ----------------------------------------------------------------------------------------


@operator("Constant")
def constant(node: Node) -> Tensor:
    for name, of in (
        ("value_float", "float32"),
        ("value_floats", "float32"),
        ("value_int", "int64"),
        ("value_ints", "int64"),
    ):
        if name in node.attrs:
            return node.constant(np.asarray(node.attrs[name], dtype=of))
    value = node.attr("value", node.attr("sparse_value"))
    if value is None:
        raise node.refused("it holds texts", "numbers")
    return node.constant(value)


@operator("ConstantOfShape")
def constant_of_shape(node: Node, shape: Tensor) -> Tensor:
    value = node.attr("value", np.zeros(1, "float32"))
    return topi.full(lengths_of(node, shape), value.dtype, value.reshape(-1)[0].item())


@operator("EyeLike")
def eye_like(node: Node, x: Tensor) -> Tensor:
    of = element_type(node, node.attrs["dtype"]) if "dtype" in node.attrs else x.dtype
    check_rank(node, x, 2)
    shift = node.attr("k", 0)
    return moved(x.shape, lambda i, j: te.select(j - i == shift, te.const(1, of), te.const(0, of)), "eye")


@operator("Range")
def range_(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    of = start.dtype
    if of.is_float:
        first, end, step = (node.number(t) for t in (start, limit, delta))
        count: Dim = max(0, math.ceil((end - first) / step)) if step else 0
    else:
        (first,), (end,), (step,) = (node.dims(t) for t in (start, limit, delta))
        if isinstance(step, int) and step and isinstance(first, int) and isinstance(end, int):
            count = len(range(first, end, step))
        elif isinstance(step, int) and step:
            count = simplify(ceildiv(end - first, step) if step > 0 else ceildiv(first - end, -step))
        else:
            count = 0
    if is_const(as_expr(step), 0):
        raise node.refused("its step is 0", "another number")
    first, step = (as_expr(x).astype(of) if isinstance(x, Expr) else te.const(x, of) for x in (first, step))
    return moved((count,), lambda i: first + i.astype(of) * step, "range")


# -- shapes ---------------------------------------------------------------------------------------------


def numbers_of(node: Node, dims: Sequence[Any]) -> Tensor:
    """Dimensions as a tensor of int64."""
    if all(is_const(as_expr(d)) for d in dims):
        return node.constant([int(as_expr(d).value) for d in dims], "int64")

    def pick(i: Expr) -> Expr:
        e = dims[-1].astype("int64")
        for k in reversed(range(len(dims) - 1)):
            e = te.select(i == k, dims[k].astype("int64"), e)
        return e

    return moved((len(dims),), pick, "shape")


@operator("Shape")
def shape(node: Node, x: Tensor) -> Tensor:
    return numbers_of(node, x.shape[slice(node.attr("start", 0), node.attr("end"))])


@operator("Size")
def size(node: Node, x: Tensor) -> Tensor:
    count = product(x.shape).astype("int64")
    return moved((), lambda: count, "size")


@operator("Reshape")
def reshape(node: Node, x: Tensor, to: Tensor) -> Tensor:
    dims = node.dims(to)
    if not node.attr("allowzero", 0):
        copied = [k for k, d in enumerate(dims) if isinstance(d, int) and d == 0]
        if copied and copied[-1] >= x.ndim:
            raise node.refused(f"dimension {copied[-1]} is copied from a tensor of {x.ndim}", "-1, or a number")
        dims = [x.shape[k] if k in copied else d for k, d in enumerate(dims)]
    return topi.reshape(x, dims)


@operator("Flatten")
def flatten(node: Node, x: Tensor) -> Tensor:
    at = node.attr("axis", 1)
    at = at if at == x.ndim else axis_of(node, at, x.ndim)
    return topi.reshape(x, [product(x.shape[:at]), product(x.shape[at:])])


def without(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A tensor without some dimensions of 1."""
    kept = [k for k in range(x.ndim) if k not in axes]

    def body(*i: Expr) -> object:
        at = dict(zip(kept, i, strict=True))
        return x(*(at.get(k, 0) for k in range(x.ndim)))

    return moved([x.shape[k] for k in kept], body, "squeeze") if axes else x


@operator("Squeeze")
def squeeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = axes_of(node, axes, x.ndim)
    if chosen is None:
        chosen = [k for k, d in enumerate(x.shape) if is_const(d, 1)]
    for k in chosen:
        if not is_const(x.shape[k], 1):
            raise node.refused(f"dimension {k} is {x.shape[k]}", "dimensions of 1")
    return without(x, chosen)


@operator("Unsqueeze")
def unsqueeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    count = len(node.attr("axes", ())) if axes is None else len(node.values(axes).reshape(-1))
    new = axes_of(node, axes, x.ndim + count) or []
    left = iter(x.shape)
    wide = [1 if k in new else next(left) for k in range(x.ndim + count)]
    return moved(wide, lambda *i: x(*(e for k, e in enumerate(i) if k not in new)), "unsqueeze") if new else x


@operator("Expand")
def expand(node: Node, x: Tensor, to: Tensor) -> Tensor:
    wide = broadcast_shapes(x.shape, lengths_of(node, to), node.kind)
    return te.compute(wide, lambda *i: stretched(x, i, wide), name="T_expand", tag="broadcast")


# -- places -----------------------------------------------------------------------------------------------


@operator("Transpose")
def transpose(node: Node, x: Tensor) -> Tensor:
    return topi.transpose(x, node.attr("perm")) if x.ndim else x


@operator("Concat")
def concat(node: Node, *xs: Tensor) -> Tensor:
    return topi.concatenate(list(xs), axis_of(node, node.attr("axis"), xs[0].ndim))


def pieces(x: Tensor, axis: int, lengths: Sequence[Dim]) -> tuple[Tensor, ...]:
    """A tensor cut along an axis."""
    found, begin = [], as_expr(0)
    for length in lengths:
        dims = [as_expr(length) if k == axis else d for k, d in enumerate(x.shape)]
        found.append(moved(dims, lambda *i, b=begin: x(*(e + b if k == axis else e for k, e in enumerate(i))), "split"))
        begin = simplify(begin + length)
    return tuple(found)


@operator("Split")
def split(node: Node, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, ...]:
    at = axis_of(node, node.attr("axis", 0), x.ndim)
    given: list[Dim] | None = node.attr("split") if lengths is None else node.dims(lengths)
    whole = x.shape[at]
    if given is None:
        count = node.attr("num_outputs", len(node.outputs))
        part = simplify(ceildiv(whole, count))
        given = [part] * (count - 1) + [simplify(whole - part * (count - 1))]
    if len(given) != len(node.outputs) or not is_const(simplify(sum(given, as_expr(0)) - whole), 0):
        raise node.refused(f"pieces of {given} out of {whole}", f"{len(node.outputs)} pieces, as long as it in all")
    return pieces(x, at, given)


def _span(d: Expr, begin: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """How many elements a slice of a dimension takes, and the first."""
    if is_const(d) and isinstance(begin, int) and isinstance(end, int):
        span = range(*slice(begin, end, step).indices(int(d.value)))
        return len(span), span.start
    low, high = (as_expr(0), d) if step > 0 else (as_expr(-1), d - 1)

    def inside(x: Dim) -> Expr:
        if isinstance(x, int):
            if abs(x) >= 2**31 - 1:  # as models say: up to the end
                return high if x > 0 else low
            x = as_expr(x) if x >= 0 else d + x
        else:
            x = te.select(x < 0, x + d, x)
        return simplify(te.max(te.min(simplify(x), high), low))

    first, last = inside(begin), inside(end)
    count = ceildiv(last - first, step) if step > 0 else ceildiv(first - last, -step)
    return simplify(te.max(simplify(count), 0)), first


@operator("Slice")
def slice_(
    node: Node,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    begins, stops = (
        node.attrs[name] if t is None else node.dims(t) for name, t in (("starts", starts), ("ends", ends))
    )
    chosen = axes_of(node, axes, x.ndim)
    chosen = list(range(len(begins))) if chosen is None else chosen
    by = [1] * len(begins) if steps is None else node.values(steps).reshape(-1).tolist()
    if not len(begins) == len(stops) == len(chosen) == len(by) or len(chosen) > x.ndim or 0 in by:
        raise node.refused("starts, ends, axes and steps do not go together", "as many of each, and no step of 0")
    dims: list[Dim] = list(x.shape)
    first, step = [as_expr(0)] * x.ndim, [1] * x.ndim
    for k, b, e, s in zip(chosen, begins, stops, by, strict=True):
        dims[k], begin = _span(x.shape[k], b, e, int(s))
        first[k], step[k] = as_expr(begin), max(-(2**31), min(int(s), 2**31 - 1))
    return moved(dims, lambda *i: x(*(e * s + b for e, s, b in zip(i, step, first, strict=True))), "slice")


_BORDERS = {"reflect": te.mirror_interior, "edge": te.repeat_edge, "wrap": te.repeat_image}


@operator("Pad")
def pad(
    node: Node, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    given: list[Dim] = node.attrs["pads"] if pads is None else node.dims(pads)
    chosen = axes_of(node, axes, x.ndim)
    chosen = list(range(x.ndim)) if chosen is None else chosen
    mode = node.attr("mode", "constant")
    if len(given) != 2 * len(chosen) or mode not in ("constant", *_BORDERS):
        raise node.refused(f"mode {mode!r}, {len(given)} pads for {len(chosen)} axes", "two pads for each axis")
    low, high = (dict(zip(chosen, part, strict=True)) for part in (given[: len(chosen)], given[len(chosen) :]))
    before, after = ([side.get(k, 0) for k in range(x.ndim)] for side in (low, high))
    if mode == "constant":
        fill = te.const(node.attr("value", 0), x.dtype) if value is None else element(node, value)
        return topi.nn.pad(x, before, after, fill)
    if any(is_const(x.shape[k], 0) and (low[k], high[k]) != (0, 0) for k in chosen):
        raise node.refused("there is nothing that a border could repeat", "mode='constant'")
    view = _BORDERS[mode](x, axes=chosen)
    dims = [simplify(d + b + a) for d, b, a in zip(x.shape, before, after, strict=True)]
    return moved(dims, lambda *i: view(*(e - b for e, b in zip(i, before, strict=True))), "pad")


@operator("Tile")
def tile(node: Node, x: Tensor, repeats: Tensor) -> Tensor:
    times = lengths_of(node, repeats)
    if len(times) != x.ndim:
        raise node.refused(f"{len(times)} numbers for {x.ndim} dimensions", "one for each")
    return topi.tile(x, times)


@operator("Trilu")
def trilu(node: Node, x: Tensor, k: Tensor | None = None) -> Tensor:
    shift = 0 if k is None else max(-(2**30), min(int(node.number(k)), 2**30))
    return topi.trilu(x, shift, bool(node.attr("upper", 1)))


@operator("ReverseSequence")
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    batch, time = (axis_of(node, node.attr(name, k), x.ndim) for name, k in (("batch_axis", 1), ("time_axis", 0)))
    check_shape(node, lengths, [x.shape[batch]])
    return topi.reverse_sequence(x, lengths, time, batch)


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    check_rank(node, x, 4)
    b, c = node.attr("blocksize"), x.shape[1]
    if b < 1 or not is_const(simplify(te.floormod(c, b * b)), 0):
        raise node.refused(f"{c} channels in blocks of {b} x {b}", "a multiple of the block's elements")
    return topi.nn.depth_to_space(x, b, mode=node.attr("mode", "DCR"))


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    check_rank(node, x, 4)
    b, (n, c, h, w) = node.attr("blocksize"), x.shape
    if b < 1 or not all(is_const(simplify(te.floormod(d, b)), 0) for d in (h, w)):
        raise node.refused(f"an image of {h} x {w} in blocks of {b} x {b}", "multiples of the block's size")

    def body(i: Expr, k: Expr, y: Expr, z: Expr) -> object:
        is_outer = node.attr("mode", "DCR") == "CRD"  # the channel, of channel and place in the block
        block, depth = (te.floormod(k, b * b), te.floordiv(k, b * b)) if is_outer else (k // c, te.floormod(k, c))
        return x(i, depth, y * b + te.floordiv(block, b), z * b + te.floormod(block, b))

    return moved([n, simplify(c * b * b), *(simplify(te.floordiv(d, b)) for d in (h, w))], body, "space_to_depth")
