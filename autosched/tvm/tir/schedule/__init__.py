"""`tvm.tir.schedule`: schedules of blocks, by TVM's names of modules."""

from __future__ import annotations

import sys

from autosched.errors import ScheduleError as ScheduleError
from autosched.schedule.stage import Loop as LoopRV
from autosched.schedule.trace import Instruction as Instruction
from autosched.schedule.trace import Trace as Trace
from autosched.tir.blocks import Block as BlockRV
from autosched.tir.blocks import BlockSchedule as Schedule
from autosched.tvm._missing import missing

_INSTEAD = {
    "ScheduleState": "sch.mod, and sch.schedule: the stages and their loops",
    "DepKind": "sch.get_producers(block), sch.get_consumers(block)",
    "StmtSRef": "blocks and loops, as get_block and get_loops return them",
    "BlockScope": "sch.get_child_blocks(loop)",
    "InstructionKind": "autosched.schedule.primitive.PRIMITIVES: the calls that a trace records, by name",
}
__getattr__ = missing("tir.schedule", globals(), _INSTEAD)

#: where TVM has them
schedule = trace = sys.modules[__name__]
sys.modules[f"{__name__}.schedule"] = sys.modules[f"{__name__}.trace"] = schedule
__all__ = ["BlockRV", "Instruction", "LoopRV", "Schedule", "ScheduleError", "Trace"]
