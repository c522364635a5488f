"""Random legal schedules of any computation.

    rng = random.Random(7)
    program = random_program(rng)
    s = random_schedule(program.args, rng)
    check_against_reference(program.args, s, "llvm", program.inputs())

A schedule is a number of steps of `autosched.testing.steps`, drawn at random. No error is caught: one
that comes out is a defect of the schedule primitives or of the rules there. The same seed gives the
same schedule.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from autosched.errors import LowerError, ScheduleError
from autosched.lowering.nest import threads_around
from autosched.lowering.pipeline import lower_structure
from autosched.schedule.primitives.loops import GUARDED
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Split, Stage
from autosched.space.default import default_schedule
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.testing.steps import alone, fixed, is_part, legal_steps

#: Primitives that write a stage in another way, before anything else is done to it.
RESPELLING = ("inline_reduction", "cache_padding", "compact_reduction")
#: Errors of GPU-style targets about values, or about the way in which loops are bound: another schedule is drawn.
VALUE_REFUSALS = (
    "is not a constant",
    "the barrier it needs is reached only where",
    "and nothing makes them wait for one another",
    "belongs to one work-item of the group",
    "run at the same time, and would write one copy of",
)
#: Errors of lowering about intrinsics and about elements that are computed twice.
ANYWHERE_REFUSED = (
    "one iteration computes axes",
    "not all tiles are whole",
    ", which takes ",
    "and sums would be added to twice",
    "has to divide",
    " cannot be computed in loops of ",
)


def random_schedule(
    args: Sequence[Tensor],
    rng: random.Random,
    target: Target | str = "llvm",
    *,
    steps: int = 14,
    knobs: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> Schedule:
    """A schedule of up to `steps` random legal steps, for calls with `sizes`; bound loops on a GPU-style target.

    It is the default schedule where twenty in turn cannot be lowered.
    """
    to = Target.parse(target)
    for _ in range(20):
        s = create_schedule(list(args))
        _respell(s, rng)
        for _ in range(rng.randint(2, steps)):
            step = next(legal_steps(s, rng, to, knobs, sizes), None)
            if step is None:
                break
            step.apply(s)
        _share_loops(s, rng, to)
        if _may_be_lowered(s, args, rng, to):
            return s
    return default_schedule(args, to)


def _respell(s: Schedule, rng: random.Random) -> None:
    """Give some reductions another spelling: later their loops are cut, and none of these primitives fits any more."""
    for stage in [x for x in s.stages if not x.is_placeholder]:
        for primitive in rng.sample(RESPELLING, len(RESPELLING)) if rng.random() < 0.5 else ():
            options = {"nested": len(s.trace) % 2 == 1} if primitive == "inline_reduction" else {}
            with suppress(ScheduleError):
                getattr(stage, primitive)(**options)
        if stage.reduce_axis and rng.random() < 0.5:
            with suppress(ScheduleError):
                cut = rng.choice((2, 3)) if len(stage.reduce_axis) == 1 else 0
                s.separate_reduction(stage, rng.choice(stage.reduce_axis), cut)
        if stage.reduce_axis and rng.random() < 0.5:
            with suppress(ScheduleError):
                s.running_reduction(stage)
    for scan in s.scans.stages if rng.random() < 0.8 else ():
        with suppress(ScheduleError):
            s.block_time(scan.tensor, rng.choice((2, 3)))
    sums = [x for x in s.stages if x.reduce_axis]
    if len(sums) > 1:
        with suppress(ScheduleError):
            s.reduce_together(*rng.sample(sums, 2))
    alike: dict[object, list[Stage]] = {}
    for x in s.stages:
        if x.is_injective:
            alike.setdefault((*(a.extent for a in x.axis),), []).append(x)
    for maps in alike.values():
        if len(maps) > 1 and rng.random() < 0.3:
            with suppress(ScheduleError):
                s.compute_together(*rng.sample(maps, 2))


def _share_loops(s: Schedule, rng: random.Random, target: Target) -> None:
    """Compute a stage in the outer loops of another one, where that is legal as far as the schedule knows."""
    roots = [x for x in s.stages if x.loops and x.attach.kind == "root"]
    if len(roots) < 2 or not target.is_cpu or rng.random() < 0.3:
        return
    for _ in range(12):
        stage, other = rng.sample(roots, 2)
        pairs = zip(stage.loops, other.loops, strict=False)
        alike = list(itertools.takewhile(lambda pair: pair[0].kind == pair[1].kind in ("serial", "parallel"), pairs))
        if alike:
            with suppress(ScheduleError):
                stage.compute_with(other, rng.choice(alike)[1])


def _may_be_lowered(s: Schedule, args: Sequence[Tensor], rng: random.Random, target: Target) -> bool:
    """Bind loops for a GPU-style target; whether lowering accepts sizes and tiles, of which only it knows."""
    tails = {(r.tail, bool(x.reduce_axis)) for x in s.stages for r in x.relations if isinstance(r, Split)}
    doubtful = {("shift_inwards", True), ("exact", True), ("exact", False)}
    if not target.is_cpu:
        _bind_all(s, rng)
    elif target.is_gpu_style:
        pass  # what a work-item keeps has to have a constant size
    elif not tails & doubtful and all(x.intrinsic is None and x.shares is None for x in s.stages):
        return True
    known = ANYWHERE_REFUSED + (VALUE_REFUSALS if target.is_gpu_style else ())
    try:
        lower_structure(s, args, target).bind(random_knobs(s, rng))
    except (LowerError, ScheduleError) as error:
        if any(why in error.why for why in known):
            return False
        raise
    return True


# -- GPU-style targets --------------------------------------------------------------------------------


def _bind_all(s: Schedule, rng: random.Random) -> None:
    """Bind loops at random."""
    for stage in s.stages:
        if stage.is_placeholder or stage.attach.kind == "inline" or is_part(s, stage):
            continue
        if stage.attach.kind == "root":
            if stage.scope != "global":
                stage.set_scope("global")
            _bind(stage, rng, ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
        elif stage.store.loop not in (None, stage.attach.loop):
            stage.set_scope("local")
        elif rng.random() < 0.5:
            stage.set_scope("shared")
            _bind(stage, rng, ("threadIdx.x", "threadIdx.y"))


def _bind(stage: Stage, rng: random.Random, tags: Sequence[str]) -> None:
    """Give some spatial loops to hardware axes, keeping work-groups small."""
    small = fixed(stage, 8)
    for tag in rng.sample(tags, rng.randint(0, len(tags))):
        spatial = alone(stage)
        if stage.scan_loop is not None:
            spatial = [x for x in stage.loops[: stage.loops.index(stage.scan_loop)] if x in spatial]
        loop = rng.choice([x for x in spatial if x in small or tag.startswith("block")] or [None])
        if loop is not None:
            stage.bind(loop, tag)
    _bind_reduction(stage, rng)


def _bind_reduction(stage: Stage, rng: random.Random) -> None:
    """Let the group combine along a reduce loop, if nothing stands inside it and the axis is free."""
    reduced = stage.reduce_loops
    if not reduced or stage.scatter_axes or stage.intrinsic or rng.random() < 0.5:
        return
    before = stage.loops[: stage.loops.index(reduced[0])]
    tags = [t for t in ("threadIdx.x", "threadIdx.y") if t not in threads_around(stage)]
    tags = [t for t in tags if all(x.thread != t for x in stage.loops)]
    small = [x for x in reduced if x.kind == "serial" and x in fixed(stage, 8)]
    shifted = any(isinstance(r, Split) and r.tail not in (*GUARDED, "exact") for r in stage.relations)
    innermost = len(before) + len(reduced) == len(stage.loops)
    if tags and small and innermost and not shifted and all(x.kind != "vectorize" for x in before):
        stage.bind(rng.choice(small), rng.choice(tags))


# -- knobs ---------------------------------------------------------------------------------------------


def random_knobs(s: Schedule, rng: random.Random) -> dict[str, int]:
    """A value for every knob of the schedule."""
    return {k.name: rng.choice(k.values) for k in s.knobs.values()}


def with_numbers(trace: Any, knobs: dict[str, int]) -> Any:
    """A trace in JSON form with numbers in place of knobs, and without their definitions."""
    if isinstance(trace, list) and len(trace) == 2 and trace[0] == "knob":
        return knobs[trace[1]]
    if isinstance(trace, list):
        return [with_numbers(x, knobs) for x in trace if not (isinstance(x, list) and x[:1] == ["define_knob"])]
    if isinstance(trace, dict):
        return {k: with_numbers(v, knobs) for k, v in trace.items()}
    return trace
