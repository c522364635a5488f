"""Random legal schedules, and the check that a scheduled program computes what its definition says.

    rng = random.Random(7)
    program = random_program(rng)
    s = random_schedule(program.args, rng)
    check_against_reference(program.args, s, "llvm", program.inputs())

`legal_steps` asks a schedule what may be done to it next; a schedule is a number of such steps,
drawn at random. Nothing is caught on the way: an error that comes out is a defect, of the schedule
primitives or of the rules here. The same seed gives the same schedule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from autosched.errors import AutoschedError, LowerError, ScheduleError
from autosched.ir.expr import Expr
from autosched.ir.stmt import For, Function, map_stmt, substitute_stmt
from autosched.lower.pipeline import Structure, lower_structure
from autosched.schedule.relations import leaf_extents
from autosched.schedule.schedule import Schedule, create_schedule, replay
from autosched.schedule.stage import Loop, Split, Stage
from autosched.target import Target
from autosched.te.reference import reference
from autosched.te.tensor import ComputeOp, Tensor

__all__ = ["Step", "check_against_reference", "legal_steps", "random_schedule", "with_numbers"]

FACTORS = (1, 2, 3, 4, 5, 8)
#: vector loops stay below this many lanes, unrolled ones below this many copies, stages below this many
MAX_LANES, MAX_COPIES, MAX_STAGES = 32, 9, 9
#: work-items in a work-group
MAX_THREADS = 64
#: why a value, not the structure, may be refused on a GPU-style target: such a schedule is drawn again
VALUE_REFUSALS = ("is not a constant", "the barrier it needs is reached only where")


@dataclass(frozen=True)
class OpenFactor:
    """A factor that is left to a knob."""

    knob: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One call of a primitive."""

    kind: str
    stage: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def apply(self, s: Schedule) -> None:
        options = {
            k: s.define_knob(v.knob, v.values) if isinstance(v, OpenFactor) else v for k, v in self.options.items()
        }
        s.apply(self.kind, s[self.stage], *self.args, **options)


Proposer = Callable[[Schedule, Stage, random.Random, Target], Step | None]


# -- what a stage allows ----------------------------------------------------------------------------


def _serial(stage: Stage) -> list[Loop]:
    return [loop for loop in stage.loops if loop.kind == "serial"]


def _some(rng: random.Random, items: Sequence[Any]) -> Any:
    return rng.choice(items) if items else None


def _fixed(stage: Stage, limit: int) -> list[Loop]:
    """Serial spatial loops whose extent is a number whatever region the stage computes."""
    inner = {r.inner for r in stage.relations if isinstance(r, Split) and r.factor is not None}
    extents = leaf_extents(stage)
    whole = stage.attach.kind == "root"
    return [
        loop
        for loop in _serial(stage)
        if not loop.is_reduce and (whole or loop in inner) and _at_most(extents[loop], limit)
    ]


def _at_most(extent: Expr, limit: int) -> bool:
    """Whether an extent is a number, or a knob, that stays within the limit."""
    if extent.op == "const":
        return int(extent.value) <= limit
    return extent.op == "var" and extent.value.role == "knob" and extent.value.upper <= limit


def _hosted(s: Schedule, stage: Stage) -> list[Stage]:
    """The stages computed at a loop of this one."""
    return [x for x in s.stages if x.attach.stage is stage]


# -- proposals: one legal call of each primitive, or None -------------------------------------------


