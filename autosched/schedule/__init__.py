"""Schedules: *how* to compute. See `primitives` for what can be done, `trace` for how it is kept."""

from __future__ import annotations

from autosched.schedule import pickling  # noqa: F401
from autosched.schedule.schedule import Constraint, Knob, Schedule, create_schedule, replay
from autosched.schedule.stage import SCOPES, TAILS, Loop, Stage
from autosched.schedule.trace import Instruction, Trace

__all__ = [
    "SCOPES",
    "TAILS",
    "Constraint",
    "Instruction",
    "Knob",
    "Loop",
    "Schedule",
    "Stage",
    "Trace",
    "create_schedule",
    "replay",
]
