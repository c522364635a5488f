"""Taking one instruction back out of a trace, and keeping all others that can stay.

    for u in ways_to_undo(trace, at, args):
        u.trace or u.refused                # what is left, or why that is not possible

The trace is replayed twice, side by side: as it is, and without the instruction. For every loop of the
first schedule it is known which loops of the second stand for it, so each instruction that follows is
rewritten to name those:

    split("y", factor=8)                    -
    reorder("y.outer", "x", "y.inner")      reorder("y", "x")
    parallel("y.outer")                     parallel("y")
    unroll("y.inner")                       -

What an instruction is about may be gone (here the loop `y.inner`; all of a cache). Then it goes along, and
`lost` says so. What is computed at a loop that is gone is computed at the next one outside it. An
instruction whose loops are all there but that has become illegal is no part of what was undone: then
nothing is, and `refused` says which one needs it. Only a `compute_at` takes those of its producers along,
where it cannot go alone. Whatever comes out computes the same tensors, as every
schedule does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import RecordError, ScheduleError
from autosched.ir.expr import Expr
from autosched.schedule.relations import leaf_extents
from autosched.schedule.schedule import Schedule, replay
from autosched.schedule.stage import Loop
from autosched.schedule.surgery import FOR_TUNING, Extents, RefusedError, Surgeon, Undone, named_knobs
from autosched.schedule.trace import DEFAULTS, SHAPES, Trace
from autosched.te.tensor import Tensor

__all__ = ["Extents", "Undone", "knobs_of", "undo_knob", "undoable", "ways_to_undo"]

#: options that can be undone by themselves, to what is so without them
_OPTIONS = tuple(name for name, _ in DEFAULTS if name in ("tail", "disable_predication"))


def undoable(trace: Trace) -> list[tuple[int, str]]:
    """What can be asked to be undone: (position, "") for an instruction, (position, option) for an option of it."""
    found = []
    for at, i in enumerate(trace):
        if i.kind in SHAPES:
            found += [(at, ""), *((at, option) for option in _OPTIONS if option in i.options)]
    return found


def ways_to_undo(
    trace: Trace,
    at: int,
    args: Sequence[Tensor],
    knobs: Mapping[str, int] | None = None,
    option: str = "",
    extents: Extents | None = None,
) -> Iterator[Undone]:
    """The trace without the instruction at a position, or without an option of it, in every way there is.

    args:    the tensors of the graph that the trace is for
    knobs:   values of the trace's knobs
    extents: how many iterations the loops of a schedule have where its stages are computed (lowering
             knows); without it, as many as for whole tensors. A loop that is vectorized, unrolled or
             bound and would become longer than `_LONGEST_WRITTEN_OUT` loses that mark

    Constraints and choices are left out of what comes out. Raises IndexError for a position that the
    trace does not have, RecordError and ScheduleError for a trace that does not replay.
    """
    i = trace[at]
    both = not option and (i.kind in ("split", "split_into", "tile") or (i.kind == "fuse" and len(i.args) > 1))
    for way in ("outer", "inner") if both else ("",):
        once = _Operation(trace, at, args, option, way, knobs or {}, extents or _whole_extents)
        try:
            yield once.run()
        except RefusedError as no:
            yield _with_producers(once) or Undone(at, option, way, refused=str(no))


@dataclass(frozen=True)
class _Operation:
    """One way of undoing something, with what it takes to see how long loops become."""

    trace: Trace
    at: int
    args: Sequence[Tensor]
    option: str
    way: str
    knobs: Mapping[str, int]
    extents: Extents

    def run(self, also: frozenset[int] = frozenset()) -> Undone:
        """Let these positions go, too; then the marks on loops that have become too long. Raises RefusedError."""
        surgeon = Surgeon(self.trace, self.at, self.args, self.option, self.way, also)
        found = surgeon.run()
        if not (too_long := surgeon.too_long(self.knobs, self.extents)):
            return found
        return Surgeon(self.trace, self.at, self.args, self.option, self.way, also | too_long).run()


def _with_producers(once: _Operation) -> Undone | None:
    """A stage that is computed at the root needs others there, which were at its consumer, and so perhaps all
    that read what is prefetched."""
    trace, i = once.trace, once.trace[once.at]
    if i.kind != "compute_at":
        return None
    s = replay(Trace([x for x in trace if x.kind not in FOR_TUNING]), once.args)
    needed = {x.name for x in s.stages if s.depends_on(s.stage(i.stage), x)}
    placed = frozenset(p for p, x in enumerate(trace) if x.kind in ("compute_at", "store_at") and x.stage in needed)
    fetched = frozenset(p for p, x in enumerate(trace) if x.kind == "prefetch" and x.args[0] in needed)
    try:
        return once.run(placed | fetched)
    except RefusedError:
        return None


def knobs_of(trace: Trace) -> dict[str, list[int]]:
    """The knobs that a trace defines, each with the positions of the instructions that use it."""
    found: dict[str, list[int]] = {i.args[0]: [] for i in trace if i.kind == "define_knob"}
    for at, i in enumerate(trace):
        if i.kind in SHAPES:
            for name in dict.fromkeys(named_knobs(i.to_json())):
                found.get(name, []).append(at)
    return found


def undo_knob(trace: Trace, name: str, args: Sequence[Tensor], value: int = 1) -> Undone:
    """The trace with a number in place of a knob; 1 makes whatever is as long as the knob says one long."""
    at = next(p for p, i in enumerate(trace) if i.kind == "define_knob" and i.args[0] == name)
    kept = [(p, i) for p, i in enumerate(trace) if p != at and i.kind not in FOR_TUNING]
    try:
        changed = Trace.from_json([_with_number(i.to_json(), name, value) for _, i in kept])
        replay(changed, args).verify()
    except (RecordError, ScheduleError) as error:
        return Undone(at, refused=error.why)
    return Undone(at, trace=changed, origin=tuple(p for p, _ in kept))


def _with_number(data: Any, name: str, value: int) -> Any:
    if isinstance(data, list):
        return value if data == ["knob", name] else [_with_number(x, name, value) for x in data]
    return {k: _with_number(v, name, value) for k, v in data.items()} if isinstance(data, dict) else data


def _whole_extents(s: Schedule) -> dict[Loop, Expr]:
    return {loop: e for x in s.stages for loop, e in leaf_extents(x).items()}
