"""Ansor's transform steps, replayed on a schedule.

    ["SP", 2, 0, 1024, [2, 1, 4], 1]      split loop 0 of stage 2, of 1024 iterations, by 2, 1 and 4

Stages and loops go by numbers. A stage's number is its place in the order of `compute_dag.sort`; caches and factored
reductions push the later ones on. A loop's number is its place in the stage. A record holds the steps of `STEPS` and
nothing else: it is data, never code.
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
from autosched.tvm.auto_scheduler.iterators import ANNOTATIONS, clean, names_of

#: the largest open length, as Ansor's `max_innermost_split_factor`
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
    """A kind of step: its fields (numbers of stages and of their loops, numbers, text, lists), and the function."""

    fields: tuple[type, ...]
    apply: Callable[..., None]


#: type of a field -> what it is in a log
_FORMS: dict[type, Form] = {
    **dict.fromkeys((Stage, Loop, int), Form("number", is_integer)),
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
    """Return the step of a record. Raises RecordError for other data."""
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
    """A schedule, and the steps done to it. `ops` are the operations in Ansor's order, `outputs` those without readers.

    `compute_at` reaches the schedule last: Ansor's loop is what becomes of it when it is split or fused afterwards, a
    schedule's is one that is there. Without `exact`, loops may have other lengths than the steps say.
    """

    def __init__(self, ops: Sequence[Operation], outputs: Sequence[Tensor], exact: bool = True) -> None:
        s = create_schedule(list(outputs))
        self._begin(s, [s[op] for op in ops], exact)

    @classmethod
    def on(cls, stages: Sequence[Stage]) -> Replay:
        """Go on with a schedule, given by its stages in Ansor's order."""
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
        #: loop -> Ansor's name of it
        self.names: dict[Loop, str] = {}
        for x in self.stages:
            self.names.update(names_of(x))

    def run(self, steps: Sequence[Step]) -> Schedule:
        """Do all steps. Return the schedule. Raises RecordError, which names the step that cannot be done."""
        for step in steps:
            self.do(step)
        self.settle()
        return self.s

    def do(self, step: Step) -> None:
        """Do one step. Raises RecordError, which names it, where it cannot be done."""
        kind = STEPS[step.tag]
        try:
            fields: list[Any] = []
            for wanted, value in zip(kind.fields, step.fields, strict=True):
                if wanted is Loop:  # of the stage before it
                    fields.append(self.loop(fields[-1], value))
                else:
                    fields.append(self.stage(value) if wanted is Stage else value)
            kind.apply(self, *fields)
        except AutoschedError as error:
            raise RecordError(error.why, asked=f"step {len(self.steps)}, {step}", legal=error.legal) from None
        self.steps.append(step)

    def settle(self) -> None:
        """Compute stages at the loops that steps have named."""
        for guest, (host, loop) in self._places.items():
            try:
                guest.compute_at(host, loop)
            except AutoschedError as error:
                asked = f"{guest.name}, computed at {loop.full_name}"
                raise RecordError(error.why, asked=asked, legal=error.legal) from None

    # -- by numbers -------------------------------------------------------------------------------
    def stage(self, number: int) -> Stage:
        """Return the stage of that number. Raises RecordError where there is none."""
        if not 0 <= number < len(self.stages):
            names = ", ".join(f"{i} {x.name}" for i, x in enumerate(self.stages))
            raise RecordError(f"there is no stage {number}", legal=f"stages: {names}; is it the log of this workload?")
        return self.stages[number]

    def loops(self, stage: Stage) -> list[Loop]:
        """Return the loops of a stage in Ansor's order: that of execution, but after `rfactor`."""
        return self._loops[stage]

    def loop(self, stage: Stage, number: int) -> Loop:
        """Return the loop of that number. Raises RecordError where there is none."""
        loops = self._loops[stage]
        if not 0 <= number < len(loops):
            names = ", ".join(f"{i} {x.name}" for i, x in enumerate(loops)) or "none"
            raise RecordError(
                f"{stage.name} has no loop {number}", legal=f"its loops: {names}; is it the log of this workload?"
            )
        return loops[number]

    def replace(self, stage: Stage, at: int, count: int, made: Sequence[Loop], heir: Loop) -> None:
        """Replace `count` loops from `at` on; stages computed at one of them are computed at `heir`."""
        gone = self._loops[stage][at : at + count]
        self._loops[stage][at : at + count] = made
        for guest, (host, loop) in self._places.items():
            if loop in gone:
                self._places[guest] = host, heir

    def open_length(self, stage: Stage, loop: Loop, at: int) -> Any:
        """Define a knob for an open length of a split: divisors, where the length of the loop is known."""
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

    def place_of(self, stage: Stage) -> tuple[Stage, Loop] | None:
        """The loop that a stage is computed at when all is done."""
        at = stage.attach
        if stage not in self._places and at.kind == "at" and at.stage is not None and at.loop is not None:
            return at.stage, at.loop
        return self._places.get(stage)

    def insert(self, at: int, stage: Stage) -> None:
        """Add a stage that a step made."""
        self.stages.insert(at, stage)
        self.start(stage)

    def start(self, stage: Stage) -> None:
        """Begin with the loops of the stage's axes."""
        self._loops[stage] = [stage.roots[a] for a in (*stage.axis, *stage.reduce_axis)]
        self.names.update((x, clean(x.name)) for x in self._loops[stage])

    def place(self, stage: Stage, at: tuple[Stage, Loop] | None) -> None:
        """Compute a stage at a loop of another when all is done, or at none."""
        self._places.pop(stage, None)
        if at is not None:
            self._places[stage] = at


