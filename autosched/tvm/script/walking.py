"""Statements with blocks in them: walking over them, and putting others in place of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosched.ir.expr import Expr, logical_and, logical_not, make, var
from autosched.ir.ops import ACCESSES
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Allocate, Buffer, For, If, Let, Seq, Store, children, expressions, seq, with_parts
from autosched.ir.visit import rewrite, substitute
from autosched.tvm.script.parts import Block


def parts(s: Any) -> tuple[Any, ...]:
    """The statements in a statement or block."""
    if isinstance(s, Block):
        return (s.body,) if s.init is None else (s.init, s.body)
    return children(s)


def everything(s: Any) -> Iterator[Any]:
    """This statement, and all below."""
    yield s
    for c in parts(s):
        yield from everything(c)


def outermost_blocks(s: Any) -> Iterator[Block]:
    """The outermost blocks of a statement."""
    if isinstance(s, Block):
        yield s
        return
    for c in parts(s):
        yield from outermost_blocks(c)


def path_to(s: Any, target: Any) -> list[Any] | None:
    """What a statement is in, outermost first."""
    if s is target:
        return []
    for c in parts(s):
        found = path_to(c, target)
        if found is not None:
            return [s, *found]
    return None


def with_parts_of(s: Any, exprs: Sequence[Expr], inner: Sequence[Any]) -> Any:
    """`with_parts`, of blocks too: they have the statements alone."""
    if isinstance(s, Block):
        return replace(s, body=inner[-1], init=inner[0] if s.init is not None else None)
    return with_parts(s, exprs, inner)


def with_other(s: Any, old: Any, new: Any) -> Any:
    """A tree with one statement in place of another."""
    if s is old:
        return new
    inner = [with_other(c, old, new) for c in parts(s)]
    if all(a is b for a, b in zip(inner, parts(s), strict=True)):
        return s
    return with_parts_of(s, () if isinstance(s, Block) else expressions(s), inner)


def without(s: Any, old: Any) -> Any:
    """A tree without one statement, and without loops and conditions that are empty then; None if nothing is left."""
    if s is old:
        return None
    inner = [without(c, old) for c in parts(s)]
    if all(a is b for a, b in zip(inner, parts(s), strict=True)):
        return s
    if isinstance(s, Seq):
        left = [c for c in inner if c is not None]
        return seq(*left) if left else None
    if isinstance(s, If) and inner[0] is None:
        return None if len(inner) == 1 else If(logical_not(s.condition), inner[1])
    if inner[-1] is None and not isinstance(s, If):
        return None
    return with_parts_of(s, () if isinstance(s, Block) else expressions(s), inner)


def with_expressions(s: Any, change: Callable[[Expr], Expr], stores: Callable[[Store], Store] = lambda x: x) -> Any:
    """A tree with each expression, and each store, as functions make them."""
    inner = [with_expressions(c, change, stores) for c in parts(s)]
    if isinstance(s, Block):
        axes = [replace(a, start=change(a.start), stop=change(a.stop), binding=change(a.binding)) for a in s.axes]
        predicate = None if s.predicate is None else change(s.predicate)
        return replace(with_parts_of(s, (), inner), axes=axes, predicate=predicate)
    if isinstance(s, Allocate):
        return with_parts(s, (), inner)
    made = with_parts(s, [change(e) for e in expressions(s)], inner)
    return stores(made) if isinstance(made, Store) else made


def with_buffers(s: Any, mapping: Mapping[Buffer, Buffer]) -> Any:
    """A tree with buffers in place of others of as many dimensions, wherever they are used and allocated."""

    def change(e: Expr) -> Expr:
        return rewrite(e, lambda n, args: make(n.op, n.dtype, args, mapping[n.value]) if _is_of(n, mapping) else None)

    def on_store(s: Store) -> Store:
        return replace(s, buffer=mapping.get(s.buffer, s.buffer))

    def allocated(s: Any) -> Any:
        inner = [allocated(c) for c in parts(s)]
        if isinstance(s, Block):
            return replace(with_parts_of(s, (), inner), buffers=[mapping.get(b, b) for b in s.buffers])
        if isinstance(s, Allocate):
            return Allocate(mapping.get(s.buffer, s.buffer), inner[0])
        return with_parts(s, expressions(s), inner)

    return allocated(with_expressions(s, change, on_store))


def _is_of(e: Expr, mapping: Mapping[Buffer, Buffer]) -> bool:
    return e.op in ACCESSES and e.value in mapping


def substituted(s: Any, mapping: dict[Expr, Expr]) -> Any:
    """A tree with expressions in place of variables."""
    if not mapping:
        return s
    if not isinstance(s, Block):
        inner = [substituted(c, mapping) for c in parts(s)]
        return with_parts(s, [substitute(e, mapping) for e in expressions(s)], inner)

    def of(e: Expr) -> Expr:
        return simplify(substitute(e, mapping))

    axes = [replace(a, start=of(a.start), stop=of(a.stop), binding=of(a.binding)) for a in s.axes]
    predicate = None if s.predicate is None else of(s.predicate)
    made = with_parts_of(s, (), [substituted(c, mapping) for c in parts(s)])
    return replace(made, axes=axes, predicate=predicate)


def renewed(s: Any, called: Callable[[str], str] = lambda name: name) -> tuple[Any, dict[Expr, Expr]]:
    """A copy of a tree with loops, axes, names and memory of its own, and blocks that are called otherwise; and its
    variables, by those of the tree."""
    inside = list(everything(s))
    bound = [x.var for x in inside if isinstance(x, (For, Let))]
    bound += [a.var for x in inside if isinstance(x, Block) for a in x.axes if a.var is not a.binding]
    fresh = {v: var(v.value.name, v.dtype, v.value.role) for v in bound}
    held = [x.buffer for x in inside if isinstance(x, Allocate)]
    held += [b for x in inside if isinstance(x, Block) for b in x.buffers]

    def bind(s: Any) -> Any:
        inner = [bind(c) for c in parts(s)]
        if isinstance(s, Block):
            axes = [replace(a, var=fresh.get(a.var, a.var)) for a in s.axes]
            return replace(with_parts_of(s, (), inner), name=called(s.name), axes=axes)
        made = with_parts(s, expressions(s), inner)
        return replace(made, var=fresh[made.var]) if isinstance(made, (For, Let)) else made

    return bind(substituted(with_buffers(s, {b: replace(b) for b in held}), fresh)), fresh


def guarded(s: Any, condition: Expr) -> Any:
    """A tree whose blocks, and statements outside of them, run where a condition holds."""
    if isinstance(s, Block):
        return replace(s, predicate=condition if s.predicate is None else logical_and(s.predicate, condition))
    if isinstance(s, (For, Seq)):
        return with_parts(s, expressions(s), [guarded(c, condition) for c in children(s)])
    return If(condition, s)


def only(s: Any) -> Any:
    """The one statement of a sequence of one."""
    return only(s.stmts[0]) if isinstance(s, Seq) and len(s.stmts) == 1 else s


def nest_of(outer: For) -> list[For]:
    """A loop, the one that is alone in it, and so on."""
    inner = only(outer.body)
    return [outer, *(nest_of(inner) if isinstance(inner, For) else [])]
