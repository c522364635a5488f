"""Reductions of which each result takes a part, as a row of a sparse matrix does of all its values."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.ir.expr import Expr, variables
from autosched.ir.visit import post_order
from autosched.schedule.stage import Stage
from autosched.te.tensor import ComputeOp


def spans(stage: Stage) -> frozenset[Expr]:
    """The axes of results each of which takes only a part of a reduction, whose both ends data tell; none elsewhere,
    and in steps of scans.

    R[i] = sum of A[k] where begin[i] <= k and k < begin[i + 1]      i

    A loop over k for one i begins and ends there. One for several of them together visits all that there is.
    """
    body = stage.body[0] if isinstance(stage.op, ComputeOp) and stage.body else None
    if body is None or body.op not in ("reduce", "scatter") or stage.schedule.scans.step_of(stage) is not None:
        return frozenset()
    reduced, own = {a.var for a in stage.reduce_axis}, {a.var for a in stage.axis}
    ends: dict[tuple[Expr, bool], frozenset[Expr]] = {}
    for c in _parts(body.value.parts(body.args)[1]):
        for here, there, is_low in ((0, 1, c.op in ("gt", "ge")), (1, 0, c.op in ("lt", "le"))):
            if c.op not in ("lt", "le", "gt", "ge") or any(e.op == "read" for e in post_order(c.args[here])):
                continue
            of = variables(c.args[here]) & reduced
            told = [e for e in post_order(c.args[there]) if e.op == "read"]
            if len(of) == 1 and told and variables(c.args[there]).isdisjoint(reduced):
                ends[next(iter(of)), is_low] = variables(c.args[there]) & own
    both = {k for k, is_low in ends if (k, not is_low) in ends}
    return frozenset().union(*(v for (k, _), v in ends.items() if k in both))


def _parts(condition: Expr) -> Iterator[Expr]:
    """Those of a conjunction, which truths that are asked together are, too."""
    if condition.op in ("and", "likely") or (condition.op in ("min", "bitand") and condition.dtype.is_bool):
        for c in condition.args:
            yield from _parts(c)
    else:
        yield condition
