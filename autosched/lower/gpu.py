"""GPU-style targets: loops bound to hardware axes become kernels.

Each nest at the root is one kernel. Its `thread` loops turn into the variables of the work-item,
the largest extent of each axis becomes the launch size, and loops that are shorter are guarded.
Barriers keep what is shared in step (`barriers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from autosched.errors import LowerError
from autosched.ir.expr import (
    Expr,
    const,
    is_const,
    likely,
    logical_and,
    maximum,
    var,
    variables,
)
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    THREAD_TAGS,
    Allocate,
    Buffer,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    Produce,
    Seq,
    Stmt,
    Store,
    While,
    map_stmt,
    seq,
    substitute_stmt,
    walk,
)
from autosched.lower.barriers import check_uniform, insert_barriers, lift_barriers, part_conditions
from autosched.lower.storage import retarget

__all__ = ["bind_threads", "demote_private"]


def bind_threads(body: Stmt, an: Analyzer, function: str) -> Stmt:
    """The root nests as launches, in order, inside the allocations they share.

    The kernel of a function `f` is called `f_kernel`; where there are several, `f_B_kernel` computes B.
    """
    names: dict[str, int] = {}
    alone = _count_nests(body) == 1

    def kernels(s: Stmt) -> Stmt:
        if isinstance(s, Allocate):
            return Allocate(s.buffer, kernels(s.body))
        if isinstance(s, Seq):
            return seq(*(kernels(c) for c in s.stmts))
        base = f"{function}_{s.name}_kernel" if isinstance(s, Produce) and not alone else f"{function}_kernel"
        names[base] = names.get(base, 0) + 1
        return _launch(base if names[base] == 1 else f"{base}_{names[base] - 1}", s, an)

    return kernels(body)


def _count_nests(s: Stmt) -> int:
    if isinstance(s, Allocate):
        return _count_nests(s.body)
    return sum(map(_count_nests, s.stmts)) if isinstance(s, Seq) else 1


def _launch(name: str, body: Stmt, an: Analyzer) -> Launch:
    extents: dict[str, Expr] = {}
    for s in walk(body):
        if isinstance(s, For) and s.kind == "thread":
            if any(v.value.role != "size" for v in variables(s.extent)):
                raise LowerError(
                    f"its extent {s.extent!r} depends on another loop",
                    asked=f"bind {s.var.name} to {s.thread}",
                    legal="a launch has one size: bind loops whose extents are fixed or given by sizes",
                    loop=s.var,
                )
            known = extents.get(s.thread)
            extents[s.thread] = s.extent if known is None else an.simplify(maximum(known, s.extent))
        if isinstance(s, For) and s.kind == "parallel":
            raise LowerError(
                "work-items are GPU-style threads already",
                asked=f"parallel {s.var.name}",
                legal="bind the loop to blockIdx or threadIdx on this target",
                loop=s.var,
            )
    around = {s.thread for s in _around_all(body)}
    for tag in extents.keys() - around:  # no work-items along it, and nobody would do the rest
        extents[tag] = an.simplify(maximum(extents[tag], 1))
    threads = {tag: var(tag, role="thread") for tag in extents}
    for tag, e in extents.items():
        an.bind(threads[tag], 0, an.poly(e) - 1)

    def unbind(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.kind != "thread":
            return s
        inner = substitute_stmt(s.body, {s.var: threads[s.thread]})
        if s.extent is extents[s.thread]:
            return inner
        return If(likely(threads[s.thread] < s.extent), inner)

    several = [tag for tag in THREAD_TAGS if tag in extents and not is_const(extents[tag], 1)]
    items = {tag: threads[tag] for tag in several if tag.startswith("threadIdx")}
    stored, by_one = _store_once(body, items)
    inside = map_stmt(stored, on_stmt=unbind)
    inside = insert_barriers(inside, by_one)
    check_uniform(inside, frozenset(items.values()))
    inside = part_conditions(lift_barriers(inside), frozenset(items.values()))
    one = const(1)
    dims = [extents.get(tag, one) for tag in THREAD_TAGS]
    return Launch(name, (dims[0], dims[1], dims[2]), (dims[3], dims[4], dims[5]), inside)


def _around_all(body: Stmt) -> Iterator[For]:
    """The loops that everything is inside of."""
    while isinstance(body, For | Produce | Allocate | If | Let):
        if isinstance(body, For):
            yield body
        if isinstance(body, If) and body.otherwise is not None:
            return
        body = body.then if isinstance(body, If) else body.body


def _store_once(body: Stmt, items: dict[str, Expr]) -> tuple[Stmt, frozenset[Buffer]]:
    """What a work-group stores for all to see is stored by one work-item of those that its stage does not
    tell apart: all of them would write the same, and a reduction would add up once for each.

    `items` are the group's axes; a stage tells work-items apart along those that its own loops are bound to.
    The buffers that only some work-items store to are the second result.
    """
    by_one: set[Buffer] = set()
    private = {s.buffer for s in walk(body) if isinstance(s, Allocate) and s.buffer.scope != "shared"}
    nothing: frozenset[Any] = frozenset()

    def once(
        s: Stmt, bound: frozenset[str], here: frozenset[Buffer], around: frozenset[str], inside: frozenset[Buffer]
    ) -> Stmt:
        """`bound` are the axes of the stage's own loops and `here` what is allocated in them; `around` and
        `inside` are those of the stage around it, whose memory a scan's init and updates store to."""

        def go(s: Stmt) -> Stmt:
            return once(s, bound, here, around, inside)

        def idle(buffer: Buffer) -> list[Expr]:
            own = bound if buffer in inside else bound | around
            others = [] if buffer in private else [v for tag, v in items.items() if tag not in own]
            if others:
                by_one.add(buffer)
            return others

        match s:
            case Store() | Let() if all(isinstance(x, Store | Let | Seq) for x in walk(s)):
                # what is stored together is computed by the one that stores it
                alike = [idle(x.buffer) for x in walk(s) if isinstance(x, Store)]
                return If(logical_and(*(v <= 0 for v in alike[0])), s) if alike[0] else s
            case Evaluate():
                others = [v for tag, v in items.items() if tag not in bound | around]
                return If(logical_and(*(v <= 0 for v in others)), s) if others else s
            case While():
                return replace(s, body=go(s.body))
            case Produce():
                return Produce(s.name, once(s.body, nothing, nothing, bound, here))
            case For():
                return replace(s, body=once(s.body, bound | {s.thread}, here, around, inside))
            case Allocate():
                return replace(s, body=once(s.body, bound, here | {s.buffer}, around, inside))
            case Let():
                return replace(s, body=go(s.body))
            case If():
                return If(s.condition, go(s.then), None if s.otherwise is None else go(s.otherwise))
            case Seq(stmts=stmts):
                return seq(*(go(c) for c in stmts))
            case _:
                return s

    return once(body, nothing, nothing, nothing, nothing), frozenset(by_one)


def demote_private(body: Stmt) -> Stmt:
    """Inside a kernel, storage that is not shared is the work-item's own."""

    def demote(s: Stmt) -> Stmt:
        if isinstance(s, Launch):
            owner = {
                x.buffer: replace(x.buffer, scope="local")
                for x in walk(s.body)
                if isinstance(x, Allocate) and x.buffer.scope == "global"
            }
            if owner:
                return Launch(s.name, s.grid, s.block, retarget(s.body, owner))
        return s

    return map_stmt(body, on_stmt=demote)
