"""What a primitive raises; `Schedule.apply` turns it into a ScheduleError with the caller's line."""

from __future__ import annotations


class Illegal(Exception):
    """Why a call is illegal, and what would be legal."""

    def __init__(self, why: str, legal: str = "") -> None:
        self.why, self.legal = why, legal
        super().__init__(why)
