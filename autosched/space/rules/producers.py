"""Loops over elements of stages that are computed for others: see `inline.compute_location`."""

from __future__ import annotations

from autosched.ir.visit import contains
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import long_lanes
from autosched.space.rules import pixels, rows, sums
from autosched.space.rules.engine import Plan, fuse_all
from autosched.space.rules.rows import FEW_ROWS, LONG, STRIPS_OF_TASK


def loops_of_producer(plan: Plan, stage: Stage) -> None:
    """The loops of a stage that is computed for others: vectors along its rows, threads if it is at the root."""
    if stage.reduce_axis:
        sums.reduce_rows(plan, stage)
        return
    if not stage.axis:
        return
    types = rows.types_of(stage)
    at_root = stage.attach.kind == "root"
    host = stage.attach.stage
    if host is not None and not at_root and len(stage.axis) < len(host.axis) - _has_channels(host):
        return  # a few elements, one for each row
    channel = [stage.roots[c] for c in pixels.mixed_channels(plan, stage)]
    if channel:
        *outer, row = (stage.roots[a] for a in stage.axis[: -len(channel)])
        n = analysis.length(stage.axis[len(outer)])
    else:
        outer, row, n = rows.row_loops(stage)
    widths = long_lanes(plan.machine, types, n)
    # the interior of a row that is copied as it is, its borders aside, is best left to LLVM as one loop
    widths = [1, *widths] if _is_padding(stage) else widths
    vector, lane = stage.split(row, factor=plan.knob(stage, "lanes", widths))
    if at_root and outer and not channel and rows.neighbours_share(stage, stage.axis[len(outer) - 1]):
        _strips_of_producer(plan, stage, outer, vector, lane)
        return
    if channel:  # what all channels of a vector of pixels are made of is computed once
        stage.reorder(vector, *channel, lane)
    for c in channel:
        stage.unroll(c)
    stage.vectorize(lane)
    if at_root:
        row = fuse_all(stage, outer) if outer else vector
        stage.parallel(row)
        if outer:
            plan.offer(stage, row=row)


def _strips_of_producer(plan: Plan, stage: Stage, outer: list[Loop], block: Loop, lane: Loop) -> None:
    """The loops of a stage before its readers whose rows share elements: a few rows written out, in tasks of some."""
    *outer, y = outer
    n = analysis.length(stage.axis[len(outer)])
    several = min(STRIPS_OF_TASK, max(1, (n or LONG) // (4 * plan.target.num_threads * FEW_ROWS[-1])))
    strip, line = stage.split(y, factor=plan.knob(stage, "rows", FEW_ROWS))
    task, strip = stage.split(strip, factor=several)
    stage.reorder(*outer, task, strip, block, line, lane)
    stage.unroll(line)
    stage.vectorize(lane)
    stage.parallel(fuse_all(stage, [*outer, task]))
    plan.offer(stage, row=strip)
    rows.limit_written_out(plan, stage, rows.types_of(stage))
    rows.limit_colliding_rows(plan, stage)


def _has_channels(stage: Stage) -> bool:
    """Whether its rows are of pixels, not of single elements."""
    return analysis.has_fewer(stage.axis[-1:], analysis.MOST_CHANNELS + 1)


def _is_padding(stage: Stage) -> bool:
    """Whether elements are copied, or filled in, as a condition says."""
    return analysis.only_copies(stage) and contains(stage.body, "if_then_else")
