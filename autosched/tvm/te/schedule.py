"""`tvm.te.schedule`: schedules, and what TVM's passes over them are called."""

from __future__ import annotations

from typing import Any

from autosched.ir.stmt import Buffer, Stmt
from autosched.lower.facts import attach_paths as CreateAttachPath
from autosched.lower.facts import inferred_ranges as InferBound
from autosched.lower.facts import post_dfs_order as PostDFSOrder
from autosched.lower.facts import read_graph as CreateReadGraph
from autosched.lower.facts import scan_body as ScanGetBody
from autosched.lower.facts import scan_fixed_axes as ScanFixPointAnalysis
from autosched.schedule.auto_inline import auto_inline_broadcast as AutoInlineBroadcast
from autosched.schedule.auto_inline import auto_inline_elem_wise as AutoInlineElemWise
from autosched.schedule.auto_inline import auto_inline_injective as AutoInlineInjective
from autosched.schedule.facts import AttachType
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Fuse, Split, Stage
from autosched.tvm._missing import missing
from autosched.tvm.driver import lower
from autosched.tvm.tir.nodes import IterVar

__all__ = [
    "AttachType",
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Buffer",
    "CreateAttachPath",
    "CreateReadGraph",
    "Fuse",
    "InferBound",
    "IterVar",
    "PostDFSOrder",
    "ScanFixPointAnalysis",
    "ScanGetBody",
    "Schedule",
    "ScheduleOps",
    "Split",
    "Stage",
    "create_schedule",
]


def ScheduleOps(s: Schedule, bounds: Any = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loops of a schedule over the tensors it needs and computes; bounds are inferred anew."""
    body: Stmt = lower(s, s.arguments, simple_mode=True)["main"].body
    return body


_INSTEAD = {
    **dict.fromkeys(
        ("SchedulePostProcToPrimFunc", "VerifyCompactBuffer", "schedule_to_primfunc"),
        'tvm.lower(s, args, simple_mode=True)["main"] is the function',
    ),
    "Singleton": "s[B].fuse() gives a tensor without dimensions a loop",
    "SpecializedCondition": "s[B].specialize(condition)",
}
__getattr__ = missing("te.schedule", globals(), _INSTEAD)
