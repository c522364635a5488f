"""Displays of a tuning run: callables that take events, and context managers."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from autosched.errors import UsageError
from autosched.records import Record
from autosched.report import PROGRESS_MODES, text
from autosched.report.text import finite
from autosched.tuning import (
    PLAYOFF_SHARE,
    Event,
    Expectation,
    Note,
    PlayoffDone,
    Preflight,
    Started,
    TasksProgress,
    TaskStanding,
    TrialDone,
    TuneResult,
)


class TuningState:
    """The state of a run, summed up from its events. Times are seconds."""

    def __init__(self) -> None:
        self.started: Started | None = None
        self.phase = "starting"
        self.default_seconds = math.inf
        self.best_seconds = math.inf
        self.best: Record | None = None
        self.done = 0  # those of earlier runs included
        self.elapsed_s = 0.0
        self.expected: Expectation | None = None
        self.failures: dict[str, int] = {}
        self.reasons: Counter[str] = Counter()

    def update(self, event: Event) -> bool:
        """Take in an event; returns whether it brought a new best."""
        match event:
            case Started():
                self.started, self.phase = event, "checking the default schedule"
                self.done = event.resumed
            case Preflight():
                self.default_seconds, self.phase = event.default_seconds, "searching"
            case TrialDone():
                return self._trial(event)
            case PlayoffDone():
                self.phase = "done"
            case Note() | TasksProgress():
                pass
        return False

    def _trial(self, event: TrialDone) -> bool:
        self.done = event.index
        self.elapsed_s, self.default_seconds = event.elapsed_s, event.default_seconds
        self.failures, self.expected = event.failures, event.expected
        record = event.record
        if not record.ok:
            self.reasons[f"{record.status}: {first_line(record.error)}"] += 1
        improved = record.ok and record.seconds <= event.best_seconds < self.best_seconds
        if improved:
            self.best = record
        self.best_seconds = min(self.best_seconds, event.best_seconds)
        is_late = self.budget_s is not None and self.elapsed_s > self.budget_s * (1 - PLAYOFF_SHARE)
        if is_late or (self.trials is not None and self.done >= self.trials):
            self.phase = "play-off"
        return improved

    @property
    def trials(self) -> int | None:
        return self.started.trials if self.started is not None else None

    @property
    def budget_s(self) -> float | None:
        return self.started.budget_s if self.started is not None else None

    @property
    def rate(self) -> float:
        """Trials per second of this run."""
        resumed = self.started.resumed if self.started is not None else 0
        return (self.done - resumed) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def fraction(self) -> float:
        """The part of the run that is over, from 0 to 1: of its trials or its time, whichever ends first."""
        of_trials = self.done / self.trials if self.trials else 0.0
        of_budget = self.elapsed_s / self.budget_s if self.budget_s else 0.0
        return min(max(of_trials, of_budget), 1.0)

    @property
    def left_s(self) -> float:
        """Seconds until the search ends; infinite while nothing is known."""
        by_budget = max(self.budget_s - self.elapsed_s, 0.0) if self.budget_s else math.inf
        by_trials = (self.trials - self.done) / self.rate if self.trials is not None and self.rate else math.inf
        return min(by_budget, max(by_trials, 0.0))

    # -- lines ----------------------------------------------------------------------------------
    def trials_line(self) -> str:
        """`31/200 trials`; without a number to reach, `31 trials`."""
        return f"{self.done}/{self.trials} trials" if self.trials is not None else text.plural(self.done, "trial")

    def pace_line(self) -> str:
        """`3.1 trials/s, ETA 54 s`, and what more time would bring."""
        parts = [f"{self.rate:.1f} trials/s"] if self.rate else []
        if self.phase == "searching" and math.isfinite(self.left_s):
            parts.append(f"ETA {text.duration(self.left_s)}")
        if self.expected is not None:
            parts.append(text.more(self.expected))
        return ", ".join(parts)

    def best_line(self) -> str:
        """`best 0.41 ms (5.83x)`; the factor is over the default schedule."""
        if not math.isfinite(self.best_seconds):
            return "nothing measured yet"
        times = text.ratio(self.default_seconds / self.best_seconds)
        return f"best {text.seconds(self.best_seconds)} ({times})"

    def candidate_line(self) -> str:
        """`rows: ty=8 tx=64`; empty while no trial of this run leads."""
        if self.best is None:
            return ""
        values = text.knobs(self.best.knobs)
        return f"{self.best.sketch}: {values}" if values else self.best.sketch

    def failures_line(self) -> str:
        """`14 failed: compile 9, timeout 5`; empty when none did."""
        total = sum(self.failures.values())
        return f"{text.count(total)} failed: {text.census(self.failures)}" if total else ""

    def reason_lines(self) -> list[str]:
        """The most frequent reasons of failures, each with how often it came up."""
        return [f"{n}x {reason}" for reason, n in self.reasons.most_common(3)]


#: Sketches that the list at the start names.
MOST_SKETCHES = 8


def first_line(error: str, longest: int = 100) -> str:
    """The first line of an error, shortened, and with nothing in it that a terminal would obey."""
    line = "".join(c if c.isprintable() else " " for c in error.strip().partition("\n")[0]).strip()
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def event_lines(event: Event) -> list[str]:
    """The lines of every display about an event; none about a trial, which changes the state."""
    match event:
        case Started():
            return _start_lines(event)
        case Preflight():
            verified = "output as that of the plain loops"
            if event.reference_s is not None:
                verified = f"output verified (the NumPy reference took {text.duration(event.reference_s)})"
            return [f"default schedule: {text.seconds(event.default_seconds)}, {verified}"]
        case TasksProgress():
            return _tasks_lines(event)
        case PlayoffDone(result=r) if r.best is not None and math.isfinite(r.interval[1]):
            low, high = r.interval
            times = f"{r.speedup:.2f} times as fast as the default schedule ({low:.2f} to {high:.2f})"
            return [f"play-off: {text.seconds(r.seconds)}, {times}"]
        case Note():
            return [f"{'warning' if event.level == 'warning' else 'note'}: {event.text}"]
    return []


def _start_lines(event: Started) -> list[str]:
    """The workload, device, space and limits of a run that begins."""
    sizes = f": {text.knobs(event.sizes)}" if event.sizes else ""
    shown = [f"{name} {text.count(size)}" for name, size in event.sketches[:MOST_SKETCHES]]
    more = [f"and {len(event.sketches) - MOST_SKETCHES} more"] if len(event.sketches) > MOST_SKETCHES else []
    sketches = ", ".join(shown + more)
    limits = [text.plural(event.trials, "trial")] if event.trials is not None else []
    limits += [text.duration(event.budget_s)] if event.budget_s else []
    points = f"{text.plural(len(event.sketches), 'sketch')} ({sketches}), {text.valid_of(event.valid, event.points)}"
    lines = [
        f"tuning {event.workload} for {event.target} on {event.device}{sizes}",
        f"  {points}; {' or '.join(limits) or 'until Ctrl-C'}",
        f"  records: {event.log}",
    ]
    if event.resumed:
        lines.append(f"  resuming after {text.plural(event.resumed, 'earlier trial')}")
    return lines


def _tasks_lines(event: TasksProgress) -> list[str]:
    """The table of several tasks."""
    rows = [
        [
            t.name,
            f"{t.weight:g}",
            str(t.trials),
            text.seconds(t.default_seconds) if math.isfinite(t.default_seconds) else "",
            text.seconds(t.best_seconds) if math.isfinite(t.best_seconds) else "",
            text.ratio(t.default_seconds / t.best_seconds) if math.isfinite(t.best_seconds) else "",
        ]
        for t in event.tasks
    ]
    known = math.isfinite(event.objective)
    total = f", {text.seconds(event.objective)} in total" if known else ""
    if event.expected is not None:
        total += f", {text.more(event.expected)}"
    head = f"[{event.elapsed_s:6.1f} s] {text.plural(sum(t.trials for t in event.tasks), 'trial')}{total}"
    return [head, *text.table(rows, ["task", "weight", "trials", "default", "best", "speed-up"], right=(1, 2, 3, 4, 5))]


#: Seconds between lines of the plain display while nothing improves.
EVERY_S = 10.0


class Display:
    """The display `none`, and the base of the others: it writes warnings and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __call__(self, event: Event) -> None:
        if isinstance(event, Note) and event.level == "warning":
            self.write(f"warning: {event.text}")

    def write(self, line: str) -> None:
        self.stream.write(line + "\n")
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""


