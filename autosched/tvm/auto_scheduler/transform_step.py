"""Ansor's transform steps: what its logs say was done to a program, done to a schedule.

    ["SP", 2, 0, 1024, [2, 1, 4], 1]      split loop 0 of stage 2, of 1024 iterations, by 2, 1 and 4

Stages and loops go by numbers. A stage's number is its place in the order of `compute_dag.sort`; caches
and factored reductions push the later ones on. A loop's number is its place in the stage. `STEPS` has
the steps that there are, and nothing else can be in a record: it is data, never code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autosched.errors import AutoschedError, Form, RecordError, is_integer
from autosched.schedule.loop import leaf_extents
from autosched.schedule.primitives.marks import KEEP_MEANING, PRAGMAS
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Fuse, Loop, Split, Stage
from autosched.te.tensor import Operation, Tensor

__all__ = ["STEPS", "Replay", "Step", "step_from_json"]

#: annotations by Ansor's numbers: a method of a stage, or what a loop is bound to
ANNOTATIONS = (
    "none", "unroll", "vectorize", "parallel", "vthread", "blockIdx.x", "threadIdx.x", "blockIdx.y", "threadIdx.y",
    "blockIdx.z", "threadIdx.z", "tensorize",
)  # fmt: skip


#: What an open length is at most, as Ansor's `max_innermost_split_factor`.
MOST_OPEN = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its tag and its fields."""

    tag: str
    fields: tuple[Any, ...]

    def to_json(self) -> list[Any]:
        return [self.tag, *(list(f) if isinstance(f, tuple) else f for f in self.fields)]

    def __str__(self) -> str:
        return str(self.to_json())


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of step: what its fields are, and the function that does it."""

    fields: tuple[type, ...]
    apply: Callable[..., None]


#: type of a field -> what it is in a log
_FORMS = {
    int: Form("number", is_integer),
    str: Form("text", Form.text().fits),
    tuple: Form("[numbers]", Form.array(Form.integer()).fits),
}

#: tag -> kind of step
STEPS: dict[str, _Kind] = {}


def _step(tag: str, *fields: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(f: Callable[..., None]) -> Callable[..., None]:
        STEPS[tag] = _Kind(fields, f)
        return f

    return register


def step_from_json(data: Any) -> Step:
    """Raises RecordError for what is no step."""
    if not isinstance(data, list) or not data or not isinstance(data[0], str):
        raise RecordError(f"{data!r:.80} is no step", legal='["SP", 2, 0, 1024, [2, 1, 4], 1]')
    tag, values = data[0], data[1:]
    if tag not in STEPS:
        raise RecordError(f"no step is called {tag!r:.40}", legal=f"steps: {', '.join(STEPS)}")
    wanted = STEPS[tag].fields
    if len(values) != len(wanted) or not all(_FORMS[w].fits(v) for v, w in zip(values, wanted, strict=True)):
        legal = f"[{', '.join([repr(tag), *(_FORMS[w].what for w in wanted)])}]"
        raise RecordError(f"{str(data)[:80]} is no {tag}", legal=legal)
    return Step(tag, tuple(tuple(v) if isinstance(v, list) else v for v in values))


class Replay:
    """A schedule that steps are done to. `ops` are the operations in Ansor's order, `outputs` what nobody reads.

    Where stages are computed is put into the schedule last: Ansor's `compute_at` means what becomes of
    a loop when it is split or fused afterwards, and a schedule names a loop that is there. Where `exact`
    is false, loops need not be as long as the steps say.
    """

    def __init__(self, ops: Sequence[Operation], outputs: Sequence[Tensor], exact: bool = True) -> None:
        s = create_schedule(list(outputs))
        self._begin(s, [s[op] for op in ops], exact)

    @classmethod
    def on(cls, stages: Sequence[Stage]) -> Replay:
        """Go on with a schedule that is there; its stages in Ansor's order."""
        made = cls.__new__(cls)
        made._begin(stages[0].schedule, list(stages), exact=True)
        return made

    def _begin(self, s: Schedule, stages: list[Stage], exact: bool) -> None:
        self.s, self.stages, self.exact = s, stages, exact
        self._loops: dict[Stage, list[Loop]] = {x: list(x.loops) for x in self.stages}
        self._places: dict[Stage, tuple[Stage, Loop]] = {}
        self.steps: list[Step] = []
        #: step that splits -> its lengths, with knobs for those that are open
        self.lengths: dict[int, tuple[Any, ...]] = {}

    def run(self, steps: Sequence[Step]) -> Schedule:
        """The schedule with all steps done. Raises RecordError, naming the step, where one cannot be."""
        for step in steps:
            self.do(step)
        self.settle()
        return self.s

    def do(self, step: Step) -> None:
        """One step. Raises RecordError, naming it, where it cannot be done."""
        try:
            STEPS[step.tag].apply(self, *step.fields)
        except AutoschedError as error:
            raise RecordError(error.why, asked=f"step {len(self.steps)}, {step}", legal=error.legal) from None
        self.steps.append(step)

    def settle(self) -> None:
        """Compute stages where steps have said."""
        for guest, (host, loop) in self._places.items():
            try:
                guest.compute_at(host, loop)
            except AutoschedError as error:
                asked = f"{guest.name}, computed at {loop.full_name}"
                raise RecordError(error.why, asked=asked, legal=error.legal) from None

    # -- by numbers -------------------------------------------------------------------------------
    def stage(self, number: int) -> Stage:
        """The stage of that number. Raises RecordError where there is none."""
        if not 0 <= number < len(self.stages):
            names = ", ".join(f"{i} {x.name}" for i, x in enumerate(self.stages))
            raise RecordError(f"there is no stage {number}", legal=f"stages: {names}; is it the log of this workload?")
        return self.stages[number]

    def loops(self, stage: Stage) -> list[Loop]:
        """Its loops in Ansor's order, which is the order they run in but after `rfactor`."""
        return self._loops[stage]

    def loop(self, stage: Stage, number: int) -> Loop:
        """The loop of that number. Raises RecordError where there is none."""
        loops = self._loops[stage]
        if not 0 <= number < len(loops):
            names = ", ".join(f"{i} {x.name}" for i, x in enumerate(loops)) or "none"
            raise RecordError(
                f"{stage.name} has no loop {number}", legal=f"its loops: {names}; is it the log of this workload?"
            )
        return loops[number]

    def replace(self, stage: Stage, at: int, count: int, made: Sequence[Loop], heir: Loop) -> None:
        """`count` loops from `at` on became others; what was computed at one of them is computed at `heir`."""
        gone = self._loops[stage][at : at + count]
        self._loops[stage][at : at + count] = made
        for guest, (host, loop) in self._places.items():
            if loop in gone:
                self._places[guest] = host, heir

    def open_length(self, stage: Stage, loop: Loop, at: int) -> Any:
        """A knob for the length that a split leaves open: of a loop of known length, its divisors."""
        n = leaf_extents(stage)[loop]
        values = [1 << b for b in range(MOST_OPEN.bit_length())]
        if n.op == "const":
            values = [d for d in range(1, MOST_OPEN + 1) if n.value % d == 0]
        name = re.sub(r"\W", "_", f"{stage.name}_step{len(self.steps)}_{at}")
        while name in self.s.knobs:
            name += "_"
        return self.s.define_knob(name, values)

    @property
    def placed(self) -> frozenset[Stage]:
        """The stages that are computed at a loop when all is done."""
        return frozenset(self._places)

    def is_placed(self, stage: Stage) -> bool:
        """Whether it is computed at a loop, where how many iterations its loops have is not settled yet."""
        return stage in self._places

    def insert(self, at: int, stage: Stage) -> None:
        """A stage that a step made."""
        self.stages.insert(at, stage)
        self.start(stage)

    def start(self, stage: Stage) -> None:
        """The stage's loops are those of its axes."""
        self._loops[stage] = [stage.roots[a] for a in (*stage.axis, *stage.reduce_axis)]

    def place(self, stage: Stage, at: tuple[Stage, Loop] | None) -> None:
        """Say where it is computed."""
        self._places.pop(stage, None)
        if at is not None:
            self._places[stage] = at


