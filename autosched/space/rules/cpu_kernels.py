"""Rules for kernels on devices that are CPUs (PoCL): work-items have vector registers there, and barriers are dear.

sums_of_items    for i: for k: R[i] += A[i, k]   ->  a work-item for each i:
                                                       for k.o: P[0:16] += A[i, k.o*16 : k.o*16+16]
                                                       R[i] = the sum of P[0:16]

sums_of_windows  for i: for k: R[i] += A[i + k]  ->   the same, or vectors of neighbours, which share what they read

rows_of_items    for i: for j: C[i, j] = f(B[i]) ->  a work-item for each i:
                                                       B = ...        reductions that the row needs
                                                       for j.o: C[i, j.o*16 : j.o*16+16] = f(B)

items_of_pixels  for x: for c: C[x, c] = f(c)    ->   a work-item for each x, unroll c: C[x, c] = f(c)

stored_padding   for k: for j: C[j] += P[j + k]   ->  a kernel for P[j] = A[j] or 0, and one for C, whose vectors need
                                                     not ask for each of their lanes where the border is

inside_an_item   for i: for j: L[i, j] = ..      ->  a work-item for each i of a reader:
                 for i: for k: B[i] += L[i, k]         for j.o: L[j.o*16 : j.o*16+16] = ..      a row in its memory
                                                       for k.o: P[0:16] += L[k.o*16 : k.o*16+16]
                                                       B = the sum of P[0:16]
"""

from __future__ import annotations

from autosched.ir.expr import is_const
from autosched.ir.visit import post_order
from autosched.schedule.stage import Loop, Stage
from autosched.space.rules import analysis
from autosched.space.rules.engine import Place, Plan, fuse_all, partial_results, reduce_loops, rule, spatial_loops
from autosched.space.rules.gpu import along_rows, is_cpu, lanes_of, own_kernel, row_reductions
from autosched.space.rules.inline import common_places, is_made_once
from autosched.space.rules.rows import mixes_channels, steps_over_pixels

#: Work-items of a work-group.
ITEMS = (1, 4, 16)
#: Work-items of a work-group that have a pixel each.
PIXELS = (16, 32, 64, 128)
#: Vectors of partial results of a reduction.
VECTORS = (1, 2, 4)
#: The longest row, in bytes, that a work-item keeps: its stack is a thread's.
MOST_ROW = 16 << 10
#: The place in a row's work-item at which what the row needs is computed.
PLACE = "item"


def _bind_rows(plan: Plan, stage: Stage, axes: list[Loop], items: tuple[int, ...] = ITEMS) -> Loop:
    row = fuse_all(stage, axes)
    block, item = stage.split(row, factor=plan.knob(stage, "items", items))
    stage.bind(block, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    return item


def _in_lanes(plan: Plan, stage: Stage, host: Stage, at: Loop) -> None:
    """Add up in vectors at a loop of `host`, which may be the stage itself, and then their lanes."""
    width = lanes_of(plan, stage)[-1]
    k = fuse_all(stage, reduce_loops(stage))
    vectors = plan.knob(stage, "vectors", VECTORS)
    _, part = stage.split(k, factor=vectors * width)
    partial = partial_results(plan, stage, part, plan.done.get(stage, "sums_of_items"), factor_axis=-1)
    *spatial, lane = spatial_loops(partial)
    vector, lane = partial.split(lane, factor=width)
    partial.reorder(*spatial, *reduce_loops(partial), vector, lane)
    partial.unroll(vector)
    partial.vectorize(lane)
    if stage is not host:
        stage.compute_at(host, at)
        stage.set_scope("local")
    partial.compute_at(host, at)
    partial.set_scope("local")


def _is_padding(plan: Plan, stage: Stage) -> bool:
    """Whether it decides for each element, and is read again and again by a product or a convolution."""
    if not is_cpu(plan) or stage.is_output or not stage.is_injective:
        return False
    decides = any(e.op in ("if_then_else", "select") for e in post_order(stage.body))
    return decides and any(analysis.is_contraction(r) for r in analysis.readers(stage))


@rule(when=_is_padding)
def stored_padding(plan: Plan, stage: Stage) -> None:
    """The padding of a convolution is stored by a kernel before it, whose vectors then need not ask for the border."""
    own_kernel(plan, stage)


def _in_vectors(stage: Stage) -> bool:
    """Whether rows may be added up in vectors: these languages have none of which some lanes do nothing."""
    return along_rows(stage) and is_const(stage.body[0].args[stage.body[0].value.size])


def _has_items(plan: Plan, stage: Stage) -> bool:
    """Whether rows are added up by a kernel of their own."""
    return is_cpu(plan) and _in_vectors(stage) and (stage.is_output or _item(plan, stage) is None)


@rule(when=lambda plan, stage: _has_items(plan, stage) and analysis.adds_up_rows(stage))
def sums_of_items(plan: Plan, stage: Stage) -> None:
    """A work-item for each result, which adds up in vectors what it may have made before."""
    _rows_in_vectors(plan, stage)


@rule(when=_has_items, last=False)
def sums_of_windows(plan: Plan, stage: Stage) -> None:
    """Rows that overlap: a work-item for each result, if not for a vector of neighbours."""
    _rows_in_vectors(plan, stage)


def _rows_in_vectors(plan: Plan, stage: Stage) -> None:
    item = _bind_rows(plan, stage, spatial_loops(stage) or [stage.fuse()])
    _in_lanes(plan, stage, stage, item)
    plan.offer(stage, **{PLACE: item})


@rule(when=lambda plan, stage: is_cpu(plan) and (mixes_channels(plan, stage) or steps_over_pixels(plan, stage)))
def items_of_pixels(plan: Plan, stage: Stage) -> None:
    """Pixels whose channels differ, or lie elsewhere: all channels of one for each work-item, which are neighbours."""
    *outer, channel = (stage.roots[a] for a in stage.axis)
    _bind_rows(plan, stage, outer, PIXELS)
    stage.unroll(channel)


def _is_row(plan: Plan, stage: Stage) -> bool:
    return is_cpu(plan) and stage.is_output and stage.is_injective and len(stage.axis) > 1 and row_reductions(stage)


@rule(when=_is_row)
def rows_of_items(plan: Plan, stage: Stage) -> None:
    """A work-item for each row, which makes the reductions that the row needs first."""
    *outer, column = (stage.roots[a] for a in stage.axis)
    item = _bind_rows(plan, stage, outer)
    stage.vectorize(stage.split(column, factor=lanes_of(plan, stage)[-1])[1])
    plan.offer(stage, **{PLACE: item})


def _item(plan: Plan, stage: Stage) -> Place | None:
    return next((p for p in common_places(plan, stage) if p.name == PLACE and is_made_once(stage, p)), None)


@rule(when=lambda plan, stage: not stage.is_output and _item(plan, stage) is not None)
def inside_an_item(plan: Plan, stage: Stage) -> None:
    """What a row needs is computed by the work-item of that row."""
    place = _item(plan, stage)
    assert place is not None
    if stage.reduce_axis and _in_vectors(stage):
        _in_lanes(plan, stage, place.stage, place.loop)
        return
    length = analysis.length(stage.axis[-1]) if stage.axis else None
    kept = length is not None and length * stage.tensor.dtype.bytes <= MOST_ROW
    if stage.is_injective and not kept:
        stage.compute_inline()
        return
    stage.compute_at(place.stage, place.loop)
    stage.set_scope("local")
    if kept and not stage.reduce_axis:
        stage.vectorize(stage.split(stage.roots[stage.axis[-1]], factor=lanes_of(plan, stage)[-1])[1])
