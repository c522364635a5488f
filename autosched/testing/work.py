"""How much a lowered function does: so that no random case takes minutes."""

from __future__ import annotations

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, variables
from autosched.ir.stmt import For, If, Stmt, Store, children
from autosched.ir.visit import post_order


def operations(s: Stmt, sizes: dict[str, int]) -> int:
    """About how many operations run, with the longer branch of each choice.

    `sizes` are values by name, of sizes and of knobs.

    >>> from autosched import te
    >>> from autosched.lower import lower_structure
    >>> from autosched.schedule import create_schedule
    >>> n = te.var("n")
    >>> a = te.placeholder((n,), name="A")
    >>> b = te.compute((n,), lambda i: a[i] + 1, name="B")
    >>> operations(lower_structure(create_schedule(b), [a, b], "llvm").function.body, {"n": 10})
    50
    """
    match s:
        case For():
            return max(_value(s.extent, sizes), 0) * operations(s.body, sizes)
        case Store():
            return 1 + len(post_order([s.value, *s.indices]))
        case If():
            return max(operations(c, sizes) for c in children(s))
        case _:
            return sum(operations(c, sizes) for c in children(s))


def _value(e: Expr, sizes: dict[str, int]) -> int:
    return int(evaluate([e], {v: sizes.get(v.name, 0) for v in variables(e)})[0])
