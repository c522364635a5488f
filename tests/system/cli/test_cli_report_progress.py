"""What the displays and the summary say of a scripted run."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import scripted
from rich.console import Console

from autosched.errors import UsageError
from autosched.report.live import LiveDisplay
from autosched.report.notebook import NotebookDisplay
from autosched.report.progress import (
    Display,
    JsonlDisplay,
    PlainDisplay,
    TuningState,
    event_lines,
    first_line,
    make_display,
)
from autosched.report.summary import summary_lines
from autosched.tuning import Note, Preflight

Golden = Callable[..., None]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_display(golden: Golden) -> None:
    now, stream = 0.0, io.StringIO()
    with PlainDisplay(stream, clock=lambda: now) as display:
        for now, event in scripted.run():
            display(event)
    golden(stream.getvalue())


def test_plain_display_shows_signs_of_life_every_ten_seconds() -> None:
    now, stream = 0.0, io.StringIO()
    display = PlainDisplay(stream, clock=lambda: now)
    display(scripted.started())
    before = len(stream.getvalue().splitlines())
    for index in range(1, 101):
        now = index * 0.5
        display(scripted.trial(index, scripted.record(index, 1e-3), 0.9e-3, now))
    # The first trial is beaten by an earlier best: it is no improvement.
    assert len(stream.getvalue().splitlines()) - before == 5


def test_jsonl_display_writes_one_object_an_event() -> None:
    stream = io.StringIO()
    display = JsonlDisplay(stream)
    for _, event in scripted.run():
        display(event)
    display(scripted.trial(8, scripted.record(9, status="crash"), math.inf, 15.0))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        *("started", "note", "preflight"),
        *["trial_done"] * 5,
        *("note", "playoff_done", "trial_done"),
    ]
    assert lines[0]["log"] == "records/box_blur.llvm.jsonl"
    assert lines[3]["record"]["knobs"] == {"lanes": 64, "rows": 1}
    assert lines[9]["result"]["speedup"] == 5.825
    assert lines[-1]["best_seconds"] is None
    assert lines[-1]["record"]["seconds"] is None


def test_quiet_display_keeps_warnings() -> None:
    stream = io.StringIO()
    display = Display(stream)
    for _, event in scripted.run():
        display(event)
    assert stream.getvalue() == "warning: records cannot be written any more: disk full\n"


def test_live_display_shows_best_pace_and_failures() -> None:
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None)
    display = LiveDisplay(stream, console)
    shown = []
    with display:
        for _, event in scripted.run():
            display(event)
            page = Console(file=io.StringIO(), width=100)
            with page.capture() as capture:
                page.print(display.render())
            shown.append(capture.get())
    searching = shown[7]
    lines = [line.rstrip() for line in searching.splitlines()]
    assert len(lines) == 7  # the bar, best, its schedule, pace, failures and two reasons
    assert lines[1] == "best       412 us  5.83x the default (2.40 ms)"
    for part in ("412 us", "5.83x the default", "(2.40 ms)", "strips: lanes=64 rows=3", "7/200 trials", "searching"):
        assert part in searching
    assert "2 failed: compile 1, timeout 1" in searching
    assert "1x compile: vector of 128 x float64 is too long" in searching
    assert shown[-1].strip() == ""  # the summary takes over
    assert "default schedule: 2.40 ms" in stream.getvalue()
    assert "warning: records cannot be written" in stream.getvalue()


def test_what_the_default_schedule_was_compared_with() -> None:
    assert event_lines(Preflight(1e-3, 2.0)) == [
        "default schedule: 1.00 ms, output verified (the NumPy reference took 2.0 s)"
    ]
    assert event_lines(Preflight(1e-3, None)) == ["default schedule: 1.00 ms, output as that of the plain loops"]


def test_the_live_display_counts_on_between_events(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr("autosched.report.live.time.monotonic", lambda: clock)
    display = LiveDisplay(Terminal())
    display(scripted.started(trials=None, budget_s=20.0))
    display(Preflight(2.4e-3, 0.1))

    def page() -> str:
        console = Console(file=io.StringIO(), width=100)
        with console.capture() as capture:
            console.print(display.render())
        return capture.get()

    clock = 105.0
    assert "nothing measured yet; the default takes 2.40 ms" in page()
    assert "0 trials, ETA 15 s, 5.0 s so far" in page()
    display(scripted.trial(1, scripted.record(1, 1e-3), 1e-3, 19.0))
    assert "play-off" in page()


def test_live_display_leaves_the_terminal_as_it_was_after_an_error() -> None:
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=100)

    def interrupted() -> None:
        with LiveDisplay(stream, console) as display:
            display(scripted.started())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stream.getvalue().rstrip().endswith("\x1b[?25h")  # the cursor is visible again


@pytest.mark.parametrize(
    ("environment", "terminal", "expected"),
    [
        ({}, True, LiveDisplay),
        ({}, False, PlainDisplay),
        ({"CI": "true"}, True, PlainDisplay),
        ({"TERM": "dumb"}, True, PlainDisplay),
        ({"NO_COLOR": "1"}, True, LiveDisplay),
    ],
)
def test_auto_is_live_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], terminal: bool, expected: type
) -> None:
    for name in ("CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    display = make_display("auto", Terminal() if terminal else io.StringIO())
    assert type(display) is expected
    if "NO_COLOR" in environment:
        assert isinstance(display, LiveDisplay)
        assert display.console.no_color


def test_an_unknown_display_is_refused() -> None:
    with pytest.raises(UsageError, match="auto, live, plain, jsonl, none"):
        make_display("fancy", io.StringIO())


# -- state ----------------------------------------------------------------------------------------
def test_pace_counts_the_trials_of_this_run_only() -> None:
    state = TuningState()
    state.update(scripted.started(resumed=100))
    state.update(Preflight(1e-3, 0.1))
    state.update(scripted.trial(120, scripted.record(1, 1e-3), 1e-3, 10.0))
    assert state.rate == pytest.approx(2.0)
    assert state.left_s == pytest.approx(40.0)
    assert state.fraction == pytest.approx(0.6)


def test_the_limit_that_comes_first_counts() -> None:
    state = TuningState()
    state.update(scripted.started(budget_s=20.0))
    state.update(scripted.trial(10, scripted.record(1, 1e-3), 1e-3, 10.0))
    assert state.left_s == pytest.approx(10.0)
    assert state.fraction == pytest.approx(0.5)
    state = TuningState()
    state.update(scripted.started(trials=None, budget_s=20.0))
    assert state.trials_line() == "0 trials"
    assert not state.pace_line()


def test_a_best_of_an_earlier_run_has_a_time_but_no_candidate() -> None:
    state = TuningState()
    state.update(scripted.started(resumed=5))
    improved = state.update(scripted.trial(6, scripted.record(1, 9e-4), 4e-4, 1.0))
    assert not improved
    assert state.best_line() == "best 400 us (6.00x)"
    assert not state.candidate_line()


def test_reasons_are_one_short_line_that_a_terminal_does_not_obey() -> None:
    assert first_line("  bad \x1b[31mred\x07 \nmore") == "bad  [31mred"
    assert len(first_line("x" * 500)) == 100


# -- summary --------------------------------------------------------------------------------------
COMMANDS = {"build": "autosched build box_blur", "resume": "autosched tune box_blur --trials 400"}


def test_summary(golden: Golden) -> None:
    golden("\n".join(summary_lines(scripted.result(notes=["a note"]), **COMMANDS)))


def test_summary_of_an_interrupted_run(golden: Golden) -> None:
    result = scripted.result(interrupted=True, interval=(0.0, math.inf), tied=[], resumed=12, failures={}, trials=1)
    golden("\n".join(summary_lines(result, **COMMANDS)))


def rows(lines: list[str]) -> dict[str, str]:
    """The table of a summary."""
    return {line[2:].partition("  ")[0]: line[2:].partition("  ")[2].strip() for line in lines if line.startswith("  ")}


def test_summary_says_when_nothing_was_won() -> None:
    lost = replace(scripted.result(), best=None, seconds=2.4e-3, speedup=1.0, interval=(1.0, 1.0), tied=[])
    lines = summary_lines(lost, **COMMANDS)
    assert rows(lines)["best found"] == "the default schedule: nothing faster was found"
    assert rows(lines)["default"] == "2.40 ms per call, without tuning"
    assert not any(line.startswith("build") for line in lines)
    tied = replace(lost, tied=["strips(rows=3)"])
    assert rows(summary_lines(tied, **COMMANDS))["best found"].endswith("strips(rows=3) are as fast")
    noise = replace(scripted.result(), interval=(0.97, 1.2), speedup=1.05)
    assert rows(summary_lines(noise, **COMMANDS))["certainty"].startswith("the difference may be noise: 0.97 to 1.20")


def test_summary_says_that_the_machine_was_busy() -> None:
    assert "machine" not in rows(summary_lines(scripted.result(), **COMMANDS))
    busy = rows(summary_lines(scripted.result(strain=0.43), **COMMANDS))["machine"]
    assert busy.startswith("busy: in each 100 s of measuring, threads waited 43 s")


def test_summary_names_a_few_of_many_ties() -> None:
    line = rows(summary_lines(scripted.result(tied=[f"strips(rows={i})" for i in range(9)]), **COMMANDS))[
        "equally fast"
    ]
    assert "strips(rows=3)" in line
    assert line.endswith("; and 5 more")


def test_notebook_display(monkeypatch) -> None:
    """The block says how it is, is drawn once and then replaced, and keeps what is told once."""
    drawn: list[str] = []

    class Handle:
        def update(self, shown: NotebookDisplay) -> None:
            drawn.append(shown._repr_html_())

    def display(shown: NotebookDisplay, display_id: bool) -> Handle:
        assert display_id
        Handle().update(shown)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("autosched.report.notebook.EVERY_S", 0.0)
    with NotebookDisplay(io.StringIO()) as shown:
        for n, (_, event) in enumerate(scripted.run(), 1):
            shown(event)
            assert len(drawn) == n
    middle, last = drawn[5], drawn[-1]
    assert "best 412 us (5.83x)" in middle
    assert "strips: lanes=64 rows=3" in middle
    assert "1 failed: compile 1" in middle
    assert float(re.search(r'value="([\d.]+)"', middle)[1]) < 1 == float(re.search(r'value="([\d.]+)"', last)[1])
    assert "play-off: 412 us" in last
    assert "warning: records cannot be written any more: disk full" in repr(shown)


def test_the_notebook_display_is_for_kernels_of_jupyter(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)  # loaded is not enough
    assert isinstance(make_display("auto", io.StringIO()), PlainDisplay)
    monkeypatch.setattr("autosched.report.notebook.is_notebook", lambda: True)
    assert isinstance(make_display("auto", io.StringIO()), NotebookDisplay)
    assert isinstance(make_display("plain", io.StringIO()), PlainDisplay)


def test_notes_of_a_display_come_from_events(tmp_path: Path) -> None:
    stream = io.StringIO()
    PlainDisplay(stream)(Note("hello"))
    assert stream.getvalue() == "note: hello\n"
