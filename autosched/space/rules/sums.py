"""Rules for reductions that read each element once: sums of rows and of columns, and gemv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from autosched.ir.expr import Expr, is_const, variables
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import Access, long_lanes, powers
from autosched.space.rules.engine import Plan, fuse_all, lanes_knob, partial_results, rule
from autosched.space.rules.rows import runs
from autosched.space.spans import spans
from autosched.te.reducers import takes_any_order
from autosched.te.tensor import IterVar

#: A reduction of fewer independent results than this for each thread is cut into pieces, too.
FEW_RESULTS = 16
#: Lanes of the vectors of a short row, at least.
FEWEST_LANES = 4
#: Registers of partial sums that a long row has at least, since an addition waits some cycles for the one before in its
#: register; and how many additions in each make a row long.
CHAINS, LONG_ROW = 4, 8
#: The place in a band at which a few of its rows begin.
BAND = "band"
#: Results that are computed side by side where terms keep their order, and the shortest reductions for which that pays.
BESIDE, LONG_IN_ORDER = (4, 8), 32
#: Elements of a row in which is looked for one, at least, for vectors to ask first whether they have it.
LONG_SEARCH = 512
#: Elements of a row of several results, at most, for rows to be lanes: where it could be cut, and where its terms keep
#: their order. A row of so many is written out.
SHORT_SEARCH, IN_ORDER, WRITTEN_OUT = 128, 512, 32
#: Columns that are fewer than this may be too few for vectors, and are joined with the next ones where they can be.
SHORT_COLUMNS = 128
#: Pieces that a row is cut into, and bands that rows are.
PIECES = (2, 4, 8, 16)
#: Rows whose lanes are combined in a task.
ROWS_OF_A_TASK = 64
#: Bytes of a row that are read in one go, at least: nothing foretells where the next row is gone on with. Of a matrix
#: in memory there are more, because each beginning waits longer; the results of a stretch stay in a first-level cache.
STRETCH, FAR_STRETCH = 2048, 16384


def _is_sum(stage: Stage) -> bool:
    return bool(stage.reduce_axis) and not analysis.is_opaque(stage)


def _vector_axis(stage: Stage) -> IterVar | None:
    """The axis along which most elements are read as neighbours: vectors go along it. Elements that
    lie apart speak against it: the rows of a matrix count, and not the vector that it is multiplied by. Of a window
    that is shorter than the rows of results, vectors go along these."""
    found = analysis.accesses(stage)
    inner, outer = ([a for a in reversed(of) if analysis.length(a) != 1] for of in (stage.reduce_axis, stage.axis))
    is_long = outer and inner and analysis.iterations(outer[:1]) > analysis.iterations(inner)
    axes = [*outer, *inner] if is_long else [*inner, *outer]
    near = [a for a in axes if any(x.is_contiguous(a) for x in found)]
    return max(near, key=lambda axis: sum(_nearness(stage, x, axis) for x in found), default=None)


def _nearness(stage: Stage, read: Access, axis: IterVar) -> int:
    """The elements of a read, where neighbours along the axis are neighbours in memory; less than 0 where they lie
    apart, 0 where they are the same. Those of a window count for its places, if there are more of them than terms."""
    if axis.kind == "reduce" and read.is_contiguous(axis):
        along = (a for a in stage.axis if read.is_contiguous(a))
        if any(analysis.iterations([a]) >= analysis.iterations([axis]) for a in along):
            return 0
    elements = analysis.iterations(a for a in (*stage.axis, *stage.reduce_axis) if read.mentions(a))
    return elements if read.is_contiguous(axis) else -elements * read.mentions(axis)


def _along(kind: str, stage: Stage) -> bool:
    axis = _vector_axis(stage)
    return _is_sum(stage) and axis is not None and axis.kind == kind


def along_rows(plan: Plan, stage: Stage) -> bool:
    return _along("reduce", stage) and may_be_cut(stage)


def along_columns(plan: Plan, stage: Stage) -> bool:
    return _along("spatial", stage)


def may_be_cut(stage: Stage) -> bool:
    """Whether partial results may be combined in any order: not with first values of its own, nor with a combiner that
    somebody wrote, which may prefer what comes first. Arg-max finds the first of equals in any order."""
    return not stage.first_values and takes_any_order(stage.body[0].value.combiner)


@rule(when=lambda plan, stage: stage.attach.kind == "root" and not stage.scatter_axes and bool(spans(stage)))
def parts_of_rows(plan: Plan, stage: Stage) -> None:
    """Data tell which part of a reduction each result takes: one result after the other goes over its own.

    for i: for k: if begin[i] <= k < end[i]: ..   ->   parallel for i.o: for i.i: for k from begin[i] to end[i]: ..

    Results that share their part, as those of a row of a sparse matrix times a dense one, are vectors inside.
    """
    apart = [x for a, x in stage.roots.items() if a.var in spans(stage)]
    others = [x for x in stage.spatial_loops if x not in apart]
    inner = stage.reduce_loops
    if others:
        block, lane = stage.split(others[-1], factor=lanes_knob(plan, stage, analysis.length(stage.axis[-1])))
        stage.vectorize(lane)
        others, inner = [*others[:-1], block], [*inner, lane]
    stage.reorder(*apart, *others, *inner)
    task, _ = stage.split(fuse_all(stage, apart), factor=plan.knob(stage, "rows", (16, 64, 256, 1024)))
    stage.parallel(task)
    plan.offer(stage, task=task)


def _few(plan: Plan, stage: Stage) -> bool:
    """Whether there are too few results to keep all threads busy."""
    return analysis.has_fewer(stage.axis, FEW_RESULTS * plan.target.num_threads * 16)


def _has_short_rows(plan: Plan, stage: Stage) -> bool:
    """Whether rows are shorter than a vector and lie apart, so that a vector would have to find out where each lane is,
    and those of different results lie behind each other."""
    if not along_rows(plan, stage) or stage.attach.kind != "root" or len(stage.body) > 1 or not stage.axis:
        return False
    row, vector = _row(stage), plan.machine.vector_bytes // stage.tensor.dtype.bytes
    is_apart = len(row) < len(stage.reduce_axis) and all(stage.roots[a] in stage.loops for a in row)
    return is_apart and analysis.has_fewer(row, vector) and not _are_apart(stage, (stage.axis[-1], row[0]))


@rule(when=_has_short_rows)
def columns_of_short_rows(plan: Plan, stage: Stage) -> None:
    """Sums of each place in short rows, in vectors along several rows, and then of the places of a row.

    for i: for k: for j in 7: R[i] += A[k, i, j]   ->   for i, j: for k: T[i, j] += A[k, i, j];  R[i] = T[i, 0] + ..
    """
    row = fuse_all(stage, [stage.roots[a] for a in _row(stage)])
    columns = partial_results(plan, stage, row, "columns_of_short_rows", factor_axis=-1)
    in_columns(plan, columns, columns.axis[-1])
    stage.parallel(fuse_all(stage, stage.spatial_loops))


@rule(when=lambda plan, stage: along_rows(plan, stage) and _few(plan, stage), last=False)
def pieces_of_rows(plan: Plan, stage: Stage) -> None:
    """Few long rows: each is cut into pieces for the threads to share, and a piece is added up in lanes; or searched,
    where each point takes the place of the result or leaves it: see `lanes_that_change`.

    for i: for k: R[i] += A[i, k]   ->   parallel for p, i: Q[p, i] = sum of piece p;  R[i] = Q[0, i] + Q[1, i] + ..
    """
    searches = _chooses(stage) and _asks_first(plan)
    loops, row = stage.reduce_loops, _row(stage)
    outer = [a for a in stage.reduce_axis if a not in row]
    if _rows_are_apart(plan, stage) and not analysis.has_fewer(outer, PIECES[-1]):
        loops = loops[: len(outer)]
    piece, _ = stage.split(fuse_all(stage, loops), nparts=plan.knob(stage, "pieces", PIECES))
    pieces = partial_results(plan, stage, piece, "pieces_of_rows")
    partial = None if searches else in_lanes(plan, pieces)
    task = fuse_all(pieces, pieces.spatial_loops)
    if partial is not None:
        partial.compute_at(pieces, task)
    else:
        _search(plan, pieces)
    pieces.parallel(task)


def _search(plan: Plan, stage: Stage) -> None:
    """Vectors along the row of a reduction that ask together whether they change the result."""
    _, lane = stage.split(fuse_all(stage, stage.reduce_loops), factor=plan.knob(stage, "asked", (32, 64)))
    stage.vectorize(lane)


def _asks_first(plan: Plan) -> bool:
    """Whether vectors ask first: all searches of a program do, or none does. Data decide which is faster."""
    return plan.choose(plan.s.stages[-1], "searches", [True, False])


def _seldom_changes(plan: Plan, stage: Stage) -> bool:
    """Whether that is so of the points of rows, several of which are computed."""
    return _along("reduce", stage) and bool(stage.spatial_loops) and _chooses(stage)


def _chooses(stage: Stage) -> bool:
    """Whether each point of a long row takes the place of the result or leaves it, as in arg-max: where rows do not
    rise, they leave it nearly always."""
    combiner = stage.body[0].value.combiner
    if isinstance(combiner, str) or analysis.has_fewer(stage.reduce_axis[-1:], LONG_SEARCH):
        return False
    return all(e.op == "select" and x in e.args[1:] for e, x in zip(combiner.result, combiner.left, strict=True))


@rule(when=lambda plan, stage: _seldom_changes(plan, stage) and _asks_first(plan))
def lanes_that_change(plan: Plan, stage: Stage) -> None:
    """Vectors of a row ask together whether they change the result, which few do; these are gone through.

    for k: R[i] = A[i, k] if A[i, k] > R[i] else R[i]
    ->   for k.o: if any(A[i, k.o*64 : +64] > R[i]): for the lanes that change it: R[i] = A[i, k]
    """
    first = _searches_before(plan, stage)[-1]
    known = plan.knob_of(first, "groups")
    groups = plan.knob(first, "groups", powers(1, 64)) if known is None else known
    group, row = stage.split(fuse_all(stage, stage.spatial_loops), factor=groups)
    _search(plan, stage)
    stage.parallel(group)
    if stage is first:
        for x in plan.s.stages:
            if x is not stage and _is_search(x) and _searches_before(plan, x)[-1] is stage:
                x.compute_with(stage, row)
    plan.offer(stage, task=group)


def _is_search(stage: Stage) -> bool:
    """Whether `lanes_that_change` has made the loops of a stage."""
    return bool(stage.loops) and stage.loops[-1].is_reduce and stage.loops[-1].kind == "vectorize"


def _searches_before(plan: Plan, stage: Stage) -> list[Stage]:
    """The searches of the same rows whose results this one reads, itself first, the first of them last: the second
    largest is another element than the largest. In one loop over rows, all go over a row while it is near."""
    before = [x for x in plan.s.reads(stage) if _is_before(plan, x, stage)]
    return [stage, *before[::-1]]


def _is_before(plan: Plan, x: Stage, stage: Stage) -> bool:
    if x.is_placeholder or analysis.is_opaque(x) or x.attach.kind != "root" or not _seldom_changes(plan, x):
        return False
    return [a.extent for a in x.axis] == [a.extent for a in stage.axis] and all(
        a.indices == tuple(b.var for b in stage.axis) for a in analysis.reads_of(stage, x)
    )


def _is_short_search(plan: Plan, stage: Stage) -> bool:
    rows = analysis.points(stage.axis)
    return (
        (_along("reduce", stage) or _vector_axis(stage) is None)
        and _is_sum(stage)
        and len(stage.body) > 1
        and analysis.has_fewer(stage.reduce_axis, 1 + (SHORT_SEARCH if may_be_cut(stage) else IN_ORDER))
        and (rows is None or rows >= plan.machine.vector_bytes // stage.tensor.dtype.bytes)
    )


@rule(when=_is_short_search)
def rows_in_lanes(plan: Plan, stage: Stage) -> None:
    """Rows are lanes where several results are found in each, as in arg-max: what lanes found of one row would have to
    be combined one by one. So are windows whose points lie apart, as those of pooling in steps of two.

    for i: for k: V[i], P[i] = f(V[i], P[i], A[i, k], k)
    ->   parallel for i.o: for k: V[i.o*16 : +16], P[i.o*16 : +16] = f(.., A[i.o*16 : +16, k], k)
    """
    *outer, row = stage.spatial_loops
    along, vector = stage.axis[-1:], plan.machine.vector_bytes // stage.tensor.dtype.bytes
    if not _are_apart(stage, stage.axis) or analysis.has_fewer(along, vector):
        outer, row, along = [], fuse_all(stage, [*outer, row]), stage.axis
    k = fuse_all(stage, stage.reduce_loops)
    block, lane = stage.split(row, factor=lanes_knob(plan, stage, analysis.points(along)))
    row = fuse_all(stage, outer) if outer else block  # not both: else every vector would have to find out where it is
    task, row = stage.split(row, factor=plan.knob(stage, "blocks", powers(1, 64)))
    stage.parallel(task)
    stage.vectorize(lane)
    stage.reorder(task, row, *([block] if outer else []), k, lane)
    if analysis.has_fewer(stage.reduce_axis, WRITTEN_OUT + 1):
        stage.unroll(k)
    plan.offer(stage, task=task, block=row)


@rule(when=along_rows)
def lanes_of_sums(plan: Plan, stage: Stage) -> None:
    """A row is added up in as many independent sums as fill a few vector registers, then these.

    for k: R[i] += A[i, k]   ->   for k.o: P[0:16] += A[i, k.o*16 : k.o*16+16];  R[i] = the sum of P[0:16]
    """
    if not stage.spatial_loops:
        reduce_rows(plan, stage)
        return
    together = any(not a.mentions(axis) for a in analysis.accesses(stage) for axis in analysis.long_axes(stage))
    sums = max(1, analysis.sums_of_a_row(stage))
    rows = [sums * n for n in ((1, 2, 4, 8) if together else (1, 2, 4))]
    *outer, row = stage.spatial_loops
    if not together or sums > 1 or analysis.has_fewer(stage.axis[-1:], 2 * rows[-1]):
        outer, row = [], fuse_all(stage, [*outer, row])
    group, row = stage.split(row, factor=plan.knob(stage, "rows", rows))
    task, group = stage.split(fuse_all(stage, [*outer, group]), factor=plan.knob(stage, "groups", powers(1, 64)))
    stage.parallel(task)
    if together:
        _rows_in_lanes(plan, stage, group, row)
    else:
        in_lanes(plan, stage).compute_at(stage, row)
    plan.offer(stage, task=task, group=group)


def _rows_in_lanes(plan: Plan, stage: Stage, group: Loop, row: Loop) -> None:
    """The rows of a group are added up in lanes together: what they share is loaded once."""
    partial = in_lanes(plan, stage, True)
    partial.compute_at(stage, group)
    *spatial, lane = partial.spatial_loops
    partial.reorder(*partial.reduce_loops, *spatial, lane)
    for x in spatial:
        partial.unroll(x)
    stage.unroll(row)


def _few_columns(plan: Plan, stage: Stage) -> bool:
    """Whether threads that share the columns would each have a few stretches of a row only."""
    return analysis.has_fewer(stage.axis, 4 * plan.target.num_threads * 2 * STRETCH // stage.tensor.dtype.bytes)


@rule(
    when=lambda plan, stage: along_columns(plan, stage) and _few_columns(plan, stage) and may_be_cut(stage), last=False
)
def bands_of_rows(plan: Plan, stage: Stage) -> None:
    """Few columns, many rows: each thread adds up bands of whole rows, and the sums of the bands are added.

    for j: for k: R[j] += A[k, j]   ->   parallel for b: Q[b, 0:n] = sums of band b of rows;  R = Q[0] + Q[1] + ..

    What is computed for each row, and may need all of it, can be computed a few rows at a time, while they are near:

    for k: E[k] = f(sum of A[k]);  for j: for k: R[j] += E[k] * A[k, j]   ->
        parallel for b: for 8 rows k of band b: (E[k] = f(sum of A[k]))  Q[b, 0:n] += E[k] * A[k, 0:n]
    """
    axis, read, feeds = _vector_axis(stage), _bytes_read(stage), _is_fed(plan, stage)
    at = stage.axis.index(axis) if axis is not None else -1
    band, _ = stage.split(fuse_all(stage, stage.reduce_loops), nparts=plan.knob(stage, "bands", PIECES))
    bands = partial_results(plan, stage, band, "bands_of_rows")
    in_columns(plan, bands, bands.axis[at + 1], parallel=bands.loops[0], read=read, whole=feeds)


def few_rows(plan: Plan, stage: Stage) -> None:
    """The loops of a stage that is computed for each few rows of a band: they are one vector, or added up together."""
    rows = plan.knob_of(stage.attach.stage, "rows") if stage.attach.stage is not None else None
    spatial = stage.spatial_loops
    if rows is None or not spatial:
        reduce_rows(plan, stage)
        return
    group, row = stage.split(fuse_all(stage, spatial), factor=rows)
    if not stage.reduce_axis:
        stage.vectorize(row)
    elif along_rows(plan, stage):
        _rows_in_lanes(plan, stage, group, row)


def _is_fed(plan: Plan, stage: Stage) -> bool:
    """Whether what is added up along a single axis is made of stages that are computed for each of its points."""
    if len(stage.reduce_axis) > 1:
        return False
    (rows,) = stage.reduce_axis
    found = (a for a in analysis.accesses(stage) if a.mentions(rows) and not any(map(a.mentions, stage.axis)))
    made = (plan.s.stage(a.tensor) for a in found)
    return any(not x.is_placeholder and not x.is_output for x in made)


@rule(when=along_columns)
def sums_of_columns(plan: Plan, stage: Stage) -> None:
    """Vectors of neighbouring results, and a few rows of what they are made of at a time.

    for j: for k: R[j] += A[k, j]   ->   parallel for j.o: for k.o: unroll k.i: R[j.o*16 : +16] += A[k, j.o*16 : +16]
    """
    in_columns(plan, stage, _vector_axis(stage))


@rule(when=lambda plan, stage: _is_sum(stage))
def reduction_in_place(plan: Plan, stage: Stage) -> None:
    """Where nothing lies in neighbouring places there are no vectors: threads share the results.

    for i: for j: for k: R[i, j] += A[k, j, i]   ->   parallel for i, j: for k: R[i, j] += A[k, j, i]
    """
    if stage.spatial_loops:
        _side_by_side(plan, stage)
        stage.parallel(fuse_all(stage, [x for x in stage.spatial_loops if x.kind == "serial"]))


def _side_by_side(plan: Plan, stage: Stage) -> None:
    """A few results at a time, step by step of long reductions whose terms keep their order: none waits for another.

    for i: for k: R[i] = f(R[i], A[i, k])   ->   for i.o: for k: unroll i.i: R[i.o*4 + i.i] = f(R[i.o*4 + i.i], ..)
    """
    *outer, row = stage.spatial_loops
    in_order = len(stage.body) > 1 or stage.body[0].dtype.is_float  # compilers add integers up in any order
    is_short = analysis.has_fewer(stage.reduce_axis, LONG_IN_ORDER) or analysis.has_fewer(stage.axis[-1:], BESIDE[0])
    if in_order and not is_short and stage.roots.get(stage.axis[-1]) is row:
        group, few = stage.split(row, factor=plan.knob(stage, "beside", BESIDE))
        stage.reorder(*outer, group, *stage.reduce_loops, few)
        stage.unroll(few)


def whole_sums(plan: Plan, stage: Stage) -> bool:
    """Loops for a reduction that others read, in a nest of its own. Returns whether there is a rule for it."""
    by_rows = (columns_of_short_rows, pieces_of_rows, lanes_that_change, rows_in_lanes, lanes_of_sums)
    fitting = []
    for r in (*by_rows, bands_of_rows, sums_of_columns):
        if r.when(plan, stage):
            fitting.append(r)
            if r.last:
                break
    if fitting:
        name = plan.choose(stage, "sums", [r.name for r in fitting])
        next(r for r in fitting if r.name == name)(plan, stage)
    return bool(fitting)


def is_large(plan: Plan, stage: Stage) -> bool:
    """Whether what is added up comes from farther than a second-level cache."""
    return _bytes_read(stage) > plan.machine.l2


def _bytes_read(stage: Stage) -> int:
    """Bytes of what is added up, if it has the type of the results."""
    return analysis.iterations((*stage.axis, *stage.reduce_axis)) * stage.tensor.dtype.bytes


def _stretch(plan: Plan, stage: Stage, n: int | None, read: int, *, alone: bool) -> int:
    """The least bytes of a row of `n` that are read in one go, a power of two, or 0, of `read` bytes in all. Where
    threads share the columns, which are not one thread's `alone`, each has two stretches or more. Rows of which nothing
    is known may be short."""
    if n is None or not is_large(plan, stage):
        return 0
    size = stage.tensor.dtype.bytes
    if read <= plan.machine.l3:
        return STRETCH
    most = min(FAR_STRETCH, n * size if alone else n * size // (2 * plan.target.num_threads))
    return max(STRETCH, 1 << max(0, most.bit_length() - 1))


def in_columns(
    plan: Plan,
    stage: Stage,
    axis: IterVar | None,
    parallel: Loop | None = None,
    read: int | None = None,
    whole: bool = False,
) -> None:
    """Vectors of columns, and a few rows of what they are made of at a time; with `whole` all along these rows, so that
    what is made for them is made once."""
    columns = _columns(stage, axis, parallel) if axis in stage.roots else []
    column = fuse_all(stage, [stage.roots[a] for a in columns] or stage.loops[-1:])
    outer = [x for x in stage.spatial_loops if x is not column and x is not parallel]
    *slow, k = stage.reduce_loops
    n = analysis.points(columns) if columns else None
    lanes = lanes_knob(plan, stage, n)
    block, lane = stage.split(column, factor=lanes)
    read = _bytes_read(stage) if read is None else read
    least = _stretch(plan, stage, n, read, alone=parallel is not None) // plan.machine.vector_bytes or 1
    most = 256 if n is None else max(1, n * stage.tensor.dtype.bytes // plan.machine.vector_bytes)
    several = powers(least, max(256, least)) if least <= most else [1 << most.bit_length() - 1]
    vectors, vector = (None, block) if whole else stage.split(block, factor=plan.knob(stage, "vectors", several))
    most_rows = analysis.WAYS if is_large(plan, stage) else 16  # more rows from afar are fetched ahead badly
    around = [x for x in (parallel, *outer, vectors) if x is not None]
    if not whole and not slow and analysis.has_fewer(stage.reduce_axis, most_rows + 1):  # all in one go, in registers
        row, loops = k, [vector]
    else:
        band, row = stage.split(k, factor=plan.knob(stage, "rows", powers(1, most_rows)))
        loops = [*slow, band, vector]
    stage.reorder(*around, *loops, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
    if parallel is not None:
        stage.parallel(parallel)
        if whole:
            plan.offer(stage, **{BAND: band})
    else:
        task = fuse_all(stage, around)
        stage.parallel(task)
        plan.offer(stage, task=task)
        _prefetch_looked_up(plan, stage, task)


def _columns(stage: Stage, axis: IterVar, parallel: Loop | None) -> list[IterVar]:
    """The axis of columns, and those before it that make one axis with it, where it may be short."""
    found = next((run for run in runs(stage) if run[-1] is axis), [axis])
    found = [a for a in found if stage.roots[a] is not parallel]
    while len(found) > 1 and (analysis.points(found[1:]) or 0) >= SHORT_COLUMNS:
        found = found[1:]
    return found


def _goes_into(stage: Stage) -> bool:
    """Whether a stage is short, and used once by its only reader, where it is inlined later."""
    return stage.is_injective and not stage.is_output and analysis.is_cheap(stage) and analysis.uses_each_once(stage)


def _prefetch_looked_up(plan: Plan, stage: Stage, task: Loop) -> None:
    """Rows that data choose, from a table that no near cache holds, are asked for while those of the result before are
    added up: nothing else foretells where they lie."""
    points, n = analysis.points(stage.reduce_axis), analysis.points(stage.axis[-1:])
    if points is None or n is None or points * min(n * stage.tensor.dtype.bytes, STRETCH) > plan.machine.l1 // 2:
        return
    inlined = [x for x in plan.s.reads(stage) if _goes_into(x)]
    found = [a for x in (stage, *inlined) for a in analysis.accesses(x) if a.is_looked_up]
    for tensor in dict.fromkeys(a.tensor for a in found):
        size = tensor.dtype.bytes * math.prod(int(d.value) if is_const(d) else 0 for d in tensor.shape)
        if size > plan.machine.l2 and plan.s.stage(tensor).is_placeholder:
            stage.prefetch(tensor, task, 1)


def reduce_rows(plan: Plan, stage: Stage) -> None:
    """A reduction that has found its place: in lanes, if its rows are contiguous; else vectors of results."""
    axis = _vector_axis(stage)
    if axis is not None and axis.kind == "reduce" and may_be_cut(stage):
        partial = in_lanes(plan, stage)
        spatial = stage.spatial_loops
        if spatial:
            if stage.attach.kind == "root":
                stage.parallel(spatial[0])
            partial.compute_at(stage, spatial[-1])
    elif axis is not None and axis.kind == "spatial":
        _, lane = stage.split(stage.roots[axis], factor=lanes_knob(plan, stage, analysis.length(axis)))
        stage.reorder(*(x for x in stage.spatial_loops if x is not lane), *stage.reduce_loops, lane)
        stage.vectorize(lane)
        if stage.attach.kind == "root" and len(stage.loops) > 2:
            stage.parallel(stage.loops[0])
    elif stage.spatial_loops and stage.attach.kind == "root":
        _side_by_side(plan, stage)
        stage.parallel(stage.loops[0])


def in_lanes(plan: Plan, stage: Stage, with_others: bool = False) -> Stage:
    """Partial results, one for each lane, and their combination by halves. Returns their stage. Of a long row there are
    several registers of them, unless it is added up together `with_others`."""
    row, apart = _row(stage), _rows_are_apart(plan, stage)
    inside = [stage.roots[a] for a in (row if apart else row[-1:]) if stage.roots[a] in stage.loops]
    loops = [*(x for x in stage.reduce_loops if x not in inside), *inside]
    if loops != stage.reduce_loops:
        stage.reorder(*loops)
    k = fuse_all(stage, inside if apart else loops)
    n = analysis.points(row) if apart or len(stage.reduce_axis) == 1 else None
    widths = long_lanes(plan.machine, [stage.tensor.dtype], n)
    if apart:
        widths = [w for w in widths if n is None or w <= n] or widths[:1]  # none is idle in each row
        widths = [*widths, *(w for w in (2 * max(widths),) if n is not None and n % w == 0)]
    else:
        if n is not None and n < 4 * widths[0]:  # of a short row most would be a rest
            widths = [*widths, *(v for v in (math.gcd(n, widths[0]),) if v >= FEWEST_LANES)]
        widths = [*widths, 2 * max(widths)]
    if not with_others and n is not None:
        chains = [w for w in widths if w >= CHAINS * widths[0] // max(1, len(stage.body) - 1) and n >= LONG_ROW * w]
        widths = chains or widths
    _, lane = stage.split(k, factor=plan.knob(stage, "partial", widths))
    partial = partial_results(plan, stage, lane, "lanes_of_sums", factor_axis=-1)
    *spatial, lane = partial.spatial_loops
    partial.reorder(*spatial, *partial.reduce_loops, lane)
    partial.vectorize(lane)
    stage.vectorize(stage.loops[-1])
    return partial


def _row(stage: Stage) -> list[IterVar]:
    """The reduce axes along which rows lie, of which all that is read makes one axis: not always the last ones, for
    `rfactor` puts what is left of a cut axis there."""
    row, found = list[IterVar](), analysis.accesses(stage)
    contiguous = max(reversed(stage.reduce_axis), key=lambda axis: sum(a.is_contiguous(axis) for a in found))
    before: IterVar | None = contiguous
    while before is not None:
        row.insert(0, before)
        others = [a for a in stage.reduce_axis if a not in row]
        before = next((a for a in others if not _are_apart(stage, (a, row[0]))), None)
    return row


def _rows_are_apart(plan: Plan, stage: Stage) -> bool:
    """Whether a reduction goes over rows that fill vectors, and something is read for each row, or again in each, or
    rows do not lie behind each other, or their numbers count: as one row of all, every vector would have to find out
    where it is.

    for s: for i: for j: R[s] += X[s, i] * A[i, j] * Y[s, j];  for c: for n: for j: R[c] += A[n, c, j]
    """
    row, vector = _row(stage), plan.machine.vector_bytes // stage.tensor.dtype.bytes
    if any(stage.roots[a] not in stage.loops for a in row) or analysis.has_fewer(row, vector):
        return False
    return len(row) < len(stage.reduce_axis)


def _are_apart(stage: Stage, axes: Sequence[IterVar]) -> bool:
    """Whether walking along some axes is another thing than walking along one."""
    found, asked = analysis.accesses(stage), analysis.asked_positions(stage)
    return any(
        any(a.mentions(axis) != a.mentions(inner) or not _is_one_row(a, axis, inner) for a in found)
        or not all(_is_place_in_all(i, axis, inner) for i in asked)
        for axis, inner in pairwise(axes)
    )


def _is_place_in_all(index: Expr, outer: IterVar, inner: IterVar) -> bool:
    """Whether an index counts along two axes as along one, or along neither."""
    step, length = analysis.step_of(index, inner.var), analysis.length(inner)
    if not step or length is None:
        return step == 0 == analysis.step_of(index, outer.var)
    return analysis.step_of(index, outer.var) == step * length


def _is_one_row(a: Access, outer: IterVar, inner: IterVar) -> bool:
    """Whether an access along two axes walks through memory as along one, or along neither."""
    at = [[i for i, index in enumerate(a.indices) if x.var in variables(index)] for x in (outer, inner)]
    if not any(at):
        return True
    (i, *more), (j, *others) = at
    behind = j == i + 1 and not more and not others and a.indices[i] is outer.var and a.indices[j] is inner.var
    return behind and a.tensor.shape[j] is inner.extent
