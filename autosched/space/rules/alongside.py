"""Rules for what reads a scan time after time: the scan goes on there, and its states need no memory.

places_along_a_scan     for t: for i: S[t, i] = f(S[t-1, i])   ->   parallel for i.o: for t:
                        for t: for i: R[i] += g(S[t, i])              S[0:16] = f(S[0:16]);  R[i.o*16 : +16] += g(S)
stream_along_a_scan     for t: S[t] = f(S[t-1])                ->   for t.o: for t.i: S[..] = f(S[..])
                        for t: R[t] = g(S[t])                         for v: R[t.o*64 + v*16 : +16] = g(S[..])
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.dtype import DType
from autosched.ir.expr import is_const
from autosched.schedule.stage import Stage
from autosched.space import analysis
from autosched.space.analysis import Access, long_lanes, powers
from autosched.space.rules import rows, turned
from autosched.space.rules.engine import Plan, fuse_all, lanes_knob, rule
from autosched.space.rules.inline import ALONE, ALONG, TASK
from autosched.space.rules.scans import CHAINS, REGISTERS, SHORT
from autosched.space.rules.sums import in_lanes, may_be_cut
from autosched.space.times import may_go_in_blocks, time_of
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar

#: Places of a row, at least, for vectors of them.
FEWEST_PLACES = 4
#: Times of a block of a stream, whose elements are computed in vectors of so many.
BLOCKS = (64, 1024)


def _scans_along(plan: Plan, stage: Stage) -> tuple[list[Stage], IterVar] | None:
    """The scans of which each element is read at the time that one axis of the stage says, and this axis."""
    if not isinstance(stage.op, ComputeOp) or stage.attach.kind != "root" or stage.relations:
        return None
    if stage.is_injective and not stage.is_output:
        return None
    if plan.s.scans.part(stage) or plan.s.scans.step_of(stage) is not None:
        return None
    found = analysis.made_of(stage)[0]
    scans = list(dict.fromkeys(x for a in found if isinstance((x := plan.s.stage(a.tensor)).op, ScanOp)))
    reads = [a for a in found if plan.s.stage(a.tensor) in scans]
    time = time_of(stage, reads) if reads else None
    if time is None or analysis.has_fewer([time], SHORT) or not all(map(_begins_once, scans)):
        return None
    return (scans, time) if all(_is_read_by_one(x) for x in scans) else None


def _begins_once(scan: Stage) -> bool:
    """Whether a scan may go on in steps, after a first time that its init gives."""
    op = scan.op
    assert isinstance(op, ScanOp)
    return may_go_in_blocks(scan) and is_const(op.scan_axis.min, 1)


def _is_read_by_one(scan: Stage) -> bool:
    """Whether one stage reads a scan, through others at most that it alone reads."""
    x = scan
    while len(users := analysis.readers(x)) == 1:
        (x,) = users
        if x.is_output or not x.is_injective:
            return True
    return not users


def _reads_at_own_places(plan: Plan, stage: Stage, scans: list[Stage], time: IterVar) -> bool:
    """Whether each result needs the states of one place, and vectors of results are vectors of neighbours."""
    places = [a for a in stage.axis if a is not time]
    if (
        not places
        or analysis.has_fewer(places[-1:], FEWEST_PLACES)
        or stage.scatter_axes
        or any(x is not time for x in stage.reduce_axis)
        or stage.axis[-1] is time
    ):
        return False
    reads, steps = analysis.made_of(stage)[0], [y for x in scans for y in _steps(plan, x)]
    if any(x.reduce_axis for x in steps):
        return False
    own = [a for a in reads if plan.s.stage(a.tensor) in scans]
    return (
        all(a.indices[-1] is places[-1].var and {*a.indices[1:]} == {p.var for p in places} for a in own)
        and all(len(a.indices) == len(places) + 1 for a in own)
        and all(_lies_along(a, places[-1]) for a in reads)
        and not any(turned.turned_reads(plan, x) for x in scans)
    )


def _steps(plan: Plan, scan: Stage) -> list[Stage]:
    """The stages that compute a step of a scan."""
    op = scan.op
    assert isinstance(op, ScanOp)
    return [plan.s.stage(x.outputs[0]) for x in op.steps]


def _lies_along(a: Access, axis: IterVar) -> bool:
    return not a.mentions(axis) or a.is_contiguous(axis)


def _along_places(plan: Plan, stage: Stage) -> bool:
    found = _scans_along(plan, stage)
    return found is not None and _reads_at_own_places(plan, stage, *found)


@rule(when=_along_places, last=False)
def places_along_a_scan(plan: Plan, stage: Stage) -> None:
    """Vectors of results go through the times of a scan, whose states are in registers.

    for t: for i: S[t, i] = f(S[t-1, i]);  for t: for i: R[i] += g(S[t, i])
    ->   parallel for i.o: for t: S[0:16] = f(S[0:16]);  R[i.o*16 : +16] += g(S[0:16])
    """
    found = _scans_along(plan, stage)
    assert found is not None
    scans, time = found
    *outer, row = [stage.roots[a] for a in stage.axis if a is not time]
    types = [*rows.types_of(stage), *(t.dtype for x in scans for t in x.op.outputs)]
    carried = sum(t.bytes for t in types) + max(t.bytes for t in types)  # and what is computed of them
    most = REGISTERS * plan.machine.vector_bytes // carried
    block, lane = stage.split(row, factor=plan.knob(stage, "lanes", _widths(plan, stage, types, most)))
    whole, step = stage.split(stage.roots[time], nparts=1)
    stage.reorder(*outer, block, whole, step, lane)
    stage.vectorize(lane)
    task = fuse_all(stage, [*outer, block])
    stage.parallel(task)
    plan.offer(stage, **{TASK: task, ALONG: step})


def _widths(plan: Plan, stage: Stage, types: Sequence[DType], most: int) -> list[int]:
    """Lanes whose states fit into registers, and enough of them for a step to go on with others while it waits for one;
    fewer where threads would have no share of the places."""
    widths = long_lanes(plan.machine, types, analysis.length(stage.axis[-1]))
    widths = [w for w in widths if w <= most] or widths[:1]
    least = min(widths[-1], CHAINS * plan.machine.vector_bytes // max(t.bytes for t in types))
    is_shared = not analysis.has_fewer(stage.axis, 2 * plan.target.num_threads * least)
    return [w for w in widths if w >= least] if is_shared else widths


def _is_stream(plan: Plan, stage: Stage) -> bool:
    """Whether time is the only axis that results, or their terms, have; in scatters data tell the others."""
    found = _scans_along(plan, stage)
    if found is None or any(len(a.shape) != 1 for x in found[0] for a in x.op.outputs):
        return False
    axes = [a for a in (*stage.axis, *stage.reduce_axis) if a not in stage.scatter_axes and analysis.length(a) != 1]
    return axes == [found[1]]


@rule(when=_is_stream, last=False)
def stream_along_a_scan(plan: Plan, stage: Stage) -> None:
    """What is made of a scan of single values is computed while a block of them is near.

    for t: S[t] = f(S[t-1]);  for t: R[t] = g(S[t])
    ->   for t.o: for t.i: S[t.o*64 + t.i] = f(S[..]);  for v: R[t.o*64 + v*16 : +16] = g(S[..])
    """
    found = _scans_along(plan, stage)
    assert found is not None
    time = found[1]
    if time in stage.reduce_axis and not stage.scatter_axes and may_be_cut(stage):
        _sums_of_stream(plan, stage)
        return
    whole, step = stage.split(stage.roots[time], nparts=1)
    if time in stage.reduce_axis:
        stage.reorder(*(x for x in stage.spatial_loops if x not in stage.scatter_loops), whole, step)
        plan.offer(stage, **{ALONE: step})
        _inline_terms(plan, stage, found[0])
    else:
        step, places = stage.split(step, factor=plan.knob(stage, "times", powers(*BLOCKS)))
        _, lane = stage.split(places, factor=lanes_knob(plan, stage, None))
        stage.vectorize(lane)
        plan.offer(stage, **{ALONG: step})


def _sums_of_stream(plan: Plan, stage: Stage) -> None:
    """Sums of a stream are added up in lanes, block by block."""
    partial = in_lanes(plan, stage)
    if stage.spatial_loops:
        partial.compute_at(stage, stage.spatial_loops[-1])
    (row,) = partial.reduce_loops
    whole, step = partial.split(row, nparts=1)
    lane = partial.spatial_loops[-1]
    partial.reorder(*(x for x in partial.spatial_loops if x is not lane), whole, step, lane)
    plan.offer(partial, **{ALONG: step})


def _inline_terms(plan: Plan, stage: Stage, scans: list[Stage]) -> None:
    """What costs little, and is read at one time by steps and by what goes along with them, is computed there."""
    users = {stage, *(y for x in scans for y in (*_steps(plan, x), *_inits(plan, x)))}
    for x in reversed(plan.s.stages):
        plain = x.is_injective and not x.is_output and not plan.s.scans.part(x) and not analysis.is_opaque(x)
        if plain and analysis.is_cheap(x) and (own := analysis.readers(x)) and users.issuperset(own):
            plan.done[x] = stream_along_a_scan.name
            x.compute_inline()


def _inits(plan: Plan, scan: Stage) -> list[Stage]:
    """The stages that give the first times of a scan."""
    op = scan.op
    assert isinstance(op, ScanOp)
    return [plan.s.stage(t) for t in op.init]
