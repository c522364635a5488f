"""The worth of each primitive of a schedule, and the shortest schedule that is as fast."""

from __future__ import annotations

from autosched.explaining.explanation import Explanation, Row, explain
from autosched.explaining.simplified import Simplified, simplify

__all__ = ["Explanation", "Row", "Simplified", "explain", "simplify"]
