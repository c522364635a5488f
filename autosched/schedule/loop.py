"""Loops of a stage, and the relations that made them: split, fuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.ir.dims import Range
from autosched.ir.expr import (
    Expr,
    ceildiv,
    compare,
    const,
    floordiv,
    floormod,
    is_const,
    likely,
    logical_and,
    maximum,
    minimum,
    var,
    variables,
)
from autosched.ir.ops import CHOICES
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import reached
from autosched.te.tensor import ComputeOp, IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def loop_extents(
    stage: Stage, of_axis: dict[IterVar, Expr] | None = None, reduce: Callable[[Expr], Expr] = simplify
) -> dict[Loop, Expr]:
    """The extent of every loop, dead ones included, given the extents of the axes."""
    extents = {loop: reduce((of_axis or {}).get(a, a.extent)) for a, loop in stage.roots.items()}
    for r in stage.relations:
        match r:
            case Split():
                factor = split_factor(r, extents, reduce)
                extents[r.inner] = factor
                extents[r.outer] = r.nparts if r.nparts is not None else reduce(ceildiv(extents[r.parent], factor))
            case Fuse():
                extents[r.fused] = reduce(extents[r.outer] * extents[r.inner])
    return extents


def split_factor(r: Split, extents: dict[Loop, Expr], reduce: Callable[[Expr], Expr] = simplify) -> Expr:
    """The inner extent of a split."""
    return r.amount if r.factor is not None else reduce(ceildiv(extents[r.parent], r.amount))


def covered_extents(
    stage: Stage, extents: dict[Loop, Expr], reduce: Callable[[Expr], Expr] = simplify
) -> dict[Loop, Expr]:
    """The number of values of each loop that is padded by `round_up`, itself or a part of it."""
    covered: dict[Loop, Expr] = {}
    for r in reversed(stage.relations):
        if isinstance(r, Split) and (r.tail == "round_up" or (r.tail == "exact" and r.outer in covered)):
            covered[r.parent] = reduce(covered.get(r.outer, extents[r.outer]) * split_factor(r, extents))
    return {loop: e for loop, e in covered.items() if e is not extents[loop]}


def leaf_extents(stage: Stage) -> dict[Loop, Expr]:
    extents = loop_extents(stage)
    return {loop: extents[loop] for loop in stage.loops}


def values_of_leaves(stage: Stage, extents: dict[Loop, Expr], whole: Iterable[Loop] = ()) -> dict[Loop, Expr]:
    """The value of every loop as an expression over the leaves' variables (from 0), and those of `whole` loops."""
    values: dict[Loop, Expr] = {loop: loop.var for loop in (*stage.loops, *whole)}
    for r in reversed(stage.relations):
        if r.parents[0] in values:
            continue
        match r:
            case Split():
                factor = split_factor(r, extents)
                base = values[r.outer] * factor
                if r.tail == "shift_inwards":
                    base = maximum(minimum(base, extents[r.parent] - factor), 0)
                values[r.parent] = base + values[r.inner]
            case Fuse() if is_const(extents[r.inner], 1):
                values[r.outer], values[r.inner] = values[r.fused], values[r.fused] * 0
            case Fuse() if is_const(extents[r.outer], 1):
                values[r.outer], values[r.inner] = values[r.fused] * 0, values[r.fused]
            case Fuse():
                values[r.outer] = floordiv(values[r.fused], extents[r.inner])
                values[r.inner] = floormod(values[r.fused], extents[r.inner])
    return values


def leaf_positions(stage: Stage) -> dict[Loop, Expr]:
    """The inverse: the value of each leaf at a point of the domain, over the axes' variables."""
    extents = loop_extents(stage)
    at: dict[Loop, Expr] = {loop: simplify(a.var - a.min) for a, loop in stage.roots.items()}
    for r in stage.relations:
        match r:
            case Split():
                factor = split_factor(r, extents)
                at[r.outer], at[r.inner] = floordiv(at[r.parent], factor), floormod(at[r.parent], factor)
            case Fuse():
                at[r.fused] = at[r.outer] * extents[r.inner] + at[r.inner]
    return at


def axis_values(stage: Stage) -> dict[IterVar, Expr]:
    """The value of each axis over the leaves, when the whole domain is computed."""
    values = values_of_leaves(stage, loop_extents(stage))
    return {a: a.min + values[loop] for a, loop in stage.roots.items()}


