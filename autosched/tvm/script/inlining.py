"""Blocks of a tree made part of others: `compute_inline` into readers, `reverse_compute_inline` into the producer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.ir.expr import Expr, compare, is_const, logical_and, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Buffer, For, If, Let, Store, seq
from autosched.ir.visit import conjuncts, post_order, rewrite, substitute
from autosched.tvm.script.moving import Nest, nest_around, scope_of, users
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.reach import (
    NotHere,
    Span,
    clipped,
    hands_out,
    meeting,
    reads_of,
    span,
    surroundings,
    tiles,
    writes_of,
)
from autosched.tvm.script.walking import everything, outermost_blocks, with_expressions, with_other, without


@dataclass(frozen=True, eq=False)
class Definition:
    """A block that gives each element of a buffer a value: `buffer[indices] = value`, over the block's axes."""

    nest: Nest
    store: Store

    @property
    def block(self) -> Block:
        return self.nest.block

    @property
    def buffer(self) -> Buffer:
        return self.store.buffer

    def loads(self) -> list[Expr]:
        """The elements that the value depends on."""
        return [e for e in post_order(self.store.value) if e.op == "load"]

    def axes_at(self, indices: Sequence[Expr]) -> dict[Expr, Expr]:
        """The value of each axis for which the block stores to an element. Raises NotHere where it is not told."""
        found: dict[Expr, Expr] = {}
        axes = {a.var for a in self.block.axes}
        for place, index in zip(self.store.indices, indices, strict=True):
            if place in axes and place not in found:
                found[place] = index
        return self.with_units(found)

    def with_units(self, found: dict[Expr, Expr]) -> dict[Expr, Expr]:
        """The same with axes of one value."""
        for a in self.block.axes:
            if a.var not in found:
                if not is_const(simplify(a.stop - a.start), 1):
                    raise NotHere(f"{self.block.name} stores to one element for several {a.var.value.name}")
                found[a.var] = a.start
        return found


def definition(body: Any, block: Block) -> Definition:
    """What a block says of its buffer. Raises NotHere unless it stores one value, once, for each of its axes."""
    nest, inner, values = nest_around(body, block), block.body, dict[Expr, Expr]()
    while isinstance(inner, Let):
        values[inner.var] = substitute(inner.value, values)
        inner = inner.body
    if not isinstance(inner, Store) or block.init is not None:
        raise NotHere(f"{block.name} does more than store one value", "a block with one store, that is no reduction")
    if hands_out(block):
        raise NotHere(f"{block.name} calls functions with memory")
    store = replace(inner, value=substitute(inner.value, values))
    if store.buffer in {e.value for e in post_order([store.value, *store.indices]) if e.op == "load"}:
        raise NotHere(f"{block.name} reads {store.buffer.name}, which it writes")
    if any(e.op == "call" for e in post_order(store.value)):
        raise NotHere(f"{block.name} calls functions")
    return Definition(nest, store)


def compute_inline(body: Any, signature: Signature, block: Block) -> tuple[Any, Signature]:
    """The tree in which readers compute what a block stores. Raises NotHere."""
    made = definition(body, block)
    buffer = made.buffer
    _alone(body, signature, made)
    an, _ = surroundings(body, made.nest.top)
    _ends_only(an, made)
    axes = [a.var for a in block.axes]
    for k, (i, n) in enumerate(zip(made.store.indices, buffer.shape, strict=True)):
        if (i not in axes and not (i.op == "const" and is_const(n, 1))) or (i in axes and i in made.store.indices[:k]):
            raise NotHere(f"{block.name} stores at {i!r}, which is no axis of its own")
    free = [v for v in variables(made.store.value) if v not in axes and v.value.role in ("loop", "let")]
    if free:
        raise NotHere(f"{block.name} depends on {free[0].value.name}, which is none of its axes")
    _kept(body, made, made.loads())
    changed = without(body, made.nest.top)
    if changed is None:
        raise NotHere(f"nothing reads {buffer.name}")

    def change(e: Expr) -> Expr:
        def of(n: Expr, args: tuple[Expr, ...]) -> Expr | None:
            if n.op != "load" or n.value is not buffer:
                return None
            return substitute(made.store.value, made.axes_at(args))

        return rewrite(e, of)

    return pruned(with_expressions(changed, change), signature)


