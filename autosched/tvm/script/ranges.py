"""Loops of a tree that run over parts of their range, one after the other (`loop_partition`), and loops beside one
another that run together (`merge`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from autosched.ir.expr import Expr, compare, const, is_const, var
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import For, Seq, seq
from autosched.tvm.script.independence import apart, touched
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.reach import NotHere, hands_out, meeting, reads_of, writes_of
from autosched.tvm.script.statements import dissolved
from autosched.tvm.script.walking import (
    everything,
    only,
    outermost_blocks,
    path_to,
    renewed,
    substituted,
    with_other,
    without,
)


def loop_partition(
    body: Any, signature: Signature, loop: For, lengths: Sequence[int | None], fresh: Any
) -> tuple[Any, Signature, list[Expr]]:
    """The tree with a loop for each part of a range, in a block of its own; and their variables. Raises NotHere."""
    inside = next(outermost_blocks(loop.body), None)
    if inside is None:
        raise NotHere(f"there is no block in {loop.var.value.name}", "a loop around a block")
    name, stem = loop.var.value.name, f"{inside.name}_{loop.var.value.name}"
    made, loops, start, remarks = list[Any](), list[Expr](), loop.start, dict(signature.remarks)
    for k, n in enumerate(_lengths(loop, lengths)):
        part, variables_of = renewed(loop.body, lambda called, k=k: fresh(f"{called}_{name}{k}"))  # type: ignore[misc]
        remarks |= {v: signature.remarks[old] for old, v in variables_of.items() if old in signature.remarks}
        here = var(f"{name}{k}", loop.var.dtype, "loop")
        inner = For(here, start, const(n, loop.extent.dtype), loop.kind, substituted(part, {loop.var: here}))
        made.append(Block(fresh(f"{stem}{k}_partition"), inside.where, body=inner))
        loops.append(here)
        start = simplify(start + n)
    whole = Block(fresh(f"{stem}_common"), inside.where, body=seq(*made))
    return with_other(body, loop, whole), replace(signature, remarks=remarks), loops


def _lengths(loop: For, given: Sequence[int | None]) -> list[int]:
    """The lengths of parts: None among them is what the others leave, and so is one more behind them, if any."""
    name, extent = loop.var.value.name, simplify(loop.extent)
    if extent.op != "const" or loop.start.op != "const":
        raise NotHere(f"{name} has {loop.extent!r} iterations from {loop.start!r} on", "a loop of known length")
    known = [n for n in given if n is not None]
    if len(given) - len(known) > 1 or not given:
        raise NotHere("more than one length, or none at all, is left open", "a number for each part, or one None")
    if any(n < 1 for n in known):
        raise NotHere("a part has one iteration at least", "positive numbers")
    rest = int(extent.value) - sum(known)
    if rest < 0 or (rest == 0 and len(known) < len(given)):
        raise NotHere(f"parts of {sum(known)} iterations are more than {extent.value} leave room for")
    if len(known) < len(given):
        return [rest if n is None else n for n in given]
    return [*known, *([rest] if rest else [])]


# -- loops that run together ---------------------------------------------------------------------------------


def merge(body: Any, loops: Sequence[For]) -> tuple[Any, Expr]:
    """The tree in which loops, and those around them up to where their ways part, are one; and its variable.

    Iteration k of one runs before iteration k + 1 of another, so both may touch the same elements in the same iteration
    only. Raises NotHere.
    """
    if len(set(loops)) < 2:
        raise NotHere("there is one loop", "two loops at least, of nests beside one another")
    first, *others = loops
    met = [meeting(body, first, x) for x in others]
    if any(m.sequence is None for m in met) or len({id(m.sequence) for m in met}) > 1:
        raise NotHere(f"{first.var.value.name} and the others are not beside one another", "loops of several nests")
    sequence = met[0].sequence
    assert sequence is not None
    nests = [_nest_to(sequence, x) for x in loops]
    if len({len(nest) for nest in nests}) > 1:
        raise NotHere("they are not equally deep inside", "loops with as many loops around them")
    places = [next(k for k, s in enumerate(sequence.stmts) if s is nest[0]) for nest in nests]
    if places != sorted(places):
        raise NotHere("they are not given in the order in which they run", "the first one first")
    for level in zip(*nests, strict=True):
        _check_alike(level)
    between = [s for k, s in enumerate(sequence.stmts) if places[0] < k < places[-1] and k not in places]
    for nest, at in zip(nests, places, strict=True):
        _check_passes(nest[0], [s for k, s in enumerate(sequence.stmts) if s in between and k > at])
    fused = [var(f"{x.var.value.name}_m", x.var.dtype, "loop") for x in nests[0]]
    inner = [substituted(n[-1].body, {x.var: v for x, v in zip(n, fused, strict=True)}) for n in nests]
    made: Any = seq(*inner)
    for x, v in zip(reversed(nests[0]), reversed(fused), strict=True):
        made = For(v, x.start, x.extent, x.kind, made)
    _check_together(made, fused, inner)
    changed = with_other(body, nests[-1][0], made)
    for nest in nests[:-1]:
        changed = without(changed, nest[0])
    return changed, fused[-1]


def _nest_to(sequence: Seq, loop: For) -> list[For]:
    """A loop and those around it, up to a sequence that they are in."""
    way = [*(path_to(sequence, loop) or [])[1:], loop]
    for outer, inner in pairwise(way):
        if not isinstance(outer, For) or only(outer.body) is not inner:
            raise NotHere(f"{loop.var.value.name} is not alone in what is around it", "loops each directly in another")
    return way


def _check_alike(level: Sequence[For]) -> None:
    first, an = level[0], Analyzer()
    for x in level:
        name = x.var.value.name
        if x.kind != "serial" or x.pragmas:
            raise NotHere(f"{name} is marked: {x.kind}", "loops without marks")
        if not is_const(x.start, 0):
            raise NotHere(f"{name} begins at {x.start!r}", "loops from 0 on")
        if not an.prove(compare("eq", x.extent, first.extent)):
            raise NotHere(f"{name} has {x.extent!r} iterations, {first.var.value.name} has {first.extent!r}")


def _check_passes(nest: For, later: Sequence[Any]) -> None:
    """Raise NotHere unless a nest may run after statements that follow it."""
    reads, writes = reads_of(nest), writes_of(nest)
    for s in later:
        both = (writes_of(s) & (reads | writes)) | (reads_of(s) & writes)
        if both:
            raise NotHere(f"{next(iter(both)).name} is used between the loops")


def _check_together(made: For, fused: Sequence[Expr], inner: Sequence[Any]) -> None:
    """Raise NotHere where an iteration of one body touches what another iteration of another body writes."""
    if any(map(hands_out, inner)):
        raise NotHere("they call functions with memory", "loops that store values")
    used = [(reads_of(s), writes_of(s)) for s in inner]
    for k, (reads, writes) in enumerate(used):
        for other_reads, other_writes in used[k + 1 :]:
            for buffer in (writes & (other_reads | other_writes)) | (reads & other_writes):
                for x in (s for s in everything(made) if isinstance(s, For) and s.var in fused):
                    if not apart(x.var, touched(dissolved(x), buffer)):
                        why = f"iterations of {x.var.value.name} may meet in {buffer.name}"
                        raise NotHere(why, "loops whose iterations use their own elements")
