"""What a search did, from its records: curves, failures, the best, which knobs mattered."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.html import page
from autosched.html.charts import Axis, Cells, Chart, bars, heat, parallel
from autosched.html.numbers import BEST, VALUES, Search, Study, bests_of_runs, census_of, curve_of, limits_of, study_of
from autosched.measure.stats import differ, median_interval, speedup_interval
from autosched.noise import undisturbed
from autosched.records import Record
from autosched.report.text import census, count, duration, knobs, plural, ratio, seconds
from autosched.space.workload import Workload

#: candidates in the table, points of a chart
TOP, POINTS = 10, 600


def summary(search: Search, w: Workload | None = None) -> str:
    """Default, best, speed-up, trials; where the workload is known, how near the best is to the machine's limit."""
    done, best, default = search.trials, search.best, search.default
    good = sum(r.ok for r in done)
    found = [(seconds(best.seconds), BEST)] if best is not None else []
    if default is not None:
        found.append((seconds(default.seconds), "default schedule"))
    if best is not None and default is not None:
        low, high = speedup_interval(default.samples, best.samples)
        sure = f" ({low:.2f} to {high:.2f})" if low > 0 and math.isfinite(high) else ""
        found.append((ratio(default.seconds / best.seconds), f"times as fast{sure}"))
    found.append((count(len(done)), f"{'trial' if len(done) == 1 else 'trials'}, {good} of them ran"))
    for name, near in limits_of(search, w):
        if name == BEST:
            found.append((f"{near.fraction:.0%}", f"of the {near.limit} roofline"))
    return page.facts(found)


# -- curves --------------------------------------------------------------------------------------------
def convergence(search: Search) -> str:
    """The best so far over trials and over seconds, and each trial as a dot."""
    c = curve_of(search)
    if c is None:
        return ""
    y = Axis.of("time of a call", c.times, is_log=True, spell=seconds)
    drawn = []
    for name, places in (("trials", [*map(float, c.number)]), ("seconds since the first trial", c.seconds)):
        chart = Chart(Axis.of(name, places, spell="{:.0f}".format), y)
        for colour, strategy in enumerate(dict.fromkeys(c.strategies), 1):
            mine = [k for k, s in enumerate(c.strategies) if s == strategy][-POINTS:]
            points = [(places[k], c.times[k]) for k in mine]
            chart.points(points, colour, told=[c.told[k] for k in mine], name=strategy)
        chart.curve(sorted(zip(places, c.best, strict=True), key=lambda p: p[0]), 0, steps=True, name="best so far")
        if c.default is not None:
            chart.level(c.default, "default schedule")
        drawn.append(chart.svg(f"best time over {name}"))
    return page.section("Convergence", *drawn)


def roofline(search: Search, w: Workload | None) -> str:
    """The share of the machine's limit that the default schedule and the best reach."""
    rows = [(name, near.fraction, f"{near.fraction:.1%}, {near.limit}") for name, near in limits_of(search, w)]
    return page.section("Share of the roofline", bars(rows, "share of the roofline", most=1.0)) if rows else ""


def failures(search: Search) -> str:
    """How trials ended, and the most frequent reasons."""
    c = census_of(search)
    if not c.kinds:
        return page.section("Failures", page.paragraph("None."))
    rows = [(status, float(n), f"{n} of {c.trials}") for status, n in c.kinds.items()]
    listed = page.table(["times", "reason"], [[str(n), why] for why, n in c.reasons], right=(0,))
    return page.section("Failures", page.paragraph(census(c.kinds)), bars(rows, "failures by kind"), listed)


#: below tables with a verdict
_HOW = (
    "Really different? By the statistics of `autosched compare`, from the samples on record. Those taken apart are not "
    "of one play-off: the machine may have changed between them. `autosched compare A B`, or `report --compare`, times "
    "both in turns."
)


def against(best: Record, r: Record) -> str:
    """Whether a record really differs from the best, by its samples."""
    if r.id == best.id:
        return ""
    d = differ(best.samples, r.samples)
    low, high = d.interval
    word = "too few samples" if d.is_open else {"a": "slower", "b": "faster", "": "tie"}[d.faster]
    in_turns = None not in (r.playoff, best.playoff) and r.playoff.get("run") == best.playoff.get("run")  # type: ignore[union-attr]
    return f"{word}: {d.ratio:.2f}x ({low:.2f} to {high:.2f}){'' if in_turns else ', apart'}"


