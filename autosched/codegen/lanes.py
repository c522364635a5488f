"""Vector expressions taken apart: one lane of a vector, and which vectors are equally spaced or known numbers."""

from __future__ import annotations

from autosched.ir.calls import touches_memory
from autosched.ir.dtype import INT64
from autosched.ir.expr import OPS, Expr, binary, broadcast, cast, const, is_const, is_index, make, ramp, variables
from autosched.ir.visit import post_order


def lane_of(e: Expr, lane: Expr) -> Expr:
    """The scalar in lane `lane` of `e`; a scalar is the same in every lane."""
    return piece_of(e, lane, 1)


def piece_of(e: Expr, first: Expr, lanes: int) -> Expr:
    """So many lanes of `e` from lane `first` on; a scalar is the same in every lane."""
    done: dict[Expr, Expr] = {}
    for node in post_order(e):
        if node.dtype.lanes == 1:
            done[node] = node
        elif node.op == "broadcast":
            done[node] = broadcast(node.args[0], lanes) if lanes > 1 else node.args[0]
        elif node.op == "ramp":
            base, stride = node.args
            at = binary("add", base, binary("mul", cast(stride.dtype, first), stride))
            done[node] = ramp(at, stride, lanes) if lanes > 1 else at
        else:
            of = node.dtype.scalar.with_lanes(lanes)
            done[node] = make(node.op, of, tuple(done[a] for a in node.args), node.value)
    return done[e]


def one_side(e: Expr) -> bool:
    """Whether all lanes of a `select`, whose sides are evaluated both, take the same one, and data say which."""
    condition = e.args[0]
    return (
        e.op == "select"
        and (condition.dtype.lanes < e.dtype.lanes or condition.op == "broadcast")
        and touches_memory(condition)
    )


def as_ramp(e: Expr) -> tuple[Expr, Expr] | None:
    """Base and stride of a vector index that is `base + lane * stride`, or None.

    A program that is in bounds never wraps an address, so arithmetic of 32 bits that is not index
    arithmetic may be taken apart as well.
    """
    if e.dtype.lanes == 1:
        return e, const(0, e.dtype)
    if e.op == "broadcast":
        return e.args[0], const(0, e.args[0].dtype)
    if e.op == "ramp" and e.args[0].dtype.lanes == 1:
        return e.args[0], e.args[1]
    if e.op == "cast" and is_index(e.args[0]) and e.dtype.scalar == INT64:  # which is exact
        line = as_ramp(e.args[0])
        return None if line is None else (cast(e.dtype.scalar, line[0]), cast(e.dtype.scalar, line[1]))
    if e.dtype.bits < 32 or e.dtype.kind != "int" or e.op not in ("add", "sub", "mul"):
        return None
    left, right = map(as_ramp, e.args)
    if left is None or right is None:
        return None
    (a, p), (b, q) = left, right
    if e.op != "mul":
        return binary(e.op, a, b), binary(e.op, p, q)
    if is_const(q, 0):
        return binary("mul", a, b), binary("mul", p, b)
    return (binary("mul", a, b), binary("mul", a, q)) if is_const(p, 0) else None


def line_of(e: Expr) -> tuple[Expr, int] | None:
    """(base, constant stride) of a vector index whose lanes are equally spaced, or None."""
    found = as_ramp(e)
    return (found[0], int(found[1].value)) if found is not None and found[1].op == "const" else None


def pattern_of(e: Expr) -> tuple[Expr, list[int]] | None:
    """(base, distance of each lane from it) when these are known numbers."""
    if e.op == "add":
        for base, rest in (e.args, e.args[::-1]):
            if base.op == "broadcast":
                distances = _numbers(rest)
                return None if distances is None else (base.args[0], distances)
    distances = _numbers(e)
    return None if distances is None else (const(0, e.dtype.scalar), distances)


def is_known(e: Expr) -> bool:
    """Whether lanes are at known distances from each other."""
    return line_of(e) is not None or pattern_of(e) is not None


def reach_of(e: Expr) -> tuple[Expr, int, int] | None:
    """(base, distance of the first lane from it, that of the last one) of indices at known distances; lanes may lie
    in any order."""
    line = line_of(e)
    found = pattern_of(e) if line is None else (line[0], [0, (e.dtype.lanes - 1) * line[1]])
    return None if found is None else (found[0], min(found[1]), max(found[1]))


def _numbers(e: Expr) -> list[int] | None:
    """The lanes of a vector of integers that mentions no variables."""
    if variables(e):
        return None
    line = line_of(e)
    if line is not None and line[0].op == "const":
        return [int(line[0].value) + i * line[1] for i in range(e.dtype.lanes)]
    exact, args = OPS[e.op].exact, [_numbers(a) for a in e.args]
    if exact is None or not is_index(e) or None in args:
        return None
    return [exact(*lane) for lane in zip(*args, strict=True)]
