"""`tvm.tir.analysis`: questions about expressions and lowered functions."""

from __future__ import annotations

from autosched.lower.analysis import expr_deep_equal, undefined_vars, verify_gpu_code
from autosched.tvm._missing import missing

__all__ = ["expr_deep_equal", "undefined_vars", "verify_gpu_code"]

_CHECKED = "tvm.lower and tvm.build check it, and raise what is wrong"
_INSTEAD = {
    **dict.fromkeys(("verify_memory", "verify_ssa", "verify_well_formed"), _CHECKED),
    "calculate_workspace_bytes": "f.body: the buffers of tir.Allocate",
    "get_block_access_region": "te.schedule.InferBound(s)",
}
__getattr__ = missing("tir.analysis", globals(), _INSTEAD)