# -- loops of a stage -----------------------------------------------------------------------------


@_step("AN", int, int, int)
def annotate(r: Replay, stage_id: int, iter_id: int, annotation: int) -> None:
    stage = r.stage(stage_id)
    loop = r.loop(stage, iter_id)
    known = ANNOTATIONS[:-1]
    if not 0 <= annotation < len(known):
        what = "a record does not say with which intrinsic" if annotation == len(known) else "it has no meaning"
        legal = ", ".join(f"{i} {name}" for i, name in enumerate(known))
        raise RecordError(f"annotation {annotation} cannot be replayed: {what}", legal=legal)
    name = known[annotation]
    if name in ("unroll", "vectorize", "parallel"):
        getattr(stage, name)(loop)
    elif name != "none":
        stage.bind(loop, name)


@_step("PR", int, int, str)
def pragma(r: Replay, stage_id: int, iter_id: int, text: str) -> None:
    stage = r.stage(stage_id)
    loop = r.loop(stage, iter_id)
    name, dollar, value = text.partition("$")
    if text in PRAGMAS and text not in KEEP_MEANING:
        raise RecordError(f"{text} may change results: {PRAGMAS[text]}", legal=", ".join(KEEP_MEANING))
    if name != "auto_unroll_max_step":
        stage.pragma(loop, text)
        return
    if not dollar or not value.isdecimal():
        raise RecordError(f"{text!r:.60} does not say how many steps", legal="auto_unroll_max_step$64")
    if int(value):
        stage.pragma(loop, name, int(value))


