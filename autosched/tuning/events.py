"""The events of a tuning run, and its result."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.records import Record, RecordLog, Task, to_frame, to_study
from autosched.tuning.budget import Expectation

if TYPE_CHECKING:
    import optuna
    import pandas as pd


@dataclass(frozen=True)
class TuneResult:
    """The result of a run. Times are seconds; `interval` encloses the speed-up with 95 % confidence.

    With an objective other than the time, the speed-up is that of the objective. Without trials, `predicted` is the
    choice of the analytical model and `seconds` its expectation; times that were not measured are NaN.
    """

    workload: str
    target: str
    device: str
    sizes: dict[str, int]
    default_seconds: float
    best: Record | None
    seconds: float
    speedup: float
    interval: tuple[float, float]
    tied: list[str]
    trials: int
    resumed: int
    failures: dict[str, int]
    elapsed_s: float
    log: Path
    interrupted: bool
    schedule_python: str
    knobs: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    points: int = 0  #: of the space, feasible or not
    valid: int | None = None  #: those that are feasible, where that was counted
    predicted: Record | None = None
    unsearchable: bool = False  #: there was the default schedule only, because no other sketch could be made
    expected: Expectation | None = None  #: from as many seconds again; None where nothing is left to search
    strain: float = 0.0  #: seconds for which threads waited for CPUs that other programs had, for each second of timing
    key: str = ""  #: of the workload
    is_recorded: bool = True  #: the log has the best; on a full disk it has not

    def recorded(self) -> list[Record]:
        """The records of this task that the log has by now: the workload at these sizes, for the target, on the device.

        Raises RecordError for a log that is gone.
        """
        sizes = tuple(sorted(self.sizes.items()))
        about = self.key, sizes, self.target, self.device
        found = RecordLog(self.log).read(self.key).records
        return [r for r in found if (r.key, Task.of(r).sizes, r.target, r.device_name) == about]

    def to_frame(self) -> pd.DataFrame:
        """The same as a `pandas.DataFrame`; docs/records.md lists its columns. Raises RecordError."""
        return to_frame(self.recorded())

    def to_optuna(self, storage: str | os.PathLike[str] | None = None) -> optuna.Study:
        """The same as an Optuna study, kept in `storage` where that is given: see `records.to_study`, also for errors.

        autosched.tune("box_blur", budget_s=60).to_optuna("blur.db")      # then: optuna-dashboard blur.db
        """
        return to_study(self.recorded(), storage)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        data = asdict(self)
        chosen = self.best or self.predicted
        data["best"] = None if self.best is None else self.best.id
        data["predicted"] = None if self.predicted is None else self.predicted.id
        data["knobs"] = None if chosen is None else dict(chosen.knobs)
        data["sketch"] = None if chosen is None else chosen.sketch
        for name in ("default_seconds", "seconds", "speedup"):
            data[name] = data[name] if np.isfinite(data[name]) else None
        data["log"] = str(self.log)
        data["interval"] = [v if np.isfinite(v) else None for v in self.interval]
        return data


@dataclass(frozen=True)
class Started:
    """The space is there; measuring begins."""

    workload: str
    target: str
    device: str
    sizes: dict[str, int]
    sketches: list[tuple[str, int]]
    points: int
    resumed: int
    log: Path
    trials: int | None
    budget_s: float | None
    valid: int | None = None  #: feasible points, where they were counted


@dataclass(frozen=True)
class Preflight:
    """The default schedule builds, is right, and takes this long."""

    default_seconds: float
    reference_s: float | None  #: that the NumPy reference took; None where it was stopped, for the plain loops


@dataclass(frozen=True)
class TrialDone:
    """One candidate was measured, or failed."""

    index: int
    record: Record
    best_seconds: float
    default_seconds: float
    failures: dict[str, int]
    elapsed_s: float
    trials: int | None
    budget_s: float | None
    expected: Expectation | None = None  #: from as many seconds as the search has taken


@dataclass(frozen=True)
class TaskStanding:
    """The state of one of several tasks."""

    name: str
    weight: float
    rounds: int
    trials: int
    default_seconds: float
    best_seconds: float


@dataclass(frozen=True)
class TasksProgress:
    """A round of one of several tasks is over; the run minimises `objective`."""

    tasks: list[TaskStanding]
    default_objective: float
    objective: float
    elapsed_s: float
    budget_s: float | None
    trials: int | None
    expected: Expectation | None = None  #: of the objective, from as many seconds again for every task


@dataclass(frozen=True)
class PlayoffDone:
    """The run is over."""

    result: TuneResult


@dataclass(frozen=True)
class Note:
    """A message for the user; `level` is `info` or `warning`."""

    text: str
    level: str = "info"


Event = Started | Preflight | TrialDone | PlayoffDone | TasksProgress | Note
