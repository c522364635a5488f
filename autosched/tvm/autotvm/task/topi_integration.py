"""`tvm.autotvm.task.topi_integration`: the two halves of a task, where programs of TVM's look for them."""

from __future__ import annotations

from autosched.tvm.autotvm.task.task import get_workload, register_topi_compute, register_topi_schedule

__all__ = ["get_workload", "register_topi_compute", "register_topi_schedule"]
