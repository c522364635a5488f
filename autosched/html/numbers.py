"""The numbers of a search's charts, from its records: `search.py` draws them as SVG, `autosched.plot` as figures."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, RecordError, clipped
from autosched.records import PREDICTED, Record, Task, latest, ranked
from autosched.report.summary import Standing, standing
from autosched.report.text import knobs, seconds
from autosched.schedule.trace import Trace
from autosched.space.loading import find_workload
from autosched.space.workload import Workload
from autosched.target import Target

#: what is compared with the machine's limit
DEFAULT, BEST = "default schedule", "best found"
#: knobs that are drawn, values of one in a map, lines of parallel coordinates
KNOBS, VALUES, LINES = 6, 12, 300
#: trials below which nothing is said about knobs
ENOUGH = 12
#: frequent reasons of failures that are listed, and characters of one
REASONS, LONGEST = 6, 160


@dataclass(frozen=True)
class Search:
    """The records of one task, in the order of their time."""

    task: Task
    records: Sequence[Record]

    @property
    def name(self) -> str:
        sizes = f" at {knobs(dict(self.task.sizes))}" if self.task.sizes else ""
        return f"{self.task.workload}{sizes}"

    @cached_property
    def trials(self) -> list[Record]:
        """What was tried, each once, with its last line."""
        found = [r for r in latest(self.records) if r.status != PREDICTED]
        return sorted(found, key=lambda r: (r.moment, r.trial))

    @cached_property
    def default(self) -> Record | None:
        return next((r for r in self.trials if r.sketch == "default" and r.ok), None)

    @cached_property
    def ranked(self) -> list[Record]:
        found = ranked(list(self.records), key=self.task.key, target=self.task.target)
        return [c.record for c in found]

    @property
    def best(self) -> Record | None:
        return self.ranked[0] if self.ranked else None


def searches_of(records: Sequence[Record]) -> list[Search]:
    """The searches that records are of, those with most trials first. A record whose trace is none, or lacks the value
    of a knob, is passed over with a warning."""
    by: dict[Task, list[Record]] = {}
    for r in records:
        try:
            Trace.from_json(r.trace).at(r.knobs)
        except RecordError as error:
            warnings.warn(f"record {r.id:.40} is passed over: {clipped(error)}", RuntimeWarning, stacklevel=2)
        else:
            by.setdefault(Task.of(r), []).append(r)
    return sorted((Search(t, rs) for t, rs in by.items()), key=lambda s: (-len(s.trials), s.name))


def bests_of_runs(search: Search) -> list[Record]:
    """The best record of each run that has one, the best first."""
    found: dict[str, Record] = {}
    for r in search.ranked:
        if r.run not in found or r.seconds < found[r.run].seconds:
            found[r.run] = r
    return sorted(found.values(), key=lambda r: r.seconds)


@dataclass(frozen=True)
class Curve:
    """Trials that ran, in the order of their time: `number`s from 1, `seconds` since the first, `times` of a call in
    seconds, and the `best` so far."""

    number: list[int]
    seconds: list[float]
    times: list[float]
    best: list[float]
    strategies: list[str]
    told: list[str]  #: each in words
    default: float | None  #: seconds of the default schedule


def curve_of(search: Search) -> Curve | None:
    """The trials of a search; None with less than two."""
    ran = [(n, r) for n, r in enumerate(search.trials, 1) if r.ok]
    if len(ran) < 2:
        return None
    times, begun = [r.seconds for _, r in ran], search.trials[0].moment
    return Curve(
        [n for n, _ in ran], [r.moment - begun for _, r in ran], times, np.minimum.accumulate(np.array(times)).tolist(),
        [r.strategy for _, r in ran], [f"{seconds(r.seconds)}  {r.sketch}  {knobs(r.knobs)}" for _, r in ran],
        None if search.default is None else search.default.seconds,
    )  # fmt: skip


@dataclass(frozen=True)
class Census:
    """How many trials failed in which way, and the most frequent reasons."""

    trials: int
    kinds: dict[str, int]
    reasons: list[tuple[str, int]]


def census_of(search: Search) -> Census:
    """The failures of a search."""
    bad = [r for r in search.trials if not r.ok]
    reasons = Counter(" ".join(r.error.split())[:LONGEST] for r in bad)
    kinds = dict(Counter(r.status for r in bad).most_common())
    return Census(len(search.trials), kinds, reasons.most_common(REASONS))


@dataclass(frozen=True)
class Study:
    """The trials of the sketch with most of them: `knobs` with more than one value, those that matter most first."""

    sketch: str
    trials: int
    rows: Sequence[Record]
    shares: dict[str, float]

    @property
    def knobs(self) -> list[str]:
        return list(self.shares)[:KNOBS]

    def values(self, knob: str) -> list[int]:
        """The values that were tried, in order."""
        return sorted({r.knobs[knob] for r in self.rows})

    def medians(self, across: str, down: str) -> list[list[float | None]]:
        """For each value of `down` and each of `across` the median time in seconds; None where nothing was tried."""
        times: dict[tuple[int, int], list[float]] = {}
        for r in self.rows:
            times.setdefault((r.knobs[across], r.knobs[down]), []).append(r.seconds)
        columns, lines = self.values(across)[:VALUES], self.values(down)[:VALUES]
        return [[median(times[x, y]) if (x, y) in times else None for x in columns] for y in lines]

    def lines(self) -> list[tuple[list[float], float, Record]]:
        """For each trial its place on the axis of each knob, from 0 to 1, and the best time divided by its own."""
        at = {k: {v: i / max(1, len(self.values(k)) - 1) for i, v in enumerate(self.values(k))} for k in self.knobs}
        best = min(r.seconds for r in self.rows)
        return [([at[k][r.knobs[k]] for k in self.knobs], best / r.seconds, r) for r in self.rows][-LINES:]


def study_of(search: Search) -> Study | None:
    """The knobs of a search; None where too few trials ran."""
    ran = [r for r in search.trials if r.ok and r.knobs and r.seconds > 0]
    by = Counter(r.sketch for r in ran)
    if not by or by.most_common(1)[0][1] < ENOUGH:
        return None
    sketch, n = by.most_common(1)[0]
    rows = [r for r in ran if r.sketch == sketch]
    names = [k for k in rows[0].knobs if len({r.knobs.get(k) for r in rows}) > 1]
    rows = [r for r in rows if all(k in r.knobs for k in names)]
    if not names:
        return None
    shares = importance(names, rows)
    return Study(sketch, n, rows, {k: shares[k] for k in sorted(names, key=lambda k: -shares[k])})


def importance(names: Sequence[str], rows: Sequence[Record]) -> dict[str, float]:
    """The share of the variance of log time that each knob explains alone (Optuna's fANOVA)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in notebooks its progress bars miss a package that nobody needs here
        import optuna
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    values = {k: sorted({r.knobs[k] for r in rows}) for k in names}
    kinds: dict[str, Any] = {k: optuna.distributions.CategoricalDistribution(v) for k, v in values.items()}
    study = optuna.create_study()
    for r in rows:
        params = {k: r.knobs[k] for k in names}
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=math.log(r.seconds)))
    if len({r.seconds for r in rows}) < 2:
        return dict.fromkeys(names, 0.0)
    found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(n_trees=32, seed=0))
    return {k: float(found.get(k, 0.0)) for k in names}


def workload_of(search: Search) -> Workload | None:
    """The workload that the records are of, where the present search spaces have it."""
    if not search.records:
        return None
    try:
        w = find_workload(search.task.workload)(**search.records[0].workload["params"])
    except (AutoschedError, TypeError):
        return None
    return w if w.key == search.task.key else None


def limits_of(search: Search, w: Workload | None) -> list[tuple[str, Standing]]:
    """How near the default schedule and the best come to what the machine can do; empty where that is not known."""
    found = []
    for name, r in ((DEFAULT, search.default), (BEST, search.best)):
        if w is None or r is None:
            continue
        try:
            near = standing(w.args, Target.parse(search.task.target), dict(search.task.sizes), r.seconds)
        except AutoschedError:
            continue
        if isinstance(near, Standing):
            found.append((name, near))
    return found
