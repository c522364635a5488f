"""TVM's names of schedules for GPU-style targets: see `autosched.topi.generic`."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.schedule import Schedule
from autosched.te.tensor import Tensor
from autosched.topi import generic
from autosched.topi.arguments import checked


@checked
def schedule(outs: Tensor | Sequence[Tensor]) -> Schedule:
    """Schedule with a work-item for each element that is not element-wise."""
    return generic.schedule(outs, "opencl")


for _name in generic.SCHEDULES:
    globals()[_name] = schedule
