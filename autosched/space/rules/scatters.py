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

from autosched.schedule.stage import Stage
from autosched.space.rules import look
from autosched.space.rules.loops import fuse_all, lanes_knob, partial_results, reduce_loops
from autosched.space.rules.plan import Plan, rule
from autosched.space.rules.sums import may_be_cut
from autosched.te.tensor import ComputeOp

__all__ = ["private_copies"]

#: Bands that the elements are cut into, and neighbours that are counted apart.
BANDS, NEIGHBOURS = (2, 4, 8, 16, 32), (1, 2, 4, 8)


def _has_room(plan: Plan, stage: Stage) -> bool:
    """Whether the combiner takes any order, and copies for neighbours stay in a second-level cache."""
    if not isinstance(stage.op, ComputeOp) or not stage.scatter_axes or plan.s.scans.part(stage):
        return False
    most = plan.machine.l2 // (stage.tensor.dtype.bytes * NEIGHBOURS[-1])
    return may_be_cut(stage) and len(stage.op.outputs) == 1 and look.has_fewer(stage.axis, most + 1)


@rule(when=_has_room)
def private_copies(plan: Plan, stage: Stage) -> None:
    """Tasks have copies of the results of their own, and so do a few neighbours in each; then all are combined.

    for k: C[at(k)] += 1   ->   parallel for b: for k.o: unroll n: P[b, n, at(k.o*4 + n)] += 1;  C = the sum of P
    """
    band, _ = stage.split(reduce_loops(stage)[0], nparts=plan.knob(stage, "bands", BANDS))
    bands = partial_results(plan, stage, band, "private_copies")
    row = fuse_all(bands, reduce_loops(bands)[1:] or reduce_loops(bands))
    _, neighbour = bands.split(row, factor=plan.knob(stage, "neighbours", NEIGHBOURS))
    single = partial_results(plan, bands, neighbour, "private_copies")
    bands.parallel(bands.roots[bands.axis[0]])
    single.compute_at(bands, bands.roots[bands.axis[0]])
    single.reorder(*reduce_loops(single), single.roots[single.axis[0]])
    single.unroll(single.roots[single.axis[0]])
    for sums in (bands, stage):
        *_, place, total = sums.loops
        _, lane = sums.split(place, factor=lanes_knob(plan, stage, look.length(sums.axis[-1])))
        sums.reorder(total, lane)
        sums.vectorize(lane)
