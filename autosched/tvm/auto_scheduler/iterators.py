"""Loops and stages of a state as Ansor shows them: names, ranges, numbers for kinds, and the state's text.

Placeholder: A, B
parallel i.0@j.0@ (0,128)
  for k (0,512)
    vectorize j.1 (0,16)
      C = ...
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator as Each
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from autosched.schedule.stage import Fuse, Loop, Split
from autosched.schedule.stage import Stage as Scheduled
from autosched.te.tensor import Operation

#: annotations by Ansor's numbers: a method of a stage, or what a loop is bound to
ANNOTATIONS = (
    "none", "unroll", "vectorize", "parallel", "vthread", "blockIdx.x", "threadIdx.x", "blockIdx.y", "threadIdx.y",
    "blockIdx.z", "threadIdx.z", "tensorize",
)  # fmt: skip

#: kinds of iterators, by number
SPATIAL, REDUCTION, MIXED, SPECIAL = range(4)


class Range(NamedTuple):
    """The range of a loop; `extent` is a number, or an expression of sizes and knobs."""

    min: int
    extent: Any


class Iterator(NamedTuple):
    """A loop of a stage, by name: valid for copies of a state, too.

    range:      None for a stage that is computed at a loop, until `ComputeDAG.infer_bound_from_state`
    iter_kind:  0 spatial, 1 of a reduction
    annotation: a number of `State.ANNOTATION_TRANS_TABLE`
    """

    name: str
    range: Range | None
    iter_kind: int
    annotation: int


@dataclass(frozen=True)
class StageAttributes:
    """The pragma of a stage, and the alignment of its storage."""

    auto_unroll_max_step: int = 0
    storage_offset: int = 0


@dataclass(frozen=True)
class Stage:
    """A stage of a state: its operation, its loops, `op_type` 0 for an input and 1 for what is computed, `compute_at`
    a number of `COMPUTE_AT_TRANS_TABLE`."""

    COMPUTE_AT_TRANS_TABLE: ClassVar[dict[str, int]] = {"root": 0, "inlined": 1, "iter": 2}

    op: Operation
    iters: list[Iterator]
    compute_at: int
    op_type: int = 1
    attrs: StageAttributes = field(default=StageAttributes(), compare=False)


def clean(name: str) -> str:
    """A name as Ansor writes it."""
    for part, short in (("outer", "o"), ("inner", "i"), (".", "_"), ("@", "_"), (" ", "_")):
        name = name.replace(part, short)
    return name


def names_of(stage: Scheduled) -> dict[Loop, str]:
    """Ansor's names of a stage's loops: `i.0`, `i.1` of what loop i was split into, `i.0@j.0@` of what was fused."""
    split = {r.parent: (r.outer, r.inner) for r in stage.relations if isinstance(r, Split)}
    names: dict[Loop, str] = {}

    def leaves(loop: Loop) -> Each[Loop]:
        for part in split.get(loop, ()):
            yield from leaves(part)
        if loop not in split:
            yield loop

    def name(loop: Loop, text: str) -> None:
        found = list(leaves(loop))
        names.update((x, f"{text}.{i}" if len(found) > 1 else text) for i, x in enumerate(found))

    for root in stage.roots.values():
        name(root, clean(root.name))
    for r in stage.relations:
        if isinstance(r, Fuse):
            outer, inner = names.get(r.outer, clean(r.outer.name)), names.get(r.inner, clean(r.inner.name))
            name(r.fused, f"{outer}{'' if outer.endswith('@') else '@'}{inner}@")
    return {x: names.get(x, clean(x.name)) for x in stage.loops}


def annotation_of(loop: Loop) -> int:
    """The number of what was done with a loop."""
    if loop.stage.intrinsic is not None and loop.stage.intrinsic[0] is loop:
        return ANNOTATIONS.index("tensorize")
    thread = str(loop.thread or "")
    what = "vthread" if thread.startswith("vthread") else thread or str(loop.kind)
    return ANNOTATIONS.index(what) if what in ANNOTATIONS else 0


def attributes_of(stage: Scheduled) -> StageAttributes:
    """The pragma that loops of the stage carry."""
    steps = [p.partition("=")[2] for x in stage.loops for p in x.pragmas if p.startswith("auto_unroll_max_step=")]
    return StageAttributes(auto_unroll_max_step=int(steps[0]) if steps and steps[0].isdecimal() else 0)


_WORDS = ("for", *ANNOTATIONS[1:])


def text_of(stages: list[Stage], guests: Callable[[int, int], list[int]], delete_trivial_loop: bool = False) -> str:
    """The text of a state. `guests` gives the numbers of stages that are computed at a loop of a stage."""
    inputs = ", ".join(x.op.name for x in stages if not x.op_type)
    lines = [f"Placeholder: {inputs}"]

    def show(number: int, depth: int) -> None:
        stage = stages[number]
        if stage.attrs.auto_unroll_max_step:
            lines.append(f"{' ' * depth}{stage.op.name} auto_unroll: {stage.attrs.auto_unroll_max_step}")
        for i, x in enumerate(stage.iters):
            if not (delete_trivial_loop and x.range is not None and x.range.extent == 1):
                where = "(None)" if x.range is None else f"({x.range.min},{x.range.extent})"
                lines.append(f"{' ' * depth}{_WORDS[x.annotation]} {x.name} {where}")
                depth += 2
            for guest in guests(number, i):
                show(guest, depth)
        lines.append(f"{' ' * depth}{stage.op.name} = ...")

    for number, stage in enumerate(stages):
        if stage.op_type and not stage.compute_at:
            show(number, 0)
    return "\n".join(lines) + "\n"
