"""A tuning run as a list of events, for tests of what displays and summaries say of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from autosched.records import Record
from autosched.tuning import Event, Note, PlayoffDone, Preflight, Started, TrialDone, TuneResult

WORKLOAD = {"name": "pale_blur", "key": "9f2c44d1", "params": {}, "args": [], "sizes": {"height": 1280, "width": 1920}}


def record(trial: int, seconds: float = math.inf, status: str = "ok", **fields: Any) -> Record:
    good = status == "ok"
    return Record(
        **{
            "workload": WORKLOAD,
            "target": "llvm",
            "device": {"name": "a CPU"},
            "sketch": "strips",
            "trace": [],
            "knobs": {"lanes": 64, "rows": trial},
            "status": status,
            "samples": (seconds,) if good else (),
            "verified": "full" if good else "no",
            "error": "" if good else "vector of 128 x float64 is too long\n  at line 3",
            "trial": trial,
            "id": f"{trial:016x}",
            "strategy": "guided",
            "at": f"2026-11-21T08:00:{trial % 60:02}.000000+00:00",
            **fields,
        }
    )


def started(**fields: Any) -> Started:
    values: dict[str, Any] = {
        "workload": "box_blur(channels=3)",
        "target": "llvm",
        "device": "a CPU",
        "sizes": {"height": 1280, "width": 1920},
        "sketches": [("strips", 4096), ("row_buffer", 15)],
        "points": 4111,
        "resumed": 0,
        "log": Path("records/box_blur.llvm.jsonl"),
        "trials": 200,
        "budget_s": None,
    }
    return Started(**{**values, **fields})


def result(**fields: Any) -> TuneResult:
    values: dict[str, Any] = {
        "workload": "box_blur(channels=3)",
        "target": "llvm",
        "device": "a CPU",
        "sizes": {"height": 1280, "width": 1920},
        "default_seconds": 2.4e-3,
        "best": record(3, 4.12e-4),
        "seconds": 4.12e-4,
        "speedup": 5.825,
        "interval": (5.61, 6.02),
        "tied": ["strips(lanes=32, rows=3)", "row_buffer(rows=8)"],
        "trials": 200,
        "resumed": 0,
        "failures": {"compile": 9, "timeout": 3, "correctness": 2},
        "elapsed_s": 58.3,
        "log": Path("records/box_blur.llvm.jsonl"),
        "interrupted": False,
        "schedule_python": 'def schedule(s):\n    rows = 3\n    s["blur"].split("y", factor=rows)\n',
        "notes": [],
    }
    return TuneResult(**{**values, **fields})


def trial(index: int, rec: Record, best: float, elapsed_s: float, failures: dict[str, int] | None = None) -> TrialDone:
    return TrialDone(index, rec, best, 2.4e-3, failures or {}, elapsed_s, 200, None)


def run() -> list[tuple[float, Event]]:
    """(time on the clock, event) of a run."""
    failed = {"compile": 1}
    return [
        (0.0, started(resumed=2)),
        (0.5, Note("3 records are of another version or variant of box_blur and are not used")),
        (1.0, Preflight(2.4e-3, 0.21)),
        (1.5, trial(3, record(1, 8.12e-4), 8.12e-4, 1.5)),
        (2.0, trial(4, record(2, status="compile"), 8.12e-4, 2.0, failed)),
        (3.0, trial(5, record(3, 4.12e-4), 4.12e-4, 3.0, failed)),
        (4.0, trial(6, record(4, 5.12e-4), 4.12e-4, 4.0, failed)),
        (14.0, trial(7, record(5, status="timeout"), 4.12e-4, 14.0, {"compile": 1, "timeout": 1})),
        (15.0, Note("records cannot be written any more: disk full", "warning")),
        (20.0, PlayoffDone(result())),
    ]
