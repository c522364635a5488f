"""The default schedule: what a workload runs as when nobody has tuned it, and the plain loops that it is made of.

On CPUs (`space/cpu_default.py`) what is used once and costs little is computed where it is used, rows of results are
vectors, results of a reduction that would wait for one another are computed side by side, and the outermost loops are
for threads where there is enough to do. Nothing is added up in another order than in plain loops. On GPU-style targets
there is a work-item for each element.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Stage
from autosched.space.cpu_default import free_loops, in_threads_and_vectors, inline_what_is_used_once, walk_along_rows
from autosched.space.features.memory import Machine
from autosched.target import Target
from autosched.te.tensor import Tensor

#: Work-items in a work-group of the default schedule: a multiple of every device's preferred one.
WORK_GROUP = 64


def default_schedule(args: Sequence[Tensor], target: Target) -> Schedule:
    """The schedule without tuning: on a CPU threads, vectors and results side by side where that is safe and pays; on
    a GPU-style target, one work-item per element."""
    s = create_schedule(list(args))
    by_default(s, target)
    return s


def plain_schedule(args: Sequence[Tensor], target: Target) -> Schedule:
    """Every stage whole, one after the other, in loops along rows: what experiments compare with. On a GPU-style
    target, it is the default schedule."""
    s = create_schedule(list(args))
    if target.is_gpu_style:
        by_default(s, target)
        return s
    for stage in s.stages:
        if not s.scans.part(stage):
            walk_along_rows(stage)
    return s


def by_default(s: Schedule, target: Target) -> None:
    """Do to a new schedule what the default one is."""
    if not target.is_gpu_style:
        inline_what_is_used_once(s)
        for stage in s.stages:
            if stage.attach.kind == "root":
                in_threads_and_vectors(stage, Machine.of(target))
            elif stage.attach.kind == "at" and not s.scans.part(stage):
                walk_along_rows(stage)
        return
    for stage in s.stages:
        if s.scans.step_of(stage) and not s.scans.part(stage) and not stage.reduce_axis:
            stage.compute_inline()  # a step inside a kernel has no memory of a size known at run time only
        if not stage.is_placeholder and stage.attach.kind == "root":
            bind_free_loops(stage)


def bind_free_loops(stage: Stage) -> None:
    """A work-item for each element that is computed by itself; nothing, where there is none."""
    spatial = free_loops(stage)
    if not spatial:
        return
    group, item = stage.split(stage.fuse(*spatial), factor=WORK_GROUP)
    stage.bind(group, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    if stage.scan_loop is not None:
        stage.reorder(group, item, stage.scan_loop)
