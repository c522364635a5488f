"""`tvm.auto_scheduler`: tasks without templates, and Ansor's logs, over this package's space and tuning loop.

workload_registry.py  functions that make workloads, and their keys
utils.py              keys of workloads, compared
compute_dag.py        a computation, in the order of Ansor's stage numbers
transform_step.py     the steps of Ansor's records, replayed on a schedule
loop_state.py         states: steps, or traces of ours; editing them
layout.py             inputs of free layout
measure.py            measuring options and results, limits of a device
measure_record.py     logs
search_task.py        tasks, tuned and built
task_scheduler.py     several tasks
search_policy.py      search policies
sketch_rules.py       rules of Ansor's
evolution.py          states by chance and by descent
iterators.py          loops and stages as Ansor shows them
task_inputs.py        arrays to measure tasks on
cost_model.py         models
feature.py            what Ansor's models see of programs
dispatcher.py         contexts that choose a state
"""

from __future__ import annotations

from autosched.tvm._missing import also_at, missing
from autosched.tvm.auto_scheduler import (
    _ffi_api,
    compute_dag,
    cost_model,
    dispatcher,
    feature,
    loop_state,
    measure,
    measure_record,
    search_policy,
    search_task,
    task_scheduler,
    utils,
    workload_registry,
)
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG as ComputeDAG
from autosched.tvm.auto_scheduler.compute_dag import LayoutRewriteOption as LayoutRewriteOption
from autosched.tvm.auto_scheduler.cost_model import PythonBasedModel as PythonBasedModel
from autosched.tvm.auto_scheduler.cost_model import RandomModel as RandomModel
from autosched.tvm.auto_scheduler.cost_model import XGBModel as XGBModel
from autosched.tvm.auto_scheduler.dispatcher import ApplyHistoryBest as ApplyHistoryBest
from autosched.tvm.auto_scheduler.dispatcher import DispatchContext as DispatchContext
from autosched.tvm.auto_scheduler.measure import LocalBuilder as LocalBuilder
from autosched.tvm.auto_scheduler.measure import LocalRPCMeasureContext as LocalRPCMeasureContext
from autosched.tvm.auto_scheduler.measure import LocalRunner as LocalRunner
from autosched.tvm.auto_scheduler.measure import MeasureInput as MeasureInput
from autosched.tvm.auto_scheduler.measure import MeasureResult as MeasureResult
from autosched.tvm.auto_scheduler.measure import ProgramMeasurer as ProgramMeasurer
from autosched.tvm.auto_scheduler.measure import RPCRunner as RPCRunner
from autosched.tvm.auto_scheduler.measure import (
    register_task_input_check_func as register_task_input_check_func,
)
from autosched.tvm.auto_scheduler.measure_record import RecordReader as RecordReader
from autosched.tvm.auto_scheduler.measure_record import RecordToFile as RecordToFile
from autosched.tvm.auto_scheduler.measure_record import load_best_record as load_best_record
from autosched.tvm.auto_scheduler.measure_record import load_records as load_records
from autosched.tvm.auto_scheduler.measure_record import save_records as save_records
from autosched.tvm.auto_scheduler.search_policy import EmptyPolicy as EmptyPolicy
from autosched.tvm.auto_scheduler.search_policy import PreloadCustomSketchRule as PreloadCustomSketchRule
from autosched.tvm.auto_scheduler.search_policy import PreloadMeasuredStates as PreloadMeasuredStates
from autosched.tvm.auto_scheduler.search_policy import SketchPolicy as SketchPolicy
from autosched.tvm.auto_scheduler.search_task import HardwareParams as HardwareParams
from autosched.tvm.auto_scheduler.search_task import SearchTask as SearchTask
from autosched.tvm.auto_scheduler.search_task import TuningOptions as TuningOptions
from autosched.tvm.auto_scheduler.search_task import auto_schedule as auto_schedule
from autosched.tvm.auto_scheduler.search_task import create_task as create_task
from autosched.tvm.auto_scheduler.task_scheduler import TaskScheduler as TaskScheduler
from autosched.tvm.auto_scheduler.workload_registry import make_workload_key as make_workload_key
from autosched.tvm.auto_scheduler.workload_registry import register_workload as register_workload

load_best = load_best_record
also_at(
    {
        "auto_scheduler.cost_model.cost_model": "auto_scheduler.cost_model",
        "auto_scheduler.cost_model.xgb_model": "auto_scheduler.cost_model",
    }
)

_NO_GRAPHS = "graphs of operators are not read yet"
_INSTEAD = {
    "relay_integration": _NO_GRAPHS,
    "extract_tasks": f"{_NO_GRAPHS}: SearchTask(func, args) for each operator",
    "rewrite_compute_body": _NO_GRAPHS,
    "rewrite_tensor_shape": _NO_GRAPHS,
    "remove_index_check": _NO_GRAPHS,
    "is_auto_scheduler_enabled": _NO_GRAPHS,
    "get_shape_from_rewritten_layout": "layouts are rewritten by stages of the schedule: LayoutRewriteOption",
    "ApplyHistoryBestOrSample": "auto_scheduler.ApplyHistoryBest, and SearchTask.tune with 0 trials",
    "DynamicGradientSearchTuner": "autosched.tune(.., strategy=..): see docs/search.md",
}
__getattr__ = missing(
    "auto_scheduler",
    globals(),
    {
        **_INSTEAD,
        **dict.fromkeys(
            (
                "BuildFunc",
                "local_build_worker",
                "local_builder_build",
                "prepare_runner_args",
                "local_run",
                "rpc_runner_run",
            ),
            "LocalBuilder().build(inputs) and LocalRunner().run(inputs, built)",
        ),
        "main": "auto_scheduler.measure_record.distill_record_file(in_file, out_file)",
        "make_search_policies": "a SketchPolicy for each task: TaskScheduler(tasks).tune(options, policies)",
        "derive_similarity_tag": "nothing: TaskScheduler learns from what tasks gain, not from how alike they are",
    },
)
