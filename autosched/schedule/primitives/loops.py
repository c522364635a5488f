"""Primitives that split, fuse and reorder loops, and the tails of splits: what becomes of partial blocks.

Tails have the names of Halide's `TailStrategy`; `disable_predication` is an older spelling of one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal, ScheduleError
from autosched.ir.expr import Expr, compare, const, floormod, is_const
from autosched.ir.simplify import simplify
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.kinds import computed, factor_of, leaf, unmarked
from autosched.schedule.loop import TAILS, Fuse, Loop, Split, leaf_extents, loop_extents
from autosched.schedule.primitive import keeps_meaning, primitive

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def _check_round_up(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError for whole tiles in storage that outlives the region they belong to."""
    outer = stage.store.loop
    padded = next((r for r in stage.relations if isinstance(r, Split) and r.tail == "round_up"), None)
    if padded is not None and outer not in (None, stage.attach.loop):
        raise ScheduleError(
            f"{stage.name} is stored at {outer!r}, where the tiles of one region would overwrite those of another",
            asked=s.earlier("split", stage, f"{padded.parent.name}, tail='round_up'"),
            legal="tail='guard', or leave store_at out",
        )


@primitive(K.LOOP, factor=K.FACTOR, nparts=K.FACTOR, tail=K.TAIL, disable_predication=K.PROMISE, check=_check_round_up)
@keeps_meaning
def split(
    s: Schedule,
    stage: Stage,
    parent: Any,
    factor: Any = None,
    nparts: Any = None,
    *,
    tail: str = "guard",
    disable_predication: bool = False,
) -> tuple[Loop, Loop]:
    """Replace a loop by two. Exactly one of `factor` (inner extent) and `nparts` (outer extent).

    for i in N: f(i)   ->   for i.outer in ceil(N/factor): for i.inner in factor:
                                if i.outer*factor + i.inner < N: f(i.outer*factor + i.inner)

    `tail` says what becomes of the condition when the factor does not divide: see `TAILS`. With
    `disable_predication` there is none: you promise that the factor divides. The promise is a
    constraint on knobs, and checked whenever the sizes are known; a call that breaks it is refused.
    """
    loop = leaf(stage, parent)
    scans.forbid_on_time(loop, "split")
    unmarked(loop, "split")
    if (factor is None) == (nparts is None):
        raise Illegal("exactly one of factor and nparts is needed", "split(loop, factor=8) or split(loop, nparts=4)")
    amount = None if factor is None else factor_of(s, factor, "factor")
    parts = None if nparts is None else factor_of(s, nparts, "nparts")
    chosen = choose_tail(s, stage, loop, tail, disable_predication)
    outer = stage.new_loop(f"{loop.name}.outer", loop.is_reduce)
    inner = stage.new_loop(f"{loop.name}.inner", loop.is_reduce)
    made = Split(loop, outer, inner, amount, parts, chosen)
    if chosen == "exact":
        check_exact(stage, made)
    stage.relations.append(made)
    at = stage.loops.index(loop)
    stage.loops[at : at + 1] = [outer, inner]
    return outer, inner


@primitive(K.LOOP, K.LOOP, K.FACTOR, K.FACTOR, tail=K.TAIL)
@keeps_meaning
def tile(
    s: Schedule, stage: Stage, x_parent: Any, y_parent: Any, x_factor: Any, y_factor: Any, tail: str = "guard"
) -> tuple[Loop, Loop, Loop, Loop]:
    """Split two loops and bring the inner ones inside: computes block by block.

    for x: for y: f   ->   for x.outer: for y.outer: for x.inner in x_factor: for y.inner in y_factor: f
    """
    x, y = leaf(stage, x_parent), leaf(stage, y_parent)
    if x is y:
        raise Illegal(f"{x.full_name} is given twice", "two different loops")
    xo, xi = split(stage, x, factor=x_factor, tail=tail)
    yo, yi = split(stage, y, factor=y_factor, tail=tail)
    reorder(stage, xo, yo, xi, yi)
    return xo, yo, xi, yi


_EXAMPLE = "split_into(loop, 2, None, 4): the extent of each loop, outermost first, one of which may be None"


