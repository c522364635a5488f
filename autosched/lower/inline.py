"""Inlined stages: their expression takes the place of every read of them."""

from __future__ import annotations

from autosched.ir.expr import Expr, cast, is_index
from autosched.ir.visit import rewrite, substitute
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage

__all__ = ["inline_stages"]


def inline_stages(s: Schedule) -> dict[Stage, tuple[Expr, ...]]:
    """The element expressions of every computed stage, reading stored tensors only."""
    bodies: dict[Stage, tuple[Expr, ...]] = {}
    for stage in s.stages:  # producers come first, so their bodies are final
        done: dict[Expr, Expr] = {}
        bodies[stage] = tuple(_inline(e, s, bodies, done) for e in stage.body)
    return bodies


def _inline(body: Expr, s: Schedule, bodies: dict[Stage, tuple[Expr, ...]], done: dict[Expr, Expr]) -> Expr:
    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        producer = s.stage(e.value) if e.op == "read" else None
        if producer is None or producer.attach.kind != "inline":
            return None
        # an index that is a value (a read, say) is widened, so that arithmetic on it stays exact
        exact = (i if is_index(i) else cast("int64", i) for i in args)
        mapping = dict(zip((a.var for a in producer.axis), exact, strict=True))
        return cast(e.dtype, substitute(bodies[producer][e.value.value_index], mapping))

    return rewrite(body, change, done)