def reverse_compute_inline(body: Any, signature: Signature, block: Block) -> tuple[Any, Signature]:
    """The tree in which the producer of what a block reads goes on with it. Raises NotHere."""
    last = definition(body, block)
    first = _producer(body, last)
    _alone(body, signature, first, block)
    loads = [e for e in last.loads() if e.value is first.buffer]
    if len(set(loads)) != 1 or any(n.op == "load" for i in loads[0].args for n in post_order(i)):
        raise NotHere(f"{block.name} reads several elements of {first.buffer.name} for one of its own")
    met = meeting(body, first.nest.top, last.nest.top)
    if met.sequence is None or met.first > met.second or any(isinstance(s, For) for s in met.around):
        raise NotHere(f"{first.block.name} and {block.name} share loops", "a producer beside it")
    others = [e for e in last.loads() if e.value is not first.buffer]
    _kept(body, replace(last, nest=first.nest), others)
    for s, _ in users(body, {last.buffer}, last.nest.top):
        met = meeting(body, last.nest.top, s)
        if met.sequence is None or met.first > met.second or any(isinstance(x, For) for x in met.around):
            raise NotHere(f"{last.buffer.name} is used before {block.name} writes it")
    an, _ = surroundings(body, first.nest.top)
    _ends_only(an, last)
    _ends_only(an, first)
    axes, guards = _solved(an, last, first, loads[0].args)
    value = rewrite(last.store.value, lambda n, args: first.store.value if n is loads[0] else None)
    store = Store(
        last.buffer, tuple(simplify(substitute(i, axes)) for i in last.store.indices), substitute(value, axes)
    )
    done: Any = store if not guards else If(logical_and(*guards), store)
    merged = replace(first.block, body=done)
    changed = with_other(without(body, last.nest.top), first.block, merged)
    return pruned(changed, signature)


def _solved(
    an: Analyzer, last: Definition, first: Definition, at: Sequence[Expr]
) -> tuple[dict[Expr, Expr], list[Expr]]:
    """The axes of the reader for the element that the producer stores, and when there are such."""
    axes: dict[Expr, Expr] = {}
    for index, place in zip(at, first.store.indices, strict=True):
        here = [a.var for a in last.block.axes if a.var in an.poly(index).variables]
        if not here:
            continue
        p = an.poly(index)
        if (
            len(here) != 1
            or p.terms.get((here[0],)) != 1
            or here[0] in (p - an.poly(here[0])).variables
            or here[0] in axes
        ):
            raise NotHere(f"{last.block.name} reads at {index!r}, which is no axis and a number")
        axes[here[0]] = an.simplify(place - (index - here[0]))
    last.with_units(axes)
    for x in first.nest.loops:
        an.bind(x.var, x.start, x.start + x.extent - 1)
    for a in first.block.axes:
        found = span(an, a.binding, [x.var for x in first.nest.loops])
        if found is None:
            raise NotHere(f"which {a.var.value.name} {first.block.name} computes is not known")
        inside = clipped(an, found, Span(a.start, simplify(a.stop - 1), simplify(a.stop - a.start - 1)))
        an.bind(a.var, inside.low, inside.high)
    guards = []
    for a in last.block.axes:
        for c in (compare("ge", axes[a.var], a.start), compare("lt", axes[a.var], a.stop)):
            if not an.prove(c):
                guards.append(an.simplify(c))
    _reaches(an, first, axes, last)
    return axes, guards


