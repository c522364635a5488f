"""Tuning: `tune`, `tune_sizes` and `tune_tasks`, and the events that they report.

`session` is a search, whoever measures; `run` the loop that does, `playoff` its end, `tasks` shares one budget among
several, `proposals` asks the strategy ahead of time, `budget` is what the time is spent on, `events` is what `progress`
is called with.
"""

from autosched.tuning.budget import PLAYOFF_SHARE, Expectation
from autosched.tuning.events import (
    Event,
    Note,
    PlayoffDone,
    Preflight,
    Started,
    TasksProgress,
    TaskStanding,
    TrialDone,
    TuneResult,
)
from autosched.tuning.run import tune
from autosched.tuning.sizes import SizesResult, tune_sizes
from autosched.tuning.tasks import TasksResult, tune_tasks

__all__ = [
    "PLAYOFF_SHARE",
    "Event",
    "Expectation",
    "Note",
    "PlayoffDone",
    "Preflight",
    "SizesResult",
    "Started",
    "TaskStanding",
    "TasksProgress",
    "TasksResult",
    "TrialDone",
    "TuneResult",
    "tune",
    "tune_sizes",
    "tune_tasks",
]
