"""Tuning: `tune` and what it tells while it runs.

`run` is the loop, `proposals` asks the strategy, `costs` is what is made small, `events` is what
`progress` is called with.
"""

from autosched.tuning.events import Event, Note, PlayoffDone, Preflight, Started, TrialDone, TuneResult
from autosched.tuning.run import PLAYOFF_SHARE, tune

__all__ = [
    "PLAYOFF_SHARE",
    "Event",
    "Note",
    "PlayoffDone",
    "Preflight",
    "Started",
    "TrialDone",
    "TuneResult",
    "tune",
]
