"""How much may be done to find a schedule where no record says one: one table for workloads, functions and models."""

from __future__ import annotations

from autosched.errors import UsageError

#: effort -> seconds that finding schedules may take, about: the default schedule, a prediction, a search
EFFORTS = {"none": 0.0, "quick": 3.0, "full": 60.0}


def check_effort(effort: str, asked: str) -> None:
    """Raise UsageError for an effort that there is not."""
    if effort not in EFFORTS:
        raise UsageError(f"there is no effort {effort!r}", asked=asked, legal=", ".join(EFFORTS))
