"""Inlined stages: their expression takes the place of every read of them. Mirrored indices near the borders: a distance
takes the place of a remainder.

    min(i % 14, 14 - i % 14), for -2 <= i < 10   ->   min(max(i, -i), 14 - max(i, -i))

The remainder of an index that crosses a border may be anything as far as bounds are concerned: what reads across a
mirror would need the whole dimension. Of a distance, bounds are known: it moves as the index does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from autosched.ir.expr import Expr, cast, is_const, maximum, minimum
from autosched.ir.ranges import Interval, Ranges
from autosched.ir.simplify import simplify
from autosched.ir.visit import post_order, rebuild, rewrite, substitute
from autosched.lowering.unguarded import ask_together
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.te.tensor import IterVar


def inline_stages(s: Schedule) -> dict[Stage, tuple[Expr, ...]]:
    """The element expressions of every computed stage, reading stored tensors only."""
    bodies: dict[Stage, tuple[Expr, ...]] = {}
    for stage in s.stages:  # producers come first, so their bodies are final
        done: dict[Expr, Expr] = {}
        axes = (*stage.axis, *stage.reduce_axis)
        body = tuple(_inline(e, s, bodies, done) for e in stage.body)
        bodies[stage] = ask_together(near_mirrors(body, axes), axes)
    return bodies


def _inline(body: Expr, s: Schedule, bodies: dict[Stage, tuple[Expr, ...]], done: dict[Expr, Expr]) -> Expr:
    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        producer = s.stage(e.value) if e.op == "read" else None
        if producer is None or producer.attach.kind != "inline":
            return None
        body = bodies[producer][e.value.value_index]
        return cast(e.dtype, _at([a.var for a in producer.axis], args, body))

    return rewrite(body, change, done)


def _at(axes: list[Expr], place: tuple[Expr, ...], body: Expr) -> Expr:
    """`body` at a place, whose indices may be values, such as elements of another tensor.

    Arithmetic on them is exact (in int64) within the indices of reads. Combined with values, it has the type that
    arithmetic on axes has there.
    """
    if all(i.index for i in place):
        return substitute(body, dict(zip(axes, place, strict=True)))
    mapping = {v: i if i.index else cast("int64", i) for v, i in zip(axes, place, strict=True)}

    def exact(e: Expr) -> Expr:
        return substitute(e, mapping)

    if body.index:
        return exact(body)
    done: dict[Expr, Expr] = {}
    for e in post_order(body):  # arguments first
        if not e.index:
            args = [(exact(a) if e.op == "read" else cast(a.dtype, exact(a))) if a.index else done[a] for a in e.args]
            done[e] = rebuild(e, tuple(args))
    return done[body]


def near_mirrors(body: tuple[Expr, ...], axes: Sequence[IterVar]) -> tuple[Expr, ...]:
    """A stage's body, with distances in mirrored indices that stay within a period of the border.

    It is the same for all values of the axes in their domains. Where no domain is known the remainder stays.
    """
    if not any(e.op == "floormod" and e.index for e in post_order(body)):
        return body
    ranges = Ranges()
    for a in axes:
        if is_const(a.min) and is_const(a.extent):
            ranges.bind(a.var, Interval(int(a.min.value), int(a.min.value) + int(a.extent.value) - 1))
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return _near(args, ranges) if e.op == "min" and e.index else None

    return tuple(rewrite(e, change, done) for e in body)


def _near(args: tuple[Expr, ...], ranges: Ranges) -> Expr | None:
    """`min(i % p, q - i % p)` for `-p <= i < p` and a mirror at the edge's element or behind it; None for others."""
    for remainder, other in permutations(args):
        if remainder.op != "floormod" or not is_const(remainder.args[1]):
            continue
        index, period = remainder.args[0], int(remainder.args[1].value)
        turned = simplify(other + remainder)
        found = ranges.of(index)
        if not is_const(turned) or period <= 0 or int(turned.value) - period not in (0, -1):
            continue
        if not all(isinstance(end, int) for end in (found.low, found.high)):
            continue
        periods = int(found.high) // period
        if found.low >= (periods - 1) * period:
            at = simplify(index - periods * period)
            away = maximum(at, int(turned.value) - period - at)
            return minimum(away, turned - away)
    return None