def _reaches(an: Analyzer, first: Definition, axes: dict[Expr, Expr], last: Definition) -> None:
    """Raise NotHere unless the producer runs for each element that the reader needs."""
    for a in last.block.axes:
        if is_const(simplify(a.stop - a.start), 1):
            continue
        inner = simplify(substitute(axes[a.var], {x.var: x.binding for x in first.block.axes}))
        found, reach = tiles(an, inner, first.nest.loops), span(an, inner, [x.var for x in first.nest.loops])
        ends = span(an, axes[a.var], [x.var for x in first.block.axes])
        enough = found is not None and reach is not None and an.prove(compare("le", reach.low, a.start))
        enough = enough and ends is not None and an.prove(compare("ge", ends.high, a.stop - 1))
        if not enough or not an.prove(compare("ge", reach.low + found[1], a.stop)):  # type: ignore[union-attr, index]
            raise NotHere(f"{first.block.name} does not compute all that {last.block.name} needs")


# -- what has to hold ---------------------------------------------------------------------------------------


def _alone(body: Any, signature: Signature, made: Definition, reader: Block | None = None) -> None:
    """Raise NotHere unless a block alone writes an intermediate, by index; and one block alone reads it."""
    buffer, name = made.buffer, made.block.name
    if buffer in signature.params.values():
        raise NotHere(f"{name} is an output block: it writes {buffer.name}", "blocks that write intermediates")
    if buffer in hands_out(body):
        raise NotHere(f"functions get the memory of {buffer.name}")
    for s, way in users(body, {buffer}, made.nest.top):
        if isinstance(s, Store) and s.buffer is buffer:
            raise NotHere(f"{buffer.name} is written by two blocks")
        if reader is not None and reader not in way and s is not reader:
            raise NotHere(f"{reader.name} is not the only reader of {buffer.name}")
        if reader is None:
            met = meeting(body, made.nest.top, s)
            if met.sequence is None or met.first > met.second:
                raise NotHere(f"{buffer.name} is read before {name} writes it")


def _ends_only(an: Analyzer, made: Definition) -> None:
    for c in conjuncts(made.block.predicate) if made.block.predicate is not None else ():
        ends = [simplify(compare("lt", a.binding, a.stop)) for a in made.block.axes]
        if not any(simplify(c) is e or an.prove(compare("eq", simplify(c), e)) for e in ends):
            raise NotHere(f"T.where({c!r}) of {made.block.name} is not about the ends of its axes")


def _kept(body: Any, made: Definition, loads: Sequence[Expr]) -> None:
    """Raise NotHere unless what a value depends on is written before the block alone, in loops of its own."""
    buffers = {e.value for e in loads}
    for s, _ in users(body, buffers, made.nest.top):
        both = writes_of(s) & buffers if isinstance(s, Store) else hands_out(s) & buffers
        if both:
            met = meeting(body, s, made.nest.top)
            if met.sequence is None or met.first > met.second or any(isinstance(x, For) for x in met.around):
                raise NotHere(f"{next(iter(both)).name}, which {made.block.name} reads, may be written again")


def _producer(body: Any, last: Definition) -> Definition:
    """The block in the same scope that computes what another one reads."""
    within = scope_of(body, last.block)
    inner = within.body if within is not None else body
    read = {e.value for e in last.loads()}
    found = [b for b in outermost_blocks(inner) if b is not last.block and writes_of(b) & read]
    if len(found) != 1:
        raise NotHere(f"{last.block.name} has {len(found) or 'no'} producers", "a block with a single producer")
    return definition(body, found[0])


def pruned(body: Any, signature: Signature) -> tuple[Any, Signature]:
    """The tree and signature without buffers that nothing uses."""
    used = reads_of(body) | writes_of(body)
    for s in [s for s in everything(body) if isinstance(s, Block) and not used.issuperset(s.buffers)]:
        body = with_other(body, s, replace(s, buffers=[b for b in s.buffers if b in used]))
    return seq(body), replace(signature, buffers=[b for b in signature.buffers if b in used])