@primitive(K.LOOP, K.PART, ..., disable_predication=K.PROMISE)
@keeps_meaning
def split_into(
    s: Schedule, stage: Stage, loop: Any, *parts: Any, disable_predication: bool = False
) -> tuple[Loop, ...]:
    """Replace a loop by as many as there are extents, outermost first. One may be None: as many
    iterations as it takes.

    for i in 24: f(i)   --split_into(i, 2, None, 4)->   for i.0 in 2: for i.1 in 3: for i.2 in 4:
                                                            f(i.0*12 + i.1*4 + i.2)

    Without None the outermost loop has as many iterations as are needed, at most the number given.
    `disable_predication` is as in `split`: you promise that the extents divide.
    """
    whole = leaf(stage, loop)
    scans.forbid_on_time(whole, "split")
    unmarked(whole, "split")
    if len(parts) < 2:
        raise Illegal("a loop is split into two at least", _EXAMPLE)
    if sum(p is None for p in parts) > 1:
        raise Illegal("only one extent can follow from the others", _EXAMPLE)
    given = [None if p is None else factor_of(s, p, "factor") for p in parts]
    if None not in given:
        _check_covered(s, whole, [p for p in given if p is not None])
    open_at = given.index(None) if None in given else 0
    names = [f"{whole.name}.{k}" for k in range(len(parts))]
    made: list[Loop] = []
    rest = whole
    for k in range(len(parts) - 1):
        outer = stage.new_loop(names[k], whole.is_reduce)
        last = k == len(parts) - 2
        inner = stage.new_loop(names[k + 1] if last else f"{names[k]}.rest", whole.is_reduce)
        nparts = given[k] if k < open_at else None
        factor = (
            None if nparts is not None else simplify(prod((p for p in given[k + 1 :] if p is not None), start=const(1)))
        )
        relation = Split(rest, outer, inner, factor, nparts, "exact" if disable_predication else "guard")
        if disable_predication:
            check_exact(stage, relation)
        stage.relations.append(relation)
        made += [outer, inner] if last else [outer]
        rest = inner
    at = stage.loops.index(whole)
    stage.loops[at : at + 1] = made
    return tuple(made)


def _check_covered(s: Schedule, loop: Loop, parts: list[Expr]) -> None:
    """Raise Illegal for numbers whose product is less than the extent; formulas become a constraint."""
    if loop.stage.attach.kind == "at":
        return  # the extent is not known yet, and the outermost part follows from it
    extent, covered = leaf_extents(loop.stage)[loop], simplify(prod(parts, start=const(1)))
    enough = simplify(compare("ge", covered, extent))
    if is_const(enough, True):
        return
    text = " * ".join(map(repr, parts))
    if enough.op == "const":
        raise Illegal(f"{loop.full_name} has {extent!r} iterations, more than {text}", _EXAMPLE)
    s.require(enough, f"{loop.full_name} has {extent!r} iterations, more than {text}")


@primitive(K.JOINED_LOOP, ...)
@keeps_meaning
def fuse(s: Schedule, stage: Stage, *loops: Any) -> Loop:
    """One loop in place of adjacent ones, outermost first; of two, either may come first.

    for i in N: for j in M: f(i, j)   ->   for i.j.fused in N*M: f(i.j.fused // M, i.j.fused % M)

    With no loops, a stage that has no spatial ones (a tensor without dimensions) gets a loop with
    one iteration, to be bound or computed at.
    """
    computed(stage)
    chosen = [leaf(stage, loop) for loop in loops]
    if not chosen:
        if any(not loop.is_reduce for loop in stage.loops):
            raise Illegal("nothing to fuse", f"loops of {stage.name}: {stage.describe()}")
        return stage.add_singleton()
    fused = chosen[0]
    for inner in chosen[1:]:
        scans.forbid_on_time(fused, "fuse")
        scans.forbid_on_time(inner, "fuse")
        unmarked(fused, "fuse")
        unmarked(inner, "fuse")
        at = stage.loops.index(fused)
        if at and stage.loops[at - 1] is inner:
            fused, inner, at = inner, fused, at - 1
        if at + 1 >= len(stage.loops) or stage.loops[at + 1] is not inner:
            raise Illegal(
                f"{inner.full_name} is not directly inside {fused.full_name}",
                f"adjacent loops of {stage.name}: {stage.describe()}; reorder brings them together",
            )
        if (fused in stage.scatter_loops) != (inner in stage.scatter_loops):
            raise Illegal(
                f"{fused.full_name} and {inner.full_name} are not both loops over places",
                f"loops over places of {stage.name}: {', '.join(x.name for x in stage.scatter_loops)}",
            )
        if fused.is_reduce != inner.is_reduce:
            raise Illegal(
                f"{fused.full_name} and {inner.full_name} are not both spatial or both reduce loops",
                "fuse loops of one kind",
            )
        made = stage.new_loop(f"{fused.name}.{inner.name}.fused", fused.is_reduce)
        stage.relations.append(Fuse(fused, inner, made))
        stage.loops[at : at + 2] = [made]
        fused = made
    return fused


