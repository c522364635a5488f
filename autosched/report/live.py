"""The live display: a block at the bottom of the terminal, redrawn a few times a second with rich."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autosched.report.progress import Display, TuningState, event_lines
from autosched.report.text import duration, ratio, seconds
from autosched.tuning import Event, Note


class LiveDisplay(Display):
    """Best so far, a bar, pace and failures. Warnings and what is printed meanwhile scroll above it."""

    def __init__(self, stream: TextIO, console: Console | None = None) -> None:
        super().__init__(stream)
        self.state = TuningState()
        self.console = console or Console(file=stream)
        self._live = Live(console=self.console, get_renderable=self.render, refresh_per_second=4)
        self._told = 0.0, time.monotonic()  # seconds that the run had taken, and when that was told

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        self.state.update(event)
        style = "yellow" if isinstance(event, Note) and event.level == "warning" else ""
        for line in event_lines(event):
            self.console.print(Text(line, style=style), soft_wrap=True)
        self._told = self.state.elapsed_s, time.monotonic()

    def render(self) -> RenderableType:
        """The block as it is now."""
        state = self.state
        if state.started is None or state.phase == "done":
            return Text("")
        if state.phase == "searching":  # the clock goes on between events
            state.elapsed_s = self._told[0] + time.monotonic() - self._told[1]
        grid = Table.grid(padding=(0, 2))
        grid.add_row(Text("best", style="bold"), self._best())
        grid.add_row("", Text(state.candidate_line(), style="cyan", overflow="ellipsis", no_wrap=True))
        pace = [state.trials_line(), state.pace_line(), f"{duration(state.elapsed_s)} so far"]
        grid.add_row(Text(state.phase, style="bold"), Text(", ".join(filter(None, pace))))
        failed = state.failures_line()
        if failed:
            grid.add_row(Text("failures", style="bold"), Text(failed, style="yellow"))
            for reason in state.reason_lines():
                grid.add_row("", Text(reason, style="dim", overflow="ellipsis", no_wrap=True))
        bar = Table.grid()  # the bar alone would not end its line
        bar.add_row(ProgressBar(total=1.0, completed=state.fraction, width=min(60, self.console.width)))
        return Group(bar, grid)

    def _best(self) -> Text:
        state = self.state
        if not math.isfinite(state.best_seconds):
            return Text(f"nothing measured yet; the default takes {seconds(state.default_seconds)}", style="dim")
        line = Text()
        line.append(seconds(state.best_seconds), style="bold green")
        line.append(f"  {ratio(state.default_seconds / state.best_seconds)} the default", style="green")
        line.append(f" ({seconds(state.default_seconds)})", style="dim")
        return line
