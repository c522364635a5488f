"""`tune_tasks`: many workloads under one budget, the next round always for the one that it helps most.

The scheduler is Ansor's (Zheng et al., OSDI 2020, section 6), with gains for each second of measuring in
place of gains for each round: tasks whose candidates take long to build get no more than their share.

    gradient_i = d objective / d time_i * (alpha * last change + (1 - alpha) * expected change)

The expected change is the more optimistic of: as much again as it took so far (`best / rounds`), and
what tasks of the same workload reach in operations for each second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Unpack

import numpy as np

from autosched.building import as_workload
from autosched.errors import UsageError, check_positive, expect
from autosched.garbage import few_collections
from autosched.runtime.device import resolve_target
from autosched.search_options import SearchKeywords, SearchOptions, spelled_out
from autosched.space.tunable import Tunable
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target, TargetLike
from autosched.te.work import work_of
from autosched.tuning.arguments import check_tunable, check_weights, listener
from autosched.tuning.budget import GRACE_S, PLAYOFF_SHARE, Expectation
from autosched.tuning.events import Event, Note, TasksProgress, TaskStanding, TuneResult
from autosched.tuning.run import Run

POLICIES = ("gradient", "round-robin")

#: Ansor's weights: of what a task has just gained, and of the speed of tasks like it.
ALPHA, BETA = 0.2, 2.0
#: Rounds over which the last change of a task is averaged.
WINDOW = 3
#: Relative step of the objective's numeric derivative.
STEP = 1e-4
#: Trials of one round: enough to be worth starting the workers for.
ROUND = 32
#: Seconds that the play-off of a task is expected to take where no better is known.
PLAYOFF_S = 3.0


@dataclass(frozen=True)
class TasksResult:
    """The result of `tune_tasks`. `objective` is the number that was minimised, by default weighted seconds.

    Tasks that a short budget did not reach, or that were interrupted before their default schedule ran, have no result;
    the objectives are infinite then. `positions` says which of the tasks `results` are of.
    """

    results: list[TuneResult]
    weights: list[float]
    rounds: list[int]
    default_objective: float
    objective: float
    elapsed_s: float
    interrupted: bool = False
    positions: Sequence[int] = ()

    @property
    def trials(self) -> int:
        return sum(r.trials for r in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        each = zip(self.results, self.weights, self.rounds, strict=True)
        found = {"tasks": [{**r.to_json(), "weight": w, "rounds": n} for r, w, n in each], "trials": self.trials}
        return found | {n: v for n, v in vars(self).items() if n not in ("results", "weights", "rounds", "positions")}


@dataclass
class TaskRun:
    """One workload on its way. `limit` is the trials of a round, `history` its best time after each, in seconds."""

    run: Run
    weight: float
    limit: int
    history: list[float] = field(default_factory=list)
    measuring_s: float = 0.0
    has_begun: bool = False
    is_over: bool = False
    result: TuneResult | None = None

    @property
    def name(self) -> str:
        at = ", ".join(f"{name}={n}" for name, n in self.run.sizes.items())
        return f"{self.run.workload!r}{f' at {at}' if at else ''}"

    @property
    def best(self) -> float:
        return self.history[-1] if self.history else self.run.best_seconds

    @property
    def round_s(self) -> float:
        """Seconds that one of its rounds has taken on average."""
        return self.measuring_s / len(self.history) if self.history else 0.0

    @property
    def flops(self) -> float:
        """Operations of one call; 0 where that is not known."""
        w = self.run.workload
        work = work_of(w.args, self.run.sizes) if isinstance(w, Workload) else None
        return float(work.flops) if work is not None else 0.0

    def standing(self) -> TaskStanding:
        return TaskStanding(
            self.name, self.weight, len(self.history), len(self.run.measured), self.run.default_seconds, self.best
        )


@spelled_out
def tune_tasks(
    tasks: Sequence[Tunable | WorkloadFunction[...] | str],
    target: TargetLike = None,
    *,
    weights: Sequence[float] | None = None,
    objective: Callable[[list[float]], float] | None = None,
    policy: str = "gradient",
    trials: int | None = None,
    budget_s: float | None = None,
    round_trials: int = ROUND,
    inputs: Sequence[Sequence[np.ndarray] | None] | None = None,
    progress: Callable[[Event], None] | bool | None = None,
    watch: Callable[[int, Event], None] | None = None,
    **search: Unpack[SearchKeywords],
) -> TasksResult:
    """Tune several workloads under one budget, and record what is learnt.

    weights:      how often each is run, for example in a model; by default once
    objective:    the number to minimise, of the seconds of all tasks in order; by default their weighted sum
    policy:       `gradient`: the next round is for the task that promises most for each second; `round-robin`
    trials:       of all tasks together;  budget_s: seconds of the whole run; the first limit reached ends it
    round_trials: candidates measured before the next decision
    patience:     a task is over after so many trials in a row of which none was faster than its best before
    inputs:       for each task its arrays, or None for its own
    progress:     is told how all of them stand;  watch: is called with a task's position and each event of its run

    The rest is as for `tune`. Every task first gets one round, those with the most work first, and at most its share
    of the seconds that are left; a note says which tasks a short budget did not reach. With `transfer`, each learns
    from the records of the others of the same operator. Raises UsageError for arguments that cannot be meant, and what
    `tune` raises before it measures. Ctrl-C ends the run with what was found so far, and `interrupted` set.
    """
    begun = time.monotonic()
    options = SearchOptions.of("tune_tasks", search)
    weights = _checked(tasks, weights, policy)
    expect(objective, "a function of seconds", objective is None or callable(objective), "tune_tasks(objective=..)")
    is_inputs = inputs is None or (isinstance(inputs, (list, tuple)) and len(inputs) == len(tasks))
    expect(inputs, "a list of arrays, or None, for each task", is_inputs, "tune_tasks(inputs=..)")
    workloads = [as_workload(what) for what in tasks]
    check_tunable("tune_tasks", workloads, inputs=inputs or (), progress=progress, watch=watch)
    check_positive("tune_tasks", or_none=False, round_trials=round_trials)
    check_positive("tune_tasks", trials=trials, budget_s=budget_s)
    if trials is None and budget_s is None:
        raise UsageError("neither trials nor budget_s is limited", asked="tune_tasks", legal="give at least one")
    tell, to = listener(progress), resolve_target(target)
    all_inputs = [None] * len(tasks) if inputs is None else inputs
    each = [(repr(w), w, arrays, weight) for w, arrays, weight in zip(workloads, all_inputs, weights, strict=True)]
    made = begin(each, to, options, round_trials, tell, watch, budget_s)
    return Scheduler(made, policy, objective, trials, budget_s, tell, begun=begun).go()


def begin(
    each: Sequence[tuple[str, Tunable, Sequence[np.ndarray] | None, float]],
    target: Target,
    options: SearchOptions,
    round_trials: int,
    tell: Callable[[Event], None],
    watch: Callable[[int, Event], None] | None,
    budget_s: float | None = None,
) -> list[TaskRun]:
    """Make tasks; nothing is measured yet.

    each:     (name, workload, inputs, weight) of each
    budget_s: seconds for all of them together
    watch:    is called with the events of each, `tell` with its warnings
    """

    def pass_on(i: int, event: Event) -> None:
        if watch is not None:
            watch(i, event)
        if isinstance(event, Note) and event.level == "warning":
            tell(Note(f"{each[i][0]}: {event.text}", event.level))

    made, share_s = [], None if budget_s is None else budget_s / len(each)
    for i, (_, w, inputs, weight) in enumerate(each):
        run = Run(w, w.compiled_for(target), options, inputs=inputs, share_s=share_s, say=partial(pass_on, i))
        made.append(TaskRun(run, float(weight), round_trials))
    return made


def _checked(tasks: Sequence[Any], weights: Sequence[float] | None, policy: str) -> Sequence[float]:
    """The weights. Raises UsageError."""
    expect(tasks, "a list of workloads", isinstance(tasks, (list, tuple)), "tune_tasks(tasks)")
    if not tasks:
        raise UsageError("there are no tasks", asked="tune_tasks([])", legal="workloads to tune")
    if not isinstance(policy, str) or policy not in POLICIES:
        raise UsageError("no such policy", asked=f"tune_tasks(policy={policy!r})", legal=", ".join(POLICIES))
    return check_weights(weights, len(tasks), "tune_tasks")


class Scheduler:
    """Shares the trials and seconds of one call of `tune_tasks` or `tune_sizes` among its tasks.

    `may_skip` says whether tasks that the budget does not reach are left out; else each gets at least one batch.
    `begun`, a time of the monotonic clock, is when the budget began, by default now.
    """

    def __init__(
        self,
        tasks: list[TaskRun],
        policy: str,
        objective: Callable[[list[float]], float] | None,
        trials: int | None,
        budget_s: float | None,
        tell: Callable[[Event], None],
        may_skip: bool = True,
        begun: float | None = None,
    ) -> None:
        self.may_skip = may_skip
        self.tasks, self.policy, self.trials, self.budget_s, self.tell = tasks, policy, trials, budget_s, tell
        self.begun = time.monotonic() if begun is None else begun
        if budget_s is not None and may_skip:
            for task in tasks:
                task.run.ends_at = self.begun + budget_s + GRACE_S
        self.playoff_s = PLAYOFF_S
        self._objective = objective

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    def objective(self, seconds: list[float]) -> float:
        """The number to minimise."""
        if self._objective is not None:
            return float(self._objective(seconds))
        return sum(t.weight * x for t, x in zip(self.tasks, seconds, strict=True))

    @few_collections()
    def go(self) -> TasksResult:
        """Rounds, then a play-off for each task."""
        interrupted = False
        try:
            self.rounds()
            reached = [t for t in self.tasks if t.history]
            for k, task in enumerate(reached):
                self.decide(task, len(reached) - k)
        except KeyboardInterrupt:
            interrupted = True
            self.tell(
                Note("interrupted: tasks that have not reached their play-off keep their best measurement", "warning")
            )
        return self.result(interrupted)

    def rounds(self) -> None:
        """One round of each task, then of the one that promises most, until a limit is reached."""
        share = None if self.trials is None else max(1, self.trials // len(self.tasks))
        waiting = sorted(self.tasks, key=lambda t: -t.weight * t.flops)
        try:
            while waiting and (self._left_s() > 0 or not self.may_skip or len(waiting) == len(self.tasks)):
                self.round(waiting[0], share, self._left_s() / len(waiting))
                del waiting[0]
            if waiting:
                names = ", ".join(t.name for t in waiting)
                enough = math.ceil(len(self.tasks) * self.elapsed / (len(self.tasks) - len(waiting)))
                self.tell(Note(f"not reached in {self.elapsed:.0f} s, of about {enough} s for all: {names}", "warning"))
            while self._goes_on() and (chosen := self.choose()) is not None:
                self.round(chosen)
        finally:
            for task in self.tasks:
                if task.has_begun:
                    task.run.proposals.close()

    def _goes_on(self) -> bool:
        done = sum(len(t.run.measured) for t in self.tasks)
        if self.trials is not None and done >= self.trials:
            return False
        return self._left_s() > 0

    def _left_s(self) -> float:
        """Seconds for rounds: what the budget leaves, less what play-offs will take."""
        if self.budget_s is None:
            return math.inf
        each = max([self.playoff_s, *(t.round_s / 2 for t in self.tasks)])
        reserve = max(PLAYOFF_SHARE * self.budget_s, min(each * len(self.tasks), self.budget_s / 2))
        return self.budget_s - self.elapsed - reserve

    def round(self, task: TaskRun, share: int | None = None, most_s: float = math.inf) -> None:
        """Measure some candidates of one task, `share` at most, and begin no batch after `most_s` seconds."""
        begun, run = time.monotonic(), task.run
        if not task.has_begun:
            run.choose_strategy()
            task.has_begun = True
        left = None if self.trials is None else self.trials - sum(len(t.run.measured) for t in self.tasks)
        end = len(run.measured) + min(n for n in (task.limit, left, share) if n is not None)
        if task.history:
            run.learn_from_others()
        run.most = end - len(run.measured)
        with run.measuring():
            if math.isfinite(run.best_seconds):
                run.measurer.best_s = run.best_seconds
            while not task.is_over and run.most > 0:
                task.is_over = not run.advance()
                run.most = end - len(run.measured)
                if not self._goes_on() or time.monotonic() - begun > most_s:
                    break
        task.measuring_s += time.monotonic() - begun
        task.history.append(run.best_seconds)
        self.tell(self._progress())

    def _progress(self) -> TasksProgress:
        known = [t.best for t in self.tasks]
        defaults = [t.run.default_seconds for t in self.tasks]
        ready = all(math.isfinite(x) for x in (*known, *defaults))
        return TasksProgress(
            [t.standing() for t in self.tasks],
            self.objective(defaults) if ready else math.inf,
            self.objective(known) if ready else math.inf,
            self.elapsed,
            self.budget_s,
            self.trials,
            self._expected() if ready else None,
        )

    def _expected(self) -> Expectation | None:
        """What as many seconds again for every task would take off the sum; None for an objective of the user's."""
        each = [(t, e) for t in self.tasks if (e := t.run.expectation) is not None]
        if self._objective is not None or not each:
            return None
        whole = self.objective([t.best for t in self.tasks])
        shares = [(t.weight * t.best / whole, e) for t, e in each]
        return Expectation(
            sum(e.seconds for _, e in each),
            sum(e.trials for _, e in each),
            sum(share * e.gain for share, e in shares),
            sum(share * e.most for share, e in shares),
        )

    def choose(self) -> TaskRun | None:
        """The task that the next round is for."""
        alive = [t for t in self.tasks if not t.is_over]
        if not alive:
            return None
        if self.policy == "round-robin":
            return min(alive, key=lambda t: len(t.history))
        return min(alive, key=lambda t: self.gradient(t) / max(t.round_s, 1e-9))

    def gradient(self, task: TaskRun) -> float:
        """The expected change of the objective by one more round of a task: 0 or less."""
        best = [t.best for t in self.tasks]
        at = self.tasks.index(task)
        moved = [b * (1 - STEP) if i == at else b for i, b in enumerate(best)]
        chain = (self.objective(best) - self.objective(moved)) / (STEP * best[at])
        h, rounds = task.history, len(task.history)
        window = min(WINDOW, rounds - 1)
        backward = (h[-1] - h[-1 - window]) / window if window else 0.0
        expected = best[at] - best[at] / max(rounds, 1)
        alike = [t for t in self.tasks if t.run.workload.name == task.run.workload.name]  # with other parameters
        fastest = max((t.flops / t.best for t in alike), default=0.0)
        if task.flops and fastest > 0:
            expected = min(expected, BETA * task.flops / fastest)
        forward = min(expected - best[at], 0.0)
        return chain * (ALPHA * backward + (1 - ALPHA) * forward)

    def decide(self, task: TaskRun, left: int) -> None:
        """The play-off of one task, of so many that are left; none where there was no time for its default schedule."""
        if task.run.default_record is None:
            return
        if self.budget_s is not None:
            task.run.budget.seconds = task.run.elapsed + (self.budget_s - self.elapsed) / left
        with task.run.measuring():
            task.result = task.run.finish(task.run.playoff())

    def result(self, interrupted: bool) -> TasksResult:
        for task in self.tasks:
            if task.result is None and math.isfinite(task.run.default_seconds):
                task.result = task.run.finish(task.run.without_playoff(), interrupted)
        done = [t for t in self.tasks if t.result is not None]
        complete = len(done) == len(self.tasks)
        seconds = [t.result.seconds for t in done if t.result is not None]
        return TasksResult(
            [t.result for t in done if t.result is not None],
            [t.weight for t in done],
            [len(t.history) for t in done],
            self.objective([t.run.default_seconds for t in done]) if complete else math.inf,
            self.objective(seconds) if complete else math.inf,
            self.elapsed,
            interrupted,
            [i for i, t in enumerate(self.tasks) if t.result is not None],
        )
