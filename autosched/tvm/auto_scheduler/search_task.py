"""`SearchTask`: a computation on a target, tuned and built; `TuningOptions`, `HardwareParams`."""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import RecordError, UsageError, WorkloadError, clipped
from autosched.records import Record, RecordLog, default_path
from autosched.runtime.device import with_machine
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.space.default import by_default, default_schedule
from autosched.space.rules import Plan, rule
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.tuning import Event, TrialDone, TuneResult, tune
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from autosched.tvm.auto_scheduler.cost_model import XGBModel
from autosched.tvm.auto_scheduler.loop_state import TraceState
from autosched.tvm.auto_scheduler.measure import HardwareParams as HardwareParams
from autosched.tvm.auto_scheduler.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureCallback,
    MeasureInput,
    MeasureResult,
    prepare_input_map,
)
from autosched.tvm.auto_scheduler.measure_record import RecordReader, RecordToFile, rank
from autosched.tvm.auto_scheduler.search_policy import PreloadMeasuredStates, SearchPolicy, SketchPolicy
from autosched.tvm.auto_scheduler.task_inputs import (
    TASK_INPUT_BUFFER_TABLE as TASK_INPUT_BUFFER_TABLE,
)
from autosched.tvm.auto_scheduler.task_inputs import (
    as_array,
    get_task_input_buffer,
    register_task_input_buffer,
)
from autosched.tvm.auto_scheduler.utils import decode_workload_key
from autosched.tvm.auto_scheduler.workload_registry import (
    WORKLOAD_FUNC_REGISTRY,
    make_workload_key,
    register_workload_tensors,
)
from autosched.tvm.driver import build
from autosched.tvm.target import with_host
from autosched.tvm.tuning_common import local_pair, log_note, options_of

_logger = logging.getLogger("auto_scheduler")


