"""Splits with more iterations than there are: `split(i, factor=32)` of a loop of 8 makes a loop of 8, as in TVM.

Elsewhere in this package a split keeps its factor, so that a schedule with an open knob and one with its number are the
same program. TVM's programs have numbers only, and TVM looks at extents when bounds are inferred, at a stage computed
inside of another as well: so it is done here, in a copy of the schedule, when a program is lowered, built or asked for
bounds. Loops that are bound to threads, or in place of which an intrinsic stands, keep their length.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from autosched.ir.dims import Range
from autosched.ir.expr import Expr, const
from autosched.lowering.bounds import inferred_ranges
from autosched.schedule.loop import Loop, Split, loop_extents
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.te.tensor import IterVar
from autosched.tvm.attributes import follow_loops, of_tvm


def clamped(s: Schedule) -> Schedule:
    """The schedule with splits of no more than there is: itself, or a copy with the same tensors and loop variables.

    Raises ScheduleError or LowerError where its bounds cannot be inferred.

    >>> from autosched.tvm import te
    >>> B = te.compute((8,), lambda i: i * 2, name="B")
    >>> s = te.create_schedule(B.op)
    >>> outer, inner = s[B].split(B.op.axis[0], factor=32)
    >>> clamped(s)[B].relations
    [Split(parent=B.i, outer=B.i.outer, inner=B.i.inner, factor=8, nparts=None, tail='guard')]
    """
    if s not in of_tvm or s.knobs:
        return s
    now = s
    for _ in range(1 + sum(len(stage.relations) for stage in s.stages)):
        found = _too_large(now)
        if not found:
            break
        if now is s:
            now = deepcopy(s)
            of_tvm.add(now)
        for at, which, amount in found:
            _shrink(now.stages[at], which, amount)
    return now


def infer_bound(s: Schedule) -> dict[IterVar | Loop, Range]:
    """The range of each axis and loop where its stage is computed; see `lowering.bounds.inferred_ranges`."""
    follow_loops(s)
    known = clamped(s)
    ours = {
        id(theirs): mine
        for stage, other in zip(s.stages, known.stages, strict=True)
        for mine, theirs in zip(_loops(stage), _loops(other), strict=True)
    }
    return {ours.get(id(x), x) if isinstance(x, Loop) else x: found for x, found in inferred_ranges(known).items()}


def _loops(stage: Stage) -> list[Loop]:
    """All loops of a stage, those too that are split or fused, in the order in which they were made."""
    return [*stage.roots.values(), *(x for r in stage.relations for x in r.made)]


def _too_large(s: Schedule) -> list[tuple[int, int, Expr]]:
    """The splits with more parts than iterations: places of stage and relation, and the number of iterations."""
    asked: dict[int, list[int]] = {}
    for at, stage in enumerate(s.stages):
        which = _candidates(stage)
        if which:
            asked[at] = which
    if not asked:
        return []
    inside = any(s.stages[at].attach.kind == "at" for at in asked)
    ranges = inferred_ranges(s) if inside else {}
    found = []
    for at, which in asked.items():
        stage = s.stages[at]
        axes = {a: ranges[a].extent for a in stage.axis if a in ranges}
        extents = loop_extents(stage, axes)
        for k in which:
            r = stage.relations[k]
            assert isinstance(r, Split)
            extent = extents[r.parent]
            if extent.op == "const" and 1 <= extent.value < r.amount.value:
                found.append((at, k, extent))
                break  # the extents of what is split further follow from this one
    return found


def _candidates(stage: Stage) -> list[int]:
    """The places of splits that could be too large, given where the stage is computed."""
    fixed = _fixed(stage)
    at_root = stage.attach.kind != "at"
    extents = loop_extents(stage) if at_root and stage.relations else {}
    found = []
    for k, r in enumerate(stage.relations):
        if not isinstance(r, Split) or r.tail != "guard" or r.amount.op != "const":
            continue
        if (r.inner if r.factor is not None else r.outer) in fixed:
            continue
        extent = extents.get(r.parent)
        is_more = not at_root or (extent is not None and extent.op == "const" and extent.value < r.amount.value)
        if is_more and _call_of(stage, r) is not None:
            found.append(k)
    return found


def _fixed(stage: Stage) -> set[Loop]:
    """Loops whose lengths something else decides: those bound to threads or inside of an intrinsic, and what they were
    made of."""
    fixed = {x for x in stage.loops if x.thread}
    if stage.intrinsic is not None:
        fixed.update(stage.loops[stage.loops.index(stage.intrinsic[0]) :])
    for r in reversed(stage.relations):
        if any(x in fixed for x in r.made):
            fixed.update(r.parents)
    return fixed


def _shrink(stage: Stage, which: int, amount: Expr) -> None:
    """Give a split another factor or number of parts, in the trace, too."""
    r = stage.relations[which]
    assert isinstance(r, Split)
    at = _call_of(stage, r)
    assert at is not None
    by, value = "factor" if r.factor is not None else "nparts", const(amount.value, r.amount.dtype)
    stage.relations[which] = replace(r, factor=value) if by == "factor" else replace(r, nparts=value)
    trace, number = stage.schedule.trace, int(amount.value)
    made = trace[at]
    if made.kind == "split":
        trace[at] = replace(made, options={**made.options, by: number})
    else:
        place = 2 + made.args.index(r.parent.name)
        trace[at] = replace(made, args=(*made.args[:place], number, *made.args[place + 1 :]))


def _call_of(stage: Stage, r: Split) -> int | None:
    """The place in the trace of the call that made a split; None if it was part of another primitive."""
    trace = stage.schedule.trace
    for k in reversed(range(len(trace))):
        made = trace[k]
        if made.stage == stage.name and (
            (made.kind == "split" and made.args[0] == r.parent.name)
            or (made.kind == "tile" and r.parent.name in made.args[:2])
        ):
            return k
    return None