class PlainDisplay(Display):
    """Lines for a log file, a pipe or CI. `clock` gives seconds, as `time.monotonic`."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, every_s: float = EVERY_S) -> None:
        super().__init__(stream)
        self.state = TuningState()
        self._clock, self._every_s = clock, every_s
        self._last = clock()

    def __call__(self, event: Event) -> None:
        improved = self.state.update(event)
        for line in event_lines(event):
            self.write(line)
        if isinstance(event, TrialDone) and (improved or self._clock() - self._last >= self._every_s):
            self.write(self._trial_line(improved))

    def write(self, line: str) -> None:
        super().write(line)
        self._last = self._clock()

    def _trial_line(self, improved: bool) -> str:
        state = self.state
        rest = [state.candidate_line()] if improved else [state.pace_line(), state.failures_line()]
        parts = [state.trials_line(), state.best_line(), *(r for r in rest if r)]
        return f"[{state.elapsed_s:6.1f} s] {', '.join(parts)}"


class JsonlDisplay(Display):
    """One JSON object a line: `event` is the event's name, the rest its fields. Numbers are seconds."""

    def __call__(self, event: Event) -> None:
        name = re.sub("(?<!^)([A-Z])", r"_\1", type(event).__name__).lower()
        self.write(json.dumps({"event": name, **_plain_fields(event)}, allow_nan=False))


