"""What `tir.Schedule` calls the stages: its blocks.

A block keeps the name of what it computes first. After `cache_write(C, "local")` it is the stage
`C.local` that computes what C did, and the stage C is a copy; so the block `C` is the former, and the
copy is the block `C_local`. Names are Python identifiers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from autosched.schedule.stage import Stage

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["block_names"]


def block_names(s: Schedule) -> dict[Stage, str]:
    """The name of each computed stage's block."""
    stages = {x.name: x for x in s.stages}
    names = {x: re.sub(r"\W", "_", x.name) for x in s.stages if not x.is_placeholder}
    for i in s.trace:
        cache = stages.get(f"{i.stage}.{i.args[0]}") if i.kind == "cache_write" else None
        if cache is not None:
            stage = stages[i.stage]
            names[stage], names[cache] = names[cache], names[stage]
    return names
