"""Rules for scans: recurrences that run side by side, or whose places advance together.

Reductions in steps that look around, as in networks that go on from their last state:

products_in_a_step      for t:                                 P[k, i] = W[i, k]     once, before the scan
                          for i: for k:                        for t:
                            U[t, i] += W[i, k] * S[t-1, k]  ->   parallel for i.o:
                                                                   for k: T[0:64] += P[k, i.o*64 : +64] * S[t-1, k]
                                                                   U[t, i.o*64 : +64] = T
lanes_in_a_step         for t: for k: N[t] += A[t, k]       ->   for t: for k.o: P[0:16] += A[t, k.o*16 : +16]
                                                                        N[t] = the sum of P[0:16]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.ir.expr import is_const, variables
from autosched.ir.visit import contains
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import Access, lanes, long_lanes, powers
from autosched.space.rules import rows, turned
from autosched.space.rules.engine import Place, Plan, fuse_all, lanes_knob, rule
from autosched.space.rules.inline import ALONE, ALONG, ROOT, common_places
from autosched.space.rules.sums import in_lanes, may_be_cut
from autosched.space.rules.tiles import ROWS, VECTORS, can_pack, gain
from autosched.space.times import goes_in_blocks, may_go_in_blocks
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, Tensor

#: Steps of a reduction in one step of a scan that are written out.
SHORT = 16
#: Bytes of a strip of places, whose rows may lie far apart: fewer would leave most of each page unread.
STRIP = (256, 4096)
#: The same where what a step reads is turned first: it is all to stay in a second-level cache.
TURNED_STRIP = (64, 1024)
#: Vector registers for the states of a strip of which only the last times are wanted.
REGISTERS = 16
#: Vectors of a state in registers, at least: each operation waits for the one before in its vector.
CHAINS = 4
#: Operations of one update in a step of which threads may have a share, and of which they are sure to gain.
LEAST_SHARED, SURELY_SHARED = 1 << 17, 1 << 22
#: Steps that tiles of places take together.
TIMES = (2, 4, 8)
#: Operations of one stage of such a step, at least, of which they have a share.
LEAST_PART = 1 << 14
#: Places whose steps are computed together where they share operands.
BATCHES = (1, 2, 4, 8, 16)
#: Vectors of a tile of sums that has one row.
VECTORS_OF_ROW = (1, 2, 4, 8, 16)
#: The loop over time, as a place for what a step needs.
STEP = "step"
#: The loop over the vectors of a reader, as a place for a scan.
VECTOR = "vector"


def _has_places(plan: Plan, stage: Stage) -> bool:
    op = stage.op
    return isinstance(op, ScanOp) and any(op.independent)


@rule(when=_has_places)
def scan_side_by_side(plan: Plan, stage: Stage) -> None:
    """Places that do not depend on each other are for threads to share, or are computed where they are read.

    for t: for j: S[t, j] = f(S[t-1, j])   ->   parallel for j.o: for t: for j.i: S[t, j] = f(S[t-1, j])
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    carried = sum(t.dtype.bytes for t in op.outputs if _wants_last(plan, t))
    is_long = not analysis.has_fewer([op.scan_axis], SHORT)
    places, in_blocks = _places_of(plan, stage)
    across = turned.turned_reads(plan, stage)
    if carried and is_long and not in_blocks:
        places = [] if across or stage.is_output else _vector_of_reader(plan, stage)
    way = plan.choose(stage, "at", [*(p.name for p in places), *([] if in_blocks else [ROOT])])
    if in_blocks:
        host, loop = places[0].stage, places[0].loop
        _in_blocks(stage, places[0])
        if not any(plan.s.stage(x.outputs[0]).reduce_axis for x in op.steps):
            stage.unroll(stage.loops[0])
    elif way != ROOT:
        host, loop = places[0].stage, places[0].loop
        stage.compute_at(host, loop)
        if way == VECTOR:
            _limit_lanes(plan, stage, host, carried)
    else:
        time, *others = stage.loops
        free = [x for x, is_free in zip(others, op.independent, strict=True) if is_free]
        kept = [x for x in others if x not in free]
        if free[-1] is others[-1]:
            least, most = (max(1, b // stage.tensor.dtype.bytes) for b in (TURNED_STRIP if across else STRIP))
            if carried:  # from one time to the next in registers
                most = max(least, REGISTERS * plan.machine.vector_bytes // carried)
            free[-1], inner = stage.split(free[-1], factor=plan.knob(stage, "width", powers(least, most)))
            kept.append(inner)
        elif _has_products(plan, op):
            free[-1], inner = stage.split(free[-1], factor=plan.knob(stage, "batch", BATCHES))
            kept.insert(0, inner)
        stage.reorder(*free, time, *kept)
        host, loop = stage, fuse_all(stage, free)
        stage.parallel(loop)
    assert stage.scan_loop is not None
    for read in across:
        each_step = isinstance(read, turned.TurnedRead) and read.in_each_step
        side = plan.side_of_times.get(host) if in_blocks and not each_step else None
        copy = turned.turn(plan, read, *((stage, stage.scan_loop) if each_step else (host, loop)), side)
        plan.done[copy] = scan_side_by_side.name
    plan.offer(stage, **{STEP: stage.scan_loop})


def _places_of(plan: Plan, scan: Stage) -> tuple[list[Place], bool]:
    """Where a scan may be computed in what reads it; and whether it goes on there in blocks of times."""
    places = [] if scan.is_output else common_places(plan, scan)
    last = places[-1].name if places else ROOT
    in_blocks = last == turned.TIMES and goes_in_blocks(scan) or last in (ALONG, ALONE) and may_go_in_blocks(scan)
    if not in_blocks and any(p.name == turned.TIMES for p in places):  # each block would begin anew
        places = places[:1]
    return places[-1:], in_blocks


def _goes_on_in_blocks(plan: Plan, stage: Stage) -> bool:
    op = stage.op
    return isinstance(op, ScanOp) and not op.spatial_axis_ and _places_of(plan, stage)[1]


@rule(when=_goes_on_in_blocks)
def scan_in_blocks(plan: Plan, stage: Stage) -> None:
    """A scan of single values goes on block by block where its reader takes them.

    for t: S[t] = f(S[t-1]);  for t: R[t] = g(S[t])   ->   for t.o: for t.i: S[t.i] = f(S[..]);  R[t.o*64 : +64] = ..
    """
    (place,) = _places_of(plan, stage)[0]
    _in_blocks(stage, place)
    assert stage.scan_loop is not None
    plan.offer(stage, **{STEP: stage.scan_loop})


def _in_blocks(scan: Stage, place: Place) -> None:
    """Compute the times of a block, behind those that are kept of the block before."""
    loops = place.stage.loops
    scan.compute_at(place.stage, place.loop)
    scan.store_at(place.stage, loops[loops.index(place.loop) - 1])


def _vector_of_reader(plan: Plan, scan: Stage) -> list[Place]:
    """Where one vector of its only reader is computed, which reads a vector of places: states are in registers there,
    and no memory is needed for them. None if there is no such place, as where a step reads other places of its row:
    each vector would need them all."""
    op, readers = scan.op, analysis.readers(scan)
    assert isinstance(op, ScanOp)
    if not op.independent[-1] or len(readers) != 1 or not readers[0].is_injective or len(readers[0].loops) < 2:
        return []
    (reader,), own = readers, tuple(a.var for a in readers[0].axis)
    at_own = all(a.indices[1:] == own for a in analysis.accesses(reader) if a.tensor in scan.op.outputs)
    block, lane = reader.loops[-2:]
    in_vectors = lane.kind == "vectorize" and block.kind == "serial" and plan.knob_of(reader, "lanes") is not None
    return [Place(VECTOR, reader, block)] if at_own and in_vectors else []


def _limit_lanes(plan: Plan, scan: Stage, reader: Stage, carried: int) -> None:
    """States that are carried from one time to the next, so many bytes of them in a place, fit into registers, and are
    enough of them for a step to go on with others while it waits for one."""
    lanes = plan.knob_of(reader, "lanes")
    most = REGISTERS * plan.machine.vector_bytes // carried
    fitting = [v for v in plan.s.knobs[lanes.name].values if v <= most]
    least = CHAINS * plan.machine.vector_bytes // max(t.dtype.bytes for t in scan.op.outputs)
    if fitting:
        plan.s.constrain(lanes <= most, f"a vector of {scan.name} is more than there are registers")
        plan.s.constrain(lanes >= min(least, fitting[-1]), f"each step of {scan.name} would wait for the one before")


def _is_in_a_vector(scan: Stage) -> bool:
    """Whether a scan is computed for one vector of its reader."""
    host = scan.attach.stage
    return host is not None and host.loops[-1].kind == "vectorize" and scan.attach.loop is host.loops[-2]


def _has_products(plan: Plan, op: ScanOp) -> bool:
    """Whether a step makes long sums of what several places share, as the weights of a network are."""
    return any(
        not analysis.has_fewer(x.reduce_axis, SHORT)
        and any(not a.mentions(axis) for a in analysis.accesses(x) for axis in analysis.long_axes(x)[1:])
        for x in (plan.s.stage(step.outputs[0]) for step in op.steps)
        if x.reduce_axis
    )


def _wants_last(plan: Plan, tensor: Tensor) -> bool:
    """Whether nobody wants an output of a scan but at times that are the same for all of a reader's loops."""
    if tensor in plan.s.outputs:
        return False
    readers = [x for x in plan.s.readers(tensor) if x.scan_loop is None]
    found = [(a, x) for x in readers for a in analysis.accesses(x) if a.tensor is tensor]
    moving = (variables(a.indices[0]) & {i.var for i in (*x.axis, *x.reduce_axis)} for a, x in found)
    return all(isinstance(x.op, ComputeOp) for x in readers) and not any(moving)


def _scan_of(plan: Plan, stage: Stage) -> Stage | None:
    """The scan that a rule here has settled, of which the stage is the init or the update."""
    host = stage.attach.stage
    is_part = plan.s.scans.part(stage) in ("init", "update")
    return host if is_part and host is not None and plan.done.get(host) == scan_side_by_side.name else None


@rule(when=lambda plan, stage: _scan_of(plan, stage) is not None and not stage.reduce_axis)
def step_in_vectors(plan: Plan, stage: Stage) -> None:
    """One step reads earlier times only, so its places are lanes of vectors.

    for j: S[t, j] = f(S[t-1, j])   ->   for j.o: S[t, j.o*16 : j.o*16+16] = f(S[t-1, ..])
    """
    scan = _scan_of(plan, stage)
    assert scan is not None
    places = stage.loops[1:]
    if not places:
        return
    *outer, row = places
    host = scan.attach.stage
    if host in plan.side_of_times:
        stage.vectorize(stage.split(row, factor=plan.side_of_times[host])[1])
        return
    if _is_in_a_vector(scan):
        stage.vectorize(row)
        return
    n, types = analysis.length(stage.axis[-1]), [t.dtype for t in scan.op.outputs]
    _, lane = stage.split(row, factor=plan.knob(scan, "lanes", long_lanes(plan.machine, types, n)))
    stage.vectorize(lane)
    if scan.attach.kind == "at":
        _write_out(stage, outer[-1:])


def _write_out(stage: Stage, loops: Sequence[Loop]) -> None:
    """Unroll loops of a step that is made where it is read: those whose length is known, for it may be all there is."""
    for x in loops:
        if x.root is not None and analysis.length(x.root) is not None:
            stage.unroll(x)


def _is_sum_over_states(plan: Plan, stage: Stage) -> bool:
    scan = plan.s.scans.step_of(stage)
    if scan is None or plan.done.get(scan) != scan_side_by_side.name or plan.s.scans.part(stage):
        return False
    free = stage.axis and not plan.s.scans.follows_time(stage, stage.axis[-1]) and not stage.scatter_axes
    return bool(stage.reduce_axis and free)


@rule(when=_is_sum_over_states)
def sums_over_states(plan: Plan, stage: Stage) -> None:
    """A sum over earlier times, or over other states, has vectors of places, too.

    for j: for k: P[t, j] += S[k, j] * X[t, k]   ->   for j.o: for k: P[t, j.o*16 : +16] += S[k, ..] * X[t, k]
    """
    scan = plan.s.scans.step_of(stage)
    assert scan is not None
    types, n = [t.dtype for t in (*scan.op.outputs, stage.tensor)], analysis.length(stage.axis[-1])
    block, lane = stage.split(
        stage.roots[stage.axis[-1]], factor=plan.knob(scan, "lanes", long_lanes(plan.machine, types, n))
    )
    stage.reorder(block, *stage.reduce_loops, lane)
    stage.vectorize(lane)


@rule(when=lambda plan, stage: isinstance(stage.op, ScanOp) and bool(stage.op.spatial_axis_))
def scan_in_steps(plan: Plan, stage: Stage) -> None:
    """All places advance together, as a step reads what lies around its own; they are shared out within each step.

    for t: for y: for x: S[t, y, x] = f(S[t-1, around y, x])   ->   for t: parallel for y.o: (some rows of S[t])

    Where a state does not stay in near caches from one step to the next, a step may be several (`block_time`).
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    times = plan.choose(stage, "times", [1, *(n for n in TIMES if _may_take(plan, stage, n))])
    if times > 1:
        last, a_step = plan.s.stage(op.update[0]), len(op.steps)
        early = list(dict.fromkeys(map(plan.s.stage, plan.s.block_time(stage.tensor, times))))
        plan.in_tiles.update(dict.fromkeys(early[a_step - 1 :: a_step], last))
    plan.choose(stage, "step", _ways_to_share(plan, stage))


def _may_take(plan: Plan, scan: Stage, times: int) -> bool:
    """Whether tiles of places may go through so many steps while they are near, and the state is too large to be."""
    op = scan.op
    assert isinstance(op, ScanOp)
    update = plan.s.stage(op.update[0])
    steps, plane = analysis.length(op.scan_axis), analysis.points(update.axis[1:])
    if scan.is_output or steps is None or plane is None or len({u.op for u in op.update}) > 1 or update.reduce_axis:
        return False
    planes = 2 * plane * sum(u.dtype.bytes for u in op.update)
    if steps < 2 * times or planes <= plan.machine.l2 or any(x.reduce_axis for x in map(plan.s.stage, _steps(op))):
        return False
    return op.reach == (1,) * len(op.update) and is_const(op.init[0].shape[0], 1)


def _steps(op: ScanOp) -> list[Tensor]:
    return [t for x in op.steps for t in x.outputs]


@rule(when=lambda plan, stage: stage in plan.in_tiles)
def steps_in_tiles(plan: Plan, stage: Stage) -> None:
    """The steps before the last of a block compute what a tile of the last needs of them, while that is near.

    for t: for x: U[t, x] = f(S[t-1, ..])   ->   for t: parallel for x.o: U[tile and border] = f(S[t-1, ..])
           for x: S[t, x] = f(U[t, ..])                                   S[tile] = f(U[..])
    """
    last = plan.in_tiles[stage]
    (place,) = plan.places[last]
    stage.compute_at(last, place.loop)
    scan = _scan_around(plan, stage)
    assert scan is not None
    rows.in_vectors(plan, stage, stage.axis[1:], [stage], scan)


def _scan_around(plan: Plan, stage: Stage) -> Stage | None:
    """The scan that the stage is a part of, or that needs it in each step."""
    scans = plan.s.scans
    return scans.step_of(stage) or scans.home(stage).stage


def is_used_once_in_a_step(plan: Plan, stage: Stage) -> bool:
    if not stage.is_injective or plan.s.scans.part(stage) or plan.s.scans.step_of(stage) is None:
        return False
    if analysis.recomputed(stage) <= 1:
        return True
    return analysis.is_cheap(stage) and not any(r.reduce_axis for r in analysis.readers(stage))


@rule(when=is_used_once_in_a_step)
def inline_in_a_step(plan: Plan, stage: Stage) -> None:
    """What a step uses once, or what is cheap, is computed where the step uses it.

    for t: M[t, x] = f(S[t-1, x]);  S[t, x] = g(M[t, x])   ->   for t: S[t, x] = g(f(S[t-1, x]))
    """
    stage.compute_inline()


def _is_map_in_a_step(plan: Plan, stage: Stage) -> bool:
    scan = _scan_around(plan, stage)
    return stage.is_injective and scan is not None and plan.done.get(scan) == scan_in_steps.name


@rule(when=_is_map_in_a_step)
def step_in_rows(plan: Plan, stage: Stage) -> None:
    """A step reads earlier times only, so it is computed in vectors, and a long one in tasks of rows.

    for y: for x: S[t, y, x] = f(S[t-1, ..])   ->   parallel for y.o: for y.i: for x.o: S[t, y, x.o*16 : +16] = f(..)
    """
    scan = _scan_around(plan, stage)
    assert scan is not None and isinstance(scan.op, ScanOp)
    kind = plan.s.scans.part(stage)
    axes = [a for i, a in enumerate(stage.axis) if not (i == 0 if kind else plan.s.scans.follows_time(stage, a))]
    if not axes:
        return
    updates = [plan.s.stage(t) for t in scan.op.update]
    alike, owner = (updates, scan) if kind and scan.op.is_uniform else ([stage], stage)
    outer, block = rows.in_vectors(plan, stage, axes, alike, owner)
    is_tiled = stage in plan.in_tiles.values()
    is_shared = _is_shared_out(plan, scan, stage)
    if not is_shared and not is_tiled:
        return
    if outer:
        task, _ = stage.split(outer[0], factor=plan.knob(owner, "rows", powers(1, 64)))
    else:
        task, _ = stage.split(block, factor=plan.knob(owner, "blocks", powers(8, 1024)))
    if is_shared:
        stage.parallel(task)
    if is_tiled:
        plan.offer(stage, task=task)


def _ways_to_share(plan: Plan, scan: Stage) -> list[str]:
    """Whether threads share the places of a step: where it is long, and where it may be, as one way of two."""
    op = scan.op
    assert isinstance(op, ScanOp)
    steps = [plan.s.stage(x.outputs[0]) for x in op.steps]
    work = sum(analysis.iterations((*x.axis[1:], *x.reduce_axis)) * analysis.work(x) for x in steps) / len(op.update)
    return [w for w, is_way in (("in parallel", work >= LEAST_SHARED), ("alone", work < SURELY_SHARED)) if is_way]


def _is_shared_out(plan: Plan, scan: Stage, stage: Stage) -> bool:
    """Whether threads share the places of a stage, as those of the scan's steps: not of a small part of a step."""
    if plan.done.get(scan) != scan_in_steps.name:  # its places are
        return False
    own = analysis.iterations((*stage.axis[1:], *stage.reduce_axis)) * analysis.work(stage)
    return own >= LEAST_PART and bool(plan.choose(scan, "step", _ways_to_share(plan, scan)) == "in parallel")


def _step(plan: Plan, stage: Stage) -> Place | None:
    return next((p for p in reversed(common_places(plan, stage)) if p.name == STEP), None)


def _is_short_sum(plan: Plan, stage: Stage) -> bool:
    if not stage.reduce_axis or analysis.is_opaque(stage) or stage.is_output or not analysis.readers(stage):
        return False
    is_short = analysis.has_fewer(stage.reduce_axis, SHORT + 1)
    return is_short and len(stage.axis) > 1 and _step(plan, stage) is not None


@rule(when=_is_short_sum, last=False)
def sums_of_a_step(plan: Plan, stage: Stage) -> None:
    """A short sum that one step needs is made in the step, in vectors and written out; so are constants that it reads.

    for t, j: for k in 16: P[t, j] += X[t, k] * C[k, j]   ->   for t: unroll k: P[0:16] += X[t, k] * C[k, 0:16]
    """
    place = _step(plan, stage)
    assert place is not None
    stage.compute_at(place.stage, place.loop)
    time, *outer, row = (stage.roots[a] for a in stage.axis)
    reduce = stage.reduce_loops
    block, lane = stage.split(row, factor=lanes_knob(plan, stage, analysis.length(stage.axis[-1])))
    stage.reorder(time, *reduce, *outer, block, lane)
    for x in reduce:
        stage.unroll(x)
    if place.stage.attach.kind == "at":
        _write_out(stage, outer[-1:])
    stage.vectorize(lane)
    for source in plan.s.reads(stage):
        is_made = source not in plan.done and not source.is_output and source.is_injective
        if is_made and len(plan.s.consumers(source)) == 1 and not contains(source.body, "read"):
            source.compute_inline()
            plan.done[source] = "always_inline"


def _is_in_steps(plan: Plan, stage: Stage) -> bool:
    """Whether it is a plain reduction in the steps, or the init, of a scan along whose rows a step looks around."""
    scan = _scan_around(plan, stage)
    if scan is None or not isinstance(scan.op, ScanOp):
        return False
    around = not scan.op.independent[-1] if plan.done.get(scan) == scan_side_by_side.name else True
    if not around or plan.done.get(scan) not in (scan_in_steps.name, scan_side_by_side.name):
        return False
    return bool(stage.reduce_axis) and not stage.scatter_axes


@rule(when=lambda plan, stage: bool(plan.s.scans.part(stage)) and _is_in_steps(plan, stage))
def sums_before_the_state(plan: Plan, stage: Stage) -> None:
    """A state that is a sum is stored when the sum is made, which has loops of its own.

    for t: for i: for k: S[t, i] += W[i, k] * S[t-1, k]   ->   for t: U[t, ..] = these sums;  for i: S[t, i] = U[t, i]
    """
    _cached(plan, stage, "global")
    (step_in_rows if step_in_rows.when(plan, stage) else step_in_vectors)(plan, stage)


@dataclass(frozen=True)
class _Product:
    """A reduction of a step: vectors run along `vector`, and operands in `across` lie across them. `row` is another
    axis for which elements are read again, `rest` are those that are left; the time of the step is none of them."""

    vector: IterVar
    row: IterVar | None
    rest: tuple[IterVar, ...]
    across: tuple[Access, ...]


def _places(stage: Stage) -> list[IterVar]:
    """The axes of a stage of a step, without its time."""
    return [a for a in stage.axis if not stage.schedule.scans.follows_time(stage, a)]


def _is_sum_of_a_step(plan: Plan, stage: Stage) -> bool:
    return (
        _is_in_steps(plan, stage)
        and plan.s.scans.step_of(stage) is not None
        and not plan.s.scans.part(stage)
        and not analysis.has_fewer(stage.reduce_axis, SHORT)
    )


def _product(plan: Plan, stage: Stage) -> _Product | None:
    """How vectors of results meet the terms of a sum in a step, if its operands allow it."""
    if not _is_sum_of_a_step(plan, stage):
        return None
    places, reads = _places(stage), analysis.accesses(stage)
    for vector in reversed(places):
        across = tuple(a for a in reads if any(a.steps(vector)) and not a.is_contiguous(vector))
        if not analysis.has_fewer([vector], SHORT) and all(_may_be_turned(plan, stage, a, vector) for a in across):
            others = [a for a in places if a is not vector]
            gains = [a for a in reversed(others) if gain(reads, vector, a) and analysis.length(a) != 1]
            row = max(gains, key=lambda a: gain(reads, vector, a), default=None)
            return _Product(vector, row, tuple(a for a in others if a is not row), across)
    return None


def _may_be_turned(plan: Plan, stage: Stage, a: Access, vector: IterVar) -> bool:
    """Whether an operand is the same in each of many steps, so that it is turned once."""
    scans, source = plan.s.scans, plan.s.stage(a.tensor)
    scan = scans.step_of(stage)
    assert scan is not None and isinstance(scan.op, ScanOp)
    if scans.step_of(source) is not None or scans.part(source) or analysis.has_fewer([scan.op.scan_axis], SHORT):
        return False
    times = [x for x in stage.axis if scans.follows_time(stage, x)]
    size = math.prod(int(n.value) if is_const(n) else analysis.USUAL_LENGTH for n in a.tensor.shape)
    is_near = size * a.tensor.dtype.bytes <= plan.machine.l3
    is_alone = sum(b.tensor is a.tensor for b in analysis.accesses(stage)) == 1
    return is_near and is_alone and not any(map(a.mentions, times)) and can_pack(stage, a, vector)


@rule(when=lambda plan, stage: _product(plan, stage) is not None)
def products_in_a_step(plan: Plan, stage: Stage) -> None:
    """Tiles of sums in registers; what is the same in all steps, and lies across them, is turned before the scan.

    for t: for i: for k: U[t, i] += W[i, k] * S[t-1, k]   ->   for t: for i.o: for k: T[0:64] += P[k, ..] * S[t-1, k]
    """
    found, scan = _product(plan, stage), plan.s.scans.step_of(stage)
    assert found is not None and scan is not None
    across = [(a.tensor, a.dimension(found.vector) or 0) for a in found.across]  # `cache_write` replaces axes
    width = plan.knob(stage, "lanes", lanes(plan.machine, stage.tensor.dtype, found.vector))
    each = len(stage.body)  # vectors of results that a vector of places has: arg-max has places and values
    vectors: Any = [v for v in VECTORS_OF_ROW if 2 * v * each <= plan.machine.registers]
    vectors = plan.knob(stage, "vectors", vectors if found.row is None else VECTORS)
    times = [a for a in stage.axis if plan.s.scans.follows_time(stage, a)]
    rows_ = [found.row] if found.row is not None else []
    stage.reorder(*(stage.roots[a] for a in (*times, *found.rest, *rows_, found.vector)))
    sums = _cached(plan, stage, "local")
    plan.done[sums] = "cache_write"
    block, column = stage.split(stage.roots[found.vector], factor=vectors * width)
    outer, body = [*(stage.roots[a] for a in found.rest), block], [*stage.split(column, factor=width)]
    for axis in rows_:
        n = analysis.length(axis)
        height = plan.knob(stage, "rows", [r for r in ROWS if n is None or r <= n])
        plan.s.constrain(
            height * vectors * each + vectors < plan.machine.registers, "a tile of sums is more than registers"
        )
        tile, row = stage.split(stage.roots[axis], factor=height)
        outer, body = [*outer, tile], [row, *body]
    stage.reorder(*(stage.roots[a] for a in times), *outer, *body)
    for x in body[:-1]:
        stage.unroll(x)
    stage.vectorize(body[-1])
    task = fuse_all(stage, outer)
    if _is_shared_out(plan, scan, sums):
        stage.parallel(task)
    sums.compute_at(stage, task)
    _tile_of_sums(plan, stage, sums, width, has_rows=bool(rows_))
    for tensor, dimension in across:
        _turn_before(plan, sums, tensor, dimension)


def _cached(plan: Plan, stage: Stage, scope: str) -> Stage:
    """A stage that computes what the stage then copies: all that is computed together, such as places and values."""
    several = len(stage.body) > 1
    found = plan.s.cache_write(list(stage.op.outputs) if several else stage.tensor, scope)
    return plan.s.stage(found[0] if several else found)


def _tile_of_sums(plan: Plan, stage: Stage, sums: Stage, width: Any, has_rows: bool) -> None:
    """The loops over the terms of a tile, inside which the tile is written out."""
    vector, lane = sums.split(sums.axis[-1], factor=width)
    *rest, row = (sums.roots[a] for a in sums.axis[:-1])
    *slow, k = sums.reduce_loops
    k, steps = sums.split(k, factor=plan.knob(stage, "steps", (1, 2, 4)))
    outer, written = ([*rest], [row, vector]) if has_rows else ([*rest, row], [vector])
    sums.reorder(*outer, *slow, k, steps, *written, lane)
    for x in (steps, *written):
        sums.unroll(x)
    sums.vectorize(lane)


def _turn_before(plan: Plan, sums: Stage, operand: Tensor, dimension: int) -> None:
    """A copy of an operand, made before the scan, in which neighbouring results find neighbours."""
    copy = plan.s[plan.s.cache_read(operand, "global", [sums])]
    copy.transform_layout(lambda *i: [*(x for d, x in enumerate(i) if d != dimension), i[dimension]])
    plan.done[copy] = products_in_a_step.name
    (turned.turned_tiles if turned.is_turned(plan, copy) else rows.whole_rows)(plan, copy)


def _is_row_in_a_step(plan: Plan, stage: Stage) -> bool:
    if not _is_sum_of_a_step(plan, stage) or not may_be_cut(stage):
        return False
    return any(a.is_contiguous(stage.reduce_axis[-1]) for a in analysis.accesses(stage))


@rule(when=_is_row_in_a_step)
def lanes_in_a_step(plan: Plan, stage: Stage) -> None:
    """Rows of a step are added up in vector lanes; threads share them where there are many.

    for t: for k: N[t] += A[t, k]   ->   for t: for k.o: P[0:16] += A[t, k.o*16 : +16];  N[t] = the sum of P[0:16]
    """
    scan, places = plan.s.scans.step_of(stage), _places(stage)
    assert scan is not None
    shared = bool(places) and _is_shared_out(plan, scan, stage)
    partial = in_lanes(plan, stage)
    at = stage.loops[len(stage.axis) - 1]
    if places:
        at = fuse_all(stage, [stage.roots[a] for a in places])
    if shared:
        at, row = stage.split(at, factor=plan.knob(stage, "rows", (1, 2, 4, 8, 16)))
        stage.parallel(at)
        at = row
    partial.compute_at(stage, at)
