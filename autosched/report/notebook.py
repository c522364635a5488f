"""The live display in notebooks: one block of HTML below the cell, replaced as the run gets on."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any, TextIO

from autosched.report.progress import Display, TuningState, event_lines
from autosched.report.text import duration
from autosched.tuning import Event, PlayoffDone, Started, TrialDone

#: Seconds between two drawings, except for what comes rarely.
EVERY_S = 0.25


def is_notebook() -> bool:
    """Whether this is a kernel of Jupyter, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookDisplay(Display):
    """Best so far, a bar, pace and failures; what is told once stays, in a list that folds."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.state = TuningState()
        self._lines: list[str] = []
        self._handle: Any = None
        self._drawn = 0.0

    def __call__(self, event: Event) -> None:
        self.state.update(event)
        if isinstance(event, Started):
            self._lines.clear()  # of the task before
        self._lines += event_lines(event)
        if isinstance(event, PlayoffDone):
            self.state.elapsed_s = event.result.elapsed_s
        if not isinstance(event, TrialDone) or time.monotonic() - self._drawn > EVERY_S:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = display(self, display_id=True)
        else:
            self._handle.update(self)

    def __exit__(self, *error: object) -> None:
        if self._handle is not None:
            self._draw()

    def _told(self) -> list[str]:
        """The state in lines."""
        state = self.state
        pace = "" if state.phase == "done" else state.pace_line()
        counted = ", ".join(filter(None, (state.trials_line(), pace, f"{duration(state.elapsed_s)} so far")))
        lines = [f"{state.phase}: {counted}", state.best_line(), state.candidate_line(), state.failures_line()]
        return [line for line in [*lines, *state.reason_lines()] if line]

    def __repr__(self) -> str:
        return "\n".join([*self._lines, *self._told()])

    def _repr_html_(self) -> str:
        share = 1.0 if self.state.phase == "done" else self.state.fraction
        bar = f'<progress max="1" value="{share:.3f}" style="width:20em"></progress>'
        first, *more = self._lines or ["tuning"]
        told = f"<details><summary>{escape(first)}</summary><pre>{escape(chr(10).join(more))}</pre></details>"
        return f"{told}{bar}<br>{'<br>'.join(map(escape, self._told()))}"