def leaf_predicates(stage: Stage) -> list[Expr]:
    """The conditions under which leaves name a point of the domain: one for each ragged split."""
    return [likely(c) for c in ragged(stage, loop_extents(stage))]


def ragged(stage: Stage, extents: dict[Loop, Expr]) -> list[Expr]:
    """The conditions that splits leave behind, other than those whose factor is known to divide."""
    values, covered = values_of_leaves(stage, extents), covered_extents(stage, extents)
    found = []
    for r in stage.relations:
        if not isinstance(r, Split) or r.tail in ("round_up", "exact"):
            continue
        reached = simplify(covered.get(r.outer, extents[r.outer]) * split_factor(r, extents))
        if reached is not extents[r.parent]:
            found.append(compare("lt", values[r.parent], extents[r.parent]))
    return found


#: storage scope -> where it lives
SCOPES = {
    "global": "main memory",
    "shared": "one copy for each work-group of a GPU-style target",
    "local": "one copy for each thread or work-item",
}

#: tail strategy -> what happens to the last, partial block of a split
TAILS = {
    "auto": "shift_inwards for an axis of an output that can be computed twice, guard for other loops",
    "guard": "a condition around the body; loop partitioning confines it to the last block",
    "shift_inwards": "the last block moves back to end at the edge, computing some elements twice",
    "predicate": "the last block of a vector loop runs whole, its loads and stores under a mask, where the target "
    "has masks; a guard elsewhere",
    "round_up": "whole blocks, for which an intermediate is padded; an output or reduction must divide into them",
}


class Loop:
    """A loop of a stage. `kind` is one of `ir.stmt.LOOP_KINDS`, `thread` the hardware axis it is bound to; `pragmas`
    are names of `marks.PRAGMAS`, with `=value` behind those that have one."""

    __slots__ = ("__weakref__", "is_reduce", "kind", "name", "pragmas", "root", "stage", "thread", "thread_var", "var")

    def __init__(self, stage: Stage, name: str, is_reduce: bool, root: IterVar | None = None) -> None:
        self.stage = stage
        self.name = name
        self.is_reduce = is_reduce
        self.root = root
        self.kind = "serial"
        self.thread = ""
        self.thread_var: Expr | None = None  #: of the `te.thread_axis` that it is bound to
        self.pragmas: tuple[str, ...] = ()
        self.var: Expr = var(name, role="loop")

    def __deepcopy__(self, memo: dict[int, Any]) -> Loop:
        """The same loop of the copied stage; all else is immutable."""
        made = memo[id(self)] = object.__new__(Loop)
        for name in Loop.__slots__[1:]:
            setattr(made, name, getattr(self, name))
        made.stage = deepcopy(self.stage, memo)
        return made

    @property
    def full_name(self) -> str:
        """`stage.loop`, as errors and traces print it."""
        prefix = f"{self.stage.name}."  # which the axes of a scan have already
        return self.name if self.name.startswith(prefix) else prefix + self.name

    @property
    def marked_by(self) -> str:
        """The call that marked the loop, and the line that it was made in."""
        kind, tag = ("bind", f", {self.thread}") if self.kind == "thread" else (self.kind, "")
        return self.stage.schedule.earlier(kind, self.stage, self.name + tag, self.name)

    @property
    def mark(self) -> str:
        marks = [*([] if self.kind == "serial" else [self.thread or self.kind]), *self.pragmas]
        return f" ({', '.join(marks)})" if marks else ""

    @property
    def dom(self) -> Range | None:
        """The values of an axis of the operation; of loops that primitives made, lowering knows."""
        return None if self.root is None else self.root.dom

    def __repr__(self) -> str:
        return self.full_name + self.mark


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """`parent = outer*factor + inner`; with `nparts`, the factor is `ceil(extent / nparts)`.

    `tail` is one of `TAILS`, or `exact`: see `loops.choose_tail`.
    """

    parent: Loop
    outer: Loop
    inner: Loop
    factor: Expr | None
    nparts: Expr | None
    tail: str

    @property
    def amount(self) -> Expr:
        """The factor, or `nparts` where that was given."""
        return self.factor if self.factor is not None else self.nparts  # type: ignore[return-value]

    @property
    def parents(self) -> tuple[Loop, ...]:
        return (self.parent,)

    @property
    def made(self) -> tuple[Loop, ...]:
        return self.outer, self.inner


