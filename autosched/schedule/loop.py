"""Loops, and what is said of them: how they came about, where stages are computed, what is fetched ahead.

A `Split` replaces one loop by two, a `Fuse` two by one. Nothing is rewritten: `lower` derives extents and index
expressions from these relations, so factors may be numbers, sizes or open knobs.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.ir.expr import Expr, var
from autosched.ir.range import Range
from autosched.te.tensor import IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.stage import Stage

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
    """A loop of a stage. `kind` is one of `ir.stmt.LOOP_KINDS`; `thread` what it is bound to;
    `pragmas` are some of `marks.PRAGMAS`,
    with `=value` behind those that have one."""

    __slots__ = ("is_reduce", "kind", "name", "pragmas", "root", "stage", "thread", "thread_var", "var")

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
        """The same for another stage: but for that, all of it is data."""
        made = memo[id(self)] = object.__new__(Loop)
        for name in Loop.__slots__:
            setattr(made, name, getattr(self, name))
        made.stage = deepcopy(self.stage, memo)
        return made

    @property
    def full_name(self) -> str:
        """`stage.loop`, as errors and traces print it."""
        prefix = f"{self.stage.name}."  # which the axes of a scan have already
        return self.name if self.name.startswith(prefix) else prefix + self.name

    @property
    def mark(self) -> str:
        marks = [*([] if self.kind == "serial" else [self.thread or self.kind]), *self.pragmas]
        return f" ({', '.join(marks)})" if marks else ""

    @property
    def dom(self) -> Range | None:
        """The values of an axis of the operation; of loops that primitives made, lowering knows."""
        return None if self.root is None else self.root.dom

    def same_as(self, other: object) -> bool:
        return self is other

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
    """Where a stage is computed: `root`, `inline`, `at` a loop of a consumer, or as `init` of a scan,
    just outside its loop over time. Also where it is stored, if `at` another loop than that."""

    kind: str = "root"
    stage: Stage | None = None
    loop: Loop | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InitNest:
    """Where a reduction sets its elements to the identity: just outside a loop, in loops of its own,
    one for each spatial loop inside. `around` are the loops outside."""

    outside: Loop
    around: frozenset[Loop]
    loops: dict[Loop, Loop]


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """What iteration `loop + offset` reads of `tensor` is to be in the cache by then."""

    tensor: Tensor
    loop: Loop
    offset: Expr
