"""What a condition on sizes makes of loops that are written for it alone."""

from __future__ import annotations

from autosched.ir.expr import Expr, floordiv, is_const, var
from autosched.ir.simplify import conjuncts
from autosched.ir.stmt import If, Let, Stmt, substitute_stmt

__all__ = ["named", "specialized"]


def specialized(stmt: Stmt, cases: list[Expr], names: dict[Expr, Expr]) -> Stmt:
    """The statement in several versions: the first whose condition holds runs, or else the plain one.

    What sizes are multiples of gets names, which `named` defines for the whole function: the borders of a
    loop outside may come from conditions inside, and mention them.
    """
    result = stmt
    for condition in reversed(cases):
        result = If(condition, _given(stmt, condition, names), result)
    return result


def named(stmt: Stmt, names: dict[Expr, Expr]) -> Stmt:
    """The statement with the names that `specialized` made defined around it."""
    for v, value in reversed(names.items()):
        stmt = Let(v, value, stmt)
    return stmt


def _given(stmt: Stmt, condition: Expr, names: dict[Expr, Expr]) -> Stmt:
    """The statement where sizes are what the condition says: `n % 8 == 0` makes n eight times something.

    Other comparisons are facts that the passes know of inside the `If`.
    """
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
                names[times] = floordiv(size, step)
    return stmt