# -- loops of a stage -----------------------------------------------------------------------------


@_step("AN", Stage, Loop, int)
def annotate(r: Replay, stage: Stage, loop: Loop, annotation: int) -> None:
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


@_step("PR", Stage, Loop, str)
def pragma(r: Replay, stage: Stage, loop: Loop, text: str) -> None:
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


@_step("FU", Stage, tuple)
def fuse(r: Replay, stage: Stage, fused_ids: tuple[int, ...]) -> None:
    if not fused_ids:
        made = stage.fuse()
        r.names[made] = clean(made.name)
        r.loops(stage).insert(0, made)
        return
    if list(fused_ids) != list(range(fused_ids[0], fused_ids[0] + len(fused_ids))):
        raise RecordError(f"loops {list(fused_ids)} are not next to each other", legal="numbers one after the other")
    chosen = [r.loop(stage, i) for i in fused_ids]
    if len(chosen) > 1:
        made = stage.fuse(*chosen)
        r.names[made] = "".join(f"{r.names[x]}@" for x in chosen)
        r.replace(stage, fused_ids[0], len(chosen), [made], made)


@_step("RE", Stage, tuple)
def reorder(r: Replay, stage: Stage, after_ids: tuple[int, ...]) -> None:
    loops = r.loops(stage)
    if sorted(after_ids) != list(range(len(loops))):
        names = ", ".join(f"{i} {x.name}" for i, x in enumerate(loops))
        raise RecordError(f"{list(after_ids)} is no order of the loops of {stage.name}", legal=f"its loops: {names}")
    loops[:] = [loops[i] for i in after_ids]
    if loops != stage.loops:
        stage.reorder(*loops)


@_step("SP", Stage, Loop, int, tuple, int)
def split(r: Replay, stage: Stage, loop: Loop, extent: int, lengths: tuple[int, ...], inner_to_outer: int) -> None:
    if extent and r.exact and stage not in r.placed:  # of those placed, lengths are not settled yet
        here = leaf_extents(stage)[loop]
        if here.op == "const" and here.value != extent:
            raise RecordError(
                f"{loop.full_name} has {here!r} iterations here and had {extent} in the record",
                legal="the workload with the shapes that the record was made for",
            )
    whole = tuple(r.open_length(stage, loop, k) if n is None else n for k, n in enumerate(lengths))
    r.lengths[len(r.steps)] = whole
    _split(r, stage, loop, whole, bool(inner_to_outer))


def _split(r: Replay, stage: Stage, loop: Loop, lengths: Sequence[Any], inner_to_outer: bool) -> None:
    made, text = [loop], r.names[loop]
    if inner_to_outer:
        for length in reversed(lengths):
            made[:1] = stage.split(made[0], factor=length)
    else:
        for length in lengths:
            made[-1:] = stage.split(made[-1], nparts=length)
    r.names.update((x, f"{text}.{i}") for i, x in enumerate(made))
    r.replace(stage, r.loops(stage).index(loop), 1, made, made[-1])


