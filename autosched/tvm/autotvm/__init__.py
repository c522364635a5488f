"""`tvm.autotvm`: templates, configurations, tuners and logs, over this package's sketches and tuning loop.

task/          configurations and their space, contexts that choose one, templates, tasks
tracing.py     a task as sketches, and records as configurations
measure.py     measuring options and results
tuner.py       names for strategies; tuners of a program's own
history.py     logs as first data of a cost model
cost_model.py  a model that programs train themselves
feature.py     what AutoTVM's models see of loops
executor.py    base classes of what runs functions elsewhere
metric.py      curves that judge models
utils.py       small functions
callback.py    functions that are called after each measurement
record.py      logs
database.py    results by task and configuration
tophub.py      where TVM downloaded logs
env.py         settings of all tuners
"""

from __future__ import annotations

from autosched.tvm._missing import MODULES, also_at, missing
from autosched.tvm.autotvm import callback, database, env, feature, measure, record, task, tophub, tuner, utils
from autosched.tvm.autotvm.env import GLOBAL_SCOPE as GLOBAL_SCOPE
from autosched.tvm.autotvm.measure import Builder as Builder
from autosched.tvm.autotvm.measure import LocalBuilder as LocalBuilder
from autosched.tvm.autotvm.measure import LocalRunner as LocalRunner
from autosched.tvm.autotvm.measure import MeasureErrorNo as MeasureErrorNo
from autosched.tvm.autotvm.measure import MeasureInput as MeasureInput
from autosched.tvm.autotvm.measure import MeasureResult as MeasureResult
from autosched.tvm.autotvm.measure import RPCRunner as RPCRunner
from autosched.tvm.autotvm.measure import Runner as Runner
from autosched.tvm.autotvm.measure import measure_option as measure_option
from autosched.tvm.autotvm.task import create as create
from autosched.tvm.autotvm.task import register_topi_compute as register_topi_compute
from autosched.tvm.autotvm.task import register_topi_schedule as register_topi_schedule
from autosched.tvm.autotvm.task import template as template
from autosched.tvm.autotvm.task.dispatcher import ApplyConfig as ApplyConfig
from autosched.tvm.autotvm.task.dispatcher import ApplyFixedConfig as ApplyFixedConfig
from autosched.tvm.autotvm.task.dispatcher import ApplyGraphBest as ApplyGraphBest
from autosched.tvm.autotvm.task.dispatcher import ApplyHistoryBest as ApplyHistoryBest
from autosched.tvm.autotvm.task.dispatcher import DispatchContext as DispatchContext
from autosched.tvm.autotvm.task.dispatcher import FallbackContext as FallbackContext
from autosched.tvm.autotvm.task.dispatcher import get_config as get_config
from autosched.tvm.autotvm.task.space import AnnotateEntity as AnnotateEntity
from autosched.tvm.autotvm.task.space import ConfigEntity as ConfigEntity
from autosched.tvm.autotvm.task.space import ConfigSpace as ConfigSpace
from autosched.tvm.autotvm.task.space import FallbackConfigEntity as FallbackConfigEntity
from autosched.tvm.autotvm.task.space import OtherOptionEntity as OtherOptionEntity
from autosched.tvm.autotvm.task.space import ReorderEntity as ReorderEntity
from autosched.tvm.autotvm.task.space import SplitEntity as SplitEntity

apply_history_best = ApplyHistoryBest
apply_graph_best = ApplyGraphBest
apply_fixed_config = ApplyFixedConfig

also_at(
    {
        **dict.fromkeys(("autotvm.measure.measure", "autotvm.measure.measure_methods"), "autotvm.measure"),
        **dict.fromkeys(
            (
                "autotvm.tuner.tuner",
                "autotvm.tuner.index_based_tuner",
                "autotvm.tuner.ga_tuner",
                "autotvm.tuner.droplet_tuner",
                "autotvm.tuner.xgboost_tuner",
                "autotvm.tuner.model_based_tuner",
                "autotvm.tuner.sa_model_optimizer",
            ),
            "autotvm.tuner",
        ),
        "autotvm.measure.executor": "autotvm.executor",
        "autotvm.tuner.xgboost_cost_model": "autotvm.cost_model",
        "autotvm.tuner.callback": "autotvm.callback",
        "autotvm.tuner.metric": "autotvm.metric",
    }
)

__getattr__ = missing(
    "autotvm",
    globals(),
    {
        "graph_tuner": MODULES["autotvm.graph_tuner"],
        **dict.fromkeys(
            ("SplitSpace", "ReorderSpace", "AnnotateSpace", "OtherOptionSpace"),
            "cfg.define_split, define_reorder, define_annotate and define_knob; cfg.space_map[name] has the candidates",
        ),
        **dict.fromkeys(
            ("check_backend", "download_package", "load_reference_log"), "logs of one's own: ApplyHistoryBest"
        ),
        **dict.fromkeys(
            ("InstantiationError", "FlopCalculationError", "MissingTask"), "tvm.TVMError, the base of all errors"
        ),
        "TaskExtractEnv": MODULES["autotvm.task.relay_integration"],
        "reset_global_scope": "attributes of autotvm.GLOBAL_SCOPE",
        **dict.fromkeys(
            (
                "XGBoostCallback",
                "CustomCallback",
                "xgb_null_score",
                "xgb_max_curve_score",
                "xgb_recalln_curve_score",
                "xgb_average_recalln_curve_score",
                "xgb_recallk_curve_score",
                "xgb_cover_curve_score",
            ),
            "nothing: the model watches its own training; autotvm.tuner.metric has the curves",
        ),
    },
)
