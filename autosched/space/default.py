"""The default schedule: what a workload runs as when nobody has tuned it."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import variables
from autosched.ir.visit import post_order
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Loop, Stage
from autosched.target import Target
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar, Tensor

#: Work-items in a work-group of the default schedule: a multiple of every device's preferred one.
WORK_GROUP = 64


def default_schedule(args: Sequence[Tensor], target: Target) -> Schedule:
    """Every stage whole, one after the other, walking along rows. On a GPU-style target, one work-item
    per element."""
    s = create_schedule(list(args))
    by_default(s, target)
    return s


def by_default(s: Schedule, target: Target) -> None:
    """Do to a schedule what the default one is."""
    if not target.is_gpu_style:
        for stage in s.stages:
            if not s.scans.part(stage):
                _walk_along_rows(stage)
        return
    for stage in s.stages:
        if s.scans.step_of(stage) and not s.scans.part(stage) and not stage.reduce_axis:
            stage.compute_inline()  # a step inside a kernel has no memory of a size known at run time only
        if not stage.is_placeholder and stage.attach.kind == "root":
            bind_free_loops(stage)


def bind_free_loops(stage: Stage) -> None:
    """A work-item for each element that is computed by itself; nothing, where there is none."""
    spatial = _free_loops(stage)
    if not spatial:
        return
    group, item = stage.split(stage.fuse(*spatial), factor=WORK_GROUP)
    stage.bind(group, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    if stage.scan_loop is not None:
        stage.reorder(group, item, stage.scan_loop)


def _free_loops(stage: Stage) -> list[Loop]:
    """The loops whose iterations are independent: of a scan, those along which no step looks aside; of a
    scatter, those over its leading axes."""
    if isinstance(stage.op, ScanOp):
        axes = zip(stage.op.spatial_axes[0], stage.op.independent, strict=False)
        return [stage.roots[a] for a, is_free in axes if is_free]
    return [loop for loop in stage.loops if not loop.is_reduce and loop not in stage.scatter_loops]


def _walk_along_rows(stage: Stage) -> None:
    """Let the innermost spatial loop run inside the reduce loops, if that strides through fewer
    tensors: for a matrix product, along the rows of `b` rather than down its columns."""
    spatial = _free_loops(stage)
    reduce = [loop for loop in stage.loops if loop.is_reduce]
    if not spatial or not reduce or stage.scatter_loops:
        return
    reads = [e for e in post_order(stage.body) if e.op == "read"]

    def strided(axis: IterVar) -> int:
        return sum(any(axis.var in variables(i) for i in e.args[:-1]) for e in reads)

    if strided(stage.axis[-1]) <= strided(stage.reduce_axis[-1]):
        stage.reorder(*reduce, spatial[-1])
