"""Templates and tasks, and the modules in which programs for TVM look for their parts."""

from autosched.tvm.autotvm.dispatcher import get_config
from autosched.tvm.autotvm.task import dispatcher, space, topi_integration
from autosched.tvm.autotvm.task.task import (
    TASK_TABLE,
    Task,
    args_to_workload,
    compute_flop,
    create,
    deserialize_args,
    get_workload,
    register_topi_compute,
    register_topi_schedule,
    serialize_args,
    template,
)

__all__ = [
    "TASK_TABLE",
    "Task",
    "args_to_workload",
    "compute_flop",
    "create",
    "deserialize_args",
    "dispatcher",
    "get_config",
    "get_workload",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
    "space",
    "template",
    "topi_integration",
]
