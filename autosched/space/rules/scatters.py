"""Rules for scatters: results that the data place, such as the counts of a histogram.

private_copies          for k: C[at(k)] += 1   ->   parallel for b:                     a band of k
                                                      for k.o: unroll n:                neighbours
                                                        P[b, n, at(k.o*4 + n)] += 1
                                                      Q[b, 0:256] = P[b, 0, ..] + P[b, 1, ..] + ...
                                                    C[0:256] = Q[0, ..] + Q[1, ..] + ...

Threads count apart, and so do neighbours: where they are alike, adding to one element would wait until
what was added before has come back from memory.
"""

from __future__ import annotations

from typing import Any

from autosched.schedule.stage import Stage
from autosched.space.rules import look
from autosched.space.rules.plan import Plan, rule
from autosched.space.rules.sums import may_be_cut
from autosched.space.rules.values import long_lanes
from autosched.te.tensor import ComputeOp

__all__ = ["private_copies"]

#: Bands that the elements are cut into, and neighbours that are counted apart.
BANDS, NEIGHBOURS = (2, 4, 8, 16, 32), (1, 2, 4, 8)


def _has_room(plan: Plan, stage: Stage) -> bool:
    """Whether the combiner takes any order, and copies for neighbours stay in a second-level cache."""
    if not isinstance(stage.op, ComputeOp) or not stage.scatter_axes or plan.s.scans.part(stage):
        return False
    size = stage.tensor.dtype.bytes * NEIGHBOURS[-1]
    for a in stage.axis:
        size *= look.length(a) or plan.machine.l2 + 1
    return may_be_cut(stage) and len(stage.op.outputs) == 1 and size <= plan.machine.l2


@rule(when=_has_room)
def private_copies(plan: Plan, stage: Stage) -> None:
    """Bands of elements in parallel, each with results of its own, and so for neighbours; then all are combined.

    for k: C[at(k)] += 1   ->   parallel for b: for k.o: unroll n: P[b, n, at(k.o*4 + n)] += 1;  C = the sum of P
    """
    s = plan.s
    band, _ = stage.split(_reduce(stage)[0], nparts=plan.knob(stage, "bands", BANDS))
    bands = s[_single(s.rfactor(stage.tensor, band))]
    _, *rest = _reduce(bands) if len(_reduce(bands)) > 1 else (None, *_reduce(bands))
    row = bands.fuse(*rest) if len(rest) > 1 else rest[0]
    _, neighbour = bands.split(row, factor=plan.knob(stage, "neighbours", NEIGHBOURS))
    single = s[_single(s.rfactor(bands.tensor, neighbour))]
    plan.done[bands] = plan.done[single] = "private_copies"
    bands.parallel(bands.roots[bands.axis[0]])
    single.compute_at(bands, bands.roots[bands.axis[0]])
    single.reorder(*_reduce(single), single.roots[single.axis[0]])
    single.unroll(single.roots[single.axis[0]])
    for sums in (bands, stage):
        *_, place, total = sums.loops
        n = look.length(sums.axis[-1])
        _, lane = sums.split(place, factor=plan.knob(stage, "lanes", long_lanes(plan.machine, [sums.tensor.dtype], n)))
        sums.reorder(total, lane)
        sums.vectorize(lane)


def _reduce(stage: Stage) -> list[Any]:
    return [x for x in stage.loops if x.is_reduce]


def _single(made: Any) -> Any:
    """The one tensor that was made."""
    return made[0] if isinstance(made, (list, tuple)) else made
