"""Layouts: channels last around convolutions, weights in the order in which vectors read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched import te
from autosched.graph.fold import (
    finals,
    index_maps,
    needed_constants,
    of_scans,
    operations,
    scales_into_weights,
    weights_of,
)
from autosched.graph.model import Graph
from autosched.graph.rewriting import Changes, rewritten
from autosched.ir.expr import Expr, is_const, make, variables
from autosched.ir.visit import reached, reads, rewrite
from autosched.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor

#: the dimension of channels in ONNX's operators over images
_CHANNELS = 1


def channels_last(graph: Graph) -> Graph:
    """Keep channels last wherever a convolution with weights is near: its vectors run over channels then, however small
    the image. A neighbour is what reads at the same place, or at places around it: a pool, a sum, an activation."""
    found = operations(graph)
    # a scatter says the place of each element in the order of its axes
    scatters = {op for op in found.ops if isinstance(op, ComputeOp) and op.body[0].op == "scatter"}
    fixed = finals(graph) | of_scans(found) | scatters
    near: dict[Operation, list[Operation]] = {op: [] for op in found.ops}
    seeds: list[Operation] = []
    for op in found.ops:
        if not isinstance(op, ComputeOp) or op in of_scans(found):
            continue
        for t in op.input_tensors:
            if isinstance(t.op, (ComputeOp, PlaceholderOp)) and t not in graph.constants and _is_aligned(op, t):
                near[op].append(t.op)
                near[t.op].append(op)
                weights = weights_of(op, graph.constants)
                if weights is not None and op.axis[_CHANNELS].var in weights.args:
                    seeds.append(op)
    aligned = reached(seeds, lambda op: near[op] if isinstance(op, ComputeOp) else ())
    region: set[Operation] = {op for op in aligned if isinstance(op, ComputeOp)}
    orders = {op: (0, *range(2, len(op.axis)), _CHANNELS) for op in region - fixed}
    return rewritten(graph, Changes(layouts=orders)) if orders else graph


def _is_aligned(op: ComputeOp, t: Tensor) -> bool:
    """Whether two tensors have the same dimensions in the same order: along each but that of channels, an element is
    made of those around its own place."""
    if len(op.axis) != t.ndim or t.ndim < 3:
        return False
    axes = [a.var for a in op.axis]
    for e in (e for body in op.body for e in reads(body) if e.value is t):
        for d, i in enumerate(e.args):
            if not i.index or any(v in variables(i) for k, v in enumerate(axes) if k != d):
                return False
    return True


def weights_for_vectors(graph: Graph) -> Graph:
    """Store each weight so that vectors over the last axis of a result read it without steps: what is summed over comes
    first, the window before the channels, then the axes of the result in their order."""
    constants = dict(graph.constants)
    bodies: dict[Operation, list[Expr]] = {}
    done: dict[tuple[Tensor, tuple[int, ...]], Tensor] = {}
    for op in operations(graph).ops:
        read = weights_of(op, constants)
        if read is None or not isinstance(op, ComputeOp):
            continue
        order = _order(op, read)
        if order is None:
            continue
        w: Tensor = read.value
        if (w, order) not in done and order != tuple(range(w.ndim)):
            made = te.placeholder([w.shape[k] for k in order], w.dtype, name=f"{w.name}_packed")
            constants[made] = np.ascontiguousarray(constants[w].transpose(order))
            done[w, order] = made
        bodies[op] = [_over(op, read, done.get((w, order), w), order)]
    return replace(rewritten(graph, Changes(bodies=bodies)), constants=constants) if bodies else graph


def _order(op: ComputeOp, read: Expr) -> tuple[int, ...] | None:
    """The order of the dimensions of weights; None where one is indexed by more than an axis."""
    place = {a.var: k for k, a in enumerate(op.axis)}
    summed = {a.var: k for k, a in enumerate(_summed_in_order(op, read))}
    if not all(i in place or i in summed or is_const(i) for i in read.args) or len(set(read.args)) < len(read.args):
        return None

    def rank(d: int) -> tuple[int, int]:
        i = read.args[d]
        return (0, 0) if is_const(i) else (1, summed[i]) if i in summed else (2, place[i])

    return tuple(sorted(range(len(read.args)), key=rank))


def _summed_in_order(op: ComputeOp, read: Expr) -> list[te.IterVar]:
    """The axes of the sum, those of windows first: they move the place in the data, where others are a dimension."""
    axes = {a.var for a in op.axis}
    windows = {
        v
        for e in reads(op.body[0])
        if e is not read
        for i in e.args
        if variables(i) & axes
        for v in variables(i) - axes
    }
    return sorted(op.reduce_axis, key=lambda a: a.var not in windows)


def _over(op: ComputeOp, read: Expr, made: Tensor, order: Sequence[int]) -> Expr:
    """The sum over the weights as they are stored now, its axes in that order."""
    at = make("read", read.dtype, tuple(read.args[k] for k in order), made)
    body = rewrite(op.body[0], lambda e, args: at if e is read else None)
    return make("reduce", body.dtype, body.args, body.value.over(_summed_in_order(op, read)))


#: what is done to a graph before it is cut, in order
PASSES = (index_maps, scales_into_weights, channels_last, weights_for_vectors, needed_constants)


def prepared(graph: Graph) -> Graph:
    """The graph after all passes."""
    for step in PASSES:
        graph = step(graph)
    return graph
