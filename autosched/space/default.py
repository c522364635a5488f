"""The default schedule: what a workload runs as when nobody has tuned it.

On GPU-style targets there is a work-item for each element. On CPUs each stage is looked at by itself, and what is safe
and pays without a search is done. Every element is added up in the order of plain loops.

producers    that are used once, point by point in the order of their reader  ->  computed there
maps         for y: for x: B     ->  parallel y: for x.o: B[y, x.o*16 : +16]
reductions   of operands that some results share: tiles of results in registers, 4 rows of 2 vectors
             of windows: vectors of results, each finished before the next
             of other rows of results: along these rows, as plain loops go
             of rows that lie apart: 4 results side by side, so that none waits for the sum of another
             of all up to each place, or from it on: each goes on with the one before
scans, scatters   their free loops, for threads
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from autosched.ir.expr import OPS, Expr, const, floordiv, floormod, is_const, is_index, var, variables
from autosched.ir.ops import CHOICES
from autosched.ir.visit import post_order, reached, substitute
from autosched.schedule.loop import Loop, leaf_extents
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Stage
from autosched.space.analysis import USUAL_LENGTH, Access, about, accesses, bodies, cost, iterations, step_of
from autosched.space.features.memory import Machine
from autosched.space.features.work import unclamped
from autosched.space.reached import distinct_reads
from autosched.space.running import go_on
from autosched.space.spans import spans
from autosched.target import Target
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, Tensor

#: Work-items in a work-group of the default schedule: a multiple of every device's preferred one.
WORK_GROUP = 64
#: Operations, in units of an addition, of a stage that threads share: about 10 us of vectors. Waking threads takes
#: from 1 us, where they still look for work, to some 10 us.
WORTH_THREADS = 1 << 17
#: Operations of a task where sizes are known at the call only: a call of few tasks wakes few threads, of one none.
LEAST_TASK = 1 << 16
#: Tasks for each thread, by which all are about equally busy; outer loops are joined for so many.
TASKS_EACH = 4
#: A row of fewer elements is joined to the next, where it goes on in all that is read; the shortest vector.
SHORT, LEAST_LANES = 16, 4
#: Results of a reduction that are computed side by side, and the shortest one for which that is done: of one result an
#: addition waits for the last one, four cycles long, and a core looks no further than some hundred operations ahead.
SIDE_BY_SIDE, LONG_REDUCTION = 4, 64
#: Vectors of results that a reduction fills at a time, and those at least of a row that is another at its ends.
VECTORS, VECTORS_OF_BORDERED = 2, 4
#: Vectors of a row beside which the time of its rest does not matter.
LONG_ROW = 16
#: Points of a reduction that is finished for one vector of results before the next: a window, whose rows stay near.
WINDOW = 64
#: Bytes of a strip of results of one thread, which goes on in another row of memory: a page of each row.
STRIP = 4096
#: Operations of a producer at most that is computed where it is used, so that no expression grows without bound.
MOST_INLINED = 256
#: Places of a scan that may have a work-item each for all steps, fewer than which leave a device idle; and how many
#: more of them a kernel for each step must have.
FEW_PLACES, LEAST_PLACES = 4096, 64
#: Points of a reduction whose ends data tell, about.
SPAN = 16


def default_schedule(args: Sequence[Tensor], target: Target) -> Schedule:
    """The schedule without tuning: on a CPU threads, vectors and results side by side where that is safe and pays; on
    a GPU-style target, one work-item per element."""
    s = create_schedule(list(args))
    by_default(s, target)
    return s


def plain_schedule(args: Sequence[Tensor], target: Target) -> Schedule:
    """Every stage whole, one after the other, in loops along rows: what experiments compare with. On a GPU-style
    target, it is the default schedule."""
    s = create_schedule(list(args))
    if not target.is_cpu:
        by_default(s, target)
        return s
    for stage in s.stages:
        if not s.scans.part(stage):
            _walk_along_rows(stage)
    return s


def by_default(s: Schedule, target: Target) -> None:
    """Do to a new schedule what the default one is."""
    if target.is_cpu:
        go_on(s)
        _inline_what_is_used_once(s)
        for stage in s.stages:
            if stage.attach.kind == "root":
                _in_threads_and_vectors(stage, Machine.of(target))
            elif stage.attach.kind == "at" and not s.scans.part(stage):
                _walk_along_rows(stage)
        return
    for stage in s.stages:
        if s.scans.step_of(stage) and not s.scans.part(stage) and not stage.reduce_axis:
            stage.compute_inline()  # a step inside a kernel has no memory of a size known at run time only
        if is_of_launched_step(stage):
            if places := places_of_step(stage):
                _bind_elements(stage, places)
        elif not stage.is_placeholder and stage.attach.kind == "root" and not is_launched_in_steps(stage):
            bind_free_loops(stage)


def bind_free_loops(stage: Stage) -> None:
    """A work-item for each element that is computed by itself; nothing, where there is none."""
    spatial = _free_loops(stage)
    if not spatial:
        return
    group, item = _bind_elements(stage, spatial)
    if stage.scan_loop is not None:
        tied = [x for x in stage.loops if x not in (group, item, stage.scan_loop)]
        stage.reorder(group, item, stage.scan_loop, *tied)


def _bind_elements(stage: Stage, loops: Sequence[Loop]) -> tuple[Loop, Loop]:
    group, item = stage.split(stage.fuse(*loops), factor=WORK_GROUP)
    stage.bind(group, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    return group, item


def is_launched_in_steps(scan: Stage) -> bool:
    """Whether a kernel for each step of a scan keeps more of a device busy than one for all of them, whose work-items
    have the places that do not depend on each other."""
    op = scan.op
    if not isinstance(op, ScanOp) or scan.attach.kind != "root" or not op.spatial_axis_ or all(op.independent):
        return False
    lengths = [int(n.value) if n.op == "const" else USUAL_LENGTH for n in scan.tensor.shape[1:]]
    free = math.prod(n for n, is_free in zip(lengths, op.independent, strict=False) if is_free)
    return free < FEW_PLACES and math.prod(lengths) >= LEAST_PLACES * free


def is_of_launched_step(stage: Stage) -> bool:
    """Whether a stage has a kernel in each step of a scan, or in front of them."""
    scans = stage.schedule.scans
    scan = stage.attach.stage if scans.part(stage) == "init" else scans.step_of(stage)
    return scan is not None and stage.attach.kind != "inline" and is_launched_in_steps(scan)


def places_of_step(stage: Stage) -> list[Loop]:
    """The loops over places of a stage in a scan, within one step."""
    scans = stage.schedule.scans
    if scans.part(stage) == "init":
        return stage.spatial_loops
    times = [a for i, a in enumerate(stage.axis) if (i == 0 if scans.part(stage) else scans.follows_time(stage, a))]
    return [x for x in stage.spatial_loops if x.root not in times]


def _free_loops(stage: Stage) -> list[Loop]:
    """The loops whose iterations are independent: of a scan, those along which no step looks aside; of a
    scatter, those over its leading axes."""
    if isinstance(stage.op, ScanOp):
        axes = zip(stage.op.spatial_axes[0], stage.op.independent, strict=False)
        return [stage.roots[a] for a, is_free in axes if is_free]
    return [loop for loop in stage.spatial_loops if loop not in stage.scatter_loops]


# -- reads ----------------------------------------------------------------------------------------


def _distance(read: Access, place: dict[Expr, Expr], along: Expr) -> int | None:
    """How far apart in memory two elements are whose places differ by one along a variable, of which `place` tells
    the axes; None where that is no constant. Away from borders at which an index stands still."""
    address, stride = const(0), const(1)
    for i, extent in zip(reversed(read.indices), reversed(read.tensor.shape), strict=True):
        if not is_index(i) and not variables(i).isdisjoint(place):
            return None
        address += substitute(_away_from_borders(i, place), place) * stride
        stride *= extent
    return step_of(address, along)


def _away_from_borders(index: Expr, place: Iterable[Expr]) -> Expr:
    for v in place:
        index = unclamped(index, v) if v in variables(index) else index
    return index


def _walk_along_rows(stage: Stage) -> bool:
    """Let the innermost spatial loop run inside the reduce loops, if that strides through fewer
    tensors: for a matrix product, along the rows of `b` rather than down its columns. Returns whether it does."""
    spatial, reduce = _free_loops(stage), stage.reduce_loops
    if not spatial or not reduce or stage.scatter_loops or stage.axis[-1].var in spans(stage):
        return False

    def strided(axis: IterVar) -> int:
        return sum(any(axis.var in variables(i) for i in e.args[:-1]) for e in distinct_reads(stage.body))

    if strided(stage.axis[-1]) > strided(stage.reduce_axis[-1]):
        return False
    stage.reorder(*reduce, spatial[-1])
    return True


# -- producers ------------------------------------------------------------------------------------


def _inline_what_is_used_once(s: Schedule) -> None:
    """Compute an element where it is used, if that is one place of a nest that goes on in the same order.

    B[i, j] = f(A[i, j]); C[i, j] = g(B[i, j])   ->   C[i, j] = g(f(A[i, j]))

    Products of floats are stored, as one that is added there would be rounded once with the sum; and what is computed
    in floats of 16 bits, each of which is rounded where it is stored.
    """
    readers: dict[Stage, list[Stage]] = {}
    for x in s.stages:
        for source in s.reads(x):
            readers.setdefault(source, []).append(x)
    for stage in s.stages:
        if _may_be_inlined(stage) and (reader := _only_reader(stage, readers.get(stage, []))) is not None:
            found = [e for body, _ in bodies(stage) for e in body]
            has_math = any(OPS[e.op].kind == "math" for e in post_order(found))
            if not (reader.reduce_axis and has_math) and cost(stage) + cost(reader) <= MOST_INLINED:
                stage.compute_inline()


def _may_be_inlined(stage: Stage) -> bool:
    scans = stage.schedule.scans
    if stage.attach.kind != "root" or stage.is_output or scans.part(stage) or scans.step_of(stage) is not None:
        return False
    if not stage.is_injective or not stage.axis or len(stage.body) > 1:
        return False
    root = stage.body[0]
    while root.op in (*CHOICES, "neg"):
        root = root.args[-1]
    return not (root.dtype.is_float and (root.op == "mul" or root.dtype.bits < 32))


def _only_reader(stage: Stage, readers: Sequence[Stage]) -> Stage | None:
    """The one stage that reads it, each of its elements for one point of its loops, in order; None where there are
    others."""
    scans = stage.schedule.scans
    if len(readers) != 1 or not isinstance(readers[0].op, ComputeOp) or readers[0].scatter_axes:
        return None
    (reader,) = readers
    found = [e for e in distinct_reads(reader.body) if e.value in stage.op.outputs]
    if len(found) != 1 or scans.step_of(reader) is not None or scans.part(reader):
        return None
    axes = [a for a in (*reader.axis, *reader.reduce_axis) if not is_const(a.extent, 1)]
    at = [i for i in found[0].args if not is_const(i)]
    places = [next((p for p, a in enumerate(axes) if a.var is i), -1) for i in at if i in {a.var for a in axes}]
    return reader if len(places) == len(at) and places == list(range(len(axes))) else None


# -- loops ----------------------------------------------------------------------------------------


def _in_threads_and_vectors(stage: Stage, machine: Machine) -> None:
    """Loops of one stage at the root, for vectors and threads."""
    if stage.is_placeholder or not stage.loops:
        return
    work = _total_work(stage)
    if stage.scan_loop is not None:
        _strips_of_scan(stage, work, machine)
        return
    row = None if stage.scatter_axes else _row(stage, machine)
    along = None
    if stage.reduce_axis and not stage.scatter_axes:
        along = _reduction(stage, row)
    elif row is not None and (lanes := row.lanes(1)):
        along = _in_vectors(stage, row, lanes)
    _in_threads(stage, work, machine, along)


class _Row(NamedTuple):
    """The innermost axes of a stage as one row, along which all that it reads lies side by side or is the same."""

    axes: tuple[IterVar, ...]
    register: int  #: elements of the widest type in a vector register
    near: tuple[Access, ...]  #: what lies side by side

    def lanes(self, vectors: int) -> int:
        """Those of so many registers, or as many fewer as leave a short rest of a row that is one vector or nothing;
        0 where vectors would be much shorter than registers."""
        n, lanes = iterations(self.axes), vectors * self.register
        while lanes >= LEAST_LANES:
            rest = n % lanes
            is_vector = rest & (rest - 1) == 0 and n >= 2 * lanes
            if lanes <= n and (rest == 0 or is_vector or n >= LONG_ROW * lanes):
                break
            lanes //= 2
        return lanes if lanes >= LEAST_LANES and 2 * lanes >= min(self.register, n) else 0


def _row(stage: Stage, machine: Machine) -> _Row | None:
    """None where elements would be gathered, and where most vectors of a row would meet its ends."""
    if not stage.axis:
        return None
    inner = 1
    while inner < len(stage.axis) and iterations(stage.axis[-inner:]) < SHORT:
        inner += 1
    axes = stage.axis[-inner:]
    along = var("along")
    place = _place(axes, along)
    found = [(read, _distance(read, place, along)) for read in accesses(stage)]
    if any(step not in (0, 1) for _, step in found):
        return None
    types = {e.dtype for body, _ in bodies(stage) for e in post_order(body) if not is_index(e) and not e.dtype.is_bool}
    widest = max(t.bytes for t in {*types, *(t.dtype for t in stage.op.outputs)})
    register = max(1, machine.vector_bytes // widest)
    has_borders = _asks(stage, axes) or any(_away_from_borders(i, place) is not i for r, _ in found for i in r.indices)
    if has_borders and iterations(axes) < VECTORS_OF_BORDERED * VECTORS * register:
        return None
    return _Row(axes, register, tuple(read for read, step in found if step))


def _place(axes: Sequence[IterVar], along: Expr) -> dict[Expr, Expr]:
    """The axes of a row in terms of a place along it."""
    place: dict[Expr, Expr] = {}
    rest = along
    for a in reversed(axes[1:]):
        place[a.var], rest = floormod(rest, a.extent), floordiv(rest, a.extent)
    return {axes[0].var: rest, **place}


def _asks(stage: Stage, axes: Sequence[IterVar]) -> bool:
    """Whether a value depends on the place along some axes other than by what is read there."""
    asked = {a.var for a in axes}
    for body, at in bodies(stage):
        inside = {v for v in at if variables(at[v]) & asked} if at else asked
        for e in reached(body, lambda e: () if e.op == "read" else e.args):
            if e.op in CHOICES and variables(e.args[0]) & inside and is_index(e.args[0]):
                return True
    return False


def _total_work(stage: Stage) -> int:
    if not isinstance(stage.op, ScanOp):
        reduced = SPAN if spans(stage) else iterations(stage.reduce_axis)
        return cost(stage) * iterations(stage.axis) * reduced
    steps = [x for x in stage.schedule.stages if stage.schedule.scans.step_of(x) is stage]
    return sum(cost(x) * iterations((*x.axis, *x.reduce_axis)) for x in steps) * iterations([stage.op.scan_axis])


def _in_vectors(stage: Stage, row: _Row, lanes: int) -> Loop:
    """Vectors along a row; the loop over them."""
    loops = [stage.roots[a] for a in row.axes]
    block, lane = stage.split(stage.fuse(*loops) if len(loops) > 1 else loops[0], factor=lanes)
    stage.vectorize(lane)
    return block


def _reduction(stage: Stage, row: _Row | None) -> Loop | None:
    """The order of the loops of a reduction. Returns the loop along the row of results, where there is one."""
    reduce, apart = stage.reduce_loops, spans(stage)
    if row is not None and not apart.isdisjoint(a.var for a in row.axes):
        return None
    if row is None:
        # compilers add integers up in any order
        in_order = len(stage.body) > 1 or stage.body[0].dtype.is_float
        if not _walk_along_rows(stage) and in_order and iterations(stage.reduce_axis) >= LONG_REDUCTION:
            _side_by_side(stage, [a for a in stage.axis[-1:] if a.var not in apart], reduce)
        return None
    shared = [a for a in stage.axis[: -len(row.axes)] if iterations([a]) >= SIDE_BY_SIDE]
    shared = [a for a in shared if a.var not in apart and any(not read.mentions(a) for read in row.near)]
    lanes = row.lanes(VECTORS) if shared or iterations(stage.reduce_axis) <= WINDOW else 0
    if not lanes:
        return _along_rows(stage, row, reduce)
    block = _in_vectors(stage, row, lanes)
    lane = stage.loops[stage.loops.index(block) + 1]
    stage.reorder(block, *reduce, lane)
    if shared:
        _side_by_side(stage, shared[-1:], [block, *reduce], lane)
    return block


def _side_by_side(stage: Stage, axes: Sequence[IterVar], inner: Sequence[Loop], *lane: Loop) -> None:
    """A few results along an axis at a time, step by step of their reductions.

    for i: for k: R[i] += A[i, k]   ->   for i.o: for k: unroll i.i: R[i.o*4 + i.i] += A[i.o*4 + i.i, k]
    """
    if not axes or iterations(axes) < SIDE_BY_SIDE:
        return
    loop = stage.roots[axes[0]]
    outer, few = stage.split(loop, factor=SIDE_BY_SIDE)
    between = stage.loops[stage.loops.index(few) + 1 : stage.loops.index(inner[0])]
    stage.reorder(outer, *between, *inner, few, *lane)
    stage.unroll(few)


def _along_rows(stage: Stage, row: _Row, reduce: Sequence[Loop]) -> Loop:
    """Rows of operands one after the other, each added to a row of results. Compilers make vectors of such a loop."""
    loops = [stage.roots[a] for a in row.axes]
    along = stage.fuse(*loops) if len(loops) > 1 else loops[0]
    several = STRIP // stage.tensor.dtype.bytes
    if len(stage.axis) > len(row.axes) or iterations(row.axes) <= several or not _pays(stage, _total_work(stage)):
        stage.reorder(*reduce, along)
        return along
    strip, inner = stage.split(along, factor=several)
    stage.reorder(strip, *reduce, inner)
    return strip


def _strips_of_scan(stage: Stage, work: int, machine: Machine) -> None:
    """Recurrences that run side by side: each thread has all steps of some, whole pages of the innermost ones.

    for t: for j: S[t, j] = f(S[t-1, j])   ->   parallel for j.o: for t: for j.i: S[t, j] = f(S[t-1, j])
    """
    time, *others = stage.loops
    free = [x for x in others if x in _free_loops(stage)]
    kept = [x for x in others if x not in free]
    if not free or not _pays(stage, work):
        return
    extents, wanted = leaf_extents(stage), TASKS_EACH * machine.units
    if free[-1] is others[-1]:
        strip = STRIP // stage.tensor.dtype.bytes
        if math.prod(about(extents[x]) for x in free[:-1]) >= wanted:
            kept.append(free.pop())
        elif about(extents[free[-1]]) > strip:
            free[-1], inner = stage.split(free[-1], factor=strip)
            kept.append(inner)
        elif len(free) > 1:
            kept.append(free.pop())
        else:
            return
    stage.reorder(*free, time, *kept)
    _in_threads(stage, work, machine)


def _pays(stage: Stage, work: int) -> bool:
    """Whether threads gain by sharing a stage, or its sizes may be such that they do."""
    return work >= WORTH_THREADS or not all(is_const(e) for e in leaf_extents(stage).values())


def _in_threads(stage: Stage, work: int, machine: Machine, row: Loop | None = None) -> None:
    """Give the outermost loops to threads, where there is enough to do; those along rows where there is no other."""
    extents = leaf_extents(stage)
    free = [x for x in stage.spatial_loops if x not in (*stage.scatter_loops, stage.scan_loop)]
    outer = list(takewhile(lambda x: x in free and x.kind == "serial", stage.loops))
    if len(outer) > 1 and row is outer[-1]:
        outer.pop()
    if not outer or not _pays(stage, work):
        return
    tasks: list[Loop] = []
    count = 1
    while len(tasks) < len(outer) and count < TASKS_EACH * machine.units:
        count *= about(extents[outer[len(tasks)]])
        tasks.append(outer[len(tasks)])
    if count == 1:
        return
    task = stage.fuse(*tasks) if len(tasks) > 1 else tasks[0]
    least = -(-LEAST_TASK * count // work)
    if least > 1 and (tasks[0] is row or not all(is_const(e) for e in extents.values())):
        task, _ = stage.split(task, factor=least)
    stage.parallel(task)
