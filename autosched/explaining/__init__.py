"""The worth of each primitive of a schedule, the shortest schedule that is as fast, and schedules measured again."""

from __future__ import annotations

from autosched.explaining.compared import Comparison, compare
from autosched.explaining.explanation import Explanation, Row, explain
from autosched.explaining.simplified import Simplified, simplify
from autosched.explaining.verified import Verification, Verified, measured_here, verify

__all__ = [
    "Comparison",
    "Explanation",
    "Row",
    "Simplified",
    "Verification",
    "Verified",
    "compare",
    "explain",
    "measured_here",
    "simplify",
    "verify",
]
