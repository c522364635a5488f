"""`tvm.autotvm`: templates, configurations, tuners and logs, over this package's sketches and tuning loop.

entities.py    what one decision is: split, order, annotations, value
config.py      spaces of configurations, and their index
dispatcher.py  which configuration a template gets
task.py        templates with arguments
tracing.py     a task as sketches, and records as configurations
measure.py     measuring options and results
tuner.py       names for strategies
callback.py    what happens after each measurement
record.py      logs
"""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.autotvm import callback, config, dispatcher, measure, record, task, tuner
from autosched.tvm.autotvm.config import ConfigEntity, ConfigSpace, FallbackConfigEntity
from autosched.tvm.autotvm.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    ApplyHistoryBest,
    DispatchContext,
    FallbackContext,
    get_config,
)
from autosched.tvm.autotvm.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from autosched.tvm.autotvm.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)
from autosched.tvm.autotvm.task import register_topi_compute, register_topi_schedule, template

apply_history_best = ApplyHistoryBest

__all__ = [
    "AnnotateEntity",
    "ApplyConfig",
    "ApplyFixedConfig",
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
    "apply_history_best",
    "callback",
    "config",
    "dispatcher",
    "get_config",
    "measure",
    "measure_option",
    "record",
    "register_topi_compute",
    "register_topi_schedule",
    "task",
    "template",
    "tuner",
]

_INSTEAD = {
    "graph_tuner": "graphs of operators are not read yet",
    "database": "autotvm.callback.log_to_file, and `autosched records` for what is recorded",
    "tophub": "there are no records to download: tune",
    "env": "logging.getLogger('autotvm') says how much is told",
    "GLOBAL_SCOPE": "logging.getLogger('autotvm').setLevel(logging.ERROR)",
    "ApplyGraphBest": "autotvm.ApplyHistoryBest",
}
__getattr__ = missing("autotvm", globals(), _INSTEAD)
