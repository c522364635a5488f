"""`SearchTask`: a computation on a target, tuned and built; `TuningOptions`, `HardwareParams`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from autosched.errors import UsageError, WorkloadError
from autosched.schedule.schedule import Schedule
from autosched.space.default import default_schedule
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from autosched.tvm.auto_scheduler.hardware import HardwareParams
from autosched.tvm.auto_scheduler.loop_state import TraceState
from autosched.tvm.auto_scheduler.measure import LocalBuilder, LocalRunner, MeasureCallback
from autosched.tvm.auto_scheduler.measure_record import RecordReader, first_that_applies, rank
from autosched.tvm.auto_scheduler.search_policy import SearchPolicy
from autosched.tvm.auto_scheduler.tuning import tune_task
from autosched.tvm.auto_scheduler.utils import decode_workload_key
from autosched.tvm.auto_scheduler.workload_registry import make_workload_key
from autosched.tvm.driver import build

__all__ = ["HardwareParams", "SearchTask", "TuningOptions", "auto_schedule", "create_task"]


@dataclass(frozen=True)
class TuningOptions:
    """How long to tune, and how to measure.

    `num_measure_trials` candidates at most, `early_stopping` after so many in a row of which none was faster.
    `verbose`: a line of progress after every `num_measures_per_round` trials. `builder` and `runner` are a
    LocalBuilder and a LocalRunner, or "local". Raises UsageError for others.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | None = None

    def __post_init__(self) -> None:
        kinds: dict[str, type] = {"builder": LocalBuilder, "runner": LocalRunner}
        for role, kind in kinds.items():
            given = getattr(self, role)
            made = kind() if given == "local" else given
            if not isinstance(made, kind):
                raise UsageError(
                    f"{given!r:.60} is no {role}",
                    asked=f"TuningOptions({role}=..)",
                    legal=f'auto_scheduler.{kind.__name__}(...) or "local"',
                )
            object.__setattr__(self, role, made)

    @property
    def callbacks(self) -> list[MeasureCallback]:
        """What is told of each measurement."""
        given = self.measure_callbacks
        return list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]  # type: ignore[list-item]


class SearchTask:
    """A computation, `func(*args)` or `compute_dag` or `workload_key`, on a target.

    `task_inputs` are arrays to measure and verify on, by the names of tensors; others are random. Raises
    WorkloadError for a workload that is not registered, UsageError for an input that there is none of.
    """

    def __init__(
        self,
        func: Any = None,
        args: Sequence[Any] | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: Any = None,
        target_host: Any = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: int | None = None,
        task_inputs: Mapping[str, Any] | None = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        if func is not None:
            workload_key = make_workload_key(func, args or ())
        if compute_dag is None and workload_key is None:
            raise UsageError("nothing says what to compute", asked="SearchTask", legal="func and args, or compute_dag")
        self.compute_dag = ComputeDAG(workload_key) if compute_dag is None else compute_dag  # type: ignore[arg-type]
        self.workload_key: str = workload_key or self.compute_dag.workload_key()
        if target is None:
            target = Target.current(allow_none=True)
        if target is None:
            raise UsageError("nothing says for what", asked="SearchTask", legal='target="llvm"')
        self.hardware_params = hardware_params
        self.target = hardware_params.applied(Target(target)) if hardware_params is not None else Target(target)
        self.target_host = target_host
        self.layout_rewrite_option = LayoutRewriteOption(
            LayoutRewriteOption.get_target_default(self.target)
            if layout_rewrite_option is None
            else layout_rewrite_option
        )
        self.desc = desc
        self.task_inputs = dict(task_inputs or {})
        names = [t.name for t in self.workload.inputs]
        unknown = sorted(set(self.task_inputs) - set(names))
        if unknown:
            raise WorkloadError(
                f"{unknown[0]!r} is no input of it",
                asked="SearchTask(task_inputs=..)",
                legal=f"inputs: {', '.join(names)}",
            )

    @property
    def task_input_names(self) -> tuple[str, ...]:
        """The inputs that arrays are given for."""
        return tuple(self.task_inputs)

    @property
    def workload(self) -> Workload:
        """What is tuned. Its name is that of the function."""
        name = re.sub(r"[^\w.+-]", "_", decode_workload_key(self.workload_key)[0]).lstrip(".+-") or "workload"
        return Workload(name[:200], tuple(self.compute_dag.tensors))

    def inputs(self) -> list[np.ndarray] | None:
        """Arrays to measure on; None where all are random."""
        if not self.task_inputs:
            return None
        w = self.workload
        given = {name: np.asarray(getattr(a, "numpy", lambda a=a: a)()) for name, a in self.task_inputs.items()}
        return [given.get(t.name, array) for t, array in zip(w.inputs, w.sample_inputs(), strict=True)]

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None, adaptive_training: bool = False
    ) -> Any:
        """Search, and tell the callbacks of each measurement; returns what `autosched.tune` does.

        Every candidate is verified, and the best are measured once more against each other and the default
        schedule. Raises what `autosched.tune` does.
        """
        return tune_task(self, tuning_options, search_policy)

    def apply_best(
        self,
        log_file: str | PathLike[str],
        include_compatible: bool = False,
        layout_rewrite_option: int | None = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """The schedule of the fastest record of a log, Ansor's or ours, and the arguments for `tvm.build`.

        A record that does not fit is passed over with a warning. Raises RecordError where there is none.
        """
        chosen = self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option
        return self._first(log_file, lambda s: self.compute_dag.apply_steps_from_state(s, chosen), include_compatible)

    def print_best(self, log_file: str | PathLike[str], print_mode: str = "schedule") -> str:
        """The fastest record of a log as Python; with the target's name for `print_mode`, as source for it.

        Raises RecordError where there is none that fits, UsageError for another print_mode.
        """
        if print_mode == "schedule":
            return str(self.apply_best(log_file)[0].trace)
        if print_mode != str(self.target.kind):
            raise UsageError(
                f"the task is for {self.target.kind}",
                asked=f"print_best(print_mode={print_mode!r})",
                legal=f'"schedule", "{self.target.kind}"',
            )
        s, args = self.apply_best(log_file)
        module = build(s, args, self.target)
        return str((module.imported_modules[0] if module.imported_modules else module).get_source())

    def _first(self, log_file: str | PathLike[str], apply: Any, include_compatible: bool = False) -> Any:
        found = list(RecordReader(log_file))
        pairs = rank(found, self.workload_key, self.target, include_compatible, self.compute_dag.key)
        others = list(dict.fromkeys(f"{inp.task.workload_key} on {inp.task.target.kind}" for inp, _ in found))
        return first_that_applies(
            pairs,
            apply,
            asked=f"{self.workload_key} on {self.target.kind}, in {log_file}",
            legal=f"what the log has records of: {', '.join(others[:8]) or 'nothing'}",
        )

    def __repr__(self) -> str:
        return f"SearchTask({self.workload_key}, {str(self.target)!r})"


def create_task(
    func: Any, args: Sequence[Any], target: Any, target_host: Any = None, hardware_params: HardwareParams | None = None
) -> SearchTask:
    """`SearchTask`, as TVM 0.7 spelled it."""
    return SearchTask(func, args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Tune, and return the schedule and the arguments, as TVM 0.7 did."""
    result = task.tune(tuning_options or TuningOptions(), search_policy)
    if result.best is None:
        args = task.compute_dag.tensors
        return default_schedule(args, task.target), list(args)
    return task.compute_dag.apply_steps_from_state(TraceState(result.best))
