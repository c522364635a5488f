"""Stages that are computed in the same loops: nests at the root become one, as `compute_with` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from autosched.errors import LowerError
from autosched.ir.expr import is_const
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Allocate, For, Produce, Seq, Stmt, seq, substitute_stmt
from autosched.schedule.primitives.place import shared_loops
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.target import Target


def side_by_side(
    s: Schedule, roots: Sequence[Stage], produce: Callable[[Stage], Stmt], target: Target, an: Analyzer
) -> Iterator[Stmt]:
    """The nests of the stages at the root, in order; those that share loops are one nest."""
    guests: dict[Stage, list[Stage]] = {}
    for x in roots:
        if x.shares is not None:
            guests.setdefault(x.shares.stage, []).append(x)
    at: dict[Stage, Stage] = {}  # a stage at whose turn several are computed -> the one whose loops these share
    for host, others in guests.items():
        if target.is_gpu_style:
            raise _refused(others[0], "each stage at the root is a kernel of its own", "compute_with on CPUs")
        at[_turn(s, roots, {host, *others}, others[0])] = host
    together = {x for host, others in guests.items() for x in (host, *others)}
    for x in roots:
        if x in at:
            nest = produce(at[x])
            pairs = {guest: list(shared_loops(guest)) for guest in guests[at[x]]}
            for guest in sorted(
                pairs, key=lambda guest: -len(pairs[guest])
            ):  # what shares fewer loops comes after them
                nest = _joined(nest, produce(guest), pairs[guest], an)
            yield nest
        elif x not in together:
            yield produce(x)


def _turn(s: Schedule, roots: Sequence[Stage], group: set[Stage], guest: Stage) -> Stage:
    """The stage of a group at whose turn all of it may be computed. Raises LowerError."""
    turns = [i for i, x in enumerate(roots) if x in group]
    for turn in turns:
        later = (x for i in turns for x in roots[i + 1 : turn] if x not in group and s.depends_on(x, roots[i]))
        earlier = (x for i in turns for x in roots[turn:i] if x not in group and s.depends_on(roots[i], x))
        if next(later, None) is None and next(earlier, None) is None:
            return roots[turn]
    names = ", ".join(x.name for x in roots[turns[0] : turns[-1]] if x not in group)
    raise _refused(
        guest, f"what is computed between the two needs one and is needed by the other: {names}", "two nests"
    )


def _refused(guest: Stage, why: str, legal: str) -> LowerError:
    assert guest.shares is not None
    host = guest.shares.stage.name
    asked = guest.schedule.earlier("compute_with", guest, f"{host}, {guest.shares.name}")
    return LowerError(f"{guest.name} cannot be computed in loops of {host}: {why}", asked=asked, legal=legal)


@dataclass(frozen=True)
class _Peeled:
    """A loop of a nest with what is before it, in the allocations around both."""

    name: str  #: of the stage; empty where that is said further in
    allocations: tuple[Allocate, ...]
    before: tuple[Stmt, ...]
    loop: For

    def produced(self, body: Stmt) -> Stmt:
        return Produce(self.name, body) if self.name else body


def _peeled(nest: Stmt, loop: Loop) -> _Peeled | None:
    """The nest down to that loop, if nothing but allocations and first values is around or before it."""
    name, before = "", []
    allocations: list[Allocate] = []
    while not (isinstance(nest, For) and nest.var is loop.var):
        if isinstance(nest, Produce):
            name, nest = nest.name, nest.body
        elif isinstance(nest, Allocate):
            allocations.append(nest)
            nest = nest.body
        elif isinstance(nest, Seq) and nest.stmts:
            *first, nest = nest.stmts
            before += first
        else:
            return None
    return _Peeled(name, tuple(allocations), tuple(before), nest)


def _joined(nest: Stmt, other: Stmt, pairs: Sequence[tuple[Loop, Loop]], an: Analyzer) -> Stmt:
    """Two nests whose outermost loops, in pairs, become those of the first."""
    (x, y), *rest = pairs
    a, b = _peeled(nest, x), _peeled(other, y)
    if a is None or b is None:
        odd = x if a is None else y
        why = f"{odd.full_name} is not the first thing that happens there, or happens under a condition"
        raise _refused(y.stage, why, "loops that follow each other from the outermost on, before any others")
    if a.loop.start is not b.loop.start or not is_const(an.simplify(a.loop.extent - b.loop.extent), 0):
        why = f"{x.full_name} has {a.loop.extent!r} iterations, {y.full_name} {b.loop.extent!r}"
        raise _refused(y.stage, why, "loops of equal length: the same splits of both")
    bodies = a.loop.body, substitute_stmt(b.loop.body, {y.var: x.var})
    if rest:
        inside = _joined(a.produced(bodies[0]), b.produced(bodies[1]), rest, an)
    else:
        inside = seq(a.produced(bodies[0]), b.produced(bodies[1]))
    first = (*map(a.produced, a.before), *map(b.produced, b.before))
    made = seq(*first, replace(a.loop, body=inside))
    for allocation in (*reversed(b.allocations), *reversed(a.allocations)):
        made = replace(allocation, body=made)
    return made
