"""Conditions on elements that are certainly there are asked together.

    if x[i] > 0 && y[i] < z[i]   ->   if min(x[i] > 0, y[i] < z[i])

The right side of `&` is evaluated only where the left side holds, so that it may guard a read outside of a tensor. For
vectors this is dear: lanes are loaded under a mask, or one after the other where the language has no masks. Where the
axes alone keep each read of the right side inside its tensor, nothing is guarded, and `min` and `max` of conditions ask
both sides. Conditions on indices stay as they are: loops are cut by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.calls import is_opaque
from autosched.ir.expr import Expr, binary, logical_and, logical_or
from autosched.ir.ops import BOTH_SIDES
from autosched.ir.visit import contains, post_order, rewrite
from autosched.lowering.reads import open_reads
from autosched.te.tensor import IterVar

#: Operators and operands of each of two conditions that are asked in any case, at most. Of long chains whose steps use
#: the one before twice, code would be as long as their depth to the third power.
MOST_ASKED = 32


def ask_together(body: tuple[Expr, ...], axes: Sequence[IterVar]) -> tuple[Expr, ...]:
    """A stage's body, with `min` in place of `and` and `max` in place of `or` where the right side guards nothing.

    >>> from autosched import te
    >>> x = te.placeholder((8,), name="x")
    >>> y = te.compute((8,), lambda i: (x[i] > 1) & (x[7 - i] < 2), name="y")
    >>> ask_together(y.op.body, y.op.axis)
    (min(x[i] > 1.0f, x[7 - i] < 2.0f),)
    """
    if not any(e.op in ("and", "or") and all(contains(a, "read") for a in e.args) for e in post_order(body)):
        return body
    doubtful = open_reads(body, axes)
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op not in ("and", "or") or not _guards_nothing(e.args[1], doubtful):
            return None
        *before, last = _sides(e.op, args[0])
        if not contains(last, "read") or len(post_order(last)) > MOST_ASKED:
            return None
        together = binary(BOTH_SIDES[e.op], last, args[1])
        return (logical_and if e.op == "and" else logical_or)(*before, together)

    return tuple(rewrite(e, change, done) for e in body)


def _sides(op: str, e: Expr) -> list[Expr]:
    return [*_sides(op, e.args[0]), *_sides(op, e.args[1])] if e.op == op else [e]


def _guards_nothing(e: Expr, doubtful: set[Expr]) -> bool:
    """Whether it reads elements, all of which are there, and is short."""
    parts = post_order(e)
    found = [x for x in parts if x.op == "read"]
    return bool(found) and len(parts) <= MOST_ASKED and doubtful.isdisjoint(found) and not any(map(is_opaque, parts))
