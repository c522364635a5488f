"""Scans in schedules: the restrictions on their stages and loops.

The loop over time is serial. `init` and `update` write into the scan's memory: the init just before
that loop, the update inside it, together with all that depends on the state. A loop of the scan
outside the loop over time runs a recurrence of its own for each iteration, so it must stand for
places that are independent of one another; those inside only say what one step has to compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import Illegal, ScheduleError
from autosched.ir.expr import Expr, variables
from autosched.ir.visit import post_order, reached
from autosched.schedule.loop import Attach, Loop
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


class Scans:
    """The scans of a schedule: whose memory a tensor lives in, and which stages are steps."""

    def __init__(self, s: Schedule) -> None:
        self.s = s
        self.stages = [x for x in s.stages if isinstance(x.op, ScanOp)]
        #: state, init or update -> the output whose memory it is
        self.storage: dict[Tensor, Tensor] = {}
        self._of_part: dict[Tensor, tuple[str, Stage]] = {}
        for stage in self.stages:
            op = stage.op
            assert isinstance(op, ScanOp)
            for kind, parts in (("init", op.init), ("update", op.update), ("state", op.state_placeholder)):
                for part, output in zip(parts, op.outputs, strict=True):
                    self.storage[part] = output
                    self._of_part[part] = (kind, stage)

    def part(self, stage: Stage) -> str:
        """`init`, `update`, `state` or nothing: what this stage is to a scan."""
        return self.part_of(stage.tensor)

    def part_of(self, tensor: Tensor) -> str:
        """What this tensor is to a scan."""
        return self._of_part[tensor][0] if tensor in self._of_part else ""

    def step_of(self, stage: Stage) -> Stage | None:
        """The scan in whose step this stage must be computed: it depends on the state, or is an update."""
        if not self.stages:
            return None
        for x in reached([stage], lambda x: () if isinstance(x.op, ScanOp) else self.s.reads(x)):
            kind, scan = self._of_part.get(x.tensor, ("", None))
            if kind == "update" or (kind == "state" and x is not stage):
                return scan
        return None

    def follows_time(self, stage: Stage, axis: IterVar) -> bool:
        """Return whether a step computes this axis of its stage at its own time, not as a whole."""
        if self.step_of(stage) is None:
            return False
        moving: set[Expr] = set()
        for x in reversed(self.s.stages):
            if self.part(x) == "update":
                moving.add(x.axis[0].var)
            for user in self.s.consumers(x) if self.step_of(x) is not None else ():
                if user.scan_loop is not None:
                    continue
                reads = [e for e in post_order(user.body) if e.op == "read" and e.value in x.op.outputs]
                moving.update(
                    a.var for r in reads for a, i in zip(x.axis, r.args, strict=True) if variables(i) & moving
                )
        return axis.var in moving

    def home(self, stage: Stage) -> Attach:
        """The default place where a stage is computed."""
        kind, scan = self._of_part.get(stage.tensor, ("", None))
        if kind == "init":
            return Attach("init", scan)
        found = None if stage.is_placeholder else self.step_of(stage)
        return Attach() if found is None else Attach("at", found, found.scan_loop)


def forbid(stage: Stage, action: str) -> None:
    """Raise Illegal for an action that a scan, or its init and update, whose memory is the scan's, does not allow."""
    scans = stage.schedule.scans
    kind = scans.part(stage)
    if kind in ("init", "update"):
        scan = scans.home(stage).stage
        assert scan is not None
        when = "before its first step" if kind == "init" else "in every step"
        raise Illegal(
            f"{stage.name} is the {kind} of {scan.name}: computed {when}, and stored with it",
            f"{action} {scan.name}" if action in ("compute_at", "set_scope") else f"{action} another stage",
        )
    if stage.scan_loop is not None and action not in ("compute_at", "store_at", "set_scope"):
        parts = ", ".join(x.name for x in stage.schedule.reads(stage))
        raise Illegal(
            f"{stage.name} is a scan: its times depend on one another", f"schedule its init and update: {parts}"
        )


def forbid_outside(stage: Stage, consumer: Stage, loop: Loop) -> None:
    """Raise Illegal if a stage that depends on a state would be computed outside the step."""
    s = stage.schedule
    scan = s.scans.step_of(stage)
    if scan is not None and loop is not scan.scan_loop and s.scans.step_of(consumer) is not scan:
        steps = [x.name for x in s.consumers(stage, deep=True) if s.scans.step_of(x) is scan]
        raise Illegal(
            f"{stage.name} depends on the state of {scan.name}, and {consumer.name} is not part of its step",
            f"a loop of {', '.join(steps)}, or {scan.scan_loop!r}",
        )


def forbid_on_time(loop: Loop, action: str) -> None:
    """Raise Illegal for an action that would change the order of steps, or give one more than its own time."""
    stage, axis = loop.stage, loop.root
    others = ", ".join(x.full_name for x in stage.loops if x is not loop) or "none"
    if loop is stage.scan_loop:
        raise Illegal(
            f"{loop.full_name} is the time of a scan: each step needs those before it",
            f"{action} a loop of the update, or of the scan's places: {others}",
        )
    scans = stage.schedule.scans
    if scans.stages and axis is not None and action in ("split", "fuse") and scans.follows_time(stage, axis):
        raise Illegal(
            f"{loop.full_name} is the time of a step: one iteration of the scan computes one of it",
            f"{action} another loop of {stage.name}: {others}",
        )


def check(s: Schedule) -> None:
    """Raise ScheduleError where the loops of a scan are not in an order that it allows."""
    for stage in s.scans.stages:
        op, time = stage.op, stage.scan_loop
        assert isinstance(op, ScanOp) and time is not None
        at = stage.loops.index(time)
        bound = [a for a, free in zip(op.spatial_axes[0], op.independent, strict=False) if not free]
        loops_of = {a: stage.made_of([stage.roots[a]]) for a in bound if a in stage.roots}
        for loop in stage.loops[:at]:
            tied = sorted(a.name for a, made in loops_of.items() if loop in made)
            if tied:
                raise ScheduleError(
                    f"a step reads the state at other places along {tied[0]}, so these advance together",
                    asked=f"loop {loop.full_name} outside {time.full_name}",
                    legal=f"{stage.name}.reorder({time.name}, {loop.name})",
                )
        for loop in stage.loops[at + 1 :]:
            inside = s.attached_at(loop)
            if loop.mark or inside:
                what = f"{inside[0].name} is computed at" if inside else f"{loop.mark.strip(' ()')} marks"
                raise ScheduleError(
                    f"{what} {loop.full_name}, which is inside {time.name}, where the update's own loops run",
                    asked=f"loop {loop.full_name} inside {time.full_name}",
                    legal=f"{stage.name}.reorder({loop.name}, {time.name}), or the same on a loop of the update",
                )
    for stage in s.stages if s.scans.stages else ():
        scan, place = s.scans.step_of(stage), stage.attach
        if scan is not None and place.kind == "at" and place.loop is not scan.scan_loop:
            assert place.stage is not None
            if s.scans.step_of(place.stage) is not scan:  # a cache may have come between
                raise ScheduleError(
                    f"it depends on the state of {scan.name}",
                    asked=s.earlier("compute_at", stage, f"{place.stage.name}, {place.loop and place.loop.name}"),
                    legal=f"compute_root puts it into every step of {scan.name}",
                )
