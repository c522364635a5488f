"""Operations of a computation as TVM's tuners count them: one for each operator, type by type or of all types.

`te.work` says what a computation costs; this says what a program for TVM calls its GFLOP.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from autosched.errors import WorkloadError
from autosched.ir.expr import OPS, Expr, is_const
from autosched.te.reduction import Reduction
from autosched.te.tensor import ComputeOp, Operation, PlaceholderOp

#: kinds of operators that count, a call and a cast count nothing
_COUNTED = frozenset(("arith", "compare", "logic"))
_FREE = frozenset(("abs", "likely"))


def operations(ops: Iterable[Operation], *, typed: bool) -> float:
    """Count the operations of these operations, once each.

    `typed`: those on a type of the same kind (float, int, uint) as the result of their operation alone, which leaves
    out indices and conditions of padding. A number in `attrs={"FLOP": ..}` is taken instead.

    Raises WorkloadError for lengths that are no numbers, and for operations that are no `te.compute`.
    """
    total = 0.0
    for op in ops:
        if isinstance(op, PlaceholderOp):
            continue
        if not isinstance(op, ComputeOp):
            raise WorkloadError("only te.compute is counted", asked=f"operations of {op.name}", legal=_LEGAL)
        if typed and "FLOP" in op.attrs:
            total += float(getattr(op.attrs["FLOP"], "value", op.attrs["FLOP"]))
            continue
        kind = _kind(op.body[0]) if typed else ""
        bodies = op.body[:1] if op.body[0].op == "reduce" else op.body
        total += _length(op, [a.extent for a in op.axis]) * sum(_count(e, kind, op) for e in bodies)
    return total


_LEGAL = "cfg.add_flop(n) in the template says how many there are"


def _kind(e: Expr) -> str:
    return "float" if e.dtype.is_float else str(e.dtype).rstrip("0123456789")


def _length(op: ComputeOp, extents: list[Expr]) -> int:
    if not all(map(is_const, extents)):
        raise WorkloadError("a length is no number", asked=f"operations of {op.name}", legal=_LEGAL)
    return prod(int(e.value) for e in extents)


def _count(e: Expr, kind: str, op: ComputeOp) -> float:
    if e.op == "reduce":
        r: Reduction = e.value
        sources, _, _ = r.parts(e.args)
        each = sum(_count(x, kind, op) for x in sources)
        if isinstance(r.combiner, str):
            each += 1
        else:
            each += sum(_count(x, kind, op) for x in r.combiner.result)
        return _length(op, [a.extent for a in r.axes]) * each
    if e.op == "read":
        return 0
    if e.op == "select":
        return _count(e.args[0], kind, op) + max(_count(x, kind, op) for x in e.args[1:])
    below = sum(_count(x, kind, op) for x in e.args)
    counts = OPS[e.op].kind in _COUNTED and e.op not in _FREE
    return below + (1 if counts and (not kind or any(_kind(x) == kind for x in e.args)) else 0)
