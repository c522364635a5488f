"""Figures with matplotlib: they show the numbers of the report's charts, and say what is missing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from test_report import record

import autosched
from autosched.errors import RecordError, UsageError
from autosched.html.numbers import curve_of, searches_of, study_of, workload_of
from autosched.html.search import roofline
from autosched.measure.roofline import Level, Roofline
from autosched.records import RecordLog
from autosched.te.work import work_of

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

from autosched import plot  # noqa: E402


@pytest.fixture
def records():
    good = [record(n) for n in range(32)]
    bad = [record(32 + n, status="compile", samples=(), error="no") for n in range(3)]
    other = [record(n, workload={**record(0).workload, "sizes": {"n": 128}}) for n in range(3)]
    return [*other, record(99, sketch="default", knobs={}, trace=[], samples=(4e-4,) * 5), *good, *bad]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_convergence_shows_the_curve_of_the_search_with_most_trials(records) -> None:
    c = curve_of(searches_of(records)[0])
    assert c is not None
    for over, places in (("trials", c.number), ("seconds", c.seconds)):
        ax = plot.convergence(records, over=over)
        best = next(line for line in ax.lines if line.get_label() == "best so far")
        x, y = best.get_data()
        assert sorted(places) == list(x)
        assert min(y) == pytest.approx(min(c.times))
        assert all(np.diff(y) <= 0)
        assert ax.get_title() == "made_up at n=64"
        assert ax.yaxis.get_major_formatter()(1e-4, 0) == "100 us"
        level = next(line for line in ax.lines if line.get_label() == "default schedule")
        assert level.get_ydata()[0] == pytest.approx(4e-4)
    ax.figure.canvas.draw()


def test_bars_have_the_lengths_of_the_numbers(records) -> None:
    ax = plot.failures(records)
    assert [bar.get_width() for bar in ax.patches] == [3]
    assert "3 of 36 trials failed" in ax.get_title()
    shares = study_of(searches_of(records)[0]).shares
    assert [bar.get_width() for bar in plot.importance(records).patches] == pytest.approx([*shares.values()])


def test_knobs_are_drawn_from_the_same_study(records) -> None:
    study = study_of(searches_of(records)[0])
    ax = plot.scatter(records, "lanes")
    x, y = ax.lines[0].get_data()
    assert sorted(zip(x, y, strict=True)) == sorted(((8, 16).index(r.knobs["lanes"]), r.seconds) for r in study.rows)
    assert plot.scatter(records).get_xlabel() == "rows"
    image = plot.interaction(records).images[0].get_array()
    assert np.asarray(image) == pytest.approx(np.array(study.medians("rows", "lanes")))
    lines = plot.parallel(records).lines
    assert len(lines) == len(study.rows)
    assert lines[-1].get_color() == "black"


def test_everything_is_drawn_on_the_axes_that_are_given(records) -> None:
    figure, axes = plt.subplots(2, 3)
    drawn = (plot.convergence, plot.failures, plot.importance, plot.scatter, plot.interaction, plot.parallel)
    assert [draw(records, ax=ax) for draw, ax in zip(drawn, axes.flat, strict=True)] == [*axes.flat]
    figure.canvas.draw()


def test_a_result_a_log_and_a_path_are_searches(tmp_path, monkeypatch) -> None:
    sizes = {"height": 16, "width": 16}
    result = autosched.tune("box_blur", "llvm", trials=3, sizes=sizes, records=tmp_path, progress=False)
    for what in (result, RecordLog(result.log), str(result.log), result.log):
        assert plot.convergence(what).get_title() == "box_blur at height=16 width=16"
    level = Level("L2", None, False, 1 << 20, {1: 1e11, 2: 1e11}, {1: 1e11, 2: 1e11})
    roof = Roofline("cpu", 2, "today", (level,), {"float32": {1: 1e12}, "float64": {1: 1e12}})
    monkeypatch.setattr("autosched.report.summary.cached", lambda: roof)
    (search,) = searches_of(RecordLog(result.log).read().records)
    widths = [bar.get_width() for bar in plot.roofline(result).patches]
    bound = roof.bound(work_of(workload_of(search).args, sizes), 2).seconds
    assert widths[-1] == pytest.approx(bound / (search.best or search.default).seconds)
    assert f"{widths[0]:.1%}, L2" in roofline(search, workload_of(search))
    monkeypatch.setenv("AUTOSCHED_RECORDS", str(tmp_path))
    assert plot.convergence("box_blur").lines
    with pytest.raises(RecordError, match="too few records"):
        plot.importance(result)


@pytest.mark.parametrize(
    ("draw", "error", "said"),
    [
        (lambda r: plot.convergence(r, over="days"), UsageError, "'trials' or 'seconds'"),
        (lambda r: plot.convergence([]), RecordError, "there are no records"),
        (lambda r: plot.convergence(r[:1]), RecordError, "two trials that ran"),
        (lambda r: plot.convergence(7), UsageError, "a result of `tune`, records, or a name or path"),
        (lambda r: plot.convergence("nothing_of_this_name"), RecordError, "no records of this workload"),
        (lambda r: plot.scatter(r, "row"), UsageError, "did you mean 'rows'?"),
        (lambda r: plot.scatter(r, "same"), UsageError, "no knob 'same' with several values"),
        (lambda r: plot.roofline(r), RecordError, "its limit is not known"),
    ],
)
def test_what_cannot_be_drawn(records, draw, error, said) -> None:
    with pytest.raises(error, match="(?s).*") as caught:
        draw(records)
    assert said in str(caught.value)


def test_without_matplotlib_the_message_says_how_to_get_it() -> None:
    program = (
        "import sys, autosched; assert 'matplotlib' not in sys.modules; sys.modules['matplotlib'] = None\n"
        "from autosched import plot\n"
        "try: plot.failures('box_blur')\n"
        "except autosched.errors.UsageError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install autosched[plot]" in done.stdout, done.stderr
