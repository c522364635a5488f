"""`tvm.target`: what code is generated for."""

from __future__ import annotations

from autosched.target import Target
from autosched.tvm._missing import missing

__all__ = ["Target", "create"]

create = Target

_INSTEAD = dict.fromkeys(
    ("arm_cpu", "cuda", "intel_graphics", "mali", "rasp", "datatype", "list_tags"),
    'tvm.target.Target("llvm -mcpu=...")',
)
__getattr__ = missing("target", globals(), _INSTEAD)
