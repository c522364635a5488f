"""Reductions of prefixes as recurrences, which no search needs to decide on: n terms are combined in place of n * n."""

from __future__ import annotations

from autosched.schedule.primitives.running import run_of
from autosched.schedule.schedule import Schedule
from autosched.space.analysis import has_fewer

#: Results that go on with one another, at least.
FEWEST = 8


def go_on(s: Schedule) -> None:
    """Let results of prefixes and suffixes go on with one another, before any rule looks at the stages.

    for j: for k: if k <= j: B[j] += A[k]   ->   for j: B[j] = B[j-1] + A[j]
    """
    for stage in list(s.stages):
        if not stage.reduce_axis or s.scans.step_of(stage) is not None or s.scans.part(stage):
            continue
        run = run_of(stage)
        if run is not None and not has_fewer([run.axis], FEWEST):
            s.running_reduction(stage)
