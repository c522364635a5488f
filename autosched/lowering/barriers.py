"""Barriers: the points where the work-items of a group wait for one another.

All work-items write a shared buffer together, and all read it. Between a write and a read by another work-item, and
between a read and the write that overwrites what was read, the group has to wait. Barriers are placed as far out as
possible, and as few as possible:

    for k.outer:                           for k.outer:
      A.shared = ...                         barrier        the readers of the last round are done
      B.shared = ...             ->          A.shared = ...
      C += A.shared * B.shared               B.shared = ...
                                             barrier        both tiles are complete
                                             C += A.shared * B.shared
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autosched.errors import LowerError
from autosched.ir import stmt as S
from autosched.ir.expr import Expr, logical_and, logical_not, variables
from autosched.ir.ops import ACCESSES
from autosched.ir.stmt import Buffer, Stmt
from autosched.ir.visit import contains


@dataclass
class _Touched:
    """Shared buffers read and written."""

    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)

    def conflicts(self, later: _Touched, own: frozenset[Buffer]) -> set[Buffer]:
        """The buffers for which later accesses must wait for these.

        A stage may store to its `own` buffer again: each work-item keeps to its elements.
        """
        written_again = (self.writes & later.writes) - own
        return written_again | (self.writes & later.reads) | (self.reads & later.writes)

    def add(self, other: _Touched) -> None:
        self.reads |= other.reads
        self.writes |= other.writes

    def pass_barrier(self, scope: str) -> None:
        """Forget what a barrier has ordered: one of the shared scope, nothing in main memory."""
        kept = "global" if scope == "shared" else ""
        self.reads = {b for b in self.reads if b.scope == kept}
        self.writes = {b for b in self.writes if b.scope == kept}

    def copy(self) -> _Touched:
        return _Touched(set(self.reads), set(self.writes))


def insert_barriers(body: Stmt, by_one: frozenset[Buffer] = frozenset()) -> Stmt:
    """The body of a kernel with the barriers that its shared buffers need.

    Main memory that one work-item stores for others (`by_one`), such as the states of a scan, is treated alike.
    """
    shared = {s.buffer for s in S.walk(body) if isinstance(s, S.Allocate) and s.buffer.scope == "shared"}
    shared |= {b for b in by_one & S.read_buffers(body) if b.scope == "global"}
    return _Planner(frozenset(shared)).plan(body, _Touched(), frozenset()) if shared else body


class _Planner:
    def __init__(self, shared: frozenset[Buffer]) -> None:
        self.shared = shared
        self._stores: dict[Stmt, frozenset[Buffer]] = {}

    def plan(self, s: Stmt, before: _Touched, own: frozenset[Buffer]) -> Stmt:
        """`s` with barriers. `before` holds the accesses since the last barrier, and is updated; `own` are the buffers
        of the stages that `s` is part of."""
        produced = self._produced(s.body) if isinstance(s, S.Produce) else frozenset()
        stored = self._all_stores(s)
        # one shared stage alone, or nothing but a part of the stage around it: no barrier is needed inside
        if stored == produced if produced else stored <= own:
            touched = _Touched((S.read_buffers(s) & self.shared) - (produced or own), set(stored))
            waited = before.conflicts(touched, own)
            if not waited:
                before.add(touched)
                return s
            # a barrier of the shared scope orders no main memory: one that is pending waits here, too
            scope = "global" if any(b.scope == "global" for b in before.reads | before.writes) else "shared"
            before.reads, before.writes = touched.reads, touched.writes
            return S.Seq((S.Barrier(scope), s))
        match s:
            case S.For() | S.While():
                return self._loop(s, before, own)
            case S.If():
                otherwise = before.copy()
                then = self.plan(s.then, before, own)
                other = None if s.otherwise is None else self.plan(s.otherwise, otherwise, own)
                before.add(otherwise)
                return S.If(s.condition, then, other)
            case S.Barrier():  # of a reduction by the group
                before.pass_barrier(s.scope)
                return s
            case _:
                return S.with_children(s, lambda c: self.plan(c, before, own | produced))

    def _loop(self, s: S.For | S.While, before: _Touched, own: frozenset[Buffer]) -> Stmt:
        """A loop, whose accesses also precede those of its next iteration, or which may not run at all."""
        skipped, once = before.copy(), before.copy()
        self.plan(s.body, once, own)
        before.add(once)
        body = self.plan(s.body, before, own)
        if isinstance(s, S.While) or s.extent.op != "const" or s.extent.value < 1:
            before.add(skipped)
        return replace(s, body=body)

    def _all_stores(self, s: Stmt) -> frozenset[Buffer]:
        """The shared buffers stored to anywhere in `s`."""
        if s not in self._stores:
            own = self.shared & (S.handed_out(s) | ({s.buffer} if isinstance(s, S.Store) else set()))
            self._stores[s] = own.union(*(self._all_stores(c) for c in S.children(s)))
        return self._stores[s]

    def _produced(self, s: Stmt) -> frozenset[Buffer]:
        """The shared buffers that a stage stores to, but for those of the stages inside it."""
        if isinstance(s, S.Store):
            return self.shared & {s.buffer}
        return frozenset().union(*(self._produced(c) for c in S.children(s) if not isinstance(c, S.Produce)))


def check_uniform(s: Stmt, items: frozenset[Expr], where: str = "") -> None:
    """Raise LowerError for a barrier that only some work-items of a group reach: it would hang the device.

    `items` are the variables of a work-item's place in its group.
    """
    match s:
        case S.Barrier() if where:
            raise LowerError(
                f"the barrier it needs is reached only where {where}",
                asked="shared storage",
                legal="compute the shared stage at a loop outside conditions on threadIdx",
            )
        case S.If(condition=c) | S.While(condition=c):
            if variables(c) & items or contains(c, "load"):
                where = repr(c)
        case S.For():
            if (variables(s.start) | variables(s.extent)) & items:
                where = repr(s.extent)
    for part in S.children(s):
        check_uniform(part, items, where)


def lift_barriers(s: Stmt, in_loop: bool = False) -> Stmt:
    """`s` with no barrier under a condition inside a loop.

        for k:                                 for k:
          if c:                                  if c:
            A.shared = ...         ->              A.shared = ...
            barrier                              barrier
            B += A.shared                        if c:
                                                   B += A.shared

    All work-items of a group agree on such a condition (`check_uniform`), so they may also wait if it does not hold.
    PoCL 3.0 crashes, or computes wrong results, if a barrier in a loop is skipped in some iterations.
    """
    match s:
        case S.If() if in_loop and _waits(s) and _is_steady(s):
            then = _under(s.condition, s.then)
            return then if s.otherwise is None else S.seq(then, _under(logical_not(s.condition), s.otherwise))
        case S.For() | S.While():
            return replace(s, body=lift_barriers(s.body, True)) if _waits(s) else s
        case _:
            return S.with_children(s, lambda part: lift_barriers(part, in_loop))


def _waits(s: Stmt) -> bool:
    return any(isinstance(x, S.Barrier) for x in S.walk(s))


def _is_steady(s: S.If) -> bool:
    """Return whether the conditions around barriers inside can be evaluated anywhere, with the same result."""
    around = [x for x in S.walk(s) if isinstance(x, S.If | S.For | S.While | S.Let) and _waits(x)]
    if any(isinstance(x, S.While) for x in around):
        return False
    asked = [e for x in around for e in S.expressions(x)]
    return not contains(asked, *ACCESSES)


def _under(condition: Expr, s: Stmt) -> Stmt:
    """`s` under a condition, but for its barriers, which are reached in any case."""
    if not _waits(s):
        return S.If(condition, s)
    if not isinstance(s, S.If):
        return S.with_children(s, lambda part: _under(condition, part))
    then = _under(logical_and(condition, s.condition), s.then)
    if s.otherwise is None:
        return then
    return S.seq(then, _under(logical_and(condition, logical_not(s.condition)), s.otherwise))