def _plain_fields(event: Event | TaskStanding | Expectation) -> dict[str, Any]:
    return {f.name: _plain(getattr(event, f.name)) for f in fields(event)}


def _plain(value: Any) -> Any:
    """`value` as what JSON can hold; infinities become null."""
    if isinstance(value, Record):
        return finite({n: getattr(value, n) for n in ("id", "sketch", "knobs", "status", "seconds", "error")})
    if isinstance(value, TaskStanding | Expectation):
        return _plain_fields(value)
    if isinstance(value, TuneResult):
        return finite(value.to_json())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Path) else finite(value)


def make_display(mode: str, stream: TextIO) -> Display:
    """The display called `mode`, one of `PROGRESS_MODES`. Raises UsageError for another."""
    if mode == "auto" and "ipykernel" in sys.modules:
        from autosched.report.notebook import NotebookDisplay, is_notebook  # which draws with IPython

        if is_notebook():
            return NotebookDisplay(stream)
    if mode == "auto":
        mode = "live" if _is_lively(stream) else "plain"
    if mode == "live":
        from autosched.report.live import LiveDisplay  # which loads rich

        return LiveDisplay(stream)
    simple: dict[str, type[Display]] = {"plain": PlainDisplay, "jsonl": JsonlDisplay, "none": Display}
    if mode not in simple:
        raise UsageError("no such display", asked=f"progress {mode!r}", legal=f"legal: {', '.join(PROGRESS_MODES)}")
    return simple[mode](stream)


def _is_lively(stream: TextIO) -> bool:
    """Whether lines can be redrawn: on a terminal of a person's, with rich installed."""
    from importlib.util import find_spec

    if os.environ.get("CI") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return False
    return find_spec("rich") is not None
