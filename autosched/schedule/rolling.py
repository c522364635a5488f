"""`rolling_buffer`: storage that is kept as far out as it can be, in the room of one window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.schedule import scans
from autosched.schedule.handles import computed
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

__all__ = ["check", "rolling_buffer"]


@keeps_meaning
def rolling_buffer(s: Schedule, stage: Stage) -> None:
    """Compute only what iterations before have not, and keep the rest in a circular buffer.

    for y:                                  allocate A: 3 rows
      allocate A: 3 rows               ->   for y:
      A[y - 1 .. y + 1] = ..                  if y == 0: A[y - 1 .. y] = ..
      B[y] = g(A[y - 1 .. y + 1])             A[y + 1] = ..
                                              B[y] = g(A[y - 1 .. y + 1])

    This is `store_at` the outermost loop of the consumer that `compute_at` names, or where one between
    runs in parallel, inside that. Which loop that is is seen when lowering, so later calls may still change
    it. TVM's primitive of that name.
    """
    computed(stage)
    scans.forbid(stage, "rolling_buffer")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it is stored whole", "rolling_buffer is for intermediates")
    if s.scans.step_of(stage) is not None:
        raise Illegal(f"{stage.name} belongs to a step of a scan, and is gone with it", "stages outside of scans")
    stage.rolls = True


def check(stage: Stage) -> None:
    """Raise ScheduleError for a rolling buffer that is computed in no loop."""
    if stage.rolls and stage.attach.kind != "at":
        where = "is inlined" if stage.attach.kind == "inline" else "is computed at the root"
        raise ScheduleError(
            f"{stage.name} {where}: there is no loop for it to roll along",
            asked=stage.schedule.earlier("rolling_buffer", stage),
            legal=f"{stage.name}.compute_at a loop of what reads it",
        )
