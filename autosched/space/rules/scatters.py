"""Rules for scatters, whose results the data place."""

from __future__ import annotations

from typing import Any

from autosched.schedule.stage import Stage
from autosched.space import analysis
from autosched.space.analysis import powers
from autosched.space.rules import gpu
from autosched.space.rules.engine import Plan, fuse_all, lanes_knob, partial_results, rule
from autosched.space.rules.sums import may_be_cut
from autosched.te.tensor import ComputeOp

#: Bands that the elements are cut into, and neighbours that are counted apart.
BANDS, NEIGHBOURS = (2, 4, 8, 16, 32), (1, 2, 4, 8)
#: Work-items of a device that have copies of all results, and bytes that these take at most.
COPIES, MOST_COPIES = (8, 32, 128, 512, 2048, 8192), 256 << 20
#: Work-items of a group, none of which waits for another.
ITEMS = (32, 64, 128)
#: Results that keep a device busy if each has a work-item, and rows of a scatter that do.
MANY_RESULTS, MANY_ROWS = 4096, 512


def _has_rows(plan: Plan, stage: Stage) -> bool:
    """Whether each of many rows of a scatter's results gets what is of its own."""
    if not isinstance(stage.op, ComputeOp) or not stage.scatter_axes or plan.s.scans.step_of(stage) is not None:
        return False
    rows = stage.axis[: len(stage.axis) - len(stage.scatter_axes)]
    return bool(rows) and not plan.s.scans.part(stage) and not analysis.has_fewer(rows, 2 * plan.target.num_threads)


@rule(when=_has_rows)
def rows_of_a_scatter(plan: Plan, stage: Stage) -> None:
    """Data tell places along some axes only: threads share the others, and what a row needs may be made there.

    for i: for j: S[i, at(i, j)] = A[j]   ->   parallel for i.o: for i.i: (at[i, ..] = ..)  for j: S[i, at(i, j)] = A[j]
    """
    row = fuse_all(stage, [x for x in stage.spatial_loops if x not in stage.scatter_loops])
    task, row = stage.split(row, factor=plan.knob(stage, "rows", powers(1, 256)))
    stage.parallel(task)
    plan.offer(stage, task=task, row=row)


def _may_have_copies(plan: Plan, stage: Stage) -> bool:
    """Whether the values of a scatter may be combined in any order, in parts that are combined at the end."""
    if not isinstance(stage.op, ComputeOp) or not stage.scatter_axes or plan.s.scans.part(stage):
        return False
    return may_be_cut(stage) and len(stage.op.outputs) == 1


def _has_room(plan: Plan, stage: Stage) -> bool:
    """Whether copies for neighbours stay in a second-level cache."""
    most = plan.machine.l2 // (stage.tensor.dtype.bytes * NEIGHBOURS[-1])
    return _may_have_copies(plan, stage) and analysis.has_fewer(stage.axis, most + 1)


