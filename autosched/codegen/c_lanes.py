"""Vector expressions taken apart: the one lane of a vector, and which indices are plain ramps."""

from __future__ import annotations

from autosched.ir.dtype import INT32
from autosched.ir.expr import (
    Expr,
    binary,
    cast,
    const,
    is_const,
    make,
)
from autosched.ir.visit import post_order

__all__ = ["as_ramp", "lane_of"]


def lane_of(e: Expr, lane: Expr) -> Expr:
    """The scalar in lane `lane` of `e`; a scalar is the same in every lane."""
    done: dict[Expr, Expr] = {}
    for node in post_order(e):
        if node.dtype.lanes == 1:
            done[node] = node
        elif node.op == "broadcast":
            done[node] = node.args[0]
        elif node.op == "ramp":
            base, stride = node.args
            done[node] = binary("add", base, binary("mul", cast(stride.dtype, lane), stride))
        else:
            done[node] = make(node.op, node.dtype.scalar, tuple(done[a] for a in node.args), node.value)
    return done[e]


def as_ramp(e: Expr) -> tuple[Expr, Expr] | None:
    """Base and stride of a vector index that is `base + lane * stride`, or None."""
    zero = const(0, INT32)
    if e.dtype.lanes == 1:
        return e, zero
    if e.op == "ramp":
        return e.args[0], e.args[1]
    if e.op == "broadcast":
        return e.args[0], zero
    if e.op not in ("add", "sub", "mul"):
        return None
    left, right = (as_ramp(a) for a in e.args)
    if left is None or right is None:
        return None
    (a, p), (b, q) = left, right
    if e.op != "mul":
        return binary(e.op, a, b), binary(e.op, p, q)
    if is_const(q, 0):
        return binary("mul", a, b), binary("mul", p, b)
    return (binary("mul", a, b), binary("mul", a, q)) if is_const(p, 0) else None
