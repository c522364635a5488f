"""Tail strategies: what becomes of the last, partial block of a split.

Halide's names for Halide's strategies (`TailStrategy`), and TVM's `disable_predication`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.ir.expr import Expr, compare, floormod, is_const
from autosched.ir.simplify import simplify
from autosched.schedule.illegal import Illegal
from autosched.schedule.relations import loop_extents
from autosched.schedule.stage import TAILS, Fuse, Loop, Split, Stage

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["GUARDED", "check", "check_exact", "choose_tail", "divides", "has_room", "predicated"]

#: tails that leave a condition behind
GUARDED = ("guard", "predicate")


def choose_tail(s: Schedule, stage: Stage, loop: Loop, tail: str, disable_predication: bool) -> str:
    """The tail of a split that is about to be made: one of `TAILS`, or `exact`. Raises Illegal.

    `exact` has no condition and no room to spare: the extent is a multiple of the factor, by the
    user's word, or because no more can be stored. Lowering and calls check it.
    """
    if tail not in TAILS:
        raise Illegal(f"no tail strategy {tail!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in TAILS.items()))
    if disable_predication:
        if tail != "guard":
            raise Illegal(f"disable_predication leaves nothing for tail={tail!r} to do", "one of the two")
        return "exact"
    match tail:
        case "auto":
            return "shift_inwards" if stage.is_output and _cannot_shift(s, stage, loop) is None else "guard"
        case "shift_inwards":
            refusal = _cannot_shift(s, stage, loop)
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


def _cannot_shift(s: Schedule, stage: Stage, loop: Loop) -> Illegal | None:
    """Why elements at the edge may not be computed twice."""
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
    """Whether elements beyond the end can be computed and stored: those of an intermediate, along an
    axis or the outer part of one."""
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
    step = r.factor if r.factor is not None else r.nparts
    assert step is not None
    return simplify(compare("eq", floormod(extent, step), 0))


def check_exact(stage: Stage, r: Split) -> None:
    """Raise Illegal where it is known already that the factor of an `exact` split does not divide.

    What an intermediate computes depends on where, so that of it only reduce loops are known.
    """
    if not (stage.is_output or r.parent.is_reduce):
        return
    extent = loop_extents(stage)[r.parent]
    if is_const(divides(r, extent), False):
        step = r.factor if r.factor is not None else r.nparts
        kind = "a reduction" if r.parent.is_reduce else "an output"
        raise Illegal(
            f"{r.parent.full_name} has {extent!r} iterations, no multiple of {step!r}, and {kind} has no room for more",
            "tail='guard', or a factor that divides",
        )


def predicated(stage: Stage) -> frozenset[Loop]:
    """The loops that a split with `tail='predicate'` and those after it made: as vectors they run whole."""
    found: set[Loop] = set()
    for r in stage.relations:
        match r:
            case Split() if r.tail == "predicate" or r.parent in found:
                found |= {r.outer, r.inner}
            case Fuse() if found & {r.outer, r.inner}:
                found.add(r.fused)
    return frozenset(found)


def check(stage: Stage) -> None:
    """Raise ScheduleError for whole tiles in storage that outlives the region they belong to."""
    outer = stage.store.loop
    padded = next((r for r in stage.relations if isinstance(r, Split) and r.tail == "round_up"), None)
    if padded is not None and outer not in (None, stage.attach.loop):
        raise ScheduleError(
            f"{stage.name} is stored at {outer!r}, where the tiles of one region would overwrite those of another",
            asked=stage.schedule.earlier("split", stage, f"{padded.parent.name}, tail='round_up'"),
            legal="tail='guard', or leave store_at out",
        )
