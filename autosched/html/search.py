"""What a search did, from its records: curves, failures, the best, which knobs mattered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np

from autosched.html import page
from autosched.html.charts import Axis, Cells, Chart, bars, heat, parallel
from autosched.measure.stats import median_interval, speedup_interval
from autosched.records import PREDICTED, Record, Task, latest, ranked
from autosched.report.text import census, count, duration, knobs, plural, ratio, seconds

#: candidates in the table, knobs that are drawn, points of a chart
TOP, KNOBS, POINTS = 10, 6, 600
#: trials below which nothing is said about knobs
ENOUGH = 12


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
    """The searches that records are of, those with most trials first."""
    by: dict[Task, list[Record]] = {}
    for r in records:
        by.setdefault(Task.of(r), []).append(r)
    return sorted((Search(t, rs) for t, rs in by.items()), key=lambda s: (-len(s.trials), s.name))


def sections(search: Search, standing: str = "") -> str:
    """All that records tell of a search, as HTML. `standing` says how near the best is to the machine's limit."""
    return "".join([
        summary(search, standing), convergence(search), failures(search), best_table(search), knob_sections(search),
        spent(search), machine(search),
    ])  # fmt: skip


def summary(search: Search, standing: str = "") -> str:
    """Default, best, speed-up, trials."""
    done, best, default = search.trials, search.best, search.default
    good = sum(r.ok for r in done)
    found = [(seconds(best.seconds), "best found")] if best is not None else []
    if default is not None:
        found.append((seconds(default.seconds), "default schedule"))
    if best is not None and default is not None:
        low, high = speedup_interval(default.samples, best.samples)
        sure = f" ({low:.2f} to {high:.2f})" if low > 0 and math.isfinite(high) else ""
        found.append((ratio(default.seconds / best.seconds), f"times as fast{sure}"))
    found.append((count(len(done)), f"{'trial' if len(done) == 1 else 'trials'}, {good} of them ran"))
    if standing:
        found.append((standing.split(" ", 1)[0], standing.partition(" ")[2] or "of the machine's limit"))
    return page.facts(found)


# -- curves --------------------------------------------------------------------------------------------
def convergence(search: Search) -> str:
    """The best so far over trials and over seconds, and each trial as a dot."""
    ran = [(n, r) for n, r in enumerate(search.trials, 1) if r.ok]
    if len(ran) < 2:
        return ""
    times = [r.seconds for _, r in ran]
    y = Axis.of("time of a call", times, is_log=True, spell=seconds)
    begun = search.trials[0].moment
    over = [
        ("trials", [float(n) for n, _ in ran], "{:.0f}".format),
        ("seconds since the first trial", [r.moment - begun for _, r in ran], "{:.0f}".format),
    ]
    drawn = []
    strategies = list(dict.fromkeys(r.strategy for _, r in ran))
    for name, places, spell in over:
        chart = Chart(Axis.of(name, places, spell=spell), y)
        for colour, strategy in enumerate(strategies, 1):
            mine = [k for k, (_, r) in enumerate(ran) if r.strategy == strategy][-POINTS:]
            told = [f"{seconds(times[k])}  {ran[k][1].sketch}  {knobs(ran[k][1].knobs)}" for k in mine]
            chart.points([(places[k], times[k]) for k in mine], colour, told=told, name=strategy)
        best = np.minimum.accumulate(np.array(times))
        order = np.argsort(np.array(places), kind="stable")
        chart.curve([(places[k], float(best[k])) for k in order], 0, steps=True, name="best so far")
        if search.default is not None:
            chart.level(search.default.seconds, "default schedule")
        drawn.append(chart.svg(f"best time over {name}"))
    return page.section("Convergence", *drawn)


def failures(search: Search) -> str:
    """How trials ended, and the most frequent reasons."""
    bad = [r for r in search.trials if not r.ok]
    if not bad:
        return page.section("Failures", page.paragraph("None."))
    by = Counter(r.status for r in bad)
    rows = [(status, float(n), f"{n} of {len(search.trials)}") for status, n in by.most_common()]
    reasons = Counter(" ".join(r.error.split())[:160] for r in bad)
    listed = page.table(["times", "reason"], [[str(n), why] for why, n in reasons.most_common(6)], right=(0,))
    return page.section("Failures", page.paragraph(census(dict(by))), bars(rows, "failures by kind"), listed)


def best_table(search: Search) -> str:
    """The best candidates with the limits of their medians."""
    rows = []
    for n, r in enumerate(search.ranked[:TOP], 1):
        limits = ""
        if len(r.samples) >= 3:
            low, high = median_interval(r.samples)
            limits = f"{seconds(low)} to {seconds(high)}" if math.isfinite(high) else ""
        verified = "" if r.verified == "no" else r.verified
        of_best = ratio(search.ranked[0].seconds / r.seconds) if r.seconds else ""
        rows.append([str(n), seconds(r.seconds), limits, of_best, r.sketch, knobs(r.knobs), verified, r.id[:8]])
    header = ["", "time", "95 % of the median", "of best", "sketch", "knobs", "verified", "record"]
    return (
        page.section(f"Best {plural(len(rows), 'candidate')}", page.table(header, rows, right=(1, 3))) if rows else ""
    )


