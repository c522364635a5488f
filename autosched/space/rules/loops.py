"""What many rules do with the loops of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.schedule.stage import Loop, Stage
from autosched.space.rules.plan import Plan
from autosched.space.rules.values import long_lanes

__all__ = ["fuse_all", "lanes_knob", "partial_results", "reduce_loops", "spatial_loops"]


def spatial_loops(stage: Stage) -> list[Loop]:
    """The loops over elements of the result, outermost first."""
    return [x for x in stage.loops if not x.is_reduce]


def reduce_loops(stage: Stage) -> list[Loop]:
    """The loops of a reduction, outermost first."""
    return [x for x in stage.loops if x.is_reduce]


def fuse_all(stage: Stage, loops: Sequence[Loop]) -> Loop:
    """The loops as one; a single one stays as it is, and is no instruction of the trace."""
    return stage.fuse(*loops) if len(loops) > 1 else loops[0]


def lanes_knob(plan: Plan, stage: Stage, n: int | None) -> Any:
    """A knob for the lanes of a statement that only handles elements of the result's type, along a row of `n`."""
    return plan.knob(stage, "lanes", long_lanes(plan.machine, [stage.tensor.dtype], n))


def partial_results(plan: Plan, stage: Stage, loop: Loop, rule: str, factor_axis: int = 0) -> Stage:
    """The stage that `rfactor` makes of a reduce loop, settled by `rule`. The results of a tuple are one stage."""
    made = plan.s.rfactor(stage.tensor, loop, factor_axis=factor_axis)
    partial = plan.s[made[0] if isinstance(made, list) else made]
    plan.done[partial] = rule
    return partial