@primitive(K.LOOP, ...)
@keeps_meaning
def reorder(s: Schedule, stage: Stage, *loops: Any) -> None:
    """Put the given loops in this order, in the places they now take; others stay.

    for i: for j: for k: f   --reorder(k, i)->   for k: for j: for i: f
    """
    chosen = [leaf(stage, loop) for loop in loops]
    if len(set(chosen)) != len(chosen):
        twice = next(loop for loop in chosen if chosen.count(loop) > 1)
        raise Illegal(f"{twice.full_name} is given twice", "each loop once")
    places = sorted(stage.loops.index(loop) for loop in chosen)
    for place, loop in zip(places, chosen, strict=True):
        stage.loops[place] = loop


# -- tails ------------------------------------------------------------------------------------------
#: tails that leave a condition behind
GUARDED = ("guard", "predicate")


def choose_tail(s: Schedule, stage: Stage, loop: Loop, tail: str, disable_predication: bool) -> str:
    """The tail of a new split: one of `TAILS`, or `exact`. Raises Illegal.

    `exact` has neither a condition nor padding: the extent is a multiple of the factor, because the user promised it,
    or because no more elements can be stored. Lowering and calls check it.
    """
    if tail not in TAILS:
        raise Illegal(f"no tail strategy {tail!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in TAILS.items()))
    if disable_predication:
        if tail != "guard":
            raise Illegal(f"disable_predication leaves nothing for tail={tail!r} to do", "one of the two")
        return "exact"
    match tail:
        case "auto":
            return "shift_inwards" if stage.is_output and _cannot_shift(stage, loop) is None else "guard"
        case "shift_inwards":
            refusal = _cannot_shift(stage, loop)
            if refusal is not None:
                raise refusal
        case "predicate" if loop.is_reduce:
            raise Illegal(
                "the lanes of a reduction are combined: no mask on loads and stores leaves some of them out",
                "tail='guard' for reduce loops",
            )
        case "round_up":
            return "round_up" if has_room(s, stage, loop) else "exact"
    return tail


def _cannot_shift(stage: Stage, loop: Loop) -> Illegal | None:
    """The reason why elements at the edge must not be computed twice, or None."""
    if stage.scan_loop is not None:
        return Illegal(f"{stage.name} is a scan: it cannot compute elements twice", "tail='guard' for loops of a scan")
    if loop.is_reduce:
        return Illegal("a reduction cannot compute elements twice", "tail='guard' for reduce loops")
    if loop.root is None:
        return Illegal(
            f"{loop.full_name} is itself the result of a split or fuse; only an axis can shift inwards",
            "tail='guard', or split the axis with shift_inwards first",
        )
    return None


def has_room(s: Schedule, stage: Stage, loop: Loop) -> bool:
    """Return whether elements beyond the end can be computed and stored: those of an intermediate, along an axis or
    the outer part of one."""
    if stage.is_output or loop.is_reduce or loop in stage.scatter_loops or s.scans.part(stage) in ("init", "update"):
        return False
    while loop.root is None:
        made_by = next((r for r in stage.relations if isinstance(r, Split) and r.outer is loop), None)
        if made_by is None:
            return False
        loop = made_by.parent
    return True


def divides(r: Split, extent: Expr) -> Expr:
    """The condition under which a split of a loop of that extent leaves nothing over."""
    return simplify(compare("eq", floormod(extent, r.amount), 0))


def check_exact(stage: Stage, r: Split) -> None:
    """Raise Illegal if the factor of an `exact` split is already known not to divide.

    The region of an intermediate depends on where it is computed, so that only its reduce loops are known.
    """
    if not (stage.is_output or r.parent.is_reduce):
        return
    extent = loop_extents(stage)[r.parent]
    if is_const(divides(r, extent), False):
        kind = "a reduction" if r.parent.is_reduce else "an output"
        raise Illegal(
            f"{r.parent.full_name} has {extent!r} iterations, no multiple of {r.amount!r}, "
            f"and {kind} has no room for more",
            "tail='guard', or a factor that divides",
        )


def predicated(stage: Stage) -> set[Loop]:
    """The loops made by a split with `tail='predicate'`, and from those: as vectors they run whole."""
    splits = (r for r in stage.relations if isinstance(r, Split) and r.tail == "predicate")
    return stage.made_of(x for r in splits for x in r.made)


class LoopPrimitives:
    """Methods of a stage."""

    split = split
    tile = tile
    split_into = split_into
    fuse = fuse
    reorder = reorder