@_step("FSP", Stage, Loop, int, int)
def follow_split(r: Replay, stage: Stage, loop: Loop, src_step_id: int, n_split: int) -> None:
    lengths = _lengths(r, src_step_id)
    if not 0 < n_split <= len(lengths) + 1:
        legal = f"1 to {len(lengths) + 1}: step {src_step_id} has {len(lengths)} lengths"
        raise RecordError(f"it cannot be followed for {n_split} splits", legal=legal)
    _split(r, stage, loop, (*lengths[: n_split - 1], prod(lengths[n_split - 1 :])), True)


@_step("FFSP", Stage, Loop, tuple, int, int)
def follow_fused_split(
    r: Replay, stage: Stage, loop: Loop, src_step_ids: tuple[int, ...], level: int, factor_or_nparts: int
) -> None:
    followed = [_lengths(r, i) for i in src_step_ids]
    if not followed or not all(0 <= level < len(lengths) for lengths in followed):
        raise RecordError(
            f"steps {list(src_step_ids)} do not all have a length {level}", legal="steps that split, and a level of all"
        )
    _split(r, stage, loop, (prod(lengths[level] for lengths in followed),), bool(factor_or_nparts))


def _lengths(r: Replay, step_id: int) -> tuple[Any, ...]:
    """The lengths of a split that is followed."""
    if step_id not in r.lengths:
        splits = ", ".join(str(i) for i, x in enumerate(r.steps) if x.tag == "SP") or "none so far"
        raise RecordError(f"step {step_id} is no split", legal=f"steps that are: {splits}")
    return r.lengths[step_id]


@_step("SA", Stage, Loop, int, int)
def storage_align(r: Replay, stage: Stage, loop: Loop, factor: int, offset: int) -> None:
    if not stage.is_output:  # whose layout is the caller's, in TVM as here
        stage.storage_align(loop, factor, offset)


# -- where a stage is computed --------------------------------------------------------------------


@_step("CA", Stage, Stage, Loop)
def compute_at(r: Replay, stage: Stage, host: Stage, loop: Loop) -> None:
    r.place(stage, (host, loop))


@_step("CI", Stage)
def compute_inline(r: Replay, stage: Stage) -> None:
    r.place(stage, None)
    stage.compute_inline()


@_step("CR", Stage)
def compute_root(r: Replay, stage: Stage) -> None:
    r.place(stage, None)
    if stage.attach.kind != "root":
        stage.compute_root()


# -- new stages -----------------------------------------------------------------------------------


@_step("CHR", Stage, str, tuple)
def cache_read(r: Replay, stage: Stage, scope: str, reader_stage_ids: tuple[int, ...]) -> None:
    made = r.s.cache_read(stage.op.outputs[0], scope, [r.stage(i) for i in reader_stage_ids])
    r.insert(r.stages.index(stage) + 1, r.s[made])


@_step("CHW", Stage, str)
def cache_write(r: Replay, stage: Stage, scope: str) -> None:
    _has_its_own_loops(r, stage)
    made = r.s.cache_write(list(stage.op.outputs), scope)
    r.start(stage)
    r.insert(r.stages.index(stage), r.s[made[0]])


@_step("RF", Stage, Loop, int)
def rfactor(r: Replay, stage: Stage, loop: Loop, factor_iter_id: int) -> None:
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
    factored = r.s.rfactor(stage, loop, factor_axis=factor_iter_id)
    made = r.s[factored[0] if isinstance(factored, list) else factored]
    whole_first = sorted(range(len(others)), key=lambda i: others[i].root is None)
    r.start(stage)
    r.insert(r.stages.index(stage), made)
    loops, ours = r.loops(made), made.reduce_axis
    loops[len(loops) - len(ours) :] = [made.roots[ours[i]] for i in whole_first]


def _has_its_own_loops(r: Replay, stage: Stage, spatial: bool = False) -> None:
    """Raise RecordError for a cache of a stage with split loops: TVM forgets the splits, Ansor never asks for it."""
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
