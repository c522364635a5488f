"""First values of a reduction in loops of their own: `decompose_reduction` of a block of a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autosched.ir.expr import Expr, is_const, logical_and, var, variables
from autosched.ir.simplify import conjuncts, simplify
from autosched.ir.stmt import For, seq
from autosched.ir.visit import substitute
from autosched.tvm.script.moving import Nest, nest_around
from autosched.tvm.script.parts import Block
from autosched.tvm.script.reach import NotHere, reads_of, writes_of
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
    inside = [x for x in nest.loops[at:] if x not in reducing]
    made = {x.var: var(f"{x.var.value.name}_init", x.var.dtype, "loop") for x in inside}
    here = {**made, **{x.var: x.start for x in nest.loops[at:] if x in reducing}}
    for a in block.axes:
        if a.kind == "reduce" and not is_const(simplify(substitute(a.binding, here) - a.start), 0):
            raise NotHere(f"{a.var.value.name} does not begin where its loops do")
    first = _first(block, name, here)
    for x in reversed(inside):
        extent, start = (simplify(substitute(e, here)) for e in (x.extent, x.start))
        first = For(made[x.var], start, extent, x.kind, first, x.thread)
    rest = with_other(loop, block, replace(block, init=None))
    return with_other(body, loop, seq(first, rest))


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