@dataclass(frozen=True, slots=True, eq=False)
class Fuse:
    """`fused = outer*extent(inner) + inner`."""

    outer: Loop
    inner: Loop
    fused: Loop

    @property
    def parents(self) -> tuple[Loop, ...]:
        return self.outer, self.inner

    @property
    def made(self) -> tuple[Loop, ...]:
        return (self.fused,)


@dataclass(frozen=True, slots=True, eq=False)
class Attach:
    """The place where a stage is computed: `root`, `inline`, `at` a loop of a consumer, or as the `init` of a scan,
    just outside its loop over time. Also the place where it is stored, if `at` another loop."""

    kind: str = "root"
    stage: Stage | None = None
    loop: Loop | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InitNest:
    """The loops that set the elements of a reduction to the identity, just `outside` a loop: one for each spatial loop
    inside. `around` are the loops outside."""

    outside: Loop
    around: frozenset[Loop]
    loops: dict[Loop, Loop]


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """A prefetch of the elements of `tensor` that iteration `loop + offset` reads."""

    tensor: Tensor
    loop: Loop
    offset: Expr


# -- stages that are computed inside their readers -------------------------------------------------
def is_computed_whole(s: Schedule, stage: Stage) -> bool:
    """Whether all elements of a stage are computed, wherever it is. False where that is not known.

    for i: M[i] = S[i] / 64                        for i: M[i] = S[i] / 64
    for i: for j: C[i, j] = A[i, j] - M[i]   ->      for j: C[i, j] = A[i, j] - M[i]

    Some reader has to be computed whole itself, and read elements without gaps: `M[i]`, or `M[i.outer*8 + i.inner]`.
    What a choice leaves out is not counted on. Loops that are about other axes must not be empty.
    """
    an = Analyzer()
    walks = _walks_over(s, stage, an)
    if walks is None:
        return False
    for host, loops in stage.hosts():
        for a in (*host.axis, *host.reduce_axis):
            around = host.made_of([host.roots[a]]).intersection(loops)
            if around and a not in walks and not an.prove(compare("ge", a.extent, 1)):
                return False
    return True


def _walks_over(s: Schedule, stage: Stage, an: Analyzer) -> set[IterVar] | None:
    """The axes of readers that go over all elements of a stage, and over all that these readers are computed for; None
    where there are none."""
    if stage.attach.kind == "root":
        return set()
    for reader in s.consumers(stage):
        if isinstance(reader.op, ComputeOp) and not reader.scatter_axes and not s.scans.part(reader):
            own = next((x for e in _reads(reader, stage) if (x := _gone_over(stage, reader, e, an)) is not None), None)
            further = None if own is None else _walks_over(s, reader, an)
            if own is not None and further is not None:
                return own | further
    return None


def _reads(reader: Stage, stage: Stage) -> Iterator[Expr]:
    """The reads of a stage that each point of its reader needs."""
    needed = reached(reader.body, lambda e: e.args[:1] if e.op in CHOICES else e.args)
    return (e for e in needed if e.op == "read" and e.value in stage.op.outputs)


def _gone_over(stage: Stage, reader: Stage, read: Expr, an: Analyzer) -> set[IterVar] | None:
    """The axes along which a reader goes over all of a stage; None if it may leave elements out."""
    found: set[IterVar] = set()
    for axis, index in zip(stage.axis, read.args, strict=True):
        used = [a for a in (*reader.axis, *reader.reduce_axis) if a.var in variables(index)]
        if found.intersection(used) or not _has_no_gaps(index, used, axis, an):
            return None
        found.update(used)
    return found


def _has_no_gaps(index: Expr, used: list[IterVar], axis: IterVar, an: Analyzer) -> bool:
    """Whether an index takes every value of an axis, as these go through theirs."""
    rest, left, count = an.poly(index), list(used), const(1)
    if len(used) > 1 and not all(an.prove(compare("ge", a.extent, 1)) for a in used):
        return False
    while left:
        for a in left:
            step, others = rest.linear_in(a.var) or (None, rest)
            if step is None or not {x.var for x in used}.isdisjoint(step.variables):
                continue
            if an.prove(logical_and(compare("ge", step.expr(), 1), compare("le", step.expr(), count))):
                rest, count = others + step * an.poly(a.min), count + step.expr() * (a.extent - 1)
                left.remove(a)
                break
        else:
            return False
    first = rest.expr()
    ends = compare("ge", first + count, axis.min + axis.extent)
    return an.prove(compare("le", first, axis.min)) and an.prove(ends)
