"""A consumer that reads its producer element by element: the loops of the one are loops of the other.

    C[y, x] = g(P[y, x])              P's axes are y and x
    C[y, x] = g(P[y//4, x, y%4])      and those of P are digits of C's: split y by 4
    C[n] = g(P[n//16, n%16])          split n by 16
    C[y, x] = g(P[y*16 + x])          fuse y and x

Whatever loops a consumer gets, it computes each element once: that the map can be inverted only says that one iteration
needs one element of the producer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from autosched.errors import Illegal
from autosched.ir.expr import Expr, compare, const, is_const
from autosched.ir.iter_map import Digit, Inversion, NoIterMap
from autosched.ir.prove import is_integer_index
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import needed_first, post_order
from autosched.schedule import scans
from autosched.schedule.kinds import computed, starts_anew
from autosched.schedule.loop import Fuse, Loop, Split
from autosched.te.tensor import IterVar

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


@dataclass
class Match:
    """Which loops of a consumer are the axes of its producer."""

    axes: dict[IterVar, IterVar]  #: of the producer -> of the consumer, where they are the same
    inversion: Inversion | None = None  #: else, how the ones are taken apart
    parts: dict[IterVar, list[Digit]] = field(default_factory=dict)  #: of the producer -> its digits, highest first

    def loops(self, stage: Stage, wanted: set[IterVar]) -> dict[IterVar, Loop]:
        """The loops of the consumer, which has one for each of its axes, that are these axes of the producer; they are
        split and fused for that."""
        if self.inversion is None:
            return {a: stage.roots[b] for a, b in self.axes.items() if a in wanted}
        roots = {a.var: stage.roots[a] for a in stage.axis}
        found: dict[IterVar, Loop] = {}
        for a in (a for a, digits in self.parts.items() if a in wanted and not digits):  # it has one element
            v, x = next(iter(roots.items()))
            found[a], roots[v] = split_in_two(stage, x, partial(Split, x, factor=None, nparts=const(1), tail="guard"))
        made: dict[tuple[Expr, Expr], Loop] = {}
        for source in _needed(self.inversion, [d for a in wanted for d in self.parts[a]]):
            if source in self.inversion.sums:
                roots[source] = _fused(stage, [made[d.source, d.lower] for _, d in self.inversion.sums[source][::-1]])
            made.update(_digits(stage, source, roots[source], self.lowers(source)))
        for a in self.parts:
            if a in wanted and a not in found:
                found[a] = _fused(stage, [made[d.source, d.lower] for d in self.parts[a]])
        return found

    def lowers(self, source: Expr) -> list[Digit]:
        """The digits of an axis, or of a sum of axes, lowest first. Raises NoIterMap where some are missing."""
        assert self.inversion is not None
        every = [d for parts in self.parts.values() for d in parts]
        every += [d for parts in self.inversion.sums.values() for _, d in parts]
        left, placed = [d for d in every if d.source is source], []
        weight: Expr = const(1)
        while left:
            found = next((d for d in left if self.inversion.same(d.lower, weight)), None)
            if found is None:
                break
            left = [d for d in left if d is not found]
            placed.append(found)
            weight = simplify(weight * found.count)
        if left or not self.inversion.same(weight, self.inversion.extents[source]):
            raise NoIterMap("its digits overlap, leave gaps, or reach beyond its end")
        return placed


def _needed(inversion: Inversion, digits: list[Digit]) -> list[Expr]:
    """The sources of these digits, and of those that sums among them are made of, which come first."""
    return needed_first((d.source for d in digits), lambda x: [d.source for _, d in inversion.sums.get(x, ())])


def matching_axes(s: Schedule, stage: Stage, producer: Stage, action: str) -> Match:
    """Which loops of a consumer each axis of the producer is. Raises Illegal."""
    computed(producer)
    for x in (stage, producer):
        scans.forbid(x, action)
        if x.scatter_axes or x.scan_loop is not None:
            raise Illegal(f"the elements of {x.name} are not computed one by one", "stages made by te.compute")
    loops = set(producer.loops)
    if producer.init is not None or any(f.loop in loops for f in producer.fetches):
        what = "decompose_reduction" if producer.init is not None else "prefetch"
        raise Illegal(f"{producer.name} has a {what} at its loops, some of which move", f"{action} before {what}")
    if producer.is_output:
        raise Illegal(f"{producer.name} is an output: it is computed at the root", f"{action} is for intermediates")
    readers = s.consumers(producer)
    if stage not in readers:
        legal = f"consumers of {producer.name}: {', '.join(x.name for x in readers) or 'none'}"
        raise Illegal(f"{stage.name} does not read {producer.name}", legal)
    if len(readers) > 1:
        others = ", ".join(x.name for x in readers if x is not stage)
        raise Illegal(f"{others} reads {producer.name} too", f"compute {producer.name} at the root, or inline {others}")
    starts_anew(s, stage, action)
    own = {a.var: a for a in stage.axis}
    reads = (e for body in stage.body for e in post_order(body) if e.op == "read")
    places = {tuple(map(_without_casts, e.args)) for e in reads if e.value in producer.op.outputs}
    indices = next(iter(places))
    if len(places) == 1 and all(i in own for i in indices) and len(set(indices)) == len(indices):
        return Match({a: own[i] for a, i in zip(producer.axis, indices, strict=True)})
    for spelled in (simplify, lambda e: e) if len(places) == 1 else ():  # one may be digits where the other is not
        try:
            return _by_digits(stage, producer, [spelled(i) for i in indices])
        except NoIterMap:
            continue
    read = "; ".join(f"{producer.name}[{', '.join(map(repr, p))}]" for p in sorted(places, key=str))
    raise Illegal(
        f"{stage.name} reads {read}: an iteration needs more than one element, or in another order",
        f"compute {producer.name} at a loop of {stage.name} by compute_at",
    )


def _by_digits(stage: Stage, producer: Stage, indices: Sequence[Expr]) -> Match:
    """The axes of the producer as digits of the consumer's. Raises NoIterMap."""
    if any(not is_const(a.min, 0) for a in stage.axis) or not stage.axis:
        raise NoIterMap("an axis does not begin at 0, or there is none")
    an = Analyzer()
    for a in stage.axis:
        an.bind(a.var, a.min, a.min + a.extent - 1)
    match = Match({}, Inversion({a.var: simplify(a.extent) for a in stage.axis}, an))
    inversion = match.inversion
    assert inversion is not None
    for axis, e in zip(producer.axis, indices, strict=True):
        placed, extent = inversion.ordered([(c, inversion.digit(x)) for c, x in inversion.terms(e)], e)
        if not an.prove(compare("le", extent, axis.extent)):
            raise NoIterMap(f"{e!r} does not run over {axis.name}")
        match.parts[axis] = [d for _, d in reversed(placed) if not is_const(d.count, 1)]
    for source, placed in inversion.sums.items():
        inversion.sums[source] = [(c, d) for c, d in placed if not is_const(d.count, 1)]
    for source in _needed(inversion, [d for parts in match.parts.values() for d in parts]):
        match.lowers(source)
    return match


