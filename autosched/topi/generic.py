"""Schedules to begin with, for any operator: element-wise stages inlined, the rest as by default.

TVM has one for each operator; here all are one function, which looks at the operations. Tune to find a fast one.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.space.default import default_schedule
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.tensor import Tensor
from autosched.topi.arguments import checked

#: TVM's names
SCHEDULES = tuple(
    f"schedule_{name}"
    for name in (
        "injective elemwise broadcast reduce pool adaptive_pool softmax dense batch_matmul matmul extern "
        "conv1d_ncw conv1d_nwc conv2d_nchw conv2d_nhwc conv2d_hwcn conv2d_NCHWc conv3d_ncdhw conv3d_ndhwc "
        "conv2d_transpose_nchw conv1d_transpose_ncw depthwise_conv2d_nchw depthwise_conv2d_nhwc group_conv2d_nchw "
        "group_conv2d_nhwc lrn"
    ).split()
)
#: vector lanes of a simple CPU schedule
LANES = 16


@checked
def schedule(outs: Tensor | Sequence[Tensor], target: str | Target = "llvm") -> Schedule:
    """Schedule the computation of `outs` without storing element-wise stages.

    On CPUs, outer loops run in parallel and rows in vectors; on GPU-style targets, each element is a work-item's.
    """
    to = Target.parse(target)
    outputs = [outs] if isinstance(outs, Tensor) else list(outs)
    s = default_schedule(outputs, to)
    whole = {t.op for stage in s.stages if isinstance(stage.op, ExternOp) for t in stage.op.input_tensors}
    for stage in s.stages:
        is_injective = getattr(stage.op, "tag", "").split(",")[0] in ("elemwise", "broadcast", "injective")
        if is_injective and not stage.is_output and not stage.reduce_axis and stage.op not in whole:
            stage.compute_inline()
    if not to.is_gpu_style:
        for stage in s.stages:
            if stage.attach.kind == "root" and not stage.is_placeholder and not s.scans.part(stage):
                _parallel_rows(stage)
    return s


def _parallel_rows(stage: Stage) -> None:
    """The outermost spatial loop in parallel, and the innermost in vectors where it is innermost."""
    if stage.scatter_loops or stage.scan_loop is not None:
        return
    spatial = [loop for loop in stage.loops if not loop.is_reduce]
    if not spatial:
        return
    last = spatial[-1]
    if stage.loops[-1] is last:
        _, lane = stage.split(last, factor=LANES)
        stage.vectorize(lane)
    if len(spatial) > 1:
        stage.parallel(spatial[0])


@checked
def default(outs: Tensor | Sequence[Tensor], auto_inline: bool = True) -> Schedule:
    """Do as `schedule`: TVM's `default_schedule`."""
    return schedule(outs)


for _name in SCHEDULES:
    globals()[_name] = schedule
