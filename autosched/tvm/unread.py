"""Elements that nobody reads: TVM computes of an intermediate what is read of it, so that `X[t - 1]` may leave X at
t = 0 where no reader asks for that time. Here a stage at the root computes all of its elements, and those hold zeros.
"""

from __future__ import annotations

from copy import deepcopy

from autosched.ir.expr import Expr, compare, const, if_then_else, logical_and
from autosched.ir.visit import rewrite
from autosched.lowering.reads import unread_outside
from autosched.schedule.schedule import Schedule


def guarded(s: Schedule) -> Schedule:
    """The schedule, or a copy in which reads outside of tensors are left out for elements that nobody reads.

    >>> from autosched.tvm import te
    >>> X = te.placeholder((8,), name="X")
    >>> Y = te.compute((8,), lambda t: X[t - 1] * 2.0, name="Y")
    >>> Z = te.compute((7,), lambda t: Y[t + 1], name="Z")
    >>> guarded(te.create_schedule(Z.op))[Y].body
    (if_then_else(t - 1 >= 0 && t - 1 < 8, X[t - 1], 0.0f) * 2.0f,)
    """
    found = unread_outside(s)
    if not found:
        return s
    made = deepcopy(s)
    for stage, reads in found.items():

        def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            outside = reads.get(e, ())  # noqa: B023
            inside = [c for i, n in outside for c in (compare("ge", i, 0), compare("lt", i, n))]
            return if_then_else(logical_and(*inside), e, const(0, e.dtype)) if inside else None

        copy = made.stages[s.stages.index(stage)]
        copy.body = tuple(rewrite(e, change) for e in copy.body)
    return made
