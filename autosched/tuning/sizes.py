"""`tune_sizes`: the fewest schedules that lose little at any of many sizes.

The regret of a set of schedules at a size is by how much its best one is slower there than the best of all that were
measured, as a share: 0.03 is three percent.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from math import comb
from typing import Any, Unpack

import numpy as np

from autosched.building import as_workload
from autosched.errors import UsageError, check_positive, expect, is_list_of
from autosched.records import Member, Record, describe, latest, new_id, regions, timestamp
from autosched.runtime.device import resolve_target
from autosched.search_options import SearchKeywords, SearchOptions, spelled_out
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import TargetLike
from autosched.tuning import playoff
from autosched.tuning.arguments import check_tunable, check_weights, listener
from autosched.tuning.events import Event, Note, TuneResult
from autosched.tuning.run import Run
from autosched.tuning.tasks import ROUND, Scheduler, TaskRun, begin

Rows = tuple[int, ...]
Cost = Callable[[Rows], tuple[float, float, Rows]]

#: Sets of schedules that are all evaluated; where there are more, a greedy choice is improved by exchanges.
ENOUGH = 20_000


@dataclass(frozen=True)
class Portfolio:
    """Rows `chosen` of the table of times; column j is served by `chosen[serves[j]]`, with the regret `regrets[j]`."""

    chosen: Rows
    serves: tuple[int, ...]
    regrets: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.regrets)


def choose(seconds: np.ndarray, weights: Sequence[float], *, most: int, tolerance: float) -> list[Portfolio]:
    """The best portfolios of 1, 2, .. schedules, up to the first whose worst regret is within the tolerance, or
    to `most`: the last is the one to take.

    seconds: schedules x sizes; infinite where a schedule does not run. Every size has one that does.
    weights: how much each size counts in the mean, which decides between portfolios that are as good at their worst

    Raises ValueError where no schedule runs at some size.

    >>> import numpy as np
    >>> table = np.array([[1.0, 9.0], [2.0, 3.0], [1.5, 3.1]])
    >>> [p.chosen for p in choose(table, [1, 1], most=2, tolerance=0.05)]
    [(2,), (0, 1)]
    """
    best = seconds.min(axis=0)
    if not np.isfinite(best).all():
        raise ValueError(f"nothing runs at size {int(np.argmax(~np.isfinite(best)))}")
    regrets = seconds / best - 1.0
    share = np.asarray(weights, dtype=float) / np.sum(weights)

    def cost(rows: Rows) -> tuple[float, float, Rows]:
        least = regrets[list(rows)].min(axis=0)
        mean = float(np.log1p(least) @ share) if np.isfinite(least).all() else np.inf
        return max(float(least.max()), tolerance), mean, rows

    found: list[Portfolio] = []
    rows: Rows = ()
    for k in range(1, min(most, len(seconds)) + 1):
        rows = _best(len(seconds), k, cost, rows)
        table = regrets[list(rows)]
        serves = table.argmin(axis=0)
        used = sorted({int(i) for i in serves})
        portfolio = Portfolio(
            tuple(rows[i] for i in used),
            tuple(used.index(int(i)) for i in serves),
            tuple(float(x) for x in table.min(axis=0)),
        )
        found.append(portfolio)
        if portfolio.worst <= tolerance:
            break
    return found


def _best(n: int, k: int, cost: Cost, fewer: Rows) -> Rows:
    """The best k of n rows; `fewer` is the best choice of one less."""
    if comb(n, k) <= ENOUGH:
        return min(map(cost, combinations(range(n), k)))[2]
    rows = min(cost((*fewer, i)) for i in range(n) if i not in fewer)
    while True:
        others = [i for i in range(n) if i not in rows[2]]
        exchanged = ((*(r for r in rows[2] if r != out), i) for out, i in product(rows[2], others))
        better = min(map(cost, exchanged))
        if better[:2] >= rows[:2]:
            return rows[2]
        rows = better


#: Best schedules of each size that are measured at all the others.
SHARED = 3
#: Seconds, about, of measuring at one size what was good at the others, and of the play-off there.
SELECTION_S = 12.0
#: Trials for each size where neither trials nor seconds are limited.
TRIALS = 100

Sizes = dict[str, int]


@dataclass(frozen=True)
class SizesResult:
    """The result of `tune_sizes`. Times are seconds, regrets shares: 0.03 is 3 % slower than the best at that size.

    `kernels`: their records and regions, in the order of their numbers; empty when the run was interrupted.
    `serves`: which kernel is for each of `sizes`; `seconds` and `regrets`: its time there, and what it loses;
    `worst`: the largest regret of the best choice of 1, 2, .. kernels, up to as many as were taken.
    """

    workload: str
    target: str
    sizes: list[Sizes]
    results: list[TuneResult]
    kernels: list[Member]
    serves: list[int]
    seconds: list[float]
    regrets: list[float]
    worst: list[float]
    elapsed_s: float
    interrupted: bool = False

    @property
    def trials(self) -> int:
        return sum(r.trials for r in self.results)

    def guard(self, kernel: int) -> str:
        """The sizes of a kernel, in words."""
        return " or ".join(map(describe, self.kernels[kernel].boxes))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        kernels = [
            {"record": m.record.id, "sketch": m.record.sketch, "knobs": m.record.knobs, "when": self.guard(i)}
            for i, m in enumerate(self.kernels)
        ]
        return {
            **vars(self), "results": [r.to_json() for r in self.results], "kernels": kernels, "trials": self.trials,
        }  # fmt: skip


@spelled_out
def tune_sizes(
    what: Workload | WorkloadFunction[...] | str,
    sizes: Sequence[Mapping[str, int]],
    target: TargetLike = None,
    *,
    kernels: int = 4,
    tolerance: float = 0.05,
    weights: Sequence[float] | None = None,
    trials: int | None = None,
    budget_s: float | None = None,
    round_trials: int = ROUND,
    progress: Callable[[Event], None] | bool | None = None,
    watch: Callable[[int, Event], None] | None = None,
    **search: Unpack[SearchKeywords],
) -> SizesResult:
    """Find one kernel, or a few, for a workload whose sizes are open, and record which is for which sizes.

    sizes:     representative ones, each a value for every size: `[{"n": 64}, {"n": 4096}]`
    kernels:   how many to use at most
    tolerance: add a kernel while some size runs slower than its best by more than this share
    weights:   how much each size counts; by default all alike
    trials:    of all sizes together, 100 for each where neither this nor `budget_s` (seconds) is given. Measuring at
               all sizes what was found at one comes on top

    The rest is as for `tune_tasks`; what is minimised is the geometric mean. `build(what)` without sizes then makes
    one function with all kernels, on the device they were measured on; `build(what, sizes=..)` takes the record of
    the nearest sizes alone, as ever.

    Raises UsageError for arguments that cannot be meant, and what `tune` raises before it measures. Ctrl-C
    ends the run with what was found at each size, no kernels chosen, and `interrupted` set.
    """
    options = SearchOptions.of("tune_sizes", search)
    w = as_workload(what)
    asked = f"tune_sizes({getattr(w, 'name', w)})"
    if not isinstance(w, Workload):
        raise UsageError("it has no sizes to tune over", asked=asked, legal="a workload, with symbolic shapes")
    check_tunable("tune_sizes", [w], inputs=(), progress=progress, watch=watch)
    check_positive("tune_sizes", or_none=False, kernels=kernels, round_trials=round_trials)
    inputs, weights = _checked(w, sizes, weights, tolerance, asked)
    limit = TRIALS * len(sizes) if trials is None and budget_s is None else trials
    check_positive("tune_sizes", trials=limit, budget_s=budget_s)
    tell, to = listener(progress), resolve_target(target)
    names = [f"{w!r} at {_spell(at)}" for at in sizes]
    each = [(name, w, arrays, x) for name, arrays, x in zip(names, inputs, weights, strict=True)]
    tasks = begin(each, to, options, round_trials, tell, watch, budget_s)
    scheduler = Scheduler(tasks, "gradient", partial(_geometric_mean, weights), limit, budget_s, tell, may_skip=False)
    scheduler.playoff_s = SELECTION_S
    selection = _Selection(tasks, weights, kernels, tolerance)
    try:
        scheduler.rounds()
        selection.run()
    except KeyboardInterrupt:
        tell(Note("interrupted before kernels were chosen; what was found at each size is recorded", "warning"))
        return selection.result(scheduler.result(True).results, scheduler.elapsed)
    return selection.result(scheduler.result(False).results, scheduler.elapsed)


def _geometric_mean(weights: Sequence[float], seconds: Sequence[float]) -> float:
    logs = sum(weight * math.log(s) for weight, s in zip(weights, seconds, strict=True))
    return math.exp(logs / sum(weights))


def _checked(
    w: Workload,
    sizes: Sequence[Mapping[str, int]],
    weights: Sequence[float] | None,
    tolerance: float,
    asked: str,
) -> tuple[list[list[np.ndarray]], list[float]]:
    """The inputs and weights of all sizes. Raises UsageError."""
    names = w.size_names()
    if not names:
        raise UsageError("its shapes are fixed", asked=asked, legal="a workload with a `te.var` in its shapes")
    expect(sizes, "a list of dictionaries", is_list_of(sizes, Mapping), f"{asked}, sizes")
    if not sizes:
        raise UsageError("there are no sizes", asked=asked, legal=f"values for {', '.join(names)}, once or more")
    for at in sizes:
        right = set(at) == set(names) and all(isinstance(n, int) and n > 0 for n in at.values())
        if not right:
            legal = f"a number from 1 for each of {', '.join(names)}"
            raise UsageError(f"{dict(at)} are not its sizes", asked=asked, legal=legal)
    if len({tuple(sorted(at.items())) for at in sizes}) < len(sizes):
        raise UsageError(
            "the same sizes are given twice", asked=asked, legal="each once; weights=.. says which count more"
        )
    is_number = isinstance(tolerance, numbers.Real) and not isinstance(tolerance, bool)
    expect(tolerance, "a number, 0 or more", is_number, f"{asked}, tolerance={tolerance!r:.40}")
    if not tolerance >= 0:
        raise UsageError("it is less than 0", asked=f"{asked}, tolerance={tolerance}", legal="0 or more")
    listed = check_weights(weights, len(sizes), "tune_sizes")
    inputs = [w.sample_inputs(dict(at)) for at in sizes]
    for at, arrays in zip(sizes, inputs, strict=True):
        if (made := w.sizes_of(arrays)) != dict(at):
            raise UsageError(
                f"its inputs for {_spell(at)} have {_spell(made)}",
                asked=asked,
                legal="inputs(..) that follow the sizes",
            )
    return inputs, listed


def _spell(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={n}" for name, n in sizes.items())


class _Selection:
    """The choice of kernels: what was found at each size is measured at all of them, a table of schedules x sizes."""

    def __init__(self, tasks: list[TaskRun], weights: Sequence[float], kernels: int, tolerance: float) -> None:
        self.tasks, self.weights, self.most, self.tolerance = tasks, weights, kernels, tolerance
        self.runs = [t.run for t in tasks]
        self.found: list[Portfolio] = []
        self.kernels: list[Member] = []
        self.seconds: list[float] = []

    def run(self) -> None:
        """Measure every candidate at every size once; those that a choice could fall on meet in a play-off of each
        size; choose, and write a line to the log for each size, which says which kernel is its own."""
        rows = self._exchange()
        seconds, keys = _seconds(rows), list(rows)
        likely = {int(i) for i in seconds.argmin(axis=0)}
        for p in choose(seconds, self.weights, most=self.most, tolerance=0.0):
            likely.update(p.chosen)
        rows = self._play([keys[i] for i in sorted(likely)], rows)
        self.found = choose(_seconds(rows), self.weights, most=self.most, tolerance=self.tolerance)
        self._settle(list(rows.values()))

    def _exchange(self) -> dict[str, dict[int, Record | None]]:
        """Schedule -> size -> its record there, None where it does not run."""
        known = [{_key(r): r for r in latest([*run.earlier, *run.measured]) if r.ok} for run in self.runs]
        wanted = {_key(r): r for run in self.runs for r in playoff.finalists_of(run)[:SHARED]}
        for run, mine in zip(self.runs, known, strict=True):
            run.patience = None
            new = [c for key, r in wanted.items() if key not in mine and (c := _valid(run, r)) is not None]
            with run.measuring():
                for trial in run.measure(new):
                    del trial  # the run has its record
            mine.update({_key(r): r for r in run.measured if r.ok and _key(r) in wanted})
        return {key: {j: mine.get(key) for j, mine in enumerate(known)} for key in wanted}

    def _play(
        self, keys: Sequence[str], rows: dict[str, dict[int, Record | None]]
    ) -> dict[str, dict[int, Record | None]]:
        """The records of these schedules and the default one by the samples of a play-off at each size."""
        table: dict[str, dict[int, Record | None]] = {key: {} for key in keys}
        default: dict[int, Record | None] = {}
        for j, task in enumerate(self.tasks):
            run = task.run
            entrants = [r for key in keys if (r := rows[key][j]) is not None]
            with run.measuring():
                outcome = playoff.hold(run, entrants)
                task.result = run.finish(run.result(outcome))
            played = {_key(r): r for r in outcome.played or entrants}
            for key in keys:
                table[key][j] = played.get(key)
            default[j] = r = run.default_record
            if r is not None and outcome.default_samples:
                default[j] = replace(r, samples=outcome.default_samples)
        return {**table, playoff.DEFAULT: default}

    def _settle(self, rows: list[dict[int, Record | None]]) -> None:
        """Write to the log which kernel serves each size."""
        chosen = self.found[-1]
        run_id, at = new_id(), timestamp()
        mine: list[list[Record]] = [[] for _ in chosen.chosen]
        for j, (run, kernel) in enumerate(zip(self.runs, chosen.serves, strict=True)):
            record = rows[chosen.chosen[kernel]][j]
            assert record is not None
            line = record.with_family(run_id, kernel, at)
            run.save(line)
            mine[kernel].append(line)
            self.seconds.append(record.seconds)
        boxes = regions([(r.sizes, k) for k, rs in enumerate(mine) for r in rs])
        self.kernels = [Member(tuple(rs), tuple(boxes[k])) for k, rs in enumerate(mine)]

    def result(self, results: list[TuneResult], elapsed_s: float) -> SizesResult:
        """The result, also where nothing was chosen."""
        run = self.runs[0]
        chosen = self.found[-1] if self.kernels else None
        return SizesResult(
            repr(run.workload),
            str(run.target),
            [r.sizes for r in self.runs],
            results,
            self.kernels,
            list(chosen.serves) if chosen else [],
            self.seconds,
            list(chosen.regrets) if chosen else [],
            [p.worst for p in self.found] if chosen else [],
            elapsed_s,
            chosen is None,
        )


def _seconds(rows: dict[str, dict[int, Record | None]]) -> np.ndarray:
    """float64 [schedules, sizes], infinite where a schedule does not run."""
    return np.array([[math.inf if r is None else r.seconds for r in row.values()] for row in rows.values()])


def _key(r: Record) -> str:
    """The identity of a schedule, whatever the sizes."""
    return playoff.DEFAULT if r.sketch == playoff.DEFAULT else json.dumps([r.trace, r.knobs], sort_keys=True)


def _valid(run: Run, r: Record) -> Any:
    """The candidate that a record of other sizes is in this run; None where its knobs break a constraint here."""
    found = run.candidate_of(r)
    if found is None:
        return None
    sketch = run.space.sketches[found.sketch]
    return found if sketch.mask(np.array([found.indices], dtype=np.int64).reshape(1, -1))[0] else None