def _without_casts(i: Expr) -> Expr:
    """An index, whatever integer type it is cast to: it is a number all the same."""
    while i.op == "cast" and is_integer_index(i) and is_integer_index(i.args[0]):
        i = i.args[0]
    return i


# -- loops --------------------------------------------------------------------------------------------------


def split_in_two(
    stage: Stage, old: Loop, by: Callable[..., Split], names: tuple[str, str] | None = None
) -> tuple[Loop, Loop]:
    """Replace a loop of a stage whose loops are being made by two."""
    outer_name, inner_name = names or (f"{old.name}.outer", f"{old.name}.inner")
    outer, inner = stage.new_loop(outer_name, False), stage.new_loop(inner_name, False)
    stage.relations.append(by(outer=outer, inner=inner))
    at = stage.loops.index(old)
    stage.loops[at : at + 1] = [outer, inner]
    return outer, inner


def fuse_two(stage: Stage, first: Loop, second: Loop) -> Loop:
    """Replace two loops of a stage whose loops are being made by one."""
    fused = stage.new_loop(f"{first.name}.{second.name}.fused", False)
    stage.relations.append(Fuse(first, second, fused))
    stage.loops[stage.loops.index(first)] = fused
    stage.loops.remove(second)
    return fused


def _digits(stage: Stage, source: Expr, loop: Loop, lowest_first: list[Digit]) -> dict[tuple[Expr, Expr], Loop]:
    """The loops that the digits of an axis are, by that and by what they count."""
    made: dict[tuple[Expr, Expr], Loop] = {}
    for d in lowest_first[:0:-1]:
        by = partial(Split, loop, factor=d.lower, nparts=None, tail="exact")
        made[source, d.lower], loop = split_in_two(stage, loop, by)
    made[source, lowest_first[0].lower] = loop
    return made


def _fused(stage: Stage, loops: list[Loop]) -> Loop:
    """One loop for several, outermost first."""
    whole = loops[0]
    for x in loops[1:]:
        whole = fuse_two(stage, whole, x)
    return whole
