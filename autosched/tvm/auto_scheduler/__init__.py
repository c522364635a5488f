"""`tvm.auto_scheduler`: tasks without templates, and Ansor's logs, over this package's space and tuning loop.

workload_registry.py  functions that make workloads, and their keys
compute_dag.py        a computation, in the order that Ansor numbers its stages in
transform_step.py     the steps of Ansor's records, done to a schedule
loop_state.py         states: steps, or traces of ours; editing them
measure.py            measuring options and results
measure_record.py     logs
search_task.py        tasks
search_policy.py      how to search
sketch_rule.py        rules of Ansor's, asked before those of the generator
cost_model.py         names of models
tuning.py             where tasks meet the tuning loop
task_scheduler.py     several tasks
dispatcher.py         which state a workload gets
utils.py              keys of workloads
"""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.auto_scheduler import (
    compute_dag,
    cost_model,
    dispatcher,
    loop_state,
    measure,
    measure_record,
    search_policy,
    search_task,
    task_scheduler,
    utils,
    workload_registry,
)
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from autosched.tvm.auto_scheduler.cost_model import RandomModel, XGBModel
from autosched.tvm.auto_scheduler.dispatcher import ApplyHistoryBest, DispatchContext
from autosched.tvm.auto_scheduler.measure import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    MeasureInput,
    MeasureResult,
    RPCRunner,
)
from autosched.tvm.auto_scheduler.measure_record import (
    RecordReader,
    RecordToFile,
    load_best_record,
    load_records,
    save_records,
)
from autosched.tvm.auto_scheduler.search_policy import (
    EmptyPolicy,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SketchPolicy,
)
from autosched.tvm.auto_scheduler.search_task import (
    HardwareParams,
    SearchTask,
    TuningOptions,
    auto_schedule,
    create_task,
)
from autosched.tvm.auto_scheduler.task_scheduler import TaskScheduler
from autosched.tvm.auto_scheduler.workload_registry import make_workload_key, register_workload

load_best = load_best_record

__all__ = [
    "ApplyHistoryBest",
    "ComputeDAG",
    "DispatchContext",
    "EmptyPolicy",
    "HardwareParams",
    "LayoutRewriteOption",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "MeasureInput",
    "MeasureResult",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "RPCRunner",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "SketchPolicy",
    "TaskScheduler",
    "TuningOptions",
    "XGBModel",
    "auto_schedule",
    "compute_dag",
    "cost_model",
    "create_task",
    "dispatcher",
    "load_best",
    "load_best_record",
    "load_records",
    "loop_state",
    "make_workload_key",
    "measure",
    "measure_record",
    "register_workload",
    "save_records",
    "search_policy",
    "search_task",
    "task_scheduler",
    "utils",
    "workload_registry",
]

_INSTEAD = {
    "feature": "autosched.space.features: what cost models see of a candidate",
    "relay_integration": "graphs of operators are not read yet",
    "extract_tasks": "graphs of operators are not read yet: SearchTask(func, args) for each operator",
    "rewrite_compute_body": "graphs of operators are not read yet",
    "rewrite_tensor_shape": "graphs of operators are not read yet",
    "remove_index_check": "graphs of operators are not read yet",
    "is_auto_scheduler_enabled": "graphs of operators are not read yet",
    "get_shape_from_rewritten_layout": "layouts are rewritten by stages of the schedule: LayoutRewriteOption",
    "register_task_input_check_func": "SearchTask(.., task_inputs={name of a tensor: array})",
    "ApplyHistoryBestOrSample": "auto_scheduler.ApplyHistoryBest, and SearchTask.tune with 0 trials",
    "DynamicGradientSearchTuner": "autosched.tune(.., strategy=..): see docs/search.md",
}
__getattr__ = missing("auto_scheduler", globals(), _INSTEAD)
