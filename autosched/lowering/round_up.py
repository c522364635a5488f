"""Splits that leave no remainder: `round_up`, which computes whole tiles, `exact`, which must divide, and
`shift_inwards`, which computes some elements twice.

The elements of a tile beyond the region that is read are copies of the region's last one along that dimension: index
i is read as `min(i, last)`. Where all reads stay inside anyway, no index is clamped.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import LowerError, ScheduleError
from autosched.ir.expr import Expr, is_const, variables
from autosched.ir.ops import CHOICES
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import VTHREAD, Require
from autosched.ir.visit import post_order
from autosched.schedule.loop import covered_extents, loop_extents
from autosched.schedule.primitives.loops import divides
from autosched.schedule.schedule import Constraint, Schedule
from autosched.schedule.stage import Loop, Split, Stage
from autosched.te.tensor import IterVar


def reads_fit(stage: Stage, body: tuple[Expr, ...], axis: IterVar, first: Expr, covered: Expr, an: Analyzer) -> bool:
    """Return whether all reads for the indices `first .. first + covered - 1` of an axis are inside without clamping,
    as those of padded operands are."""
    last = first + covered - 1
    for e in post_order(body):
        if e.op != "read":
            if e.op in CHOICES and axis.var in variables(e.args[0]):
                return False
            continue
        for index, extent in zip(e.args, _room_of(stage, e), strict=True):
            if axis.var not in variables(index):
                continue
            if index is not axis.var or not an.is_within(first, extent, last):
                return False
    return True


def _room_of(stage: Stage, read: Expr) -> list[Expr]:
    """The number of elements along each dimension of a tensor that is read, padding of a root stage included."""
    source = stage.schedule.stage(read.value)
    if source.attach.kind != "root" or source.is_output or not source.relations or source.scan_loop is not None:
        return list(read.value.shape)
    covered = covered_extents(source, loop_extents(source))
    return [covered.get(source.roots[a], d) for a, d in zip(source.axis, read.value.shape, strict=True)]


def check_tails(s: Schedule, extents: dict[Stage, dict[Loop, Expr]], an: Analyzer) -> list[Constraint]:
    """The constraints on knobs and sizes by which every `exact` split divides. Raises ScheduleError for one that
    never does."""
    found: dict[Expr, Constraint] = {}
    exact: list[tuple[Split, Expr]] = []
    for x in s.stages:
        exact += x.factored
        exact += [(r, extents[x][r.parent]) for r in x.relations if isinstance(r, Split) and x in extents]
    for r, extent in exact:
        if r.tail != "exact":
            continue
        condition = an.simplify(divides(r, extent))
        reason = f"{r.parent.full_name} has {extent!r} iterations, which {r.amount!r} has to divide"
        if is_const(condition, False):
            raise ScheduleError(
                reason,
                asked=s.earlier("split", r.parent.stage, f"{r.parent.name}, {r.amount!r}"),
                legal="a factor that divides, or tail='guard' without disable_predication",
            )
        if not is_const(condition, True):
            found.setdefault(condition, Constraint(condition, reason))
    return list(found.values())


def requirements(constraints: list[Constraint]) -> tuple[Require, ...]:
    """The constraints on sizes, which only a call can check."""
    return tuple(
        Require(c.condition, c.reason)
        for c in constraints
        if any(v.value.role == "size" for v in variables(c.condition))
    )


def check_overlap(stage: Stage, leaves: Sequence[Loop], extents: dict[Loop, Expr], set_at: int, an: Analyzer) -> None:
    """Raise LowerError if elements of a reduction that `shift_inwards` computes twice would be accumulated twice.

    They are set anew each time only inside the loop in which elements are set, which is before the leaf `set_at`, and
    not by two threads or lanes: of blocks that run at once, or of one place of all blocks, which do not wait for each
    other.
    """
    blocks: dict[Loop, Split] = {}
    places: dict[Loop, Split] = {}
    for r in stage.relations:
        if not isinstance(r, Split) or r.tail != "shift_inwards":
            continue
        if not is_const(an.simplify(divides(r, extents[r.parent])), True):
            blocks = dict.fromkeys(stage.made_of([r.outer]), r) | blocks
            places = dict.fromkeys(stage.made_of([r.inner]), r) | places
    for at, loop in enumerate(leaves):
        if loop in blocks and (at >= set_at or loop.kind in ("parallel", "thread", "vectorize")):
            raise _added_twice(stage, blocks[loop], loop, at >= set_at)
        if loop not in places or loop.kind not in ("parallel", "thread") or loop.thread == VTHREAD:
            continue
        if loop.thread or any(blocks.get(x) is places[loop] for x in leaves[at:]):
            raise _added_twice(stage, places[loop], loop, False)


def _added_twice(stage: Stage, split: Split, loop: Loop, is_inside: bool) -> LowerError:
    why = "it is vectorized" if loop.kind == "vectorize" else f"it is {loop.thread or loop.kind}"
    if is_inside:
        set_in = None if stage.init is None else stage.init.outside.full_name
        why = f"elements are set once, outside {set_in}" if set_in else "a reduce loop is outside it"
    return LowerError(
        f"the last block overlaps the one before, and sums would be added to twice: {why}",
        asked=stage.schedule.earlier("split", stage, f"{split.parent.name}, tail='shift_inwards'", split.parent.name),
        legal="tail='guard' for this split, or cache_write the reduction and shift the copy",
    )
