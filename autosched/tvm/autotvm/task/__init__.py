"""`tvm.autotvm.task`: templates, their tasks, and the configurations that they get."""

from autosched.tvm.autotvm.task import dispatcher, space, topi_integration
from autosched.tvm.autotvm.task.dispatcher import get_config as get_config
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
