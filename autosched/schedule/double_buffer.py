"""`double_buffer`: a stage is filled for the next iteration while this one reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.schedule import scans
from autosched.schedule.handles import computed
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.schedule.stage import Loop, Stage

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["double_buffer", "doubled_at"]


@keeps_meaning
def double_buffer(s: Schedule, stage: Stage) -> None:
    """Keep two copies of an intermediate, and fill one for the next iteration of the loop it is computed
    at while this iteration reads the other. TVM's primitive of that name.

    for k: A.shared = tile(k); use(A.shared)
      ->
    A0 = tile(0)
    for k, two at a time: A1 = tile(k + 1); use(A0); A0 = tile(k + 2); use(A1)

    So the loads of a tile are on their way while the one before is worked on, and a work-group meets once
    for each tile. It takes a serial loop, of which the stage is computed anew in each iteration from what is
    there already. A stage computed elsewhere, kept through iterations by `store_at`, or that needs
    another one computed at the same loop, which is not doubled, keeps one copy.
    """
    computed(stage)
    scans.forbid(stage, "double_buffer")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: there is one of it", "double_buffer is for intermediates")
    stage.doubled = True


def doubled_at(s: Schedule, loop: Loop) -> list[Stage]:
    """The stages computed at a loop of which there are two copies, in order."""
    if loop.kind != "serial" or loop is loop.stage.scan_loop:
        return []
    guests = s.attached_at(loop)
    found = [x for x in guests if x.doubled and x.store.loop in (None, loop)]
    while True:
        plain = [x for x in guests if x not in found]
        fit = [x for x in found if not any(s.depends_on(x, y) for y in plain)]
        if len(fit) == len(found):
            return found
        found = fit
