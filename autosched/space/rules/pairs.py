"""Sums over pairs: every result goes over all partners, and what it adds up is computed of the two.

sums_of_pairs           for i: for j: P[i, j] = f(X[i], Y[j])      parallel for i.o:
                        for i: for j: for d in 3:             ->     for j: unroll d:
                          F[i, d] += P[i, j] * g(j, d)                 T[d, 0:16] += f(X[i.o*16 : +16], Y[j]) * g(j, d)
                                                                     F[i.o*16 : +16, d] = T[d]

Nothing is loaded from memory that a tile could keep: vectors of results meet one partner after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.ir.expr import Expr, is_const, variables
from autosched.ir.simplify import simplify
from autosched.ir.visit import substitute
from autosched.schedule.stage import Stage
from autosched.space import analysis
from autosched.space.analysis import Access, long_lanes
from autosched.space.rules.engine import Plan, fuse_all, rule
from autosched.space.rules.inline import ROOT, common_places, is_made_once
from autosched.te.tensor import IterVar

#: Results along an axis, and partners of each, at least.
FEW = 16
#: Operations of a pair, at most: they are written out for each of a few results.
MOST_WORK = 512


@dataclass(frozen=True)
class _Pairs:
    """`axis` is that of results which meet their partners in vectors; `stages` are computed of two, readers first.
    Those in `kept` are read by a reduction of tuples, each part of which would compute them again; their axis is the
    one that goes along with the results. `reads` is what all these are made of."""

    axis: IterVar
    stages: tuple[Stage, ...]
    kept: dict[Stage, IterVar]
    reads: tuple[Access, ...]


def _pairs(stage: Stage) -> _Pairs | None:
    """What a reduction adds up, if each read is of the one or of the other, once stages of pairs are inlined."""
    if analysis.is_opaque(stage) or analysis.has_fewer(stage.reduce_axis, FEW):
        return None
    axis = next((a for a in reversed(stage.axis) if not analysis.has_fewer([a], FEW)), None)
    if axis is None or not analysis.has_fewer(stage.axis[stage.axis.index(axis) + 1 :], analysis.MOST_CHANNELS + 1):
        return None
    partners = frozenset(a.var for a in stage.reduce_axis)
    found, stages = _computed_of_pairs(stage, axis.var, partners)
    own = any(a.mentions(axis) for a in found)
    if not own or any(a.mentions(axis) and any(variables(i) & partners for i in a.indices) for a in found):
        return None
    group = {stage, *stages}
    if any(reader not in group for x in stages for reader in analysis.readers(x)):
        return None
    short = analysis.iterations(stage.axis[stage.axis.index(axis) + 1 :])
    if short * (analysis.work(stage) + sum(analysis.work(x) for x in stages)) > MOST_WORK:
        return None
    direct = analysis.accesses(stage) if len(stage.body) > 1 else []
    kept = {
        source: source.axis[d]
        for a in direct
        if (d := a.dimension(axis)) is not None and (source := stage.schedule.stage(a.tensor)) in group
    }
    if any(stage.schedule.stage(a.tensor) not in kept for a in direct):
        return None
    return _Pairs(axis, tuple(stages), kept, tuple(found))


def _computed_of_pairs(stage: Stage, own: Expr, partners: frozenset[Expr]) -> tuple[list[Access], list[Stage]]:
    """The reads of a stage, and the stages in between that hold an element for each pair, readers first."""
    found: list[Access] = []
    stages: dict[Stage, None] = {}
    waiting = list(analysis.accesses(stage))
    seen = set(waiting)
    while waiting:
        a = waiting.pop()
        source, used = stage.schedule.stage(a.tensor), frozenset().union(*map(variables, a.indices))
        if not (own in used and used & partners and _holds_pairs(source, a)):
            found.append(a)
            continue
        stages.pop(source, None)  # after all its readers
        stages[source] = None
        at = {x.var: i for x, i in zip(source.axis, a.indices, strict=True)}
        for b in analysis.accesses(source):
            read = Access(b.tensor, tuple(simplify(substitute(i, at)) for i in b.indices))
            if read not in seen:
                seen.add(read)
                waiting.append(read)
    return found, sorted(stages, key=stage.schedule.stages.index, reverse=True)


def _holds_pairs(source: Stage, a: Access) -> bool:
    """Whether it may be computed where it is read: at the very pair, and no element twice."""
    if source.is_placeholder or source.is_output or not source.is_injective or analysis.is_opaque(source):
        return False
    return all(is_const(i) or i.op == "var" for i in a.indices)


@rule(when=lambda plan, stage: bool(stage.reduce_axis) and _pairs(stage) is not None)
def sums_of_pairs(plan: Plan, stage: Stage) -> None:
    """Vectors of results meet one partner after the other; what is computed of the two is computed there.

    for i: for j: F[i] += f(X[i], Y[j])   ->   parallel for i.o: for j: T[0:16] += f(X[i.o*16 : +16], Y[j]);  F[..] = T
    """
    found = _pairs(stage)
    assert found is not None
    for x in found.stages:
        plan.done[x] = "sums_of_pairs"
        if x not in found.kept:
            x.compute_inline()
    host, at = plan.hosts.get(stage), stage.axis.index(found.axis)
    if host is None:
        made = plan.s.cache_write(list(stage.op.outputs), "local")
        host, sums = stage, plan.s[made[0]]
        plan.done[sums] = "cache_write"
    else:
        sums = stage
        sums.set_scope("local")
    types = sorted({stage.tensor.dtype, *(a.tensor.dtype for a in found.reads)}, key=str)
    lanes = plan.knob(stage, "lanes", long_lanes(plan.machine, types, analysis.length(found.axis)))
    *outer, results = (host.roots[a] for a in host.axis[: at + 1])
    short = [host.roots[a] for a in host.axis[at + 1 :]]
    block, lane = host.split(results, factor=lanes)
    host.reorder(*outer, block, *short, lane)
    for loop in short:
        host.unroll(loop)
    host.vectorize(lane)
    places = [] if host.is_output else [p for p in common_places(plan, host) if is_made_once(host, p)]
    way = plan.choose(stage, "at", [*(p.name for p in reversed(places)), ROOT])
    if way == ROOT:
        task = fuse_all(host, [*outer, block])
        host.parallel(task)
    else:
        place, task = next(p for p in places if p.name == way), block
        host.compute_at(place.stage, place.loop)
    sums.compute_at(host, task)
    inside = sums.spatial_loops
    written, lane = inside[at + 1 :], inside[at]
    sums.reorder(*inside[:at], *sums.reduce_loops, *written, lane)
    for loop in written:
        sums.unroll(loop)
    sums.vectorize(lane)
    for x, own in found.kept.items():
        x.set_scope("local")
        x.compute_at(sums, sums.reduce_loops[-1])
        x.vectorize(x.roots[own])
    if way == ROOT:
        plan.offer(host, task=task)
