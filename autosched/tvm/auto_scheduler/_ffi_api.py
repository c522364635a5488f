"""`tvm.auto_scheduler._ffi_api`: what programs ask Ansor's C++ part about states and tasks.

A stage is one of `State.stages`; a state and a number name one, too.
"""

from __future__ import annotations

import json
from typing import Any

from autosched.errors import RecordError, UsageError
from autosched.tvm._missing import missing
from autosched.tvm.auto_scheduler.iterators import SPATIAL, Stage
from autosched.tvm.auto_scheduler.measure import MeasureInput, recover_measure_input
from autosched.tvm.auto_scheduler.measure_record import read_task, task_fields
from autosched.tvm.auto_scheduler.transform_step import ANNOTATIONS


def SearchPolicyUtilsIsTiled(stage: Stage) -> bool:
    """Return whether loops of the stage were split."""
    return any("." in x.name for x in stage.iters)


def SearchPolicyUtilsHasCacheWriteStage(state: Any, stage_id: int) -> bool:
    """Return whether another stage copies what this one computes."""
    return _made(state, "CHW", "cache_write", stage_id)


def SearchPolicyUtilsHasCacheReadStage(state: Any, stage_id: int) -> bool:
    """Return whether stages read a copy of this one."""
    return _made(state, "CHR", "cache_read", stage_id)


def SearchPolicyUtilsHasRfactorStage(state: Any, stage_id: int) -> bool:
    """Return whether the stage's reduction was taken apart."""
    return _made(state, "RF", "rfactor", stage_id)


def SearchPolicyUtilsHasCrossThreadReduction(state: Any, stage_id: int) -> bool:
    """Return whether threads share the work of a reduction of the stage."""
    threads = [ANNOTATIONS.index(f"threadIdx.{axis}") for axis in "xyz"]
    return any(x.annotation in threads and x.iter_kind != SPATIAL for x in state.stages[stage_id].iters)


def _made(state: Any, tag: str, primitive: str, stage_id: int) -> bool:
    if any(step.tag == tag and step.fields[0] == stage_id for step in state.transform_steps):
        return True
    base = state.state_object.base
    name = state.stages[stage_id].op.name.partition(".")[0]
    trace = [] if base is None else json.loads(base.trace)
    return any(i[0] == primitive and str(i[1]).partition(".")[0] == name for i in trace)


def StateEqual(one: Any, other: Any) -> bool:
    """Return whether two states are the same program."""
    return bool(one == other)


def PrintTitle(title: str) -> None:
    """Print a heading."""
    print(f"{'-' * 70}\n{title:-^70}\n{'-' * 70}")


def SerializeSearchTask(task: Any) -> str:
    """Return a task as text, as Ansor's lines have it. Raises UsageError for what is none."""
    if not hasattr(task, "workload_key"):
        raise UsageError(f"{task!r:.60} is no task", asked="SerializeSearchTask", legal="a SearchTask")
    return json.dumps(task_fields(task))


def DeserializeSearchTask(text: str) -> Any:
    """Return the task of a text. Raises RecordError for any other, WorkloadError where it is not registered."""
    try:
        read = read_task(json.loads(text))
    except (TypeError, ValueError) as error:
        raise RecordError(
            f"it is no task: {error}", asked=f"{text[:60]!r}", legal="SerializeSearchTask(task)"
        ) from None
    return recover_measure_input(MeasureInput(read, None)).task


__getattr__ = missing(
    "auto_scheduler._ffi_api", globals(), {"": "the functions of tvm.auto_scheduler, of which these are the inside"}
)
