"""Lowering: from a schedule to loops that a code generator understands. See `pipeline`."""

from __future__ import annotations

from autosched.lower.pipeline import PASSES, Lowered, Structure, lower, lower_structure

__all__ = ["PASSES", "Lowered", "Structure", "lower", "lower_structure"]
