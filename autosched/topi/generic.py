"""Schedules to begin with, for any operator: element-wise stages inlined, the rest as by default.

TVM has one for each operator; here all are one function, which looks at the operations. Tune to find a fast one.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.schedule import Schedule, create_schedule
from autosched.space.default import by_default
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


@checked
def schedule(outs: Tensor | Sequence[Tensor], target: str | Target = "llvm") -> Schedule:
    """Schedule the computation of `outs` without storing element-wise stages.

    The rest is the default schedule: on CPUs rows in vectors, and threads where there is enough to do; on GPU-style
    targets, a work-item for each element.
    """
    to = Target.parse(target)
    outputs = [outs] if isinstance(outs, Tensor) else list(outs)
    s = create_schedule(outputs)
    whole = {t.op for stage in s.stages if isinstance(stage.op, ExternOp) for t in stage.op.input_tensors}
    for stage in s.stages:
        is_injective = getattr(stage.op, "tag", "").split(",")[0] in ("elemwise", "broadcast", "injective")
        if is_injective and not stage.is_output and not stage.reduce_axis and stage.op not in whole:
            stage.compute_inline()
    by_default(s, to)
    return s


@checked
def default(outs: Tensor | Sequence[Tensor], auto_inline: bool = True) -> Schedule:
    """Do as `schedule`: TVM's `default_schedule`."""
    return schedule(outs)


for _name in SCHEDULES:
    globals()[_name] = schedule
