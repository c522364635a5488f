"""Displays of a tuning run: each is a callable that takes events, and a context manager.

    auto    live where standard error is a terminal (and not CI), else plain
    live    redrawn in place, with rich
    plain   lines: the start, every improvement, and a sign of life every 10 s
    jsonl   one JSON object for each event
    none    warnings only

All write to standard error; standard output is kept for results.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from autosched.errors import UsageError
from autosched.records import Record
from autosched.report import PROGRESS_MODES
from autosched.report.state import TuningState, event_lines
from autosched.report.text import finite
from autosched.tuning import Event, Note, TaskStanding, TrialDone, TuneResult

#: Seconds between lines of the plain display while nothing improves.
EVERY_S = 10.0


class Display:
    """Base of the displays: writes warnings, and nothing else."""

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


class QuietDisplay(Display):
    """`--progress none`."""


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


def _plain_fields(event: Event | TaskStanding) -> dict[str, Any]:
    return {f.name: _plain(getattr(event, f.name)) for f in fields(event)}


def _plain(value: Any) -> Any:
    """`value` as what JSON can hold; infinities become null."""
    if isinstance(value, Record):
        return finite({n: getattr(value, n) for n in ("id", "sketch", "knobs", "status", "seconds", "error")})
    if isinstance(value, TaskStanding):
        return _plain_fields(value)
    if isinstance(value, TuneResult):
        return finite(value.to_json())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Path) else finite(value)


def make_display(mode: str, stream: TextIO) -> Display:
    """The display called `mode`, one of `PROGRESS_MODES`. Raises UsageError for another."""
    if mode == "auto":
        mode = "live" if _is_lively(stream) else "plain"
    if mode == "live":
        from autosched.report.live import LiveDisplay

        return LiveDisplay(stream)
    simple: dict[str, type[Display]] = {"plain": PlainDisplay, "jsonl": JsonlDisplay, "none": QuietDisplay}
    if mode not in simple:
        raise UsageError("no such display", asked=f"progress {mode!r}", legal=f"legal: {', '.join(PROGRESS_MODES)}")
    return simple[mode](stream)


def _is_lively(stream: TextIO) -> bool:
    """Whether lines can be redrawn: a terminal with a person before it, and rich installed."""
    from importlib.util import find_spec

    if os.environ.get("CI") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return False
    return find_spec("rich") is not None
