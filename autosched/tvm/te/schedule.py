"""`tvm.te.schedule`: schedules, and what TVM's passes over them are called."""

from __future__ import annotations

from autosched.schedule.auto_inline import auto_inline_broadcast as AutoInlineBroadcast
from autosched.schedule.auto_inline import auto_inline_elem_wise as AutoInlineElemWise
from autosched.schedule.auto_inline import auto_inline_injective as AutoInlineInjective
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Stage
from autosched.tvm._missing import missing

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Schedule",
    "Stage",
    "create_schedule",
]

_LOWERING = "tvm.lower(s, args) does it, and prints; autosched.lower(s, args).structure has the result"
_INSTEAD = {
    **dict.fromkeys(("InferBound", "ScheduleOps", "SchedulePostProcToPrimFunc", "VerifyCompactBuffer"), _LOWERING),
    "CreateReadGraph": "s.reads(stage) and s.consumers(stage)",
    "CreateAttachPath": "stage.surroundings()",
    "PostDFSOrder": "te.Graph.of(tensors).ops: producers before consumers",
    "ScanGetBody": "s.stages of a scan are those attached inside its loop",
    "ScanFixPointAnalysis": "scan.op.is_uniform",
}
__getattr__ = missing("te.schedule", globals(), _INSTEAD)
