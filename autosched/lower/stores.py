"""Several stores as one step of a loop: their order among themselves, and fetching what the next steps read."""

from __future__ import annotations

from autosched.ir.expr import Expr, var
from autosched.ir.stmt import Buffer, Let, Prefetch, Stmt, Store, map_stmt, seq, walk
from autosched.ir.visit import post_order, substitute

__all__ = ["at_once", "fetching"]

#: what the index of a prefetched element is made of: anything else would make loops ask questions
PLAIN = frozenset(("const", "var", "cast", "add", "sub", "mul", "neg", "floordiv", "floormod"))


def at_once(stores: list[Store]) -> Stmt:
    """All of the stores as if at once: none reads what another one has just written.

    An order in which that is so, if there is one; else the values are computed before any is stored.
    """
    left, order = list(stores), []
    while left:
        free = [s for s in left if not any(_loads(other, s.buffer) for other in left if other is not s)]
        if not free:
            break
        order.append(free[0])
        left.remove(free[0])
    values = [var(f"{s.buffer.name}.next", s.value.dtype, "let") for s in left]
    body = seq(*order, *(Store(s.buffer, s.indices, v) for s, v in zip(left, values, strict=True)))
    for s, v in zip(reversed(left), reversed(values), strict=True):
        body = Let(v, s.value, body)
    return body


def fetching(body: Stmt, buffer: Buffer, later: dict[Expr, Expr]) -> Stmt:
    """`body`, whose last store that reads the buffer asks for what it will read later."""
    reading = [n for n, s in enumerate(_stores(body)) if _loads(s, buffer)]
    count = iter(range(len(_stores(body))))

    def on_stmt(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or next(count) != reading[-1]:
            return s
        places = dict.fromkeys(tuple(substitute(i, later) for i in e.args) for e in _loads(s, buffer))
        plain = [p for p in places if all(e.op in PLAIN for e in post_order(p))]
        return seq(*(Prefetch(buffer, p) for p in plain), s)

    return map_stmt(body, on_stmt=on_stmt) if reading else body


def _stores(body: Stmt) -> list[Store]:
    return [s for s in walk(body) if isinstance(s, Store)]


def _loads(s: Store, buffer: Buffer) -> list[Expr]:
    return [e for e in post_order(s.value) if e.op == "load" and e.value is buffer]
