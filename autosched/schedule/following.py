"""Whether a stage, in loops that it shares with one that it reads, reads only what the same iteration has computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.ir.expr import Expr
from autosched.ir.visit import post_order
from autosched.schedule.loop import Fuse, Loop, Split
from autosched.te.tensor import IterVar

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def follows(s: Schedule, reader: Stage, producer: Stage, group: list[Stage], depth: int) -> bool:
    """Whether each iteration of the outermost `depth` loops of a stage reads of a producer, whose loops these are, too,
    what the producer computes in the same iteration; and nothing else that is made of it, but stages of the `group`.

    for i: (A[i] = ..);  (B[i] = f(A[i]))
    """
    if any(x is not producer and x not in group and s.depends_on(x, producer) for x in s.reads(reader)):
        return False
    if producer.store_predicate is not None or depth > min(len(reader.loops), len(producer.loops)):
        return False
    axes: dict[IterVar, IterVar] = {}  # of the producer -> of the reader
    for own, other in zip(reader.loops[:depth], producer.loops[:depth], strict=True):
        if own.is_reduce or other.is_reduce or not _alike(_made_of(other), _made_of(own), axes):
            return False
    for e in post_order(reader.body):
        if e.op == "read" and s.stage(e.value) is producer:
            at = dict(zip(producer.axis, e.args, strict=True))
            if any(at[a] is not b.var for a, b in axes.items()):
                return False
    return True


def _made_of(loop: Loop) -> Any:
    """An axis, or how a loop is made of others: two that are alike run through the same numbers for the same
    elements."""
    for r in loop.stage.relations:
        if loop not in r.made:
            continue
        if isinstance(r, Split):
            split = (r.made.index(loop), r.factor, r.nparts, r.tail)
            return (split, _made_of(r.parent))
        if isinstance(r, Fuse):
            return (("fused",), _made_of(r.outer), _made_of(r.inner))
    return loop.root


def _alike(a: Any, b: Any, axes: dict[IterVar, IterVar]) -> bool:
    """Whether two loops are made alike, of axes of equal length; these get into `axes`."""
    if isinstance(a, IterVar) and isinstance(b, IterVar):
        same = a.extent is b.extent and a.min is b.min
        return same and axes.setdefault(a, b) is b and list(axes.values()).count(b) == 1
    if not isinstance(a, tuple) or not isinstance(b, tuple) or len(a) != len(b):
        return False
    (how, *parts), (other, *others) = a, b
    known = (x is y if isinstance(x, Expr) or isinstance(y, Expr) else x == y for x, y in zip(how, other))
    same = len(how) == len(other) and all(known)
    return same and all(_alike(x, y, axes) for x, y in zip(parts, others, strict=True))
