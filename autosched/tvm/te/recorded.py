"""`s.schedule_record` and `s.primitive_record`: the schedule after each primitive so far, and what these were.

The first is `vanilla`: nothing was done yet. A tile is three primitives, as in TVM. Schedules are made when they are
asked for: the trace says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from autosched.ir.attached import attach
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.schedule import Schedule, create_schedule, perform
from autosched.schedule.trace import Instruction
from autosched.tvm.attributes import of_tvm


def _primitives(i: Instruction) -> list[str]:
    """The primitives of TVM's that a call is made of; none for what only defines knobs."""
    if i.kind == "tile":
        return ["split", "split", "reorder"]
    if i.kind == "split" and i.options.get("nparts") is not None:
        return ["split_by_nparts"]
    return [i.kind] if i.kind in PRIMITIVES else []


class Recorded(Sequence[Schedule]):
    """The schedules after none, one, two, .. of a schedule's primitives: each one of its own, over the same tensors."""

    def __init__(self, s: Schedule) -> None:
        self._trace, self._outputs = list(s.trace), s.outputs

    def __len__(self) -> int:
        return 1 + sum(len(_primitives(i)) for i in self._trace)

    @overload
    def __getitem__(self, at: int) -> Schedule: ...
    @overload
    def __getitem__(self, at: slice) -> list[Schedule]: ...
    def __getitem__(self, at: int | slice) -> Schedule | list[Schedule]:
        places = range(len(self))[at]
        return self._after(places) if isinstance(places, int) else list(map(self._after, places))

    def _after(self, count: int) -> Schedule:
        made = create_schedule(list(self._outputs))
        of_tvm.add(made)
        for i in self._trace:
            names = _primitives(i)
            if count < len(names):
                if count:
                    _begin_tile(made, i, count)
                break
            perform(made, i)
            count -= len(names)
        return made


def _begin_tile(s: Schedule, i: Instruction, count: int) -> None:
    """The first primitives of a tile: one split, or two."""
    stage = s[i.stage]
    called = i.mapped(lambda data, kind: kind.decode(data, stage))
    x, y, *factors = called.args
    for loop, factor in list(zip((x, y), factors, strict=True))[:count]:
        stage.split(loop, factor=factor, **called.options)


attach(
    Schedule,
    schedule_record=property(Recorded),
    primitive_record=property(lambda s: ["vanilla", *(name for i in s.trace for name in _primitives(i))]),
)
