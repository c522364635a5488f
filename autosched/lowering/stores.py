"""Stores: several as if at once, with prefetches, and streaming ones aligned to cache lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.dtype import INT64
from autosched.ir.expr import Expr, is_const, logical_not, make, minimum, ramp, var, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, For, If, Let, Prefetch, Stmt, Store, While, expressions, map_stmt, seq, walk
from autosched.ir.visit import contains, post_order, rebuild, substitute
from autosched.lowering.storage import Place

#: operators of indices that are prefetched: others would put conditions into loops
PLAIN = frozenset(("const", "var", "cast", "add", "sub", "mul", "neg", "floordiv", "floormod"))


def stores_to(places: Sequence[Place], values: Sequence[Expr]) -> list[Store]:
    """The stores of values to as many places."""
    return [Store(*place, e) for place, e in zip(places, values, strict=True)]


def at_once(stores: list[Store]) -> Stmt:
    """The stores as if at once: none reads what another one has just written.

    That is an order of them, if there is one; otherwise all values are computed before any is stored.
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


def fetching(
    body: Stmt, buffer: Buffer, later: dict[Expr, Expr], last: dict[Expr, Expr], inputs: frozenset[Buffer]
) -> Stmt:
    """`body` with prefetches of the elements that are read `later`, before the last store that reads the buffer.

    Where `inputs` say which elements these are, they are asked for the iteration `later`, or that of `last` if it is
    before; not where that may lead out of them, because what is inside the loop differs between iterations.
    """
    reading = [n for n, s in enumerate(_stores(body)) if _loads(s, buffer)]
    count = iter(range(len(_stores(body))))
    inside = {v: minimum(e, last[v]) for v, e in later.items()} if last and _is_alike(body, later) else {}

    def on_stmt(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or next(count) != reading[-1]:
            return s
        loads = _loads(s, buffer)
        places = dict.fromkeys(tuple(substitute(i, later) for i in e.args) for e in loads)
        plain = [p for p in places if all(e.op in PLAIN for e in post_order(p))]
        if inside and not contains(s.value, *_LAZY):
            found = [e.args for e in loads if _is_looked_up(e.args, inputs)]
            plain += dict.fromkeys(tuple(substitute(i, inside) for i in p) for p in found)
        return seq(*(Prefetch(buffer, p) for p in plain), s)

    return map_stmt(body, on_stmt=on_stmt) if reading else body


#: operators that may leave an operand out
_LAZY = ("if_then_else", "and", "or")


def _is_looked_up(indices: Sequence[Expr], inputs: frozenset[Buffer]) -> bool:
    """Whether inputs, at plain places of theirs, and nothing else say which element it is."""
    nodes = post_order(indices)
    looked = [e for e in nodes if e.op == "load"]
    at_once = all(x.op in PLAIN for e in looked for x in post_order(e.args))
    return bool(looked) and at_once and all(e.value in inputs if e.op == "load" else e.op in PLAIN for e in nodes)


def _is_alike(body: Stmt, later: dict[Expr, Expr]) -> bool:
    """Whether what is inside a loop asks nothing and repeats itself as often whatever the iteration is."""
    asked = [e for s in walk(body) for e in expressions(s) if isinstance(s, (If, While, For))]
    return not any(x in later or x.op == "load" for e in asked for x in post_order(e))


def _stores(body: Stmt) -> list[Store]:
    return [s for s in walk(body) if isinstance(s, Store)]


def _loads(s: Store, buffer: Buffer) -> list[Expr]:
    return [e for e in post_order(s.value) if e.op == "load" and e.value is buffer]


#: Bytes that go to memory at once: x86.
LINE = 64


def align_streams(body: Stmt, an: Analyzer) -> Stmt:
    """Vectors that are stored past the caches begin where cache lines do."""
    if not any(isinstance(s, Store) and s.streaming for s in walk(body)):
        return body
    return map_stmt(body, on_stmt=lambda s: _aligned(s, an) if isinstance(s, For) else s)


def _aligned(loop: For, an: Analyzer) -> Stmt:
    s = loop.body
    if not isinstance(s, Store) or not s.streaming or s.indices[0].op != "ramp" or loop.kind != "serial":
        return loop
    lanes, size = s.indices[0].dtype.lanes, s.buffer.dtype.bytes
    if (lanes * size) % LINE or any(e.op == "load" and e.value is s.buffer for e in post_order(s.value)):
        return loop
    by = var(f"{loop.var.name}.shift", "int64", "let")
    try:
        index, value = (_shifted(e, loop.var, by, an) for e in (s.indices[0], s.value))
    except _Broken:
        return loop

    def at(block: Expr) -> Stmt:
        there = {loop.var: block}
        return Store(s.buffer, (substitute(s.indices[0], there),), substitute(s.value, there))

    last = an.simplify(loop.start + loop.extent - 1)
    middle = replace(loop, extent=an.simplify(loop.extent - 1), body=Store(s.buffer, (index,), value, True))
    first = substitute(s.indices[0].args[0], {loop.var: loop.start})
    distance = make("to_line", INT64, (first,), s.buffer)
    enough = an.simplify(loop.extent >= 2)
    pieces = Let(by, distance, seq(at(loop.start), middle, at(last)))
    if enough.op == "const":
        return pieces if enough.value else loop
    return If(enough, pieces, loop)


class _Broken(Exception):
    """Iterations do not continue one another."""


def _shifted(root: Expr, v: Expr, by: Expr, an: Analyzer) -> Expr:
    """`root` for the elements `by` further on. Raises _Broken unless each vector advances by its length with `v`."""
    done: dict[Expr, Expr] = {}

    def go(e: Expr) -> Expr:
        if e.dtype.lanes == 1:
            if v in variables(e):
                raise _Broken
            return e
        if e not in done:
            done[e] = moved(e) if e.op == "ramp" else rebuild(e, tuple([go(a) for a in e.args]))
        return done[e]

    def moved(e: Expr) -> Expr:
        base, stride = e.args
        affine = an.poly(base).affine_in(v)
        if affine is None or stride.op != "const" or affine[0] != stride.value * e.dtype.lanes:
            raise _Broken
        return ramp(base + by * stride.value, stride, e.dtype.lanes)

    return go(root)


def chosen_inside(place: Expr, last: Expr) -> tuple[Expr, list[Expr]]:
    """A place of a scatter without what a choice takes outside of the tensor, as -1, and the conditions under which the
    rest is taken: loops can leave out, or end, where these do not hold."""
    asked: list[Expr] = []
    while place.op in ("select", "if_then_else"):
        condition, then, otherwise = place.args
        if _is_outside(otherwise, last):
            place = then
        elif _is_outside(then, last):
            place, condition = otherwise, logical_not(condition)
        else:
            break
        asked.append(condition)
    return place, asked


def _is_outside(place: Expr, last: Expr) -> bool:
    return is_const(place) and (place.value < 0 or (is_const(last) and place.value > last.value))
