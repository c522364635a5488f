"""All rules together: a template for any program."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.schedule.schedule import Schedule
from autosched.space.rules import inline, rows, sums, tiles
from autosched.space.rules.plan import Plan, Rule, apply_rules
from autosched.space.workload import Template
from autosched.target import Target

__all__ = ["CPU_STRUCTURE", "cpu_rules", "generated"]

#: Ansor's structure of tiles on CPUs.
CPU_STRUCTURE = "SSRSRS"
#: Sketches that the rules may make of one workload.
MAX_SKETCHES = 1024


def cpu_rules() -> tuple[Rule, ...]:
    """The rules for loops on a CPU, in the order in which they are asked."""
    return (
        inline.leave_opaque,
        inline.unroll_constant,
        inline.always_inline,
        tiles.fuse_epilogue,
        tiles.multi_level_tiling,
        inline.compute_location,
        sums.pieces_of_rows,
        sums.lanes_of_sums,
        sums.bands_of_rows,
        sums.sums_of_columns,
        sums.reduction_in_place,
        rows.whole_rows,
    )


def generated(target: Target, rules: Sequence[Rule] = (), structure: str | None = None) -> Template:
    """The template that applies rules, given ones before those for the kind of target."""
    asked = (*rules, *cpu_rules())

    def auto(s: Schedule, target: Target) -> None:
        apply_rules(Plan(s, target, structure or CPU_STRUCTURE), asked)

    return Template("auto", str(target.kind), auto, MAX_SKETCHES)
