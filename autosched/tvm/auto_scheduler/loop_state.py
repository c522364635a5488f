"""States: programs of a search. Of Ansor's records, steps; of ours, a trace with values of its knobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.errors import RecordError, ScheduleError
from autosched.records import Record
from autosched.schedule.schedule import Schedule, replay
from autosched.schedule.trace import Trace
from autosched.tvm.auto_scheduler.layout import insert_transforms
from autosched.tvm.auto_scheduler.transform_step import Replay, Step

if TYPE_CHECKING:
    from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG

__all__ = ["State", "TraceState"]


@dataclass(frozen=True)
class State:
    """Ansor's: the steps that lead to a program."""

    transform_steps: tuple[Step, ...] = ()
    exact: bool = True  #: False: it is of a compatible workload, and loops may be longer than the steps say

    def schedule(self, dag: ComputeDAG, layouts: bool = False) -> Schedule:
        """The program of a computation; with `layouts`, inputs of free layout are copied as they are read.

        Raises RecordError where a step does not fit.
        """
        made = Replay(dag.ops, dag.outputs, self.exact)
        s = made.run(self.transform_steps)
        if layouts:
            insert_transforms(s, dag.ops)
        try:
            s.verify()
        except ScheduleError as error:
            raise RecordError(error.why, asked="a state of auto_scheduler", legal=error.legal) from None
        return s

    def __str__(self) -> str:
        return "\n".join(map(str, self.transform_steps)) or "(no steps)"


@dataclass(frozen=True)
class TraceState:
    """Ours: what one record measured."""

    record: Record

    @property
    def knobs(self) -> dict[str, int]:
        """The values of the trace's knobs."""
        return self.record.knobs

    def schedule(self, dag: ComputeDAG, layouts: bool = False) -> Schedule:
        """The program of a computation, with numbers in place of knobs. Raises RecordError where it does not fit.

        Layouts are part of the trace already.
        """
        try:
            s = replay(Trace.from_json(self.record.trace).at(self.knobs), dag.tensors)
            s.verify()
        except ScheduleError as error:
            raise RecordError(error.why, asked=f"record {self.record.id}", legal=error.legal) from None
        return s

    def __str__(self) -> str:
        return Trace.from_json(self.record.trace).as_python(knobs=self.knobs)
