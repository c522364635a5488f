"""Loops over transpositions: squares whose columns are loaded as rows and turned in registers.

turned_tiles            for i: for j: B[i, j] = A[j, i]   ->   parallel for t: for j.o: for i.m:
                                                                 unroll i.i: B[i.i, j.o*16 : +16] = A[.., i.i]
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.stage import Loop, Stage
from autosched.space.rules import analysis, rows
from autosched.space.rules.analysis import powers
from autosched.space.rules.engine import Plan, fuse_all, rule
from autosched.te.tensor import IterVar

#: The shortest side of a transposition: neighbours less far apart come as wide loads and shuffles. Rows in registers.
FEWEST_TURNED, MOST_TURNED = 4, 16
#: The same of what a scan makes in blocks of times: results and operands of a square are in registers at once.
SIDE_OF_TIMES = 8
#: The loop over blocks of times, as a place for a scan.
TIMES = "times"


def _turned_run(stage: Stage) -> list[IterVar] | None:
    """The axes along which neighbours lie in memory of what is read, where they are not the innermost ones of the
    result, and nothing is read along both."""
    found: dict[int, None] = {}
    runs = rows.runs(stage)
    column = stage.axis[-1]
    for a in analysis.made_of(stage)[0]:
        along = [i for i, run in enumerate(runs) if a.is_contiguous(run[-1])]
        if a.mentions(column) and not a.is_contiguous(column):
            found.update(dict.fromkeys(along[:1] or [len(runs) - 1]))
    turned = list(found)
    return runs[turned[0]] if len(turned) == 1 and turned[0] < len(runs) - 1 else None


def is_turned(plan: Plan, stage: Stage) -> bool:
    """Whether a stage is a transposition: what it reads lies along another axis than its rows."""
    if not rows.is_map(plan, stage) or len(stage.axis) < 2:
        return False
    run = _turned_run(stage)
    return run is not None and not any(
        analysis.has_fewer(axes, FEWEST_TURNED + 1) for axes in (run, rows.runs(stage)[-1])
    )


def _turned_loops(stage: Stage) -> tuple[list[Loop], tuple[Loop, int | None], tuple[Loop, int | None]]:
    """Of a transposition the outer loops, and with their lengths that along what it reads, and that of its rows."""
    turned, (*others, column) = _turned_run(stage), rows.runs(stage)
    assert turned is not None
    outer = [fuse_all(stage, [stage.roots[a] for a in run]) for run in others if run != turned]
    both = ((fuse_all(stage, [stage.roots[a] for a in run]), analysis.points(run)) for run in (turned, column))
    return outer, *both  # type: ignore[return-value]


@rule(when=is_turned)
def turned_tiles(plan: Plan, stage: Stage) -> None:
    """Transpositions: small squares, whose columns are loaded as rows and turned in registers, along what is read.

    for i: for j: B[i, j] = A[j, i]   ->   parallel for i.o: for j.o: for i.m: unroll i.i: B[i.i, j.o*16 : +16] = ..
    """
    whole = max(1, plan.machine.vector_bytes // max(t.bytes for t in rows.types_of(stage)))
    sides = [max(2, whole // 2), whole]
    heights = [min(MOST_TURNED, max(FEWEST_TURNED, whole // n)) for n in (4, 2)]
    scan = analysis.scan_along(stage)
    if scan is not None and analysis.goes_in_blocks(scan):
        _blocks_of_times(plan, stage, min(whole, SIDE_OF_TIMES))
        return
    outer, (along, length), (column, width) = _turned_loops(stage)

    def fitting(values: Sequence[int], n: int | None) -> list[int]:
        return [v for v in values if n is None or v <= n] or [values[0]]

    def cut(loop: Loop, n: int | None, name: str, values: Sequence[int]) -> tuple[list[Loop], Loop, Loop]:
        """Whole squares, of sides that divide the length or of which the last one moves back to end at the edge."""
        sides = fitting(values, n)
        sides = [v for v in sides if n is not None and n % v == 0] or sides
        moves = n is not None and max(sides) <= n and loop.root is not None
        squares, side = stage.split(loop, factor=plan.knob(stage, name, sides), tail="auto" if moves else "guard")
        tasks: list[Loop] = []
        if name == "near" or scan is None:  # part of a row would need all times of the scan before it
            several, count = fitting(powers(1, 64), n and -(-n // min(sides))), {"lanes": "blocks", "near": "strips"}
            task, squares = stage.split(squares, factor=plan.knob(stage, count[name], several))
            tasks.append(task)
        if moves:  # the one at the edge is like all others
            stage.pragma(squares, "loop_partition_hint", 0)
        return tasks, squares, side

    blocks, block, lane = cut(column, width, "lanes", sides)
    tasks, strip, near = cut(along, length, "near", heights)
    stage.reorder(*outer, *tasks, *blocks, block, strip, near, lane)
    stage.unroll(near)
    stage.vectorize(lane)
    task = fuse_all(stage, [*outer, *tasks, *blocks])
    stage.parallel(task)
    plan.offer(stage, task=task)


def _blocks_of_times(plan: Plan, stage: Stage, side: int) -> None:
    """Transpositions of what a scan makes: a strip of rows in blocks, for each of which the scan goes on, in registers.

    for i: for t: B[i, t] = S[t, i]   ->   parallel for i.o: for t.o: S[t.o*8 : +8]; unroll i.i: B[i.i, t.o*8 : +8] = ..
    """
    outer, (along, length), (column, _) = _turned_loops(stage)
    moves = length is not None and length >= side and along.root is not None
    strips, near = stage.split(along, factor=side, tail="auto" if moves else "guard")
    most = 64 if length is None else max(1, length // side)
    task, strip = stage.split(strips, factor=plan.knob(stage, "strips", powers(1, min(64, most))))
    if moves:
        stage.pragma(strip, "loop_partition_hint", 0)
    block, lane = stage.split(column, factor=side)
    stage.reorder(*outer, task, strip, block, near, lane)
    stage.unroll(near)
    stage.vectorize(lane)
    task = fuse_all(stage, [*outer, task])
    stage.parallel(task)
    plan.offer(stage, task=task, strip=strip, **{TIMES: block})
    plan.side_of_times[stage] = side


def squares(plan: Plan, stage: Stage, side: int | None = None) -> None:
    """The same for a stage that is computed at a loop of another: squares of vectors, row after row."""
    whole = side or max(1, plan.machine.vector_bytes // max(t.bytes for t in rows.types_of(stage)))
    outer, (along, _), (column, _) = _turned_loops(stage)
    block, lane = stage.split(column, factor=whole)
    strip, near = stage.split(along, factor=whole)
    stage.reorder(*outer, strip, block, near, lane)
    stage.unroll(near)
    stage.vectorize(lane)