@_step("FU", int, tuple)
def fuse(r: Replay, stage_id: int, fused_ids: tuple[int, ...]) -> None:
    stage = r.stage(stage_id)
    if not fused_ids:
        r.loops(stage).insert(0, stage.fuse())
        return
    if list(fused_ids) != list(range(fused_ids[0], fused_ids[0] + len(fused_ids))):
        raise RecordError(f"loops {list(fused_ids)} are not next to each other", legal="numbers one after the other")
    chosen = [r.loop(stage, i) for i in fused_ids]
    if len(chosen) > 1:
        made = stage.fuse(*chosen)
        r.replace(stage, fused_ids[0], len(chosen), [made], made)


@_step("RE", int, tuple)
def reorder(r: Replay, stage_id: int, after_ids: tuple[int, ...]) -> None:
    stage = r.stage(stage_id)
    loops = r.loops(stage)
    if sorted(after_ids) != list(range(len(loops))):
        names = ", ".join(f"{i} {x.name}" for i, x in enumerate(loops))
        raise RecordError(f"{list(after_ids)} is no order of the loops of {stage.name}", legal=f"its loops: {names}")
    loops[:] = [loops[i] for i in after_ids]
    if loops != stage.loops:
        stage.reorder(*loops)


@_step("SP", int, int, int, tuple, int)
def split(r: Replay, stage_id: int, iter_id: int, extent: int, lengths: tuple[int, ...], inner_to_outer: int) -> None:
    stage = r.stage(stage_id)
    loop = r.loop(stage, iter_id)
    if extent and r.exact and not r.is_placed(stage):
        here = leaf_extents(stage)[loop]
        if here.op == "const" and here.value != extent:
            raise RecordError(
                f"{loop.full_name} has {here!r} iterations here and had {extent} in the record",
                legal="the workload with the shapes that the record was made for",
            )
    whole = tuple(r.open_length(stage, loop, k) if n is None else n for k, n in enumerate(lengths))
    r.lengths[len(r.steps)] = whole
    _split(r, stage, iter_id, whole, bool(inner_to_outer))


def _split(r: Replay, stage: Stage, iter_id: int, lengths: Sequence[Any], inner_to_outer: bool) -> None:
    loop = r.loop(stage, iter_id)
    made = [loop]
    if inner_to_outer:
        for length in reversed(lengths):
            made[:1] = stage.split(made[0], factor=length)
    else:
        for length in lengths:
            made[-1:] = stage.split(made[-1], nparts=length)
    r.replace(stage, iter_id, 1, made, made[-1])


@_step("FSP", int, int, int, int)
def follow_split(r: Replay, stage_id: int, iter_id: int, src_step_id: int, n_split: int) -> None:
    stage = r.stage(stage_id)
    lengths = _lengths(r, src_step_id)
    if not 0 < n_split <= len(lengths) + 1:
        legal = f"1 to {len(lengths) + 1}: step {src_step_id} has {len(lengths)} lengths"
        raise RecordError(f"it cannot be followed for {n_split} splits", legal=legal)
    _split(r, stage, iter_id, (*lengths[: n_split - 1], prod(lengths[n_split - 1 :])), True)


@_step("FFSP", int, int, tuple, int, int)
def follow_fused_split(
    r: Replay, stage_id: int, iter_id: int, src_step_ids: tuple[int, ...], level: int, factor_or_nparts: int
) -> None:
    stage = r.stage(stage_id)
    followed = [_lengths(r, i) for i in src_step_ids]
    if not followed or not all(0 <= level < len(lengths) for lengths in followed):
        raise RecordError(
            f"steps {list(src_step_ids)} do not all have a length {level}", legal="steps that split, and a level of all"
        )
    _split(r, stage, iter_id, (prod(lengths[level] for lengths in followed),), bool(factor_or_nparts))


