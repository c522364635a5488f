"""Which subexpressions of a statement get a name of their own.

Expressions share their parts: printed as a tree, a program that uses a value twice at each of thirty
levels would be a billion characters long. A shared part of some size, and every part too deep for
a compiler's bracket limit, becomes a temporary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from autosched.ir.expr import Expr
from autosched.ir.visit import post_order

#: Size of a part, in operators and operands, from which it is computed only once.
SHARED_SIZE = 16
#: Nesting of one text; compilers allow 256 open brackets, Python about 1000 calls.
MAX_DEPTH = 40


def planned(roots: Collection[Expr]) -> frozenset[Expr]:
    """The parts of `roots` to name, roots excluded."""
    order = post_order(tuple(roots))
    whole = set(roots)
    uses = Counter(a for node in order for a in node.args)
    size: dict[Expr, int] = {}
    depth: dict[Expr, int] = {}
    named: set[Expr] = set()
    for node in order:
        size[node] = 1 + sum(size[a] for a in node.args)
        depth[node] = 1 + max((depth[a] for a in node.args), default=0)
        once = node.op == "call" and not node.value.pure
        shared = uses[node] > 1 and (size[node] >= SHARED_SIZE or once)
        if node.args and node not in whole and (shared or depth[node] >= MAX_DEPTH):
            named.add(node)
            size[node] = depth[node] = 1
    return frozenset(named)


def guarded_arguments(e: Expr) -> tuple[Expr, ...]:
    """The arguments that C evaluates only sometimes and the language forbids to evaluate otherwise."""
    if e.op == "if_then_else":
        return e.args[1:]
    return e.args[1:] if e.op in ("and", "or") else ()
