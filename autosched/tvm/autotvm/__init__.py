"""`tvm.autotvm`: templates, configurations, tuners and logs, over this package's sketches and tuning loop.

entities.py    what one decision is: split, order, annotations, value
config.py      spaces of configurations, and their index
dispatcher.py  which configuration a template gets
task/          templates with arguments, and TVM's places for the names of the files above
tracing.py     a task as sketches, and records as configurations
measure.py     measuring options and results
tuner.py       names for strategies
history.py     logs as what a cost model begins with
callback.py    what happens after each measurement
record.py      logs
database.py    results by task and configuration
tophub.py      where TVM downloaded logs
env.py         what holds for all tuners
"""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.autotvm import callback, config, database, dispatcher, env, measure, record, task, tophub, tuner
from autosched.tvm.autotvm.config import ConfigEntity, ConfigSpace, FallbackConfigEntity
from autosched.tvm.autotvm.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    ApplyGraphBest,
    ApplyHistoryBest,
    DispatchContext,
    FallbackContext,
    get_config,
)
from autosched.tvm.autotvm.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from autosched.tvm.autotvm.env import GLOBAL_SCOPE
from autosched.tvm.autotvm.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)
from autosched.tvm.autotvm.task.task import register_topi_compute, register_topi_schedule, template

apply_history_best = ApplyHistoryBest
apply_graph_best = ApplyGraphBest
apply_fixed_config = ApplyFixedConfig

__all__ = [
    "GLOBAL_SCOPE",
    "AnnotateEntity",
    "ApplyConfig",
    "ApplyFixedConfig",
    "ApplyGraphBest",
    "ApplyHistoryBest",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackConfigEntity",
    "FallbackContext",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "OtherOptionEntity",
    "RPCRunner",
    "ReorderEntity",
    "SplitEntity",
    "apply_fixed_config",
    "apply_graph_best",
    "apply_history_best",
    "callback",
    "config",
    "database",
    "dispatcher",
    "env",
    "get_config",
    "measure",
    "measure_option",
    "record",
    "register_topi_compute",
    "register_topi_schedule",
    "task",
    "template",
    "tophub",
    "tuner",
]

_INSTEAD = {
    "graph_tuner": "graphs of operators are not read yet",
}
__getattr__ = missing("autotvm", globals(), _INSTEAD)