def _lengths(r: Replay, step_id: int) -> tuple[Any, ...]:
    """The lengths of a split that is followed."""
    if step_id not in r.lengths:
        splits = ", ".join(str(i) for i, x in enumerate(r.steps) if x.tag == "SP") or "none so far"
        raise RecordError(f"step {step_id} is no split", legal=f"steps that are: {splits}")
    return r.lengths[step_id]


@_step("SA", int, int, int, int)
def storage_align(r: Replay, stage_id: int, iter_id: int, factor: int, offset: int) -> None:
    stage = r.stage(stage_id)
    stage.storage_align(r.loop(stage, iter_id), factor, offset)


# -- where a stage is computed --------------------------------------------------------------------


@_step("CA", int, int, int)
def compute_at(r: Replay, stage_id: int, target_stage_id: int, target_iter_id: int) -> None:
    host = r.stage(target_stage_id)
    r.place(r.stage(stage_id), (host, r.loop(host, target_iter_id)))


@_step("CI", int)
def compute_inline(r: Replay, stage_id: int) -> None:
    stage = r.stage(stage_id)
    r.place(stage, None)
    stage.compute_inline()


@_step("CR", int)
def compute_root(r: Replay, stage_id: int) -> None:
    stage = r.stage(stage_id)
    r.place(stage, None)
    if stage.attach.kind != "root":
        stage.compute_root()


# -- new stages -----------------------------------------------------------------------------------


@_step("CHR", int, str, tuple)
def cache_read(r: Replay, stage_id: int, scope: str, reader_stage_ids: tuple[int, ...]) -> None:
    stage = r.stage(stage_id)
    readers = [r.stage(i) for i in reader_stage_ids]
    made = r.s.cache_read(stage.op.outputs[0], scope, readers)
    r.insert(stage_id + 1, r.s[made])


@_step("CHW", int, str)
def cache_write(r: Replay, stage_id: int, scope: str) -> None:
    stage = r.stage(stage_id)
    _has_its_own_loops(r, stage)
    made = r.s.cache_write(list(stage.op.outputs), scope)
    r.start(stage)
    r.insert(stage_id, r.s[made[0]])


@_step("RF", int, int, int)
def rfactor(r: Replay, stage_id: int, iter_id: int, factor_iter_id: int) -> None:
    stage = r.stage(stage_id)
    loop = r.loop(stage, iter_id)
    _has_its_own_loops(r, stage, spatial=True)
    strangers = [
        x for x in stage.loops if x.is_reduce and x.root is None and not _roots(stage, x) & _roots(stage, loop)
    ]
    if strangers:
        raise RecordError(
            f"{strangers[0].full_name} is part of another axis than {loop.full_name}",
            legal="rfactor of loops that all reduce axes were fused into, which is how Ansor does it",
        )
    others = [x for x in stage.loops if x.is_reduce and x is not loop]
    made = r.s[_first(r.s.rfactor(stage, loop, factor_axis=factor_iter_id))]
    whole_first = sorted(range(len(others)), key=lambda i: others[i].root is None)
    r.start(stage)
    r.insert(stage_id, made)
    loops, ours = r.loops(made), made.reduce_axis
    loops[len(loops) - len(ours) :] = [made.roots[ours[i]] for i in whole_first]


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, list) else made


def _has_its_own_loops(r: Replay, stage: Stage, spatial: bool = False) -> None:
    """TVM forgets what was done to a stage's loops where it gets a cache; Ansor never asks for that."""
    split = [x.name for x in r.loops(stage) if x.root is None and not (spatial and x.is_reduce)]
    if split:
        raise RecordError(
            f"{', '.join(split)} of {stage.name} would be forgotten", legal="caches before splits, as Ansor makes them"
        )


def _roots(stage: Stage, loop: Loop) -> set[Loop]:
    """The loops of axes that a loop was made from."""
    for relation in stage.relations:
        match relation:
            case Split() if loop in (relation.outer, relation.inner):
                return _roots(stage, relation.parent)
            case Fuse() if loop is relation.fused:
                return _roots(stage, relation.outer) | _roots(stage, relation.inner)
    return {loop}
