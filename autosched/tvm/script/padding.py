"""Padding of a tree stored apart from what it surrounds: `decompose_padding`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.ir.expr import Expr, compare, const, is_const, logical_and, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Allocate, Buffer, For, Store, load, seq
from autosched.ir.visit import conjuncts, post_order, rewrite, substitute
from autosched.tvm.script.inlining import Definition, definition
from autosched.tvm.script.moving import users
from autosched.tvm.script.parts import Block, BlockAxis, Signature
from autosched.tvm.script.reach import NotHere, hands_out, meeting, surroundings, writes_of
from autosched.tvm.script.walking import everything, path_to, renewed, with_other

_CHOICES = ("if_then_else", "select")


@dataclass(frozen=True, eq=False)
class _Padded:
    """`buffer[axes] = value if condition else filler`, with what the condition says of axes: their part [low, high)."""

    made: Definition
    value: Expr
    filler: Expr
    inside: dict[Expr, tuple[Expr, Expr]]

    @property
    def block(self) -> Block:
        return self.made.block


def padded(body: Any, block: Block) -> _Padded:
    """A block that pads. Raises NotHere."""
    made = definition(body, block)
    choice = made.store.value
    if choice.op not in _CHOICES:
        raise NotHere(f"{block.name} stores no choice", "a block that stores T.if_then_else(condition, value, number)")
    condition, value, filler = choice.args
    if variables(filler) or any(e.op == "load" for e in post_order(filler)):
        raise NotHere(f"{block.name} pads with {filler!r}, which differs from place to place", "a number")
    axes = [a.var for a in block.axes]
    at = [i for i in made.store.indices if i.op != "const"]
    several = [a for a in block.axes if a.var not in at and not is_const(simplify(a.stop - a.start), 1)]
    if several or len(set(at)) != len(at) or not set(at) <= set(axes):
        raise NotHere(f"{block.name} does not store each of its axes to an element of its own", "a store at the axes")
    inside = {a.var: (a.start, a.stop) for a in block.axes}
    for c in conjuncts(condition):
        _narrow(block, inside, c)
    an, _ = surroundings(body, made.nest.top)
    whole = {a.var: (a.start, a.stop) for a in block.axes}
    if all(an.prove(compare("eq", p, q)) for v in axes for p, q in zip(inside[v], whole[v], strict=True)):
        raise NotHere(f"{block.name} pads nothing: its condition always holds")
    return _Padded(made, value, filler, inside)


def _narrow(block: Block, inside: dict[Expr, tuple[Expr, Expr]], c: Expr) -> None:
    """Take a comparison of one axis with something that is free of axes into account."""
    e = simplify(c)
    an = Analyzer()
    for a in block.axes:
        if a.var not in variables(e) or e.op not in ("lt", "le", "gt", "ge", "eq"):
            continue
        p = an.poly(e.args[0] - e.args[1])
        step = p.terms.get((a.var,), 0)
        rest = an.expr(p - an.poly(a.var) * step)
        if step not in (1, -1) or _varies(rest):
            continue
        at, low, high = simplify(rest * (-step)), *inside[a.var]
        op = e.op if step == 1 else {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}[e.op]
        if op in ("gt", "ge", "eq"):
            low = _larger(an, low, simplify(at + 1) if op == "gt" else at)
        if op in ("lt", "le", "eq"):
            high = _smaller(an, high, at if op == "lt" else simplify(at + 1))
        inside[a.var] = low, high
        return
    raise NotHere(f"{c!r} is about more than one axis of {block.name}", "comparisons of an axis with a number")


def _varies(e: Expr) -> bool:
    """Whether an expression differs from iteration to iteration."""
    return any(v.value.role in ("loop", "let") for v in variables(e)) or any(n.op == "load" for n in post_order(e))


def _larger(an: Analyzer, a: Expr, b: Expr) -> Expr:
    return an.expr(an.extremum("max", an.poly(a), an.poly(b)))


def _smaller(an: Analyzer, a: Expr, b: Expr) -> Expr:
    return an.expr(an.extremum("min", an.poly(a), an.poly(b)))


def decompose_padding(body: Any, signature: Signature, block: Block, loop: For, name: str) -> Any:
    """The tree with padding stored in front of a loop, by a block of that name, and a block that copies the rest.

    What is padding depends on the element alone, so that one that was filled once stays as it is. Raises NotHere.
    """
    found = padded(body, block)
    way = path_to(body, block) or []
    held = max((k for k, s in enumerate(way) if isinstance(s, Block) or _holds(s, found.made.buffer)), default=-1)
    around = [s for s in way[held + 1 :] if isinstance(s, For)]
    if loop not in around:
        raise NotHere(f"{loop.var.value.name} is no loop around {block.name}", "one of its loops")
    inside = around[around.index(loop) :]
    if any(x.kind not in ("serial", "unroll") for x in inside):
        raise NotHere(f"loops of {block.name} are marked", "decompose_padding before they are")
    _undisturbed(body, signature, found, loop)
    filled = _filling(found, inside, name)
    rest, region = _copying(body, found, inside)
    changed = with_other(body, region, rest)
    if region is loop:
        return with_other(changed, rest, seq(filled, rest))
    home = next(s for s in everything(changed) if isinstance(s, For) and s.var is loop.var)
    return with_other(changed, home, seq(filled, home))


def _undisturbed(body: Any, signature: Signature, found: _Padded, loop: For) -> None:
    """Raise NotHere where filling a buffer early, and filling more of it, is seen."""
    buffer, nest = found.made.buffer, found.made.nest
    for s, way in users(body, {buffer}, nest.top):
        if buffer in writes_of(s):
            raise NotHere(f"{buffer.name} is written by two blocks")
        if loop not in way:
            continue  # it runs before all of this, or after it
        met = meeting(body, nest.top, s)
        if met.sequence is None or met.first > met.second or buffer in signature.params.values():
            raise NotHere(f"{buffer.name} is read in {loop.var.value.name} before {found.block.name} writes it")
    if buffer in hands_out(body):
        raise NotHere(f"functions get the memory of {buffer.name}")
    if loop in nest.loops:
        return
    outside = path_to(body, loop) or []
    held = max((k for k, s in enumerate(outside) if _holds(s, buffer)), default=-1)
    outer = next((s for s in outside[held + 1 :] if isinstance(s, For)), None)
    if outer is not None:
        why = f"{outer.var.value.name}, around {loop.var.value.name}, runs it again"
        raise NotHere(why, "a loop of the block's own, or the outermost one")


def _holds(s: Any, buffer: Buffer) -> bool:
    return (isinstance(s, Block) and buffer in s.buffers) or (isinstance(s, Allocate) and s.buffer is buffer)


def _filling(found: _Padded, inside: Sequence[For], name: str) -> Any:
    """A nest that stores padding wherever the block stores."""
    block = found.block
    store = replace(found.made.store, value=found.filler)
    made: Any = replace(block, name=name, body=store)
    for x in reversed(inside):
        made = For(x.var, x.start, x.extent, x.kind, made)
    return renewed(made)[0]


def _copying(body: Any, found: _Padded, inside: Sequence[For]) -> tuple[Any, Any]:
    """A nest that stores what is no padding, over as few iterations as loops tell; and the nest that it replaces."""
    block, own = found.block, [x for x in found.made.nest.loops if x in inside]
    an, _ = surroundings(body, found.made.nest.top)
    extents = {x: x.extent for x in own}
    axes, shift, conditions = list[BlockAxis](), dict[Expr, Expr](), list[Expr]()
    for a in block.axes:
        low, high = found.inside[a.var]
        width = simplify(high - low)
        alone = next((x for x in own if x.var is a.binding and is_const(x.start, 0) and is_const(a.start, 0)), None)
        whole = alone is not None and an.prove(compare("eq", alone.extent, a.stop))
        told = alone is not None and not any(alone.var in variables(b.binding) for b in block.axes if b is not a)
        narrowed = not (an.prove(compare("eq", low, a.start)) and an.prove(compare("eq", high, a.stop)))
        if not narrowed:
            axes.append(a)
            continue
        shift[a.var] = simplify(a.var + low)
        if alone is not None and whole and told and alone.var not in _guarded_by(block):
            extents[alone] = width
            axes.append(replace(a, start=const(0, a.var.dtype), stop=width))
            continue
        axes.append(replace(a, start=const(0, a.var.dtype), stop=width, binding=simplify(a.binding - low)))
        for c in (compare("ge", a.binding, low), compare("lt", a.binding, high)):
            if not (c.op == "ge" and an.prove(compare("eq", low, a.start))) and not (
                c.op == "lt" and an.prove(compare("eq", high, a.stop))
            ):
                conditions.append(c)
    store = replace(found.made.store, value=found.value)
    moved = Store(
        store.buffer,
        tuple(simplify(substitute(i, shift)) for i in store.indices),
        _simple(substitute(store.value, shift)),
    )
    kept = [*conditions, *(conjuncts(block.predicate) if block.predicate is not None else ())]
    made: Any = replace(block, axes=list(axes), predicate=logical_and(*kept) if kept else None, body=moved)
    for x in reversed(own):
        made = replace(x, extent=extents[x], body=made)
    return made, own[0] if own else block


def _simple(e: Expr) -> Expr:
    """An expression with simple indices."""
    return rewrite(
        e, lambda n, args: load(n.value, *map(simplify, args)) if n.op == "load" and n.dtype.lanes == 1 else None
    )


def _guarded_by(block: Block) -> frozenset[Expr]:
    return frozenset(variables(block.predicate)) if block.predicate is not None else frozenset()
