"""How wide the vectors of an expression are, in languages of the C family."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.codegen import c_divisions
from autosched.codegen.lanes import as_ramp
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr


def constant_lane(e: Expr) -> int | None:
    """The number that every lane of `e` is, if that is known."""
    inner = e.args[0] if e.op == "broadcast" else e
    return int(inner.value) if inner.op == "const" and not inner.dtype.is_float else None


def is_by_a_number(e: Expr) -> bool:
    """Whether a division of integers is by a positive number that is known."""
    divisor = constant_lane(e.args[1])
    return divisor is not None and divisor > 0


def lane_bytes(of: DType) -> int:
    """Bytes of one lane in a register, where floats of 16 bits are computed in 32."""
    return max(of.bits, 32 if of.is_float else 8) // 8


def widest(roots: Iterable[Expr]) -> int:
    """Bytes of the widest lanes of vectors that computing these takes; places in a row are no vectors."""
    most, seen, stack = 1, set[Expr](), list(roots)
    while stack:
        e = stack.pop()
        if e in seen or e.dtype.lanes == 1:
            continue
        seen.add(e)
        if e.dtype.kind != "handle":
            most = max(most, lane_bytes(e.dtype))
        if e.op in c_divisions.TEMPLATES and e.dtype.is_integer and not is_by_a_number(e):
            most = max(most, c_divisions.width(e.dtype))
        if e.op != "load" or as_ramp(e.args[0]) is None:
            stack.extend(e.args)
    return most