def _is_dense(plan: Plan, stage: Stage) -> bool:
    """Whether there are far more values than results, of which each thread has copies within reach."""
    if not _may_have_copies(plan, stage) or plan.s.scans.step_of(stage) is not None:
        return False
    most = plan.machine.l3 // (stage.tensor.dtype.bytes * BANDS[0])
    few = analysis.has_fewer(stage.axis, min(most, analysis.iterations(stage.reduce_axis) // (2 * BANDS[0])))
    return few and not analysis.has_fewer(stage.reduce_axis[:1], BANDS[0])


def _in_bands(plan: Plan, stage: Stage, count: Any, rule: str) -> Stage:
    """The stage that makes results for each of so many parts of the outermost loop of values. It goes over these as
    before: `rfactor` would put what is left of a part innermost, so that images were read by columns."""
    band, _ = stage.split(stage.reduce_loops[0], nparts=count)
    bands = partial_results(plan, stage, band, rule)
    *inner, rest = bands.reduce_loops
    bands.reorder(rest, *inner)
    return bands


@rule(when=_is_dense)
def copies_of_bands(plan: Plan, stage: Stage) -> None:
    """Each thread has copies of all results for its values, which are combined at the end.

    for k: C[at(k)] += v(k)   ->   parallel for b: for k: P[b, at(k)] += v(k);  parallel for i.o: C[..] = the sum of P
    """
    most = analysis.iterations(stage.reduce_axis) // (2 * analysis.iterations(stage.axis))
    count = plan.knob(stage, "bands", [b for b in BANDS if b <= most])
    bands = _in_bands(plan, stage, count, "copies_of_bands")
    bands.parallel(bands.roots[bands.axis[0]])
    *outer, place, total = stage.loops
    block, lane = stage.split(place, factor=lanes_knob(plan, stage, analysis.length(stage.axis[-1])))
    stage.reorder(*outer, block, total, lane)
    stage.vectorize(lane)
    stage.parallel(fuse_all(stage, [*outer, stage.split(block, factor=plan.knob(stage, "blocks", powers(4, 256)))[0]]))


def _numbers_of_copies(plan: Plan, stage: Stage) -> list[int]:
    """How many work-items may have copies of all results: as many as keep the device busy, or memory has room for."""
    if not _may_have_copies(plan, stage) or plan.s.scans.step_of(stage) is not None:
        return []
    results, values = analysis.points(stage.axis), analysis.iterations(stage.reduce_axis)
    rows = stage.axis[: len(stage.axis) - len(stage.scatter_axes)]
    if results is None or not analysis.has_fewer(rows, MANY_ROWS):
        return []
    room = MOST_COPIES // max(1, results * stage.tensor.dtype.bytes)
    fits = [n for n in COPIES if n <= min(room, values // 2)]
    return fits[-2:]


@rule(when=lambda plan, stage: bool(_numbers_of_copies(plan, stage)))
def copies_of_items(plan: Plan, stage: Stage) -> None:
    """Each work-item has copies of all results for every n-th value; a kernel for each result combines them.

    for k: C[at(k)] += v(k)   ->   work-items b: for k: P[at(..), b] += v(k*n + b);  C[i] = the sum of P[i, ..]
    """
    count = plan.knob(stage, "copies", _numbers_of_copies(plan, stage))
    _, item = stage.split(fuse_all(stage, stage.reduce_loops), factor=count)
    copies = partial_results(plan, stage, item, "copies_of_items")
    items = plan.knob(copies, "items", ITEMS)
    group, item = copies.split(copies.roots[copies.axis[0]], factor=items)
    copies.bind(group, "blockIdx.x")
    copies.bind(item, "threadIdx.x")
    if not analysis.has_fewer(stage.axis, MANY_RESULTS):
        gpu.own_kernel(plan, stage)
    else:
        gpu.group_reduction(plan, stage)


@rule(when=_has_room)
def private_copies(plan: Plan, stage: Stage) -> None:
    """Tasks have copies of the results of their own, and so do a few neighbours in each; then all are combined.

    for k: C[at(k)] += 1   ->   parallel for b: for k.o: unroll n: P[b, n, at(k.o*4 + n)] += 1;  C = the sum of P
    """
    bands = _in_bands(plan, stage, plan.knob(stage, "bands", BANDS), "private_copies")
    row = fuse_all(bands, bands.reduce_loops[1:] or bands.reduce_loops)
    _, neighbour = bands.split(row, factor=plan.knob(stage, "neighbours", NEIGHBOURS))
    single = partial_results(plan, bands, neighbour, "private_copies")
    bands.parallel(bands.roots[bands.axis[0]])
    single.compute_at(bands, bands.roots[bands.axis[0]])
    single.reorder(*single.reduce_loops, single.roots[single.axis[0]])
    single.unroll(single.roots[single.axis[0]])
    for sums in (bands, stage):
        *_, place, total = sums.loops
        _, lane = sums.split(place, factor=lanes_knob(plan, stage, analysis.length(sums.axis[-1])))
        sums.reorder(total, lane)
        sums.vectorize(lane)
