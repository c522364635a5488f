"""Rules for scans, recurrences that run side by side, and for scatters, whose results the data place."""

from __future__ import annotations

from autosched.ir.visit import post_order
from autosched.schedule.stage import Stage
from autosched.space.rules import analysis
from autosched.space.rules.analysis import long_lanes, powers
from autosched.space.rules.engine import Place, Plan, fuse_all, lanes_knob, partial_results, reduce_loops, rule
from autosched.space.rules.inline import ROOT, common_places
from autosched.space.rules.sums import may_be_cut
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp

#: Steps of a reduction in one step of a scan that are written out.
SHORT = 16
#: Bytes of a strip of places, whose rows may lie far apart: fewer would leave most of each page unread.
STRIP = (256, 4096)
#: The loop over time, as a place for what a step needs.
STEP = "step"


def _has_places(plan: Plan, stage: Stage) -> bool:
    op = stage.op
    return isinstance(op, ScanOp) and len(op.outputs) == 1 and any(op.independent)


@rule(when=_has_places)
def scan_side_by_side(plan: Plan, stage: Stage) -> None:
    """Places that do not depend on each other are for threads to share, or are computed where they are read.

    for t: for j: S[t, j] = f(S[t-1, j])   ->   parallel for j.o: for t: for j.i: S[t, j] = f(S[t-1, j])
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    places = [] if stage.is_output else common_places(plan, stage)[-1:]
    way = plan.choose(stage, "at", [*(p.name for p in places), ROOT])
    if way != ROOT:
        stage.compute_at(places[0].stage, places[0].loop)
    else:
        time, *others = stage.loops
        free = [x for x, is_free in zip(others, op.independent, strict=True) if is_free]
        kept = [x for x in others if x not in free]
        if free[-1] is others[-1]:
            least, most = (max(1, b // stage.tensor.dtype.bytes) for b in STRIP)
            free[-1], inner = stage.split(free[-1], factor=plan.knob(stage, "width", powers(least, most)))
            kept.append(inner)
        stage.reorder(*free, time, *kept)
        stage.parallel(fuse_all(stage, free))
    assert stage.scan_loop is not None
    plan.offer(stage, **{STEP: stage.scan_loop})


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
    n = analysis.length(stage.axis[-1])
    _, lane = stage.split(row, factor=plan.knob(scan, "lanes", long_lanes(plan.machine, [stage.tensor.dtype], n)))
    stage.vectorize(lane)
    if scan.attach.kind == "at" and outer:
        stage.unroll(outer[-1])


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
    reduce = reduce_loops(stage)
    block, lane = stage.split(row, factor=lanes_knob(plan, stage, analysis.length(stage.axis[-1])))
    stage.reorder(time, *reduce, *outer, block, lane)
    for x in (*reduce, *(outer[-1:] if place.stage.attach.kind == "at" else [])):
        stage.unroll(x)
    stage.vectorize(lane)
    for source in plan.s.reads(stage):
        is_made = source not in plan.done and not source.is_output and source.is_injective
        if is_made and len(plan.s.consumers(source)) == 1 and not any(e.op == "read" for e in post_order(source.body)):
            source.compute_inline()
            plan.done[source] = "always_inline"


#: Bands that the elements are cut into, and neighbours that are counted apart.
BANDS, NEIGHBOURS = (2, 4, 8, 16, 32), (1, 2, 4, 8)


def _has_room(plan: Plan, stage: Stage) -> bool:
    """Whether the combiner takes any order, and copies for neighbours stay in a second-level cache."""
    if not isinstance(stage.op, ComputeOp) or not stage.scatter_axes or plan.s.scans.part(stage):
        return False
    most = plan.machine.l2 // (stage.tensor.dtype.bytes * NEIGHBOURS[-1])
    return may_be_cut(stage) and len(stage.op.outputs) == 1 and analysis.has_fewer(stage.axis, most + 1)


@rule(when=_has_room)
def private_copies(plan: Plan, stage: Stage) -> None:
    """Tasks have copies of the results of their own, and so do a few neighbours in each; then all are combined.

    for k: C[at(k)] += 1   ->   parallel for b: for k.o: unroll n: P[b, n, at(k.o*4 + n)] += 1;  C = the sum of P
    """
    band, _ = stage.split(reduce_loops(stage)[0], nparts=plan.knob(stage, "bands", BANDS))
    bands = partial_results(plan, stage, band, "private_copies")
    row = fuse_all(bands, reduce_loops(bands)[1:] or reduce_loops(bands))
    _, neighbour = bands.split(row, factor=plan.knob(stage, "neighbours", NEIGHBOURS))
    single = partial_results(plan, bands, neighbour, "private_copies")
    bands.parallel(bands.roots[bands.axis[0]])
    single.compute_at(bands, bands.roots[bands.axis[0]])
    single.reorder(*reduce_loops(single), single.roots[single.axis[0]])
    single.unroll(single.roots[single.axis[0]])
    for sums in (bands, stage):
        *_, place, total = sums.loops
        _, lane = sums.split(place, factor=lanes_knob(plan, stage, analysis.length(sums.axis[-1])))
        sums.reorder(total, lane)
        sums.vectorize(lane)
