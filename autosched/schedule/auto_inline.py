"""Inlining what costs nothing to compute again: element-wise, broadcasting and injective stages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from autosched.ir.expr import Expr
from autosched.ir.visit import post_order
from autosched.te.tensor import ComputeOp

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def is_injective(stage: Stage) -> bool:
    """Each element is computed from single elements: no reduction."""
    return isinstance(stage.op, ComputeOp) and not stage.reduce_axis


def is_elem_wise(stage: Stage) -> bool:
    """Element (i, j, ..) is computed from elements (i, j, ..) of what the stage reads."""
    axes = [a.var for a in stage.axis]
    return is_injective(stage) and all(
        len(indices) == len(axes) and all(i is v for i, v in zip(indices, axes, strict=True))
        for indices in _reads(stage)
    )


def is_broadcast(stage: Stage) -> bool:
    """Each read's indices are some of the axes, in their order."""
    places = {a.var: i for i, a in enumerate(stage.axis)}

    def is_ordered(indices: tuple[Expr, ...]) -> bool:
        at = [places.get(i, -1) for i in indices]
        return -1 not in at and all(a < b for a, b in pairwise(at))

    return is_injective(stage) and all(map(is_ordered, _reads(stage)))


def _reads(stage: Stage) -> list[tuple[Expr, ...]]:
    return [e.args for e in post_order(stage.body) if e.op == "read"]


def auto_inline_elem_wise(s: Schedule) -> None:
    """Inline every stage that is computed element by element, and that nothing was done with.

    >>> from autosched import te
    >>> from autosched.schedule import create_schedule
    >>> a = te.placeholder((8,), name="A")
    >>> b = te.compute((8,), lambda i: a[i] + 1, name="B")
    >>> s = create_schedule(te.compute((8,), lambda i: b[i] * 2, name="C"))
    >>> auto_inline_elem_wise(s)
    >>> s["B"].attach.kind
    'inline'
    """
    _inline(s, is_elem_wise)


def auto_inline_broadcast(s: Schedule) -> None:
    """Inline every stage that repeats elements along new axes, and that nothing was done with."""
    _inline(s, is_broadcast)


def auto_inline_injective(s: Schedule) -> None:
    """Inline every stage that is no reduction, and that nothing was done with."""
    _inline(s, is_injective)


def _inline(s: Schedule, is_wanted: Callable[[Stage], bool]) -> None:
    for stage in s.stages:
        untouched = not stage.relations and not any(x.mark for x in stage.loops) and stage.attach.kind == "root"
        hosts = any(x.attach.stage is stage for x in s.stages)
        if untouched and not hosts and not stage.is_output and not s.scans.part(stage) and is_wanted(stage):
            stage.compute_inline()
