"""Truths that a function keeps for itself, as bytes that are 0 or 1.

    any_local[0:64] = (A[k] && B[k, 0:64]) || any_local[0:64]
    any_local[0:64] = (uint8(A[k]) & uint8(B[k, 0:64])) | any_local[0:64]

They lie in memory as bytes in any case. Arithmetic on bytes is what every target knows how to do in whole vectors, and
what compilers make vectors of, where a `||` that looks at its sides one after the other stops them. CPUs with masks
have few registers for those: eight, where a tile of a boolean matrix product needs 28.

Truths that are passed in and out stay what they are: any byte but 0 of a caller's is true.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.calls import touches_memory
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, cast, compare, const, make
from autosched.ir.ops import ACCESSES, BOTH_SIDES
from autosched.ir.stmt import Allocate, Buffer, Prefetch, Stmt, Store, all_expressions, load, map_stmt, walk
from autosched.ir.visit import post_order, rewrite

_BYTE = dtype("uint8")
#: what computes on bytes as the operator does on truths
_ON_BYTES = {"max": "bitor", "or": "bitor", "bitor": "bitor", "min": "bitand", "and": "bitand", "bitand": "bitand"}


def keep_truths_in_bytes(body: Stmt) -> Stmt:
    """Buffers of truths that the function allocates hold bytes, and what is made of such truths is made of bytes."""
    kept = _kept(body)
    ours = set(kept.values())
    done: dict[Expr, Expr] = {}

    def on_expr(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op != "load" or e.value not in kept:
            return None
        raw = load(kept[e.value], *args)
        return compare("ne", raw, const(0, raw.dtype))

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Allocate(buffer=b) if b in kept:
                return Allocate(kept[b], s.body)
            case Prefetch(buffer=b) if b in kept:
                return replace(s, buffer=kept[b])
            case Store(buffer=b) if b in kept:
                raw = load(kept[b], *s.indices)
                return replace(s, buffer=kept[b], value=_in_bytes(s.value, raw, ours))
        return s

    return map_stmt(body, lambda e: rewrite(e, on_expr, done), on_stmt)


def _kept(body: Stmt) -> dict[Buffer, Buffer]:
    """The buffers of truths that are allocated and that nothing but loads and stores sees, each with its bytes."""
    found = [s.buffer for s in walk(body) if isinstance(s, Allocate) and s.buffer.dtype.is_bool]
    if not found:
        return {}
    parts = post_order(all_expressions(body))
    seen = {n.value for n in parts if n.op in ACCESSES and n.op != "load"}
    return {b: replace(b, dtype=_BYTE) for b in found if b not in seen}


def _in_bytes(value: Expr, total: Expr, ours: set[Buffer]) -> Expr:
    """A stored truth as a byte. `total` is what lies there so far: it can be read, whatever stands before it."""
    found: dict[Expr, Expr] = {}
    for e in post_order(value):
        if not e.dtype.is_bool:
            continue
        of = _BYTE.with_lanes(e.dtype.lanes)
        if e.op == "ne" and e.args[0].op == "load" and e.args[0].value in ours:
            found[e] = e.args[0]
        elif e.op in _ON_BYTES and (e.op not in BOTH_SIDES or _may_be_read(found[e.args[1]], total)):
            found[e] = make(_ON_BYTES[e.op], of, tuple(found[a] for a in e.args))
        elif e.op == "broadcast" or (e.op == "combine_lanes" and e.value in _ON_BYTES):
            found[e] = make(e.op, of, (found[e.args[0]],), e.value)
        elif e.op == "select":
            found[e] = make(e.op, of, (e.args[0], *(found[a] for a in e.args[1:])))
        else:
            found[e] = cast(of, e)
    return found[value]


def _may_be_read(e: Expr, total: Expr) -> bool:
    return e is total or not touches_memory(e)
