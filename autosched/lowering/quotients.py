"""Quotients by sizes that loops would compute again: computed once, before them.

    for f in m*((n + 31)//32):                     for f in m*((n + 31)//32):
      for k in n: C[f//((n + 31)//32)] += ..   ->    q = f//((n + 31)//32)
                                                     for k in n: C[q] += ..

A processor takes as long to divide as for ten or twenty additions. Compilers leave a division by what might be 0 where
it is, under its conditions; here x//0 is 0, so it may be computed anywhere. Where a condition is asked for each lane of
a vector, the LLVM of PoCL 3.0 computes it only if the first one needs it, and the others take whatever there is.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.calls import touches_memory
from autosched.ir.expr import Expr, is_const, var, variables
from autosched.ir.stmt import For, Launch, Let, Stmt, While, all_expressions, children, walk, with_children
from autosched.ir.visit import post_order, rewrite
from autosched.lowering.simplify_stmt import replace_exprs

_DIVISIONS = ("div", "floordiv", "floormod", "truncdiv", "truncmod")


def name_quotients(s: Stmt) -> Stmt:
    """Each integer divided by what is no number is computed before the loops in which it stays the same.

    Those of sizes alone are computed in the outermost loop, so that kernels and tasks need not be handed them.
    """
    if isinstance(s, For | Launch):
        s = replace(s, body=_before(s.body))
    return with_children(s, name_quotients)


def _before(body: Stmt) -> Stmt:
    """The body of a loop or a kernel, with names for the quotients that loops in it compute again."""
    found = [e for e in post_order(_repeated(body)) if _is_slow(e)]
    if not found:
        return body
    bound = {x.var for x in walk(body) if isinstance(x, For | Let)}
    names: dict[Expr, Expr] = {}
    values: list[tuple[Expr, Expr]] = []
    for e in found:  # operands first
        if bound.isdisjoint(variables(e)):
            name = var("quotient", e.dtype, "let")
            values.append((name, rewrite(e, lambda x, args: names.get(x))))
            names[e] = name
    body = replace_exprs(body, names)
    for name, value in reversed(values):
        body = Let(name, value, body)
    return body


def _repeated(s: Stmt) -> tuple[Expr, ...]:
    """What loops in the statement evaluate."""
    if isinstance(s, For | While):
        return tuple(all_expressions(s.body))
    return tuple(e for c in children(s) for e in _repeated(c))


def _is_slow(e: Expr) -> bool:
    is_integer = e.op in _DIVISIONS and not e.dtype.is_float and e.dtype.lanes == 1
    return is_integer and not is_const(e.args[1]) and not touches_memory(e)
