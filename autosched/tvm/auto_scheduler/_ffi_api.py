"""`tvm.auto_scheduler._ffi_api`: what programs ask Ansor's C++ part about states and tasks.

A stage is one of `State.stages`; a state and a number name one, too.
"""

from __future__ import annotations

import json
from typing import Any

from autosched.errors import RecordError, UsageError
from autosched.ir.visit import post_order
from autosched.te.tensor import Tensor
from autosched.tvm._missing import missing
from autosched.tvm.auto_scheduler.iterators import SPATIAL, Stage
from autosched.tvm.auto_scheduler.loop_state import State
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


class Consumers(dict[int, list[Tensor]]):
    """Number of a stage -> what it reads; `items()` is a list, as of TVM's maps."""

    def items(self) -> Any:
        return list(super().items())


def SearchPolicyUtilsGetConsumers(task: Any, state: Any, stage_id: int) -> Consumers:
    """Return the stages that read a stage, by number; where one is inlined, those that read that."""
    r = State(state, task.compute_dag).replayed
    found = Consumers()
    waiting = [r.stages[stage_id]]
    while waiting:
        read = waiting.pop()
        for stage in r.s.consumers(read):
            if stage.attach.kind == "inline":
                waiting.append(stage)
            else:
                found.setdefault(r.stages.index(stage), []).extend(read.op.outputs)
    return found


def SearchPolicyUtilsIsElementwiseMatch(task: Any, state: Any, stage_id: int, target_stage_id: int) -> bool:
    """Return whether each element of the target is computed of the same element of a stage, perhaps through others."""
    r = State(state, task.compute_dag).replayed
    stage, target = r.stages[stage_id], r.stages[target_stage_id]
    shape = [repr(n) for n in stage.op.outputs[0].shape]
    while stage is not target:
        readers = r.s.consumers(stage)
        if len(readers) != 1:
            return False
        (reader,) = readers
        axes, outputs = tuple(a.var for a in reader.axis), set(stage.op.outputs)
        reads = [e.args for e in post_order(reader.body) if e.op == "read" and e.value in outputs]
        same = [repr(n) for n in reader.op.outputs[0].shape] == shape
        if not same or reader.reduce_axis or any(at != axes for at in reads):
            return False
        stage = reader
    return True


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
