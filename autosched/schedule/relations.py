"""What splits and fusions mean: extents of loops, values of axes, and the conditions between.

Walking the relations forwards gives extents (from axes to leaves), walking them backwards gives
values (from leaves to axes). Both are expressions, so factors and sizes may be symbolic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.ir.expr import Expr, ceildiv, compare, floordiv, floormod, is_const, likely, maximum, minimum
from autosched.ir.simplify import Analyzer, simplify
from autosched.schedule.loop import Fuse, Loop, Split
from autosched.te.tensor import IterVar

if TYPE_CHECKING:
    from autosched.schedule.stage import Stage


def loop_extents(
    stage: Stage, of_axis: dict[IterVar, Expr] | None = None, using: Analyzer | None = None
) -> dict[Loop, Expr]:
    """The extent of every loop, dead ones included, given the extents of the axes."""
    reduce = using.simplify if using is not None else simplify
    extents = {loop: reduce((of_axis or {}).get(a, a.extent)) for a, loop in stage.roots.items()}
    for r in stage.relations:
        match r:
            case Split():
                factor = split_factor(r, extents, reduce)
                extents[r.inner] = factor
                extents[r.outer] = r.nparts if r.nparts is not None else reduce(ceildiv(extents[r.parent], factor))
            case Fuse():
                extents[r.fused] = reduce(extents[r.outer] * extents[r.inner])
    return extents


def split_factor(r: Split, extents: dict[Loop, Expr], reduce: Callable[[Expr], Expr] = simplify) -> Expr:
    """The inner extent of a split."""
    if r.factor is not None:
        return r.factor
    assert r.nparts is not None
    return reduce(ceildiv(extents[r.parent], r.nparts))


def covered_extents(stage: Stage, extents: dict[Loop, Expr], using: Analyzer | None = None) -> dict[Loop, Expr]:
    """How many values each loop that is padded by `round_up` takes, itself or a part of it."""
    reduce = using.simplify if using is not None else simplify
    covered: dict[Loop, Expr] = {}
    for r in reversed(stage.relations):
        if isinstance(r, Split) and (r.tail == "round_up" or (r.tail == "exact" and r.outer in covered)):
            covered[r.parent] = reduce(covered.get(r.outer, extents[r.outer]) * split_factor(r, extents))
    return {loop: e for loop, e in covered.items() if e is not extents[loop]}


def leaf_extents(stage: Stage) -> dict[Loop, Expr]:
    extents = loop_extents(stage)
    return {loop: extents[loop] for loop in stage.loops}


def values_of_leaves(stage: Stage, extents: dict[Loop, Expr], at: dict[Loop, Expr] | None = None) -> dict[Loop, Expr]:
    """The value of every loop as an expression over the leaves' variables (from 0)."""
    values: dict[Loop, Expr] = {loop: (at or {}).get(loop, loop.var) for loop in stage.loops}
    for r in reversed(stage.relations):
        match r:
            case Split():
                values[r.parent] = split_value(r, extents, values)
            case Fuse():
                values[r.outer], values[r.inner] = fuse_values(r, extents, values)
    return values


def split_value(r: Split, extents: dict[Loop, Expr], values: dict[Loop, Expr]) -> Expr:
    """The parent's value from those of the two loops that a split made of it."""
    factor = split_factor(r, extents)
    base = values[r.outer] * factor
    if r.tail == "shift_inwards":
        base = maximum(minimum(base, extents[r.parent] - factor), 0)
    return base + values[r.inner]


def fuse_values(r: Fuse, extents: dict[Loop, Expr], values: dict[Loop, Expr]) -> tuple[Expr, Expr]:
    """The parents' values from that of the fused loop."""
    if is_const(extents[r.inner], 1):
        return values[r.fused], values[r.fused] * 0
    return floordiv(values[r.fused], extents[r.inner]), floormod(values[r.fused], extents[r.inner])


def leaf_positions(stage: Stage) -> dict[Loop, Expr]:
    """The inverse: the value of each leaf at a point of the domain, over the axes' variables."""
    extents = loop_extents(stage)
    at: dict[Loop, Expr] = {loop: simplify(a.var - a.min) for a, loop in stage.roots.items()}
    for r in stage.relations:
        match r:
            case Split():
                factor = split_factor(r, extents)
                at[r.outer], at[r.inner] = floordiv(at[r.parent], factor), floormod(at[r.parent], factor)
            case Fuse():
                at[r.fused] = at[r.outer] * extents[r.inner] + at[r.inner]
    return at


def axis_values(stage: Stage) -> dict[IterVar, Expr]:
    """The value of each axis over the leaves, when the whole domain is computed."""
    values = values_of_leaves(stage, loop_extents(stage))
    return {a: a.min + values[loop] for a, loop in stage.roots.items()}


def leaf_predicates(stage: Stage, of_axis: dict[IterVar, Expr] | None = None) -> list[Expr]:
    """The conditions under which leaves name a point of the domain: one for each ragged split."""
    return [likely(c) for c in ragged(stage, loop_extents(stage, of_axis))]


def ragged(stage: Stage, extents: dict[Loop, Expr]) -> list[Expr]:
    """The conditions that splits leave behind, other than those whose factor is known to divide."""
    values, covered = values_of_leaves(stage, extents), covered_extents(stage, extents)
    found = []
    for r in stage.relations:
        if not isinstance(r, Split) or r.tail in ("round_up", "exact"):
            continue
        reached = simplify(covered.get(r.outer, extents[r.outer]) * split_factor(r, extents))
        if reached is not extents[r.parent]:
            found.append(compare("lt", values[r.parent], extents[r.parent]))
    return found
