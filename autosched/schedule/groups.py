"""`create_group`: several stages that are moved together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

__all__ = ["Group"]


class Group:
    """The stages between some inputs and outputs, those that are made later among them too.

    A trace keeps what is done to each of the stages, so a group needs no place in it.
    """

    def __init__(self, s: Schedule, outputs: Sequence[Stage], inputs: Sequence[Stage], include_inputs: bool) -> None:
        self._schedule, self._outputs, self._inputs = s, tuple(outputs), tuple(inputs)
        self._include_inputs = include_inputs
        self._moved: set[Stage] = set()
        self.attach_stage: Stage | None = None  #: that it was moved into

    @property
    def stages(self) -> list[Stage]:
        """The members, producers first: what the outputs need, down to the inputs."""
        s = self._schedule
        found: set[Stage] = set()
        pending = list(self._outputs)
        while pending:
            stage = pending.pop()
            if stage in found or (stage in self._inputs and not self._include_inputs):
                continue
            found.add(stage)
            if stage not in self._inputs:
                pending.extend(s.reads(stage))
        return [x for x in s.stages if x in found and not x.is_placeholder]

    def compute_at(self, parent: Any, scope: Any) -> Group:
        """Compute all members at a loop of a consumer: those at the root, and those that the group put
        elsewhere before. What is computed at a loop of a member, or inlined, stays so. Raises
        ScheduleError as `primitives.compute_at` does.
        """
        for stage in reversed(self._loose()):
            stage.compute_at(parent, scope)
            self._moved.add(stage)
        self.attach_stage = self._schedule[parent]
        return self

    def compute_root(self) -> Group:
        """Undo `compute_at`."""
        for stage in self._loose():
            stage.compute_root()
        self._moved.clear()
        self.attach_stage = None
        return self

    @property
    def num_child_stages(self) -> int:
        return len(self.stages)

    def _loose(self) -> list[Stage]:
        return [x for x in self.stages if x.attach.kind == "root" or (x in self._moved and x.attach.kind == "at")]

    def __repr__(self) -> str:
        return f"Group({', '.join(x.name for x in self.stages)})"
