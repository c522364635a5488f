"""Lowering: from a schedule to loops that a code generator understands. See `pipeline`."""

from __future__ import annotations

from autosched.lowering import lint as _lint  # noqa: F401  (attaches `Schedule.check`)
from autosched.lowering.pipeline import PASSES, Lowered, Structure, lower, lower_structure

__all__ = ["PASSES", "Lowered", "Structure", "lower", "lower_structure"]
