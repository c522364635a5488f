"""Blocks of a tree taken apart: first values of a reduction in loops of their own (`decompose_reduction`), and a block
around some of the loops of another one (`blockize`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autosched.ir.expr import Expr, compare, const, is_const, logical_and, var, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import For, seq
from autosched.ir.visit import conjuncts, substitute
from autosched.tvm.script.moving import Nest, nest_around
from autosched.tvm.script.parts import Block, BlockAxis
from autosched.tvm.script.reach import NotHere, reads_of, surroundings, tiles, writes_of
from autosched.tvm.script.walking import substituted, with_other


def decompose_reduction(body: Any, block: Block, loop: For, name: str) -> Any:
    """The tree with the first values of a block stored in front of a loop. Raises NotHere."""
    if block.init is None:
        raise NotHere(f"{block.name} has no T.init", "a block that has one")
    nest = nest_around(body, block)
    if loop not in nest.loops:
        raise NotHere(f"{loop.var.value.name} is no loop around {block.name} alone", "one of its own loops")
    at = nest.loops.index(loop)
    reducing = _reduce_loops(nest)
    early = next((x for x in nest.loops[:at] if x in reducing), None)
    if early is not None:
        raise NotHere(
            f"{early.var.value.name}, outside of {loop.var.value.name}, is a reduce loop", "a loop outside of all"
        )
    if (reads_of(block.init) - writes_of(block.init)) & writes_of(block.body):
        raise NotHere(f"first values of {block.name} depend on what it computes")
    here = {x.var: x.start for x in nest.loops[at:] if x in reducing}
    for a in block.axes:
        if a.kind == "reduce" and not is_const(simplify(substitute(a.binding, here) - a.start), 0):
            raise NotHere(f"{a.var.value.name} does not begin where its loops do")
    first = _first_nest(block, name, nest.loops[at:], reducing)
    rest = with_other(loop, block, replace(block, init=None))
    return with_other(body, loop, seq(first, rest))


def _first_nest(block: Block, name: str, loops: Sequence[For], reducing: set[For]) -> Any:
    """The block of the first values in copies of loops, of which those that reduce are left out."""
    inside = [x for x in loops if x not in reducing]
    made = {x.var: var(f"{x.var.value.name}_init", x.var.dtype, "loop") for x in inside}
    here = {**made, **{x.var: x.start for x in loops if x in reducing}}
    first = _first(block, name, here)
    for x in reversed(inside):
        extent, start = (simplify(substitute(e, here)) for e in (x.extent, x.start))
        first = For(made[x.var], start, extent, x.kind, first, x.thread)
    return first


def _reduce_loops(nest: Nest) -> set[For]:
    """The loops that reduce axes are bound to. Raises NotHere for one that other axes are bound to, too."""
    found = {k: set[Expr]() for k in ("reduce", "spatial")}
    for a in nest.block.axes:
        found["reduce" if a.kind == "reduce" else "spatial"] |= variables(a.binding)
    both = [x for x in nest.loops if x.var in found["reduce"] & found["spatial"]]
    if both:
        raise NotHere(f"{both[0].var.value.name} is bound to reduce axes and others", "loops of one kind")
    return {x for x in nest.loops if x.var in found["reduce"]}


def _first(block: Block, name: str, here: dict[Expr, Expr]) -> Any:
    """The block of the first values, in loops with other variables."""
    assert block.init is not None
    fresh = {a.var: var(f"{a.var.value.name}_init", a.var.dtype, "loop") for a in block.axes if a.kind != "reduce"}
    axes = [
        replace(a, var=fresh[a.var], binding=simplify(substitute(a.binding, here)))
        for a in block.axes
        if a.kind != "reduce"
    ]
    starts = {a.var: a.start for a in block.axes if a.kind == "reduce"}
    conditions = conjuncts(block.predicate) if block.predicate is not None else []
    kept = [simplify(substitute(c, here)) for c in conditions]
    kept = [c for c in kept if not is_const(c, True)]
    return Block(
        name,
        block.where,
        axes,
        logical_and(*kept) if kept else None,
        None,
        substituted(block.init, {**fresh, **starts}),
    )


def blockize(body: Any, block: Block, loop: For, name: str, first: str) -> Any:
    """The tree with a block around a loop and those inside, which are around one block alone. Raises NotHere."""
    nest = nest_around(body, block)
    if loop not in nest.loops:
        raise NotHere(f"{loop.var.value.name} is no loop around {block.name} alone", "one of its own loops")
    inside = nest.loops[nest.loops.index(loop) :]
    an, _ = surroundings(body, loop)
    for x in inside:
        an.bind(x.var, x.start, x.start + x.extent - 1)
    pairs = [_parted(an, a, inside) for a in block.axes]
    mine = {x.var for x in inside}
    outer_guards, inner_guards = list[Expr](), list[Expr]()
    for c in conjuncts(block.predicate) if block.predicate is not None else ():
        end = next((b for a, (_, b) in zip(block.axes, pairs, strict=True) if _is_end(an, c, a)), None)
        told = c if end is None else compare("lt", end.binding, end.stop)
        (inner_guards if variables(c) & mine else outer_guards).append(told if variables(c) & mine else c)
    inner = replace(block, axes=[b for _, b in pairs], predicate=_all_of(inner_guards), init=None)
    init = None
    if block.init is not None:
        reducing = _reduce_loops(Nest(block, inside))
        init = _first_nest(replace(inner, init=block.init), first, inside, reducing)
    made = with_other(loop, block, inner)
    around = Block(name, block.where, [o for o, _ in pairs], _all_of(outer_guards), init, made)
    return with_other(body, loop, around)


def _all_of(conditions: Sequence[Expr]) -> Expr | None:
    return logical_and(*conditions) if conditions else None


def _is_end(an: Analyzer, c: Expr, a: BlockAxis) -> bool:
    end = simplify(compare("lt", a.binding, a.stop))
    return simplify(c) is end or an.prove(compare("eq", simplify(c), end))


def _parted(an: Analyzer, a: BlockAxis, inside: Sequence[For]) -> tuple[BlockAxis, BlockAxis]:
    """An axis of the block outside, and what the axis is inside: so many of the former, and a sum of loops."""
    mine = {x.var for x in inside}
    at_first = {x.var: x.start for x in inside}
    base = an.simplify(substitute(a.binding, at_first))
    rest = an.simplify(a.binding - base)
    found = tiles(an, rest, inside)
    if found is None or variables(base) & mine:
        raise NotHere(
            f"{a.var.value.name} is {a.binding!r}, which is no sum of loops", "loops that an axis is a sum of"
        )
    outer = var(f"{a.var.value.name}_o", a.var.dtype, "loop")
    size, zero = found[1], const(0, a.var.dtype)
    if is_const(base, 0):
        return BlockAxis(outer, a.kind, zero, const(1, a.var.dtype), zero), replace(
            a, binding=an.simplify(outer + rest)
        )
    part = an.simplify(base // size)
    if is_const(a.start, 0) and an.prove(compare("eq", part * size, base)):
        stop = simplify((a.stop + size - 1) // size)
        return BlockAxis(outer, a.kind, zero, stop, part), replace(a, binding=an.simplify(outer * size + rest))
    return BlockAxis(outer, a.kind, a.start, a.stop, base), replace(a, binding=an.simplify(outer + rest))
