"""`decompose_reduction`: the initial values of a reduction get loops of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError
from autosched.ir.visit import post_order
from autosched.schedule import scans
from autosched.schedule.handles import computed, leaf
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.schedule.stage import Loop, Stage

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["check", "decompose_reduction"]


@keeps_meaning
def decompose_reduction(s: Schedule, stage: Stage, loop: Any) -> tuple[Loop, ...]:
    """Set the elements of a reduction to the identity just outside a loop, in loops of their own.

    for i.outer:                             for i.outer:
      for k: for i.inner: B[i] += f(i, k)  ->    for i.inner.init: B[i] = 0
                                                 for k: for i.inner: B[i] += f(i, k)

    Without it that happens just outside the outermost reduce loop, in copies of the spatial loops
    inside, each with the mark of its original. The loops made here, which are returned outermost
    first, are marked by themselves: `vectorize`, `unroll` and `parallel` take them; `bind` binds both,
    because work-items set what they sum. No reduce loop may be outside `loop`, now or later.
    """
    computed(stage)
    at = leaf(stage, loop)
    scans.forbid(stage, "decompose_reduction")
    if not stage.reduce_axis:
        raise Illegal(f"{stage.name} is no reduction", "stages with a reduce axis")
    if stage.scatter_axes:
        raise Illegal(f"{stage.name} is a scatter: all its elements are set before the first point", "te.compute")
    if stage.init is not None:
        where = stage.init.outside.full_name
        raise Illegal(f"{stage.name} is decomposed already, outside {where}", "one decompose_reduction for a stage")
    place = stage.loops.index(at)
    first = next(i for i, x in enumerate(stage.loops) if x.is_reduce)
    if place < first and _begins_with_reads(stage):
        raise Illegal(
            f"{stage.name} begins with values that are read, and may be computed inside {at.full_name}",
            f"the outermost reduce loop: {stage.loops[first].name}",
        )
    around = [x.name for x in stage.loops[:place] if x.is_reduce]
    if around:
        legal = ", ".join(x.name for x in stage.loops[: first + 1])
        raise Illegal(f"{at.full_name} is inside the reduce loop {around[0]}", f"loops of {stage.name}: {legal}")
    stage.decompose(at)
    assert stage.init is not None
    return tuple(stage.init.loops.values())


def _begins_with_reads(stage: Stage) -> bool:
    body = stage.body[0]
    _, _, begin = body.value.parts(body.args)
    return any(e.op == "read" for e in post_order(begin))


def check(stage: Stage) -> None:
    """Raise ScheduleError if loops have changed since the initial values got loops of their own."""
    init = stage.init
    if init is None:
        return
    gone = [x for x in (init.outside, *init.loops) if x not in stage.loops]
    why = f"{gone[0].full_name} was split or fused away afterwards" if gone else ""
    if not gone:
        around = stage.loops[: stage.loops.index(init.outside)]
        moved = [x for x in stage.loops if (x in around) != (x in init.around)]
        why = f"{moved[0].full_name} was moved across {init.outside.name} afterwards" if moved else ""
        apart = [(x, y) for x, y in init.loops.items() if x.thread != y.thread]
        if apart and not why:
            why = f"{apart[0][0]!r} and {apart[0][1]!r} are not bound alike: others would set what is being summed"
    if why:
        asked = stage.schedule.earlier("decompose_reduction", stage, init.outside.name)
        raise ScheduleError(why, asked=asked, legal=f"decompose_reduction last; loops: {stage.describe()}")
