"""`split_into`: one loop becomes several at once, as `tir.Schedule.split(loop, factors=..)` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.ir.expr import Expr, compare, const, is_const
from autosched.ir.simplify import simplify
from autosched.schedule import scans, tails
from autosched.schedule.handles import factor_of, leaf, unmarked
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.schedule.relations import leaf_extents
from autosched.schedule.stage import Loop, Split, Stage

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["split_into"]

_EXAMPLE = "split_into(loop, 2, None, 4): the extent of each loop, outermost first, one of which may be None"


@keeps_meaning
def split_into(
    s: Schedule, stage: Stage, parent: Any, *parts: Any, disable_predication: bool = False
) -> tuple[Loop, ...]:
    """Replace a loop by as many as there are extents, outermost first. One may be None: as many
    iterations as it takes.

    for i in 24: f(i)   --split_into(i, 2, None, 4)->   for i.0 in 2: for i.1 in 3: for i.2 in 4:
                                                            f(i.0*12 + i.1*4 + i.2)

    Without None the outermost loop has as many iterations as are needed, at most the number given.
    `disable_predication` is as in `split`: you promise that the extents divide.
    """
    loop = leaf(stage, parent)
    scans.forbid_on_time(loop, "split")
    unmarked(loop, "split")
    if len(parts) < 2:
        raise Illegal("a loop is split into two at least", _EXAMPLE)
    if sum(p is None for p in parts) > 1:
        raise Illegal("only one extent can follow from the others", _EXAMPLE)
    given = [None if p is None else factor_of(s, p, "factor") for p in parts]
    if None not in given:
        _check_covered(s, loop, [p for p in given if p is not None])
    open_at = given.index(None) if None in given else 0
    names = [f"{loop.name}.{k}" for k in range(len(parts))]
    made: list[Loop] = []
    rest = loop
    for k in range(len(parts) - 1):
        outer = stage.new_loop(names[k], loop.is_reduce)
        last = k == len(parts) - 2
        inner = stage.new_loop(names[k + 1] if last else f"{names[k]}.rest", loop.is_reduce)
        nparts = given[k] if k < open_at else None
        factor = None if nparts is not None else _product([p for p in given[k + 1 :] if p is not None])
        relation = Split(rest, outer, inner, factor, nparts, "exact" if disable_predication else "guard")
        if disable_predication:
            tails.check_exact(stage, relation)
        stage.relations.append(relation)
        made += [outer, inner] if last else [outer]
        rest = inner
    at = stage.loops.index(loop)
    stage.loops[at : at + 1] = made
    return tuple(made)


def _product(factors: list[Expr]) -> Expr:
    total: Expr = const(1)
    for f in factors:
        total = total * f
    return simplify(total)


def _check_covered(s: Schedule, loop: Loop, parts: list[Expr]) -> None:
    """Numbers that cannot name all iterations are refused; formulas become a constraint.

    The extent of a loop that is computed inside others is not known yet, and its outermost part
    follows from it.
    """
    if loop.stage.attach.kind == "at":
        return
    extent, covered = leaf_extents(loop.stage)[loop], _product(parts)
    enough = simplify(compare("ge", covered, extent))
    if is_const(enough, True):
        return
    text = " * ".join(map(repr, parts))
    if enough.op == "const":
        raise Illegal(f"{loop.full_name} has {extent!r} iterations, more than {text}", _EXAMPLE)
    s.require(enough, f"{loop.full_name} has {extent!r} iterations, more than {text}")