def runs_table(search: Search) -> str:
    """Where the records are of several runs, the best of each, and whether these really differ."""
    found = bests_of_runs(search)
    if len(found) < 2:
        return ""
    first, rows = found[0], []
    for r in found:
        ours = [x for x in search.trials if x.run == r.run]
        begun = min(ours, key=lambda x: x.moment).at[:16].replace("T", " ")
        names = ", ".join(dict.fromkeys(x.strategy for x in ours if x.strategy))
        rows.append([r.run[:8], begun, names, str(len(ours)), seconds(r.seconds), r.id[:8], against(first, r)])
    header = ["run", "begun", "strategy", "trials", "best", "record", "against the best run"]
    return page.section(f"{len(rows)} runs", page.table(header, rows, right=(3, 4)), page.paragraph(_HOW, dim=True))


def best_table(search: Search) -> str:
    """The best candidates with the limits of their medians."""
    rows = []
    for n, r in enumerate(search.ranked[:TOP], 1):
        limits = ""
        calm = undisturbed(r.samples)  # as the time beside it
        if len(calm) >= 3:
            low, high = median_interval(calm)
            limits = f"{seconds(low)} to {seconds(high)}" if math.isfinite(high) else ""
        verified = "" if r.verified == "no" else r.verified
        of_best = ratio(search.ranked[0].seconds / r.seconds) if r.seconds else ""
        verdict = against(search.ranked[0], r)
        rows.append(
            [str(n), seconds(r.seconds), limits, of_best, verdict, r.sketch, knobs(r.knobs), verified, r.id[:8]]
        )
    header = ["", "time", "95 % of the median", "of best", "against the best", "sketch", "knobs", "verified", "record"]
    how = page.paragraph(_HOW, dim=True) if len(rows) > 1 else ""
    title = f"Best {plural(len(rows), 'candidate')}"
    return page.section(title, page.table(header, rows, right=(1, 3)), how) if rows else ""


# -- knobs ---------------------------------------------------------------------------------------------
def knob_sections(search: Search) -> str:
    """Which knobs mattered, together and alone, in the sketch with most trials."""
    study = study_of(search)
    if study is None:
        return ""
    drawn = bars([(k, study.shares[k], f"{study.shares[k]:.0%}") for k in study.knobs], "importance of knobs")
    about = page.paragraph(
        f"Of {plural(study.trials, 'trial')} of {study.sketch}: the share of the variance of log time that each knob "
        "explains, by a functional analysis of variance on a random forest (Hutter et al., ICML 2014).",
        dim=True,
    )
    lines = [(places, good, f"{seconds(r.seconds)}  {knobs(r.knobs)}") for places, good, r in study.lines()]
    return (
        page.section("Which knobs matter", about, drawn)
        + page.section("Each alone", *(_scatter(k, study) for k in study.knobs[:3]))
        + page.section("Together", _pair(study))
        + page.section("All at once", parallel(study.knobs, lines, "knobs of all candidates, the best on top"))
    )


def _scatter(name: str, study: Study) -> str:
    values, rows = study.values(name), study.rows
    marks = tuple(map(float, range(0, len(values), -(-len(values) // 16))))
    x = Axis(name, -0.5, len(values) - 0.5, spell=lambda v: str(values[round(v)]), marks=marks)
    chart = Chart(x, Axis.of("time of a call", [r.seconds for r in rows], is_log=True, spell=seconds), height=220)
    place = {v: float(k) for k, v in enumerate(values)}
    shown = rows[-POINTS:]
    chart.points([(place[r.knobs[name]], r.seconds) for r in shown], 0, told=[knobs(r.knobs) for r in shown])
    return chart.svg(f"time by {name}")


def _pair(study: Study) -> str:
    """The median time by the two knobs that matter most."""
    if len(study.knobs) < 2:
        return ""
    a, b = study.knobs[:2]
    across, down = ([*map(str, study.values(k)[:VALUES])] for k in (a, b))
    return heat(Cells((a, across), (b, down), study.medians(a, b)), seconds, f"median time by {a} and {b}")


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
