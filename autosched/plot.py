"""Figures of searches with matplotlib: the charts of `autosched report`, from the same numbers.

    from autosched import plot
    from matplotlib import pyplot

    plot.convergence("box_blur")
    pyplot.savefig("convergence.svg")

Each function takes a search and, if it is to draw on one that is there, `ax`, a matplotlib Axes; it returns the Axes.
The search is a result of `tune`, records, a RecordLog, a path, or the name of a workload. Of records of several
searches (sizes, targets, devices), the one with most trials is drawn.

Raises UsageError without matplotlib (`pip install autosched[plot]`), RecordError where there are too few records
for the figure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.errors import RecordError, UsageError, did_you_mean, expect
from autosched.html.numbers import (
    VALUES,
    Search,
    Study,
    census_of,
    curve_of,
    limits_of,
    searches_of,
    study_of,
    workload_of,
)
from autosched.records import Record, RecordLog, read_files
from autosched.records.frame import files_of_sources
from autosched.records.record import of_records
from autosched.report.text import seconds
from autosched.tuning.events import TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Source = TuneResult | RecordLog | Iterable[Record] | str | os.PathLike[str]

__all__ = ["convergence", "failures", "importance", "interaction", "parallel", "roofline", "scatter"]


def convergence(search: Source, ax: Axes | None = None, *, over: str = "trials") -> Axes:
    """Each trial as a dot, and the best so far, over `trials` or `seconds`. Times are seconds, on a log axis."""
    if over not in ("trials", "seconds"):
        raise UsageError("it is no axis", asked=f"convergence(over={over!r})", legal="'trials' or 'seconds'")
    found = _search(search)
    c = curve_of(found)
    if c is None:
        raise _too_few(found, "two trials that ran")
    ax = _axes(ax)
    places = c.number if over == "trials" else c.seconds
    for strategy in dict.fromkeys(c.strategies):
        mine = [k for k, s in enumerate(c.strategies) if s == strategy]
        ax.plot([places[k] for k in mine], [c.times[k] for k in mine], ".", alpha=0.6, label=strategy or "trials")
    ordered = sorted(zip(places, c.best, strict=True))
    ax.step([x for x, _ in ordered], [y for _, y in ordered], where="post", color="black", label="best so far")
    if c.default is not None:
        ax.axhline(c.default, linestyle="--", color="grey", label="default schedule")
    ax.set(title=found.name, xlabel="trials" if over == "trials" else "seconds since the first trial")
    _times(ax.yaxis)
    ax.legend()
    return ax


def failures(search: Source, ax: Axes | None = None) -> Axes:
    """How many trials failed, by kind; no bar where none did."""
    found, ax = _search(search), _axes(ax)
    c = census_of(found)
    ax.barh([*c.kinds], [*c.kinds.values()])
    ax.invert_yaxis()
    ax.set(title=f"{found.name}: {sum(c.kinds.values())} of {c.trials} trials failed", xlabel="trials")
    if not c.kinds:
        ax.set(xlim=(0, 1), yticks=[])
    return ax


def importance(search: Source, ax: Axes | None = None) -> Axes:
    """The share of the variance of log time that each knob explains alone, in the sketch with most trials (fANOVA)."""
    study, ax = _study(search), _axes(ax)
    ax.barh(study.knobs, [study.shares[k] for k in study.knobs])
    ax.invert_yaxis()
    ax.set(title=study.sketch, xlabel="share of the variance of log time", xlim=(0, 1))
    return ax


def scatter(search: Source, knob: str | None = None, ax: Axes | None = None) -> Axes:
    """The time of each trial by the value of a knob, by default the one that matters most."""
    study = _study(search)
    knob, ax = _knob(study, knob, "scatter", 0), _axes(ax)
    values = study.values(knob)
    ax.plot([values.index(r.knobs[knob]) for r in study.rows], [r.seconds for r in study.rows], ".", alpha=0.6)
    ax.set_xticks(range(len(values)), [str(v) for v in values])
    ax.set(title=study.sketch, xlabel=knob)
    _times(ax.yaxis)
    return ax


def interaction(search: Source, across: str | None = None, down: str | None = None, ax: Axes | None = None) -> Axes:
    """The median time by two knobs, by default those that matter most; white where nothing was tried."""
    study = _study(search)
    if len(study.knobs) < 2:
        raise RecordError(f"only {study.knobs[0]} has several values", asked="plot.interaction", legal="plot.scatter")
    a, b = _knob(study, across, "interaction", 0), _knob(study, down, "interaction", 1)
    ax = _axes(ax)
    from matplotlib.colors import LogNorm

    cells = [[float("nan") if t is None else t for t in line] for line in study.medians(a, b)]
    image = ax.imshow(cells, norm=LogNorm(), aspect="auto", cmap="viridis_r")
    for axis, knob in ((ax.xaxis, a), (ax.yaxis, b)):
        values = study.values(knob)[:VALUES]
        axis.set_ticks(range(len(values)), [str(v) for v in values])
    ax.set(title=study.sketch, xlabel=a, ylabel=b)
    _times(ax.figure.colorbar(image, ax=ax).ax.yaxis)
    return ax


def parallel(search: Source, ax: Axes | None = None) -> Axes:
    """A line for each trial through the values of its knobs, the faster the darker."""
    study, ax = _study(search), _axes(ax)
    for places, good, _ in sorted(study.lines(), key=lambda line: line[1]):
        ax.plot(range(len(places)), places, color="black" if good == 1.0 else "C0", alpha=max(0.05, good**2 * 0.6))
    ax.set_xticks(range(len(study.knobs)), study.knobs)
    ax.set(title=f"{study.sketch}, the best in black", yticks=(0, 1), yticklabels=("least", "most"))
    return ax


def roofline(search: Source, ax: Axes | None = None) -> Axes:
    """The share of the machine's limit that the default schedule and the best reach.

    Raises RecordError where the limit is not known: `autosched roofline` measures it, on CPUs; and where the workload
    of the records is not among the present search spaces.
    """
    found = _search(search)
    limits = limits_of(found, workload_of(found))
    if not limits:
        legal = "`autosched roofline` on this machine, and a workload that `autosched list workloads` shows"
        raise RecordError("its limit is not known", asked=f"plot.roofline of {found.name}", legal=legal)
    ax = _axes(ax)
    ax.barh([name for name, _ in limits], [near.fraction for _, near in limits])
    ax.invert_yaxis()
    ax.set(title=found.name, xlabel=f"share of the {limits[-1][1].limit} roofline")
    ax.set_xlim(0, max(1.0, *(near.fraction for _, near in limits)))
    return ax


# -- what is drawn, and on what ------------------------------------------------------------------------
def _search(what: Source) -> Search:
    """The search with most trials among what is given."""
    if isinstance(what, TuneResult):
        records: list[Record] = list(RecordLog(Path(what.log)).read().records)
    elif isinstance(what, RecordLog):
        records = list(what.read().records)
    elif isinstance(what, (str, os.PathLike)):
        records = list(read_files(files_of_sources(what)).records)
    else:
        expect(what, "a result of `tune`, records, or a name or path", isinstance(what, Iterable), "plot")
        records = list(of_records(what, "plot"))
    searches = searches_of(records)
    if isinstance(what, TuneResult):
        searches = [s for s in searches if _is_of(s, what)]
    if not searches:
        raise RecordError("there are no records", asked=f"plot {type(what).__name__}", legal="autosched.tune(..)")
    return searches[0]


def _is_of(search: Search, result: TuneResult) -> bool:
    found = result.best or result.predicted
    same_key = found is None or found.key == search.task.key
    return same_key and (dict(search.task.sizes), search.task.target) == (result.sizes, result.target)


def _study(what: Source) -> Study:
    search = _search(what)
    study = study_of(search)
    if study is None:
        raise _too_few(search, "a sketch with knobs of which a dozen trials ran")
    return study


def _too_few(search: Search, needed: str) -> RecordError:
    return RecordError("there are too few records for this figure", asked=f"plot {search.name}", legal=needed)


def _knob(study: Study, name: str | None, what: str, otherwise: int) -> str:
    if name is None:
        return study.knobs[otherwise]
    if name not in study.shares:
        legal = f"{did_you_mean(name, study.shares)}knobs of {study.sketch}: {', '.join(study.shares)}"
        raise UsageError(f"there is no knob {name!r} with several values", asked=f"plot.{what}", legal=legal)
    return name


def _axes(ax: Axes | None) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise UsageError(
            "the package `matplotlib` is not installed", asked="autosched.plot", legal="pip install autosched[plot]"
        ) from None
    return plt.subplots()[1] if ax is None else ax


def _times(axis: Any) -> None:
    """A log axis of times, with their units."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.axes.set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: seconds(value))
    axis.set_minor_formatter(NullFormatter())
