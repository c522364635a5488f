"""Inlined stages: their expression takes the place of every read of them."""

from __future__ import annotations

from autosched.ir.expr import Expr, cast
from autosched.ir.visit import post_order, rebuild, rewrite, substitute
from autosched.lowering.mirrors import near_mirrors
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage


def inline_stages(s: Schedule) -> dict[Stage, tuple[Expr, ...]]:
    """The element expressions of every computed stage, reading stored tensors only."""
    bodies: dict[Stage, tuple[Expr, ...]] = {}
    for stage in s.stages:  # producers come first, so their bodies are final
        done: dict[Expr, Expr] = {}
        body = tuple(_inline(e, s, bodies, done) for e in stage.body)
        bodies[stage] = near_mirrors(body, (*stage.axis, *stage.reduce_axis))
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
