"""`tvm.autotvm.task`: templates, their tasks, and the configurations that they get."""

from autosched.tvm._missing import missing
from autosched.tvm.autotvm.task import dispatcher, space, topi_integration
from autosched.tvm.autotvm.task.dispatcher import ApplyConfig as ApplyConfig
from autosched.tvm.autotvm.task.dispatcher import ApplyFixedConfig as ApplyFixedConfig
from autosched.tvm.autotvm.task.dispatcher import ApplyGraphBest as ApplyGraphBest
from autosched.tvm.autotvm.task.dispatcher import ApplyHistoryBest as ApplyHistoryBest
from autosched.tvm.autotvm.task.dispatcher import DispatchContext as DispatchContext
from autosched.tvm.autotvm.task.dispatcher import FallbackContext as FallbackContext
from autosched.tvm.autotvm.task.dispatcher import clear_fallback_cache as clear_fallback_cache
from autosched.tvm.autotvm.task.dispatcher import get_config as get_config
from autosched.tvm.autotvm.task.space import ConfigEntity as ConfigEntity
from autosched.tvm.autotvm.task.space import ConfigSpace as ConfigSpace
from autosched.tvm.autotvm.task.task import TASK_TABLE as TASK_TABLE
from autosched.tvm.autotvm.task.task import Task as Task
from autosched.tvm.autotvm.task.task import args_to_workload as args_to_workload
from autosched.tvm.autotvm.task.task import compute_flop as compute_flop
from autosched.tvm.autotvm.task.task import create as create
from autosched.tvm.autotvm.task.task import deserialize_args as deserialize_args
from autosched.tvm.autotvm.task.task import serialize_args as serialize_args
from autosched.tvm.autotvm.task.task import template as template
from autosched.tvm.autotvm.task.topi_integration import get_workload as get_workload
from autosched.tvm.autotvm.task.topi_integration import register_topi_compute as register_topi_compute
from autosched.tvm.autotvm.task.topi_integration import register_topi_schedule as register_topi_schedule

_GRAPHS = "tvm.relay.frontend.from_onnx, and autosched tune MODEL.onnx for all its kernels"
__getattr__ = missing(
    "autotvm.task",
    globals(),
    {
        **dict.fromkeys(("extract_from_program", "extract_from_multiple_program", "TaskExtractEnv"), _GRAPHS),
        **dict.fromkeys(
            ("attach_code_hash", "attach_code_hash_to_arg"),
            "nothing: a log's configurations are looked up by what they decide, not by a hash of the template",
        ),
    },
)
