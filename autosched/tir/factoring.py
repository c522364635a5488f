"""`rfactor` of blocks: the block of partial results has the loops of the one that was factored, as TVM gives it.

    for i, k_0, k_1: C[i] += f(i, k_0, k_1)   --rfactor(k_1)->
        for i, k_0, k_1: C_rf[k_1, i] += f(i, k_0, k_1)
        for i, k_1: C[i] += C_rf[k_1, i]

`Schedule.rfactor` starts the loops of the new stage anew, an axis a loop. Calls that follow it in the trace make those
of the old one: splits and fusions of spatial axes, their marks, and the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.schedule.loop import Fuse, Split
from autosched.schedule.stage import Loop, Stage

Apply = Callable[..., Any]


def rfactor(apply: Apply, stage: Stage, loop: Loop, factor_axis: int) -> Stage:
    """Factor a reduction by `apply(primitive, stage, *arguments)`. Return the stage of the partial results."""
    order, relations = list(stage.loops), [r for r in stage.relations if not r.made[-1].is_reduce]
    roots = {axis: stage.roots[axis] for axis in stage.axis}
    made = apply("rfactor", stage, loop, factor_axis=factor_axis)
    new: Stage = stage.schedule.stage(made[0] if isinstance(made, (list, tuple)) else made)
    if stage.scatter_axes:
        return new
    at = factor_axis % (len(stage.axis) + 1)
    now: dict[Loop, Loop] = {loop: new.roots[new.axis[at]]}
    for old, axis in zip(roots.values(), [*new.axis[:at], *new.axis[at + 1 :]], strict=True):
        now[old] = new.roots[axis]
    others = [x for x in order if x.is_reduce and x is not loop]
    now.update(zip(others, (new.roots[axis] for axis in new.reduce_axis), strict=True))
    for r in relations:
        _again(apply, new, r, now)
    for old in order:
        if old.kind == "thread":
            apply("bind", new, now[old], old.thread)
        elif old.kind != "serial" and not old.is_reduce:
            apply(old.kind, new, now[old])
    _in_order(apply, new, [now[x] for x in order])
    total = next(x for x in stage.loops if x.is_reduce)
    _in_order(apply, stage, [total if x is loop else x for x in order if x not in others])
    return new


def _again(apply: Apply, stage: Stage, r: Split | Fuse, now: dict[Loop, Loop]) -> None:
    """Split or fuse as another stage did, whose loops are the keys of `now`."""
    if isinstance(r, Split):
        by: dict[str, Any] = {"factor": r.factor} if r.factor is not None else {"nparts": r.nparts}
        if r.tail == "exact":
            by["disable_predication"] = True
        elif r.tail == "predicate":  # partial results have no room for whole tiles, as outputs may
            by["tail"] = r.tail
        now[r.outer], now[r.inner] = apply("split", stage, now[r.parent], **by)
        return
    pair = [now[r.outer], now[r.inner]]
    _in_order(apply, stage, [*pair, *(x for x in stage.loops if x not in pair)])
    now[r.fused] = apply("fuse", stage, *pair)


def _in_order(apply: Apply, stage: Stage, order: list[Loop]) -> None:
    if stage.loops != order:
        apply("reorder", stage, *order)
