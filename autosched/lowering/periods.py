"""Loops over the elements of rows that follow each other, in steps each of which needs those before it, by rows.

    for t in [0, 90000): s[t + 301] = f(s[t + 300], (t + 1) // 301, (t + 1) % 301)

        ->   for i in [0, 300): for j in [0 or 1, 301): s[i*301 + j + 300] = f(s[..], i, j)

In such a loop a step waits for the one before, so a division or a question in it is waited for, too; and a state that
some steps do not read is kept in memory for the others. Along a row, divisions are gone, and what is asked of the
place in it is asked where the row begins or ends. Of a length that may be none, such as `n - 1`, a call decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import Expr, compare, const, floordiv, is_const, maximum, minimum, var, variables
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import For, If, Stmt, Store, all_expressions, substitute_stmt, walk, with_children
from autosched.ir.visit import post_order
from autosched.lowering.simplify_stmt import inside_loop, simplify_stmt

#: Steps of a row, at least, and rows of a loop.
LEAST_STEPS, LEAST_ROWS = 8, 2


def cut_periods(s: Stmt, an: Analyzer) -> Stmt:
    """A loop whose steps wait for each other, and ask for their place in a row, becomes one over rows and steps."""
    if not isinstance(s, For):
        return with_children(s, lambda c: cut_periods(c, an))
    with inside_loop(s, an):
        s = replace(s, body=cut_periods(s.body, an))
    if s.kind != "serial" or s.thread or s.ragged or s.lanes or not _waits(s):
        return s
    found = _period(s, an)
    if found is None:
        return s
    shift, row = found
    made = _by_rows(s, shift, row, an)
    with inside_loop(s, an):
        has_rows = an.simplify(compare("ge", row, 1))
    return made if is_const(has_rows, True) else If(has_rows, made, s)


def _waits(s: For) -> bool:
    """Whether a step reads other elements of what it stores to, at places that move with it."""
    stores = {x.buffer: x.indices for x in walk(s.body) if isinstance(x, Store)}
    loads = (e for e in post_order(all_expressions(s.body)) if e.op == "load" and e.value in stores)
    return any(
        any(i is not own for i, own in zip(e.args, stores[e.value], strict=False))
        and any(s.var in variables(i) for i in e.args)
        for e in loads
    )


def _period(s: For, an: Analyzer) -> tuple[Poly, Expr] | None:
    """What most divisions divide, the variable of the loop and something more, and by how much: the length of a row."""
    counts: dict[tuple[Poly, Expr], int] = {}
    for e in _divisions(s):
        shifted = an.poly(e.args[0]) - an.poly(s.var)
        if s.var in shifted.variables or s.var in variables(e.args[1]) or not _is_long(s, e.args[1]):
            continue
        if all(v.value.role == "size" for v in (*shifted.variables, *variables(e.args[1]))):
            counts[shifted, e.args[1]] = counts.get((shifted, e.args[1]), 0) + 1
    return max(counts, key=lambda key: counts[key], default=None)


def _divisions(s: For) -> Sequence[Expr]:
    found = post_order(all_expressions(s.body))
    return [e for e in found if e.op in ("floordiv", "floormod") and e.index and s.var in variables(e.args[0])]


def _is_long(s: For, row: Expr) -> bool:
    if not is_const(row):
        return True
    n = int(row.value)
    return n >= LEAST_STEPS and (not is_const(s.extent) or int(s.extent.value) >= LEAST_ROWS * n)


def _by_rows(s: For, shift: Poly, row: Expr, an: Analyzer) -> Stmt:
    """The loop over rows, in which the first and the last may be cut short."""
    begin = an.simplify(s.start + shift.expr())
    end = an.simplify(begin + s.extent)
    i, j = (var(f"{s.var.name}.{name}", s.var.dtype, "loop") for name in ("row", "step"))
    first, rows = an.simplify(floordiv(begin, row)), an.simplify(floordiv(end + (row - 1), row))
    low, high = maximum(begin - i * row, const(0)), minimum(end - i * row, row)
    body = substitute_stmt(s.body, {s.var: i * row + j - shift.expr()})
    steps = replace(s, var=j, start=low, extent=high - low, body=body)
    made = replace(s, var=i, start=first, extent=rows - first, body=steps)
    return simplify_stmt(made, an)