@dataclass(frozen=True)
class TuningOptions:
    """Limits of tuning, and how to measure.

    num_measure_trials: candidates at most
    early_stopping:     candidates in a row without a faster one, after which tuning ends
    verbose:            1 for a line of progress after every `num_measures_per_round` trials and at the end
    builder, runner:    a LocalBuilder and a LocalRunner, or "local". Raises UsageError for others
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | None = None

    def __post_init__(self) -> None:
        made = local_pair("TuningOptions", self.builder, LocalBuilder, self.runner, LocalRunner)
        for role, one in made.items():
            object.__setattr__(self, role, one)

    @property
    def callbacks(self) -> list[MeasureCallback]:
        """The callbacks as a list."""
        given = self.measure_callbacks
        return list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]  # type: ignore[list-item]


class SearchTask:
    """A computation, `func(*args)` or `compute_dag` or `workload_key`, on a target.

    `task_inputs` are arrays to measure and verify on, by the names of tensors, or names of registered arrays; others
    are random. Raises WorkloadError for a workload that is not registered.
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
        task_inputs: Mapping[str, Any] | Sequence[str] | None = None,
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
        made = Target(target) if target_host is None or target_host == "" else with_host(Target(target), target_host)
        self.target = hardware_params.applied(made) if hardware_params is not None else made
        self.hardware_params = HardwareParams(target=self.target) if hardware_params is None else hardware_params
        self.layout_rewrite_option = LayoutRewriteOption(
            LayoutRewriteOption.get_target_default(self.target)
            if layout_rewrite_option is None
            else layout_rewrite_option
        )
        self.desc = desc
        #: the names of inputs that have arrays of their own
        self.task_input_names = tuple(task_inputs or ())
        if isinstance(task_inputs, Mapping):
            for name, array in task_inputs.items():
                register_task_input_buffer(
                    self.workload_key, name, array, task_inputs_overwrite, task_inputs_save_to_file
                )

    @property
    def target_host(self) -> Target | None:
        """The host of the target."""
        return self.target.host

    @property
    def workload(self) -> Workload:
        """The workload to tune, by the name of the function."""
        name = re.sub(r"[^\w.+-]", "_", decode_workload_key(self.workload_key)[0]).lstrip(".+-") or "workload"
        return Workload(name[:200], tuple(self.compute_dag.tensors))

    def inputs(self) -> list[np.ndarray] | None:
        """Return arrays to measure on; None where all are random.

        Raises WorkloadError for a name that is that of no input, and for one without an array.
        """
        if not self.task_input_names:
            return None
        w = self.workload
        names = prepare_input_map(self.compute_dag.tensors, self.workload_key)
        unknown = [name for name in self.task_input_names if name not in names.values()]
        if unknown:
            raise WorkloadError(
                f"{unknown[0]!r} is no input of it",
                asked="SearchTask(task_inputs=..)",
                legal=f"inputs: {', '.join(names[t] for t in w.inputs)}; or names that a function of "
                "register_task_input_check_func gives",
            )
        found = []
        for t, array in zip(w.inputs, w.sample_inputs(), strict=True):
            given = names[t] in self.task_input_names
            found.append(as_array(get_task_input_buffer(self.workload_key, names[t])) if given else array)
        return found

    def trace_of(self, state: Any) -> Any:
        """Return the trace of a state, in JSON, with numbers for knobs. Raises RecordError where it does not fit."""
        s, _ = self.compute_dag.apply_steps_from_state(state, self.layout_rewrite_option)
        return s.trace.to_json()

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if decode_workload_key(self.workload_key)[0] not in WORKLOAD_FUNC_REGISTRY:
            register_workload_tensors(self.workload_key, self.compute_dag.tensors)

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None, adaptive_training: bool = False
    ) -> Any:
        """Search, and tell the callbacks of each measurement. Return the result of `autosched.tune`; None where the
        policy has a model of a program's own, which goes by its own rounds.

        Every candidate is verified, and the best are measured once more against each other and the default
        schedule. Raises the errors of `autosched.tune`.
        """
        policy = SketchPolicy(self, XGBModel()) if search_policy is None else search_policy
        if policy.searches_itself:
            policy.search_by_rounds(tuning_options)  # type: ignore[attr-defined]
            return None
        with tempfile.TemporaryDirectory(prefix="auto_scheduler-") as folder:
            earlier = preload(self, policy, folder)
            follower = Follower(self, policy, tuning_options, earlier)
            known = len({r.id for r in earlier if r.sketch != "default"})
            result = search(
                self,
                trials=known + tuning_options.num_measure_trials if policy.measured else known + 1,
                rules=policy.rules() if policy.measured else [as_it_is],
                patience=tuning_options.early_stopping,
                model=policy.model,
                seed=policy.seed,
                records=folder,
                measure=options_of(tuning_options.builder, tuning_options.runner),
                progress=follower,
            )
            follower.finish(result)
        return result

    def apply_best(
        self,
        log_file: str | PathLike[str],
        include_compatible: bool = False,
        layout_rewrite_option: int | None = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """Return the schedule of the fastest record of a log, Ansor's or ours, and the arguments for `tvm.build`.

        A record that does not fit is passed over with a warning. Raises RecordError where there is none.
        """
        chosen = self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option
        found = list(RecordReader(log_file))
        others = list(dict.fromkeys(f"{inp.task.workload_key} on {inp.task.target.kind}" for inp, _ in found))
        last: RecordError | None = None
        for inp, _ in rank(found, self.workload_key, self.target, include_compatible, self.compute_dag.key):
            try:
                return self.compute_dag.apply_steps_from_state(inp.state, chosen)
            except RecordError as error:
                last = error
                why = f"a record of {inp.task.target} is passed over: {clipped(error)}"
                warnings.warn(why, RuntimeWarning, stacklevel=2)
        raise last or RecordError(
            "there is no valid schedule for it",
            asked=f"{self.workload_key} on {self.target.kind}, in {log_file}",
            legal=f"what the log has records of: {', '.join(others[:8]) or 'nothing'}",
        )

    def print_best(self, log_file: str | PathLike[str], print_mode: str = "schedule") -> str:
        """Return the fastest record of a log as Python; with the target's name for `print_mode`, as source for it.

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

    def __repr__(self) -> str:
        return f"SearchTask({self.workload_key}, {str(self.target)!r})"


def create_task(
    func: Any, args: Sequence[Any], target: Any, target_host: Any = None, hardware_params: HardwareParams | None = None
) -> SearchTask:
    """Make a `SearchTask`, as TVM 0.7 spelled it."""
    return SearchTask(func, args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Tune. Return the schedule and the arguments, as TVM 0.7 did."""
    result = task.tune(tuning_options or TuningOptions(), search_policy)
    if result.best is None:
        args = task.compute_dag.tensors
        return default_schedule(args, with_machine(task.target)), list(args)
    return task.compute_dag.apply_steps_from_state(TraceState(result.best))


# -- tasks in the tuning loop -------------------------------------------------------------------------


def search(task: SearchTask, **options: Any) -> TuneResult:
    """Tune one task over the space that rules generate."""
    return tune(task.workload, task.target, space="auto", inputs=task.inputs(), **options)


@rule(when=lambda plan, stage: True)
def as_it_is(plan: Plan, stage: Stage) -> None:
    """The default schedule, which leaves nothing to try."""
    by_default(plan.s, plan.target)
    plan.done.update(dict.fromkeys(plan.s.stages, "as_it_is"))


def preload(task: SearchTask, policy: SearchPolicy, folder: str) -> list[Record]:
    """Put the records of earlier searches into the run's folder. Return those of the task."""
    files = dict.fromkeys(callback.filename for callback in policy.preloaded)
    found = [r for file in files for r in PreloadMeasuredStates(file).records(task.compute_dag.key)]
    ids = {r.id for r in found}
    for r in [*found, *(r for r in policy.learnt if r.id not in ids)]:
        RecordLog(default_path(str(r.workload["name"]), task.target.kind, Path(folder))).append(r)
    return [*found, *(r for r in policy.learnt if r.key == task.compute_dag.key and r.id not in ids)]


class Follower:
    """Tells callbacks, and whoever watches, how a run goes."""

    def __init__(
        self, task: SearchTask, policy: SearchPolicy, options: TuningOptions, earlier: Sequence[Record]
    ) -> None:
        self.task, self.policy, self.options = task, policy, options
        self.count = 0
        self._unsaid: TrialDone | None = None
        self.told = {(r.id, r.at) for r in earlier}

    def __call__(self, event: Event) -> None:
        log_note(_logger, event)
        if isinstance(event, TrialDone):
            self.count += 1
            self.told.add((event.record.id, event.record.at))
            inp = MeasureInput(self.task, TraceState(event.record))
            for callback in self.options.callbacks:
                callback.callback(self.policy, [inp], [MeasureResult.of(event.record)])
            self._unsaid = event if self.options.verbose and self.policy.verbose else None
            if self.count % self.options.num_measures_per_round == 0:
                self._print()

    def _print(self) -> None:
        """Print a line of progress, unless it was."""
        event, self._unsaid = self._unsaid, None
        if event is None:
            return
        flop = self.task.compute_dag.flop_ct
        speed = f" ({flop / event.best_seconds / 1e9:.1f} GFLOP/s)" if flop > 0 else ""
        failed = sum(event.failures.values())
        print(
            f"{self.task.workload.name}: {self.count} trials, best {event.best_seconds * 1e3:.4g} ms{speed}, "
            f"default {event.default_seconds * 1e3:.4g} ms, {failed} failed, {event.elapsed_s:.0f} s",
            flush=True,
        )

    def finish(self, result: TuneResult) -> None:
        """Tell how it ended, and write the records that no trial told of: the default schedule, and the winner of the
        play-off."""
        self._print()
        files = [c for c in self.options.callbacks if isinstance(c, RecordToFile)]
        for r in RecordLog(result.log).read().records if files else ():
            ours = r.key == self.task.compute_dag.key  # tasks of one function share a log
            if ours and r.status != "predicted" and (r.id, r.at) not in self.told:
                for file in files:
                    file.callback(self.policy, [MeasureInput(self.task, TraceState(r))], [MeasureResult.of(r)])
