"""Copies of schedules, to go another way from there."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["copied"]


def copied(s: Schedule, memo: dict[int, Any]) -> Schedule:
    """A schedule of its own with the same tensors, for `copy.deepcopy`; `memo` has what stands for what.

    Stages come first: they refer to one another in chains that recursion should not follow.
    """
    made = memo[id(s)] = object.__new__(type(s))
    stages = [(x, object.__new__(type(x))) for x in s.stages]
    memo.update((id(x), other) for x, other in stages)
    memo[id(s._lines)] = dict(s._lines)  # names and places, of which there are most
    for x, other in stages:
        other.__dict__.update(deepcopy(x.__dict__, memo))
    made.__dict__.update(deepcopy(s.__dict__, memo))
    return made
