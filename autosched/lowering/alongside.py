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
    if guests and not target.is_cpu:
        guest = next(iter(guests.values()))[0]
        raise _refused(guest, "each stage at the root is a kernel of its own", "compute_with on CPUs")
    for unit in _ordered(s, roots, guests):
        host = next((x for x in unit if x in guests), unit[0])
        nest = produce(host)
        pairs = {guest: list(shared_loops(guest)) for guest in guests.get(host, ())}
        for guest in sorted(pairs, key=lambda guest: -len(pairs[guest])):  # what shares fewer loops comes after them
            nest = _joined(nest, produce(guest), pairs[guest], an)
        yield nest


def _ordered(s: Schedule, roots: Sequence[Stage], guests: dict[Stage, list[Stage]]) -> Iterator[list[Stage]]:
    """The stages, those that share loops together, each after all that it needs; else in the order they are in.

    Raises LowerError where two need each other: stages between those of one nest, or those of another.
    """
    if not guests:
        yield from ([x] for x in roots)
        return
    hosts = {x: host for host, others in guests.items() for x in (host, *others)}
    units: dict[Stage, list[Stage]] = {}
    for x in roots:
        units.setdefault(hosts.get(x, x), []).append(x)
    users = {x: {*s.consumers(x, deep=True)} for x in roots}
    needs = {x: {y for y in roots if x in users[y]} for x in roots}
    waiting = list(units.values())
    while waiting:
        left = {x for unit in waiting for x in unit}
        unit = next((u for u in waiting if not any(needs[x] & left - {*u} for x in u)), None)
        if unit is None:
            unit = next(u for u in waiting if len(u) > 1 and any(needs[x] & {*u} for x in left - {*u}))
            between = [x for x in roots if x in left - {*unit} and (needs[x] | users[x]) & {*unit}]
            names = ", ".join(x.name for x in between)
            why = f"what is computed between the two needs one and is needed by the other: {names}"
            raise _refused(next(x for x in unit if x.shares is not None), why, "two nests")
        waiting.remove(unit)
        yield unit


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
