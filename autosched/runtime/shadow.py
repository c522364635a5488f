"""Shadow memory of the interpreter: who touched each element, and the defects that were found.

*Order.* An access happens at a place in a tree of forks: iterations of a parallel loop, work-groups
of a kernel, work-items of a group. A `Task` is one branch of a fork, in one phase between barriers;
its `outer` is the branch that forked. Two accesses are unordered if, where their ways down the tree
part, they are in two branches of one fork in the same phase. Serial loops fork nothing.

*Races.* Two unordered accesses of one element, one of them a write, are a race. An element remembers
who wrote the value that it has, and who has read it since; what came before the last ordered write is
ordered before all that comes after, so no race is missed for having been forgotten. Writing the value
that is there already is no race: tails that are shifted inwards compute some elements twice, and alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.errors import BuildError
from autosched.ir.expr import Expr
from autosched.ir.stmt import Store
from autosched.runtime.strided import memory_of

# -- where and when -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """Branches that run in no order; `between` names two of them: "two iterations of the parallel loop y"."""

    between: str


class Task:
    """One branch of a fork, in one phase between barriers. Tasks compare by identity."""

    __slots__ = ("depth", "fork", "number", "outer", "phase")

    def __init__(self, outer: Task | None, fork: Fork, number: int, phase: int = 0) -> None:
        self.outer, self.fork, self.number, self.phase = outer, fork, number, phase
        self.depth: int = 0 if outer is None else outer.depth + 1

    def next_phase(self) -> Task:
        """The same branch after a barrier."""
        return Task(self.outer, self.fork, self.number, self.phase + 1)


def unordered(a: Task, b: Task) -> Fork | None:
    """The fork that leaves two tasks unordered; None if one comes before the other."""
    while a.depth > b.depth and a.outer is not None:
        a = a.outer
    while b.depth > a.depth and b.outer is not None:
        b = b.outer
    while a.outer is not b.outer and a.outer is not None and b.outer is not None:
        a, b = a.outer, b.outer
    return a.fork if a.fork is b.fork and a.number != b.number and a.phase == b.phase else None


@dataclass(frozen=True, slots=True)
class Place:
    """The values of the loop variables, innermost first: a list that shares its tail."""

    outer: Place | None
    var: Expr
    value: int

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Names and values, outermost first."""
        if self.outer is not None:
            yield from self.outer
        if self.var.value.role in ("loop", "thread"):
            yield self.var.value.name, self.value

    def loops(self) -> list[tuple[Expr, int]]:
        """The rounds of the loops alone, which the work-items of a group go through together."""
        inner = [] if self.var.value.role == "thread" else [(self.var, self.value)]
        return inner if self.outer is None else self.outer.loops() + inner


@dataclass(frozen=True, slots=True)
class Access:
    """An access to an element: its task, the values of the loop variables, and the load, store or call."""

    task: Task
    place: Place | None
    by: Expr | Store
    writes: bool


# -- elements -----------------------------------------------------------------------------------------


