"""`TaskScheduler`: several tasks tuned with one budget of trials."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from autosched.errors import UsageError
from autosched.tuning import Event, TrialDone, tune_tasks
from autosched.tvm.auto_scheduler.cost_model import RandomModel, XGBModel
from autosched.tvm.auto_scheduler.search_policy import PreloadMeasuredStates, SearchPolicy, SketchPolicy
from autosched.tvm.auto_scheduler.search_task import Follower, SearchTask, TuningOptions, preload
from autosched.tvm.tuning_common import options_of

_STRATEGIES = ("gradient", "round-robin")


class TaskSchedulerCallback:
    """Base of what a `TaskScheduler` tells of each turn of a task."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """The turn of a task begins."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """The turn of a task is over."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints a line for each task before each turn."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        task_scheduler.print_table_info()


class LogEstimatedLatency(TaskSchedulerCallback):
    """Writes a line to a file after each turn: seconds since the first, the objective in ms, trials.

    Nothing is written until every task has a time.
    """

    def __init__(self, log_file: str | PathLike[str]) -> None:
        self.log_file = Path(log_file)
        self.log_file.unlink(missing_ok=True)
        self._begun = time.monotonic()

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        if task_scheduler.best_score < float("inf"):
            elapsed, trials = time.monotonic() - self._begun, sum(task_scheduler.task_cts)
            line = f"ElapsedTime(s)\t{elapsed:.0f}\tEstimatedLatency(ms)\t{task_scheduler.best_score * 1e3:.6f}"
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\tTrials\t{trials}\n")


