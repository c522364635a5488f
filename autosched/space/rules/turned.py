"""Loops over transpositions: squares whose columns are loaded as rows and turned in registers.

turned_tiles            for i: for j: B[i, j] = A[j, i]   ->   parallel for t: for j.o: for i.m:
                                                                 unroll i.i: B[i.i, j.o*16 : +16] = A[.., i.i]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import Access, powers
from autosched.space.rules import rows
from autosched.space.rules.engine import Plan, fuse_all, rule
from autosched.space.times import goes_in_blocks, scan_along
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar, Tensor

#: The shortest side of a transposition: neighbours less far apart come as wide loads and shuffles. Rows in registers.
FEWEST_TURNED, MOST_TURNED = 4, 16
#: The same of what a scan makes in blocks of times: results and operands of a square are in registers at once.
SIDE_OF_TIMES = 8
#: Times, places or terms of a step that are too few for a copy of what they read.
SHORT = 16
#: The loop over blocks of times, as a place for a scan.
TIMES = "times"


def _turned_run(stage: Stage) -> list[IterVar] | None:
    """The axes along which neighbours lie in memory of what is read, where they are not the innermost ones of the
    result, and nothing is read along both."""
    found: dict[int, None] = {}
    runs = rows.runs(stage)
    column = stage.axis[-1]
    for a in analysis.made_of(stage)[0]:
        along = [i for i, run in enumerate(runs) if rows.away_from_clamps(a, run[-1]).is_contiguous(run[-1])]
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
    scan = scan_along(stage)
    if scan is not None and goes_in_blocks(scan):
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


# -- what scans read ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TurnedRead:
    """An input of a scan whose neighbours in memory belong to neighbouring times, or are added up in each step;
    neighbouring places lie apart, along a dimension of it. `readers` are the stages of the scan that read it."""

    tensor: Tensor
    dimension: int
    readers: tuple[Stage, ...]
    in_each_step: bool  #: whether each step turns its part

    def copied(self, plan: Plan) -> Stage:
        """A copy in which neighbouring places are neighbours."""
        copy = plan.s[plan.s.cache_read(self.tensor, "global", list(self.readers))]
        copy.transform_layout(lambda *i: [*(x for d, x in enumerate(i) if d != self.dimension), i[self.dimension]])
        return copy


def turned_reads(plan: Plan, scan: Stage) -> list[TurnedRead | Stage]:
    """The inputs that lie across the vectors of a step, such as rows of an image that a filter goes along, and the
    stages that do nothing but turn such a one."""
    op, s = scan.op, plan.s
    assert isinstance(op, ScanOp)
    own = {t for x in op.steps for t in x.outputs} | {*op.state_placeholder}
    steps, inits = ([s.stage(t) for x in ops for t in x.outputs] for ops in (op.steps, [t.op for t in op.init]))
    if not op.independent[-1] or any(analysis.has_fewer([a], SHORT) for a in (op.scan_axis, op.spatial_axes[0][-1])):
        return []
    found: dict[Tensor, list[tuple[int | None, str]]] = {}
    for x in steps:
        for a in analysis.accesses(x):
            if a.tensor not in own and a.indices:
                found.setdefault(a.tensor, []).append(_turned_along(a, x))
    reads: list[TurnedRead | Stage] = []
    for tensor, ways in found.items():
        source, dimensions, along = s.stage(tensor), {d for d, _ in ways}, {lies for _, lies in ways}
        d = dimensions.pop()
        if not source.is_output and is_turned(plan, source) and set(s.consumers(source)) <= {*inits, *steps}:
            reads.append(source)
        elif not dimensions and d is not None and along & {"time", "sum"}:
            in_each_step = "time" not in along
            readers = dict.fromkeys(x for x in (*inits, *steps) if tensor in x.op.input_tensors)
            some = tuple(x for x in readers if not (in_each_step and x in inits))
            reads.append(TurnedRead(tensor, d, some, in_each_step))
    return reads


def _turned_along(a: Access, step: Stage) -> tuple[int | None, str]:
    """The dimension of a read along which places are neighbours, None if there is not one; and what neighbours in
    memory are along another: times, or terms of a long sum."""
    times = [x for x in step.axis if step.schedule.scans.follows_time(step, x)]
    if len(times) != 1 or step.axis[-1] in times:
        return None, ""
    long = (x for x in step.reduce_axis if not analysis.has_fewer([x], SHORT))
    along = "time" if a.is_contiguous(times[0]) else "sum" if any(map(a.is_contiguous, long)) else ""
    return a.dimension(step.axis[-1]), along


def turn(plan: Plan, read: TurnedRead | Stage, host: Stage, loop: Loop, side: int | None = None) -> Stage:
    """What a strip of places reads at all times is turned in registers before, a square of it at a time.

    for t: for j: S[t, j] = S[t-1, j] + X[j, t]   ->   T[t, j] = X[j, t];  for t: S[t, 0:16] = S[t-1, ..] + T[t, 0:16]
    """
    copy = read if isinstance(read, Stage) else read.copied(plan)
    copy.compute_at(host, loop)
    squares(plan, copy, side)
    return copy