class Memory:
    """One buffer's elements, which of them have a value, and who touched them.

    `task` is where the memory was allocated: nobody else sees it before it forks.
    """

    def __init__(self, values: np.ndarray, written: bool, task: Task | None = None) -> None:
        #: of an argument with strides, the shape that it has; its elements are all that it spans
        self.shape, self.strides = values.shape, tuple(step // values.itemsize for step in values.strides)
        self.values = memory_of(values)
        self.written = np.full(self.values.size, written)
        self.task = task
        self._writers: dict[int, dict[Task, Access]] = {}  # all of them wrote the value that is there
        self._readers: dict[int, dict[Task, Access]] = {}

    def place_of(self, at: int) -> tuple[int, ...]:
        """The element at this position, one number for each dimension."""
        return tuple(int(i) for i in np.unravel_index(at, self.values.shape))

    def never_written(self) -> int | None:
        """The first of the array's elements without a value."""
        steps = tuple(step * self.written.itemsize for step in self.strides)
        seen = np.lib.stride_tricks.as_strided(self.written, self.shape, steps)
        if seen.all():
            return None
        first = np.unravel_index(int(np.argmin(seen)), self.shape)
        return int(sum(i * step for i, step in zip(first, self.strides, strict=True)))

    def view(self, places: np.ndarray) -> np.ndarray:
        """The elements at these flat positions, which lie at equal distances, as an array over this memory."""
        flat = self.values.reshape(-1)
        first = int(places.flat[0]) if places.size else 0
        steps = []
        for axis, length in enumerate(places.shape):
            apart = np.diff(places, axis=axis).flat[0] if places.size and length > 1 else 1
            steps.append(int(apart) * flat.itemsize)
        return np.lib.stride_tricks.as_strided(flat[first:], places.shape, steps)

    def read(self, at: int, access: Access) -> tuple[Access, Fork] | None:
        """Note a read. Return the write that it races with, if any."""
        self._readers.setdefault(at, {}).setdefault(access.task, access)
        writers = self._writers.get(at)
        if writers is None or access.task in writers:
            return None
        races = list(_races(writers.values(), access.task))
        return races[0] if len(races) == len(writers) else None  # one that comes before wrote the same

    def changes(self, at: int, value: Any) -> bool:
        """True if writing this value makes a difference."""
        return not self.written[at] or not _same(self.values.flat[at], value)

    def write(self, at: int, changes: bool, access: Access) -> tuple[Access, Fork] | None:
        """Note a write. Return the access that it races with, if any."""
        writers = self._writers.get(at, {})
        if not changes:
            if writers:
                writers.setdefault(access.task, access)
            return None
        readers = self._readers.pop(at, {})
        self._writers[at] = {access.task: access}
        return next(_races((*writers.values(), *readers.values()), access.task), None)


def _races(others: Iterable[Access], task: Task) -> Iterator[tuple[Access, Fork]]:
    for other in others:
        if other.task is not task:
            fork = unordered(other.task, task)
            if fork is not None:
                yield other, fork


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or bool(a != a and b != b)


# -- what was found -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Party:
    """One side of a finding: what it does, and the loop variables' values, outermost first."""

    does: str
    at: dict[str, int]

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value}" for name, value in self.at.items())
        return f"{self.does} at {where}" if where else self.does


@dataclass(frozen=True)
class Finding:
    """A defect of a program, as the interpreter met it for the first time.

    `kind` is one of `KINDS`; `why` says it in a sentence; `element` is the place in `buffer`, one
    number for each dimension, and both are empty where no memory is involved. `party` is who met
    it, `other` whom a race is with. The same pair of places in the program is reported once:
    `count` says how often it was met.
    """

    KINDS = (
        "out-of-bounds",
        "uninitialised-read",
        "race",
        "divergent-barrier",
        "index-overflow",
        "division-by-zero",
        "unwritten-output",
    )

    kind: str
    why: str
    buffer: str = ""
    element: tuple[int, ...] = ()
    party: Party | None = None
    other: Party | None = None
    count: int = 1

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.why}"]
        lines += [f"  {party}" for party in (self.party, self.other) if party is not None]
        return "\n".join([*lines, f"  {self.count} times"] if self.count > 1 else lines)


@dataclass
class Findings:
    """The findings of a run; with `stop`, the first one ends it as a BuildError."""

    stop: bool
    _found: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    def add(self, key: tuple[object, ...], finding: Finding) -> None:
        """Add a finding, or count it where one with this key is known."""
        if self.stop:
            legal = "\n  ".join(str(party) for party in (finding.party, finding.other) if party is not None)
            raise BuildError(finding.why, asked="interpreter", legal=legal)
        known = self._found.get((finding.kind, *key))
        self._found[(finding.kind, *key)] = replace(known, count=known.count + 1) if known else finding

    def as_tuple(self) -> tuple[Finding, ...]:
        """The findings, in the order in which they were met first."""
        return tuple(self._found.values())