class TaskScheduler:
    """Tunes tasks so that `objective_func` of their seconds, or their weighted sum, gets small.

    After `tune`, `best_costs` are the seconds of each, `task_cts` its trials, `best_score` the objective and
    `results` those of `autosched.tune`. With `load_log_file`, records of that log count as measured.
    `load_model_file` is what `XGBModel.save` wrote. Each of `callbacks` is told when a task's turn begins and ends.
    Raises UsageError for an unknown strategy, and for callbacks that are none.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: str | PathLike[str] | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self.tasks = list(tasks)
        if not self.tasks or len(task_weights or self.tasks) != len(self.tasks):
            raise UsageError(
                f"there are {len(self.tasks)} tasks and {len(task_weights or ())} weights",
                asked="TaskScheduler(tasks, task_weights)",
                legal="at least one task, and a weight for each",
            )
        if strategy not in _STRATEGIES:
            raise UsageError(f"no strategy {strategy!r}", asked="TaskScheduler", legal=", ".join(_STRATEGIES))
        wrong = [c for c in callbacks or () if not isinstance(c, TaskSchedulerCallback)]
        if wrong:
            raise UsageError(
                f"{wrong[0]!r:.60} is no callback",
                asked="TaskScheduler(callbacks=..)",
                legal="PrintTableInfo(), LogEstimatedLatency(file), or a class over TaskSchedulerCallback",
            )
        self.callbacks: list[TaskSchedulerCallback] = list(callbacks or ())
        self.load_model_file = load_model_file
        self._turn: int | None = None
        self.weights = list(task_weights or [1.0] * len(self.tasks))
        self.objective_func = objective_func or self._weighted_sum
        self.strategy, self.load_log_file = strategy, load_log_file
        self.best_costs = [float("inf")] * len(self.tasks)
        self.task_cts = [0] * len(self.tasks)
        self.best_score = float("inf")
        self.results: list[Any] = []

    def _weighted_sum(self, costs: Sequence[float]) -> float:
        return sum(w * c for w, c in zip(self.weights, costs, strict=True))

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: dict[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Measure `num_measure_trials` candidates of all tasks together.

        `search_policy`: "default" or "sketch.xgb", "sketch.random", or a policy for each task. Raises
        UsageError for others and for fewer trials than tasks, and the errors of `autosched.tune`.
        """
        if len({str(t.target) for t in self.tasks}) > 1:
            raise UsageError("tasks are for different targets", asked="TaskScheduler.tune", legal="tasks of one target")
        trials, count = tune_option.num_measure_trials, len(self.tasks)
        if trials < count:
            why = f"{trials} trials are not one for each of {count} tasks"
            raise UsageError(why, asked="TaskScheduler.tune", legal=f"num_measure_trials of {count} and more")
        if per_task_early_stopping is not None:
            tune_option = replace(tune_option, early_stopping=per_task_early_stopping)
        policies = self._policies(search_policy, search_policy_params)
        with tempfile.TemporaryDirectory(prefix="auto_scheduler-") as folder:
            followers = [
                Follower(task, policy, tune_option, preload(task, policy, folder))
                for task, policy in zip(self.tasks, policies, strict=True)
            ]
            found = tune_tasks(
                [task.workload for task in self.tasks],
                self.tasks[0].target,
                weights=self.weights,
                objective=self.objective_func,
                policy=self.strategy,
                trials=trials,
                round_trials=min(tune_option.num_measures_per_round, max(1, trials // count)),
                patience=tune_option.early_stopping,
                space="auto",
                rules=[r for policy in policies for r in policy.rules()],
                model=policies[0].model,
                seed=policies[0].seed,
                records=folder,
                inputs=[task.inputs() for task in self.tasks],
                measure=options_of(tune_option.builder, tune_option.runner),
                watch=lambda i, event: self._watch(i, event, followers[i]),
            )
            self._ended()
            for follower, result in zip(followers, found.results, strict=True):
                follower.finish(result)
        self.results = found.results
        self.best_costs = [r.seconds for r in self.results]
        self.task_cts = [r.trials for r in self.results]
        self.best_score = self.objective_func(self.best_costs)
        if tune_option.verbose:
            self.print_table_info()

    def _watch(self, i: int, event: Event, follow: Follower) -> None:
        if self._turn != i:
            self._ended()
            self._turn = i
            for callback in self.callbacks:
                callback.pre_tune(self, i)
        follow(event)
        if isinstance(event, TrialDone):
            self.task_cts[i] += 1
            self.best_costs[i] = event.best_seconds
            self.best_score = self.objective_func(self.best_costs)

    def _ended(self) -> None:
        """Tell that the turn of a task is over."""
        if self._turn is not None:
            for callback in self.callbacks:
                callback.post_tune(self, self._turn)
        self._turn = None

    def _policies(self, given: str | Sequence[SearchPolicy], params: dict[str, Any] | None) -> list[SearchPolicy]:
        if not isinstance(given, str):
            policies = list(given)
            if len(policies) != len(self.tasks) or not all(isinstance(p, SearchPolicy) for p in policies):
                raise UsageError(
                    "there is not one for each task", asked="search_policy=[..]", legal="SketchPolicy(task)"
                )
            if any(p.searches_itself for p in policies):
                raise UsageError(
                    "a model of a program's own is asked by its own rounds",
                    asked="search_policy=[..]",
                    legal="task.tune(options, policy) for each task",
                )
            return policies
        models = {"default": XGBModel, "sketch.xgb": XGBModel, "sketch.random": RandomModel}
        if given not in models:
            raise UsageError(f"no policy {given!r}", asked="TaskScheduler.tune", legal=", ".join(models))
        loaded = [] if self.load_log_file is None else [PreloadMeasuredStates(self.load_log_file)]
        if self.load_model_file is not None:
            return [
                SketchPolicy(t, XGBModel(model_file=self.load_model_file), params, init_search_callbacks=loaded)
                for t in self.tasks
            ]
        return [SketchPolicy(t, models[given](), params, init_search_callbacks=loaded) for t in self.tasks]

    def print_table_info(self) -> None:
        """Print a line for each task, and the objective."""
        print("| ID | Task                           | Latency (ms) | Speed (GFLOP/s) | Trials |")
        for i, (task, seconds) in enumerate(zip(self.tasks, self.best_costs, strict=True)):
            flop = task.compute_dag.flop_ct
            speed = f"{flop / seconds / 1e9:.2f}" if flop > 0 and seconds < float("inf") else "-"
            name = task.desc or task.workload.name
            print(f"| {i:2d} | {name:30.30s} | {seconds * 1e3:12.3f} | {speed:>15s} | {self.task_cts[i]:6d} |")
        print(f"objective: {self.best_score:.6g}")
