"""What a condition on sizes makes of loops that are written for it alone."""

from __future__ import annotations

from autosched.ir.expr import Expr, floordiv, is_const, var
from autosched.ir.simplify import conjuncts
from autosched.ir.stmt import If, Let, Stmt, substitute_stmt

__all__ = ["specialized"]


def specialized(stmt: Stmt, cases: list[Expr]) -> Stmt:
    """The statement in several versions: the first whose condition holds runs, or else the plain one."""
    result = stmt
    for condition in reversed(cases):
        result = If(condition, _given(stmt, condition), result)
    return result


def _given(stmt: Stmt, condition: Expr) -> Stmt:
    """The statement where sizes are what the condition says: `n % 8 == 0` makes n eight times something.

    Other comparisons are facts that the passes know of inside the `If`.
    """
    lets: list[tuple[Expr, Expr]] = []
    for c in conjuncts(condition):
        if c.op != "eq":
            continue
        left, right = c.args
        if left.op == "const":
            left, right = right, left
        if left.op == "var" and right.op == "const":
            stmt = substitute_stmt(stmt, {left: right})
        elif left.op == "floormod" and is_const(right, 0):
            size, step = left.args
            if size.op == "var" and step.op == "const" and step.value > 0:
                times = var(f"{size.value.name}_by_{step.value}", size.dtype, role="size", lower=0)
                stmt = substitute_stmt(stmt, {size: times * step})
                lets.append((times, floordiv(size, step)))
    for v, value in reversed(lets):
        stmt = Let(v, value, stmt)
    return stmt
