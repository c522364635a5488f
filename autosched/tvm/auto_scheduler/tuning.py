"""The two places where tasks meet the tuning loop: `search` for one, `search_all` for several."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.records import Record, RecordLog, default_path
from autosched.schedule.stage import Stage
from autosched.space.default import by_default
from autosched.space.rules import Plan, rule
from autosched.tuning import Event, TrialDone, TuneResult, tune, tune_tasks
from autosched.tvm.auto_scheduler.cost_model import XGBModel
from autosched.tvm.auto_scheduler.loop_state import TraceState
from autosched.tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from autosched.tvm.auto_scheduler.measure_record import RecordToFile
from autosched.tvm.auto_scheduler.search_policy import PreloadMeasuredStates, SearchPolicy, SketchPolicy
from autosched.tvm.tuning_common import log_note, options_of

if TYPE_CHECKING:
    from autosched.tvm.auto_scheduler.search_task import SearchTask, TuningOptions

__all__ = ["search", "search_all", "tune_task"]

_logger = logging.getLogger("auto_scheduler")


def search(task: SearchTask, **options: Any) -> TuneResult:
    """Tune one task over the space that rules generate."""
    return tune(task.workload, task.target, space="auto", inputs=task.inputs(), **options)


def search_all(
    tasks: Sequence[SearchTask],
    options: TuningOptions,
    policies: Sequence[SearchPolicy],
    weights: Sequence[float],
    objective: Callable[[Sequence[float]], float],
    strategy: str,
) -> list[TuneResult]:
    """Tune several tasks, which share the trials as `autosched.tune_tasks` shares them out."""
    with tempfile.TemporaryDirectory(prefix="auto_scheduler-") as folder:
        followers = [
            _Follower(task, policy, options, _preload(task, policy, folder))
            for task, policy in zip(tasks, policies, strict=True)
        ]
        found = tune_tasks(
            [task.workload for task in tasks],
            tasks[0].target,
            weights=weights,
            objective=objective,
            policy=strategy,
            trials=options.num_measure_trials,
            round_trials=min(options.num_measures_per_round, max(1, options.num_measure_trials // len(tasks))),
            patience=options.early_stopping,
            space="auto",
            rules=[r for policy in policies for r in policy.rules()],
            model=policies[0].model,
            seed=policies[0].seed,
            records=folder,
            inputs=[task.inputs() for task in tasks],
            measure=options_of(options.builder, options.runner),
            watch=lambda i, event: followers[i](event),
        )
        for follower, result in zip(followers, found.results, strict=True):
            follower.finish(result)
    return found.results


def tune_task(task: SearchTask, options: TuningOptions, policy: SearchPolicy | None) -> TuneResult:
    """`SearchTask.tune`."""
    policy = SketchPolicy(task, XGBModel()) if policy is None else policy
    with tempfile.TemporaryDirectory(prefix="auto_scheduler-") as folder:
        earlier = _preload(task, policy, folder)
        follower = _Follower(task, policy, options, earlier)
        known = len({r.id for r in earlier if r.sketch != "default"})
        result = search(
            task,
            trials=known + options.num_measure_trials if policy.measured else known + 1,
            rules=policy.rules() if policy.measured else [as_it_is],
            patience=options.early_stopping,
            model=policy.model,
            seed=policy.seed,
            records=folder,
            measure=options_of(options.builder, options.runner),
            progress=follower,
        )
        follower.finish(result)
    return result


@rule(when=lambda plan, stage: True)
def as_it_is(plan: Plan, stage: Stage) -> None:
    """The default schedule, which leaves nothing to try."""
    by_default(plan.s, plan.target)
    plan.done.update(dict.fromkeys(plan.s.stages, "as_it_is"))


def _preload(task: SearchTask, policy: SearchPolicy, folder: str) -> list[Record]:
    """Put what was measured before into the run's log."""
    files = dict.fromkeys(callback.filename for callback in policy.preloaded)
    found = [r for file in files for r in PreloadMeasuredStates(file).records(task.compute_dag.key)]
    log = RecordLog(default_path(task.workload.name, task.target.kind, Path(folder)))
    for r in found:
        log.append(r)
    return found


class _Follower:
    """Tells callbacks, and who watches, how a run goes."""

    def __init__(
        self, task: SearchTask, policy: SearchPolicy, options: TuningOptions, earlier: Sequence[Record]
    ) -> None:
        self.task, self.policy, self.options = task, policy, options
        self.count = 0
        self.told = {(r.id, r.at) for r in earlier}

    def __call__(self, event: Event) -> None:
        log_note(_logger, event)
        if isinstance(event, TrialDone):
            self.count += 1
            self.told.add((event.record.id, event.record.at))
            inp = MeasureInput(self.task, TraceState(event.record))
            for callback in self.options.callbacks:
                callback.callback(self.policy, [inp], [MeasureResult.of(event.record)])
            if self.options.verbose and self.policy.verbose and self.count % self.options.num_measures_per_round == 0:
                self.print(event)

    def print(self, event: TrialDone) -> None:
        """A line of progress."""
        flop = self.task.compute_dag.flop_ct
        speed = f" ({flop / event.best_seconds / 1e9:.1f} GFLOP/s)" if flop else ""
        failed = sum(event.failures.values())
        print(
            f"{self.task.workload.name}: {self.count} trials, best {event.best_seconds * 1e3:.4g} ms{speed}, "
            f"default {event.default_seconds * 1e3:.4g} ms, {failed} failed, {event.elapsed_s:.0f} s",
            flush=True,
        )

    def finish(self, result: TuneResult) -> None:
        """Give the files what no trial told: the default schedule, and who won the play-off."""
        files = [c for c in self.options.callbacks if isinstance(c, RecordToFile)]
        for r in RecordLog(result.log).read().records if files else ():
            if r.status != "predicted" and (r.id, r.at) not in self.told:
                for file in files:
                    file.callback(self.policy, [MeasureInput(self.task, TraceState(r))], [MeasureResult.of(r)])