# -- knobs ---------------------------------------------------------------------------------------------
def knob_sections(search: Search) -> str:
    """Which knobs mattered, together and alone, in the sketch with most trials."""
    ran = [r for r in search.trials if r.ok and r.knobs and r.seconds > 0]
    by = Counter(r.sketch for r in ran)
    if not by or by.most_common(1)[0][1] < ENOUGH:
        return ""
    sketch, n = by.most_common(1)[0]
    rows = [r for r in ran if r.sketch == sketch]
    names = [k for k in rows[0].knobs if len({r.knobs.get(k) for r in rows}) > 1]
    rows = [r for r in rows if all(k in r.knobs for k in names)]
    if not names:
        return ""
    shares = importance(names, rows)
    ordered = sorted(names, key=lambda k: -shares[k])[:KNOBS]
    drawn = bars([(k, shares[k], f"{shares[k]:.0%}") for k in ordered], "importance of knobs")
    about = page.paragraph(
        f"Of {plural(n, 'trial')} of {sketch}: the share of the variance of log time that each knob explains, "
        "by a functional analysis of variance on a random forest (Hutter et al., ICML 2014).",
        dim=True,
    )
    return (
        page.section("Which knobs matter", about, drawn)
        + page.section("Each alone", *(_scatter(k, rows) for k in ordered[:3]))
        + page.section("Together", _pair(ordered, rows))
        + page.section("All at once", _parallel(ordered, rows))
    )


def importance(names: Sequence[str], rows: Sequence[Record]) -> dict[str, float]:
    """The share of the variance of log time that each knob explains alone (Optuna's fANOVA)."""
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


def _scatter(name: str, rows: Sequence[Record]) -> str:
    values = sorted({r.knobs[name] for r in rows})
    marks = tuple(map(float, range(0, len(values), -(-len(values) // 16))))
    x = Axis(name, -0.5, len(values) - 0.5, spell=lambda v: str(values[round(v)]), marks=marks)
    chart = Chart(x, Axis.of("time of a call", [r.seconds for r in rows], is_log=True, spell=seconds), height=220)
    place = {v: float(k) for k, v in enumerate(values)}
    chart.points(
        [(place[r.knobs[name]], r.seconds) for r in rows[-POINTS:]], 0, told=[knobs(r.knobs) for r in rows[-POINTS:]]
    )
    return chart.svg(f"time by {name}")


def _pair(names: Sequence[str], rows: Sequence[Record]) -> str:
    """The median time by the two knobs that matter most."""
    if len(names) < 2:
        return ""
    a, b = names[:2]
    across, down = (sorted({r.knobs[k] for r in rows})[:12] for k in (a, b))
    cells: list[list[float | None]] = []
    for y in down:
        found = [[r.seconds for r in rows if (r.knobs[a], r.knobs[b]) == (x, y)] for x in across]
        cells.append([median(t) if t else None for t in found])
    table = Cells((a, [*map(str, across)]), (b, [*map(str, down)]), cells)
    return heat(table, seconds, f"median time by {a} and {b}")


def _parallel(names: Sequence[str], rows: Sequence[Record]) -> str:
    values = {k: sorted({r.knobs[k] for r in rows}) for k in names}
    best = min(r.seconds for r in rows)

    def place(r: Record, k: str) -> float:
        return values[k].index(r.knobs[k]) / max(1, len(values[k]) - 1)

    lines = [([place(r, k) for k in names], best / r.seconds, f"{seconds(r.seconds)}  {knobs(r.knobs)}") for r in rows]
    return parallel(names, lines[-300:], "knobs of all candidates, the best on top")


# -- time and machine ------------------------------------------------------------------------------------
def spent(search: Search) -> str:
    """Where the time of the search went, as far as records tell."""
    done = search.trials
    built = sum(r.build_s for r in done)
    timed = sum(sum(r.samples) for r in done)
    whole = sum(last.moment - first.moment for first, last in _runs(done))
    if whole <= 0:
        return ""
    rows = [("building, all builders", built, duration(built)), ("one call of each sample", timed, duration(timed))]
    text = f"{duration(whole)} between the first and the last record; builders work side by side."
    return page.section("Where the time went", page.paragraph(text, dim=True), bars(rows, "seconds by activity"))


def _runs(done: Sequence[Record]) -> list[tuple[Record, Record]]:
    by: dict[str, list[Record]] = {}
    for r in done:
        by.setdefault(r.run, []).append(r)
    return [(rs[0], rs[-1]) for rs in by.values()]


def machine(search: Search) -> str:
    """The device and versions of the last record."""
    if not search.trials:
        return ""
    r = search.trials[-1]
    rows = [[k, str(v)] for k, v in {**r.device, **r.versions}.items()]
    rows += [["target", r.target], ["recorded", f"{search.trials[0].at} to {r.at}"]]
    return page.section("Machine", page.table(["", ""], rows))
