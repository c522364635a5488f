"""What a stage says of itself by TVM's names: its loops, what was done with them, where it is computed.

s[B].leaf_iter_vars             the loops there are, outermost first
s[B].iter_var_attrs[x]          what was done with loop x
s[B].attach_type                where it is computed, and at which loop of what
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.schedule.primitives.place import Group
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Attach, Loop, Stage
    from autosched.te.tensor import IterType, IterVar, Operation, Tensor
    from autosched.te.tensor_intrin import TensorIntrin

__all__ = ["AttachType", "IterVarAttr", "StageFacts"]


class AttachType(IntEnum):
    """TVM's places where a stage is computed."""

    GroupRoot = 1
    Inline = 2
    InlinedAlready = 3
    Scope = 4
    ScanUpdate = 5


_ATTACH = {"root": AttachType.GroupRoot, "inline": AttachType.Inline, "at": AttachType.Scope}


@dataclass(frozen=True)
class IterVarAttr:
    """What was done with a loop."""

    loop: Loop

    @property
    def iter_type(self) -> IterType:
        return self.loop.iter_type

    @property
    def bind_thread(self) -> Loop | None:
        """The loop itself, which has a `thread_tag`, if it is bound."""
        return self.loop if self.loop.thread else None

    @property
    def pragma_keys(self) -> list[str]:
        return [p.partition("=")[0] for p in self.loop.pragmas]

    @property
    def pragma_values(self) -> list[int | None]:
        values = [p.partition("=")[2] for p in self.loop.pragmas]
        return [int(v) if v else None for v in values]

    @property
    def tensor_intrin(self) -> TensorIntrin | None:
        intrinsic = self.loop.stage.intrinsic
        return intrinsic[1] if intrinsic is not None and intrinsic[0] is self.loop else None

    @property
    def prefetch_data(self) -> list[Tensor]:
        return [f.tensor for f in self.loop.stage.fetches if f.loop is self.loop]


class StageFacts:
    """The part of a `Stage` that only tells."""

    schedule: Schedule
    tensor: Tensor
    loops: list[Loop]
    roots: dict[IterVar, Loop]
    relations: list[Any]
    attach: Attach

    @property
    def leaf_iter_vars(self) -> tuple[IterVar | Loop, ...]:
        """The loops, outermost first; one over an axis of the operation is that axis."""
        return tuple(loop.root or loop for loop in self.loops)

    @property
    def all_iter_vars(self) -> tuple[IterVar | Loop, ...]:
        """Axes of the operation, and the loops that were made, split and fused ones too."""
        made: list[IterVar | Loop] = list(self.roots)
        for r in self.relations:
            made += [r.fused] if hasattr(r, "fused") else [r.outer, r.inner]
        return tuple(made)

    @property
    def iter_var_attrs(self) -> dict[IterVar | Loop, IterVarAttr]:
        """Loop (or axis) -> what was done with it."""
        found: dict[IterVar | Loop, IterVarAttr] = {}
        for loop in self.loops:
            found[loop] = IterVarAttr(loop)
            if loop.root is not None:
                found[loop.root] = found[loop]
        return found

    @property
    def attach_type(self) -> AttachType:
        """Where it is computed. The parts of a scan, unless moved, are at its loop over time."""
        kind, host, at = self.attach.kind, self.attach.stage, self.attach.loop
        if kind == "init" or (host is not None and at is not None and at is host.scan_loop):
            return AttachType.ScanUpdate
        return _ATTACH[kind]

    @property
    def attach_stage(self) -> Stage | None:
        """The stage at whose loop it is computed."""
        return self.attach.stage

    @property
    def attach_ivar(self) -> IterVar | Loop | None:
        """The loop that it is computed at."""
        at = self.attach.loop
        return None if at is None else at.root or at

    @property
    def group(self) -> Group | None:
        """The youngest group that it is in."""
        return next((g for g in reversed(self.schedule.groups) if self in g.stages), None)

    @property
    def origin_op(self) -> Operation:
        """The operation that the caller knows it by."""
        known = [op for op, stage in self.schedule.stage_map.items() if stage is self]
        return known[0] if known else self.tensor.op