def _split(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    loop = _some(rng, _serial(stage))
    if loop is None or len(stage.loops) > 7:
        return None
    amount: Any = rng.choice(FACTORS)
    if s.knobs_allowed and len(s.knobs) < 3 and rng.random() < 0.6:
        amount = OpenFactor(f"k{len(s.knobs)}", tuple(sorted(rng.sample(FACTORS, 3))))
    options: dict[str, Any] = {rng.choice(("factor", "factor", "nparts")): amount}
    if rng.random() < 0.2 and loop.root is not None and not stage.reduce_axis:
        options["tail"] = "shift_inwards"
    return Step("split", stage.name, (loop.name,), options)


def _tile(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    loops = _serial(stage)
    if len(loops) < 2 or len(stage.loops) > 6:
        return None
    x, y = rng.sample(loops, 2)
    return Step("tile", stage.name, (x.name, y.name, rng.choice(FACTORS), rng.choice(FACTORS)))


def _fuse(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    pairs = [
        (a, b)
        for a, b in zip(stage.loops, stage.loops[1:], strict=False)
        if a.kind == b.kind == "serial" and a.is_reduce == b.is_reduce
    ]
    pair = _some(rng, pairs)
    return None if pair is None else Step("fuse", stage.name, tuple(loop.name for loop in pair))


def _reorder(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    if len(stage.loops) < 2:
        return None
    chosen = rng.sample(stage.loops, rng.randint(2, len(stage.loops)))
    return Step("reorder", stage.name, tuple(loop.name for loop in chosen))


def _parallel(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    loop = _some(rng, [x for x in _serial(stage) if not x.is_reduce])
    return None if loop is None or target.is_gpu_style else Step("parallel", stage.name, (loop.name,))


def _vectorize(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    loop = _some(rng, [x for x in _fixed(stage, MAX_LANES) if not s.attached_at(x)])
    return None if loop is None else Step("vectorize", stage.name, (loop.name,))


def _unroll(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    if sum(x.kind == "unroll" for y in s.stages for x in y.loops) >= 2:
        return None
    loop = _some(rng, _fixed(stage, MAX_COPIES))
    return None if loop is None else Step("unroll", stage.name, (loop.name,))


def _compute_at(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    hosts = [x for x in s.consumers(stage, deep=True) if x.attach.kind != "inline" and x.loops]
    whole_needed = stage.attach.kind == "root" and any(x.kind in ("vectorize", "unroll") for x in stage.loops)
    if stage.is_output or not hosts or whole_needed:
        return None
    host = rng.choice(hosts)
    loop = rng.choice(host.loops)
    return None if loop.kind == "vectorize" else Step("compute_at", stage.name, (host.name, loop.name))


def _compute_inline(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    allowed = not stage.is_output and not stage.reduce_axis and not _hosted(s, stage)
    return Step("compute_inline", stage.name) if allowed else None


def _compute_root(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    return Step("compute_root", stage.name)


def _cache_write(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    marked = any(loop.kind != "serial" for loop in stage.loops)
    cut = any(loop.is_reduce and loop.root is None for loop in stage.loops)
    shifted = any(isinstance(r, Split) and r.tail != "guard" for r in stage.relations)
    if marked or cut or shifted or _hosted(s, stage) or len(s.stages) >= MAX_STAGES:
        return None
    return Step("cache_write", stage.name, ("local",))


def _cache_read(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    readers = [x.name for x in s.consumers(stage)]
    if not readers or len(s.stages) >= MAX_STAGES:
        return None
    return Step("cache_read", stage.name, ("local", rng.sample(readers, rng.randint(1, len(readers)))))


def _set_scope(s: Schedule, stage: Stage, rng: random.Random, target: Target) -> Step | None:
    return None if stage.is_output else Step("set_scope", stage.name, (rng.choice(("global", "local")),))


_ON_INPUTS: tuple[Proposer, ...] = (_cache_read,)
_ON_STAGES: tuple[Proposer, ...] = (
    _split, _split, _split, _tile, _fuse, _reorder, _parallel, _vectorize, _unroll, _compute_at, _compute_at,
    _compute_inline, _compute_root, _cache_write, _cache_read, _set_scope,
)  # fmt: skip


def legal_steps(s: Schedule, rng: random.Random, target: Target | str = "llvm") -> Iterator[Step]:
    """Calls that are legal now, in random order: one of each primitive on each stage where it has one.

    A call counts as legal when it is made without an error and `Schedule.check` then finds the
    attach points consistent.
    """
    to = Target.parse(target)
    pairs = [(x, p) for x in s.stages for p in (_ON_INPUTS if x.is_placeholder else _ON_STAGES)]
    rng.shuffle(pairs)
    for stage, propose in pairs:
        step = propose(s, stage, rng, to)
        if step is not None and _stays_consistent(s, step):
            yield step


def _stays_consistent(s: Schedule, step: Step) -> bool:
    trial = replay(s.trace, list(s.outputs))
    step.apply(trial)
    try:
        trial.check()
    except ScheduleError:
        return False
    return True
