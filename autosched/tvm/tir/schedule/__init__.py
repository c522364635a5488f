"""`tvm.tir.schedule`: schedules of blocks, by TVM's names of modules."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from autosched.errors import ScheduleError as ScheduleError
from autosched.errors import UsageError
from autosched.ir.attached import attach
from autosched.schedule.schedule import perform
from autosched.schedule.stage import Loop as LoopRV
from autosched.schedule.trace import Instruction as Instruction
from autosched.schedule.trace import Trace as Trace
from autosched.tir.blocks import Block as BlockRV
from autosched.tir.schedule import Schedule as Schedule
from autosched.tvm._missing import missing


@dataclass(frozen=True)
class StmtSRef:
    """What a block, or a loop, of a schedule is now: `stmt` is what `sch.get` returns."""

    stmt: Any

    def same_as(self, other: object) -> bool:
        return isinstance(other, StmtSRef) and self.stmt is other.stmt


def _sref(sch: Schedule, block_or_loop: Any) -> StmtSRef:
    """The statement of a block or loop, which has a name, axes, an extent, ..."""
    return StmtSRef(sch.get(block_or_loop))


def apply_to_schedule(
    trace: Trace, sch: Schedule, remove_postproc: bool = False, decision_provider: Any = None
) -> None:
    """Make the calls of a trace on another schedule of the same function.

    Of calls that made the function's own loops, both traces have the same. Raises UsageError where `sch` has others.
    """
    made = sch.trace
    if [i.to_json() for i in made] != [i.to_json() for i in trace[: len(made)]]:
        why = "other calls were made on that schedule already"
        raise UsageError(why, asked="trace.apply_to_schedule(sch)", legal="tir.Schedule(mod) of the module as it was")
    for i in trace[len(made) :]:
        perform(sch.schedule, i)


def _apply_json(json_obj: Any, sch: Schedule) -> None:
    """Make the calls of `trace.as_json()` on a schedule of the same function."""
    apply_to_schedule(Trace.from_json(json_obj), sch)


def _show(trace: Trace, style: Any = None, black_format: Any = None) -> None:
    """Print the calls."""
    print(trace.as_python())


def _forget(sch: Schedule, rv: Any) -> None:
    """Nothing: blocks and loops are values of Python's."""


def _enter_postproc(sch: Schedule) -> None:
    """Nothing: a trace has one part."""


attach(Schedule, get_sref=_sref, remove_rv=_forget, enter_postproc=_enter_postproc)
attach(
    Trace,
    apply_to_schedule=apply_to_schedule,
    apply_json_to_schedule=staticmethod(_apply_json),
    as_json=lambda trace, remove_postproc=False: trace.to_json(),
    simplified=lambda trace, remove_postproc=False: trace,
    insts=property(list),
    show=_show,
)

_INSTEAD = {
    "ScheduleState": "sch.mod, and sch.schedule: the stages and their loops",
    "DepKind": "sch.get_producers(block), sch.get_consumers(block)",
    "BlockScope": "sch.get_child_blocks(loop)",
    "InstructionKind": "autosched.schedule.primitive.PRIMITIVES: the calls that a trace records, by name",
}
__getattr__ = missing("tir.schedule", globals(), _INSTEAD)

#: where TVM has them
schedule = trace = sys.modules[__name__]
sys.modules[f"{__name__}.schedule"] = sys.modules[f"{__name__}.trace"] = schedule
__all__ = ["BlockRV", "Instruction", "LoopRV", "Schedule", "ScheduleError", "StmtSRef", "Trace"]
