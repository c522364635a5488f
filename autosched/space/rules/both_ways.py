"""Reductions of one input, which is read once: of the same places, or of its rows and columns, `A x` beside `A^T y`."""

from __future__ import annotations

from autosched.ir.expr import Expr
from autosched.ir.visit import substitute
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.rules import sums
from autosched.space.rules.engine import Plan, lanes_knob, partial_results, rule
from autosched.te.tensor import Tensor


def read_once(s: Schedule) -> None:
    """Reductions that go over the same input in the same way go over it together, before any rule looks at the stages.

    for k: A = min(A, X[k]);  for k: B = B + X[k]   ->   for k: A, B = min(A, X[k]), B + X[k]
    """
    left = [x for x in s.stages if _goes_along(x)]
    while left:
        first, *others = left
        along = [first, *(x for x in others if _is_alike(s, first, x))]
        left = [x for x in others if x not in along]
        if len(along) > 1:
            s.reduce_together(first, along[1:])


def _goes_along(stage: Stage) -> bool:
    """Whether it is a plain reduction of which each element is read once."""
    if analysis.is_opaque(stage) or not stage.reduce_axis or analysis.is_contraction(stage):
        return False
    return len(stage.body) == 1 and isinstance(stage.body[0].value.combiner, str) and not stage.first_values


def _is_alike(s: Schedule, first: Stage, other: Stage) -> bool:
    """Whether both go over the same points and read a tensor at the same place in each, and the other one reads nothing
    that is computed after the first."""
    pairs = [(first.axis, other.axis), (first.reduce_axis, other.reduce_axis)]
    if any(len(a) != len(b) for a, b in pairs) or any(
        s.stages.index(x) >= s.stages.index(first) for x in s.reads(other)
    ):
        return False
    both = [(a, b) for x, y in pairs for a, b in zip(x, y, strict=True)]
    if any(a.extent is not b.extent or a.min is not b.min for a, b in both):
        return False
    to = {b.var: a.var for a, b in both}
    conditions = [first.body[0].args[1], substitute(other.body[0].args[1], to)]
    places = {(a.tensor, a.indices) for a in analysis.accesses(first) if all(a.mentions(x) for x, _ in both)}
    found = {(a.tensor, tuple(substitute(i, to) for i in a.indices)) for a in analysis.accesses(other)}
    return conditions[0] is conditions[1] and bool(places & found)


def _sums_of_rows_beside(plan: Plan, stage: Stage, asked: Stage) -> Stage | None:
    """Sums of the rows of the matrix of which a stage adds up the columns, neither of them settled nor needed by the
    other; `asked` is the one of both that is being settled."""
    if not (
        sums.along_columns(plan, stage) and sums.may_be_cut(stage) and _is_plane(stage) and sums.is_large(plan, stage)
    ):
        return None
    read = _of_both_axes(stage)
    for x in plan.s.stages:
        is_free = (x is asked or x not in plan.done) and x.attach.kind == "root" and sums.along_rows(plan, x)
        if x is stage or not is_free or not _is_plane(x) or plan.s.depends_on(x, stage) or plan.s.depends_on(stage, x):
            continue
        turned = {stage.reduce_axis[0].var: x.axis[0].var, stage.axis[0].var: x.reduce_axis[0].var}
        same = {(tensor, tuple(substitute(i, turned) for i in indices)) for tensor, indices in read}
        extents = (x.axis[0].extent, x.reduce_axis[0].extent)
        if extents == (stage.reduce_axis[0].extent, stage.axis[0].extent) and same & _of_both_axes(x):
            return x
    return None


def _is_plane(stage: Stage) -> bool:
    return len(stage.axis) == len(stage.reduce_axis) == 1 and len(stage.body) == 1


def _of_both_axes(stage: Stage) -> set[tuple[Tensor, tuple[Expr, ...]]]:
    """The reads of a reduction that go along with both of its axes."""
    axes = (*stage.axis, *stage.reduce_axis)
    return {(a.tensor, a.indices) for a in analysis.accesses(stage) if all(map(a.mentions, axes))}


def _columns_and_rows(plan: Plan, stage: Stage) -> tuple[Stage, Stage] | None:
    """A stage and the other one, where these are sums of the columns and of the rows of the same matrix."""
    for columns in (stage, *(x for x in plan.s.stages if x is not stage and x not in plan.done)):
        rows = _sums_of_rows_beside(plan, columns, stage)
        if rows is not None and stage in (columns, rows):
            return columns, rows
    return None


@rule(when=lambda plan, stage: _columns_and_rows(plan, stage) is not None)
def rows_and_columns(plan: Plan, stage: Stage) -> None:
    """Sums of rows and of columns of the same matrix: bands of a few rows are added up both ways at once.

    for i: for k: R[i] += A[i, k]         parallel for p: for the rows of band b of p: for block k.o of columns:
    for j: for k: C[j] += A[k, j]   ->      P[b] += A[b, k.o] in lanes;  Q[p, k.o] += these rows of the block
                                          R = the sums of the lanes of P;  C = Q[0] + Q[1] + ..

    Bands of short rows are added up one way after the other while they are near.
    """
    found = _columns_and_rows(plan, stage)
    assert found is not None
    columns, rows = found
    n = analysis.length(columns.axis[0])
    lanes = lanes_knob(plan, columns, n)
    pieces, height = plan.knob(columns, "pieces", sums.PIECES), plan.knob(columns, "height", (2, 4, 8))
    piece, _ = columns.split(columns.reduce_loops[0], nparts=pieces)
    bands = partial_results(plan, columns, piece, "rows_and_columns")
    band, row = bands.split(bands.reduce_loops[0], factor=height)
    piece, column = bands.spatial_loops
    _in_blocks(bands, [piece, band], bands.split(column, factor=lanes), row)
    plan.done[columns] = plan.done[rows] = "rows_and_columns"
    if n is None or n * columns.tensor.dtype.bytes < sums.STRETCH:
        piece, row = rows.split(rows.spatial_loops[0], nparts=pieces)
        band, row = rows.split(row, factor=height)
        rows.parallel(piece)
        partial = sums.in_lanes(plan, rows, True)
        partial.compute_at(rows, band)
        near, lane = partial.spatial_loops
        partial.reorder(*partial.reduce_loops, near, lane)
        partial.unroll(near)
        rows.unroll(row)
        bands.compute_with(rows, band)
    else:
        block, _ = rows.split(rows.reduce_loops[0], factor=lanes)
        partial = partial_results(plan, rows, rows.loops[-1], "rows_and_columns", factor_axis=-1)
        row, lane = partial.spatial_loops
        piece, row = partial.split(row, nparts=pieces)
        band, row = partial.split(row, factor=height)
        (block,) = partial.reduce_loops
        _in_blocks(partial, [piece, band], (block, lane), row)
        bands.compute_with(partial, block)
        rows.vectorize(rows.loops[-1])
        rows.parallel(rows.split(rows.loops[0], factor=sums.ROWS_OF_A_TASK)[0])
    sums.in_columns(plan, columns, columns.axis[0])


def _in_blocks(stage: Stage, outer: list[Loop], across: tuple[Loop, Loop], row: Loop) -> None:
    """Bands of rows in parallel, the few rows of each written out for a vector of columns after the other."""
    block, lane = across
    stage.reorder(*outer, block, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
    stage.parallel(outer[0])
