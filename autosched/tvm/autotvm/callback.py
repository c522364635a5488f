"""Callbacks of tuners: functions of the tuner, inputs and results of each measurement."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from autosched.tvm.autotvm.database import Database
from autosched.tvm.autotvm.env import GLOBAL_SCOPE
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult
from autosched.tvm.autotvm.record import encode
from autosched.tvm.autotvm.utils import format_si_prefix

Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]


def log_to_file(file_out: str | PathLike[str] | TextIO, protocol: str = "json") -> Callback:
    """Append a line for each measurement to a file, at once: see `record.encode`."""

    def write(_: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        text = "".join(encode(i, r, protocol) + "\n" for i, r in zip(inputs, results, strict=True))
        if isinstance(file_out, (str, PathLike)):
            path = Path(file_out)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
        else:
            file_out.write(text)
            file_out.flush()

    return write


def log_to_database(db: Database) -> Callback:
    """Keep the result of each measurement in a database: see `autotvm.database`."""

    def save(_: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            db.save(inp, result)

    return save


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """Show one line on the standard error: current and best speed, trials, seconds, and failures.

    total:     the number of trials
    si_prefix: unit of the speed, in FLOP/s; where a call counts no operations, times are shown in ms
    """
    format_si_prefix(0, si_prefix)  # which raises for an unknown one
    begun = time.monotonic()
    state = {"done": 0, "failed": 0, "best": float("inf")}

    def show(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        now = float("inf")
        for result in results:
            state["done"] += 1
            if result.error_no:
                state["failed"] += 1
                continue
            now = sum(result.costs) / len(result.costs)
            state["best"] = min(state["best"], now)
        if GLOBAL_SCOPE.silent:
            return
        flop = inputs[-1].task.flop if inputs else 0
        speeds = f"Current/Best: {_speed(flop, now, si_prefix):>7} / {_speed(flop, state['best'], si_prefix):>7}"
        name = f"{si_prefix}FLOPS" if flop else "ms"
        failed = f" | {state['failed']} failed" if state["failed"] else ""
        end = "\n" if state["done"] >= total else ""
        elapsed = time.monotonic() - begun
        print(
            f"\r{prefix} {speeds} {name} | Progress: ({state['done']}/{total}) | {elapsed:.2f} s{failed}",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    return show


def _speed(flop: float, seconds: float, prefix: str) -> str:
    if seconds == float("inf"):
        return "-"
    return f"{format_si_prefix(flop / seconds, prefix):.2f}" if flop else f"{seconds * 1e3:.3f}"


class Monitor:
    """Keeps scores (FLOP/s, 0 for failures) and time stamps of all trials."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            score = 0.0 if result.error_no else inp.task.flop * len(result.costs) / sum(result.costs)
            self.scores.append(score)
            self.timestamps.append(result.timestamp)

    def reset(self) -> None:
        """Forget all trials."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> list[float]:
        """Return the FLOP/s of each trial."""
        return self.scores

    def trial_timestamps(self) -> list[float]:
        """Return the end of each trial, in seconds since 1970."""
        return self.timestamps
