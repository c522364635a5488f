"""`tvm.topi`: operators on whole tensors, and schedules to begin with."""

from __future__ import annotations

from autosched.topi import *  # noqa: F403
from autosched.topi import cuda, generic, nn, x86
from autosched.tvm._missing import missing

__all__ = ["cuda", "generic", "nn", "x86"]

_INSTEAD = dict.fromkeys(
    ("arm_cpu", "mali", "intel_graphics", "bifrost", "hexagon"), "topi.generic, topi.x86 and topi.cuda have schedules"
)
__getattr__ = missing("topi", globals(), _INSTEAD)
