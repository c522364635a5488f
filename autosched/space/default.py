"""The default schedule: what a workload runs as when nobody has tuned it."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te.tensor import Tensor

__all__ = ["default_schedule"]

#: Work-items in a work-group of the default schedule: a multiple of every device's preferred one.
WORK_GROUP = 64


def default_schedule(args: Sequence[Tensor], target: Target) -> Schedule:
    """Every stage whole, one after the other. On a GPU-style target, one work-item per element."""
    s = create_schedule(list(args))
    if not target.is_gpu_style:
        return s
    for stage in s.stages:
        spatial = [loop for loop in stage.loops if not loop.is_reduce]
        if stage.is_placeholder or not spatial:
            continue
        fused = stage.fuse(*spatial)
        group, item = stage.split(fused, factor=WORK_GROUP)
        stage.bind(group, "blockIdx.x")
        stage.bind(item, "threadIdx.x")
    return s
