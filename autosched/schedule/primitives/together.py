"""Several reductions as one, of tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.expr import make, var
from autosched.ir.visit import substitute
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.kinds import computed, starts_anew
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.te.reduction import Combiner, Reduction
from autosched.te.tensor import ComputeOp, IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


@primitive(K.STAGES, of_schedule=True)
@keeps_meaning
def reduce_together(s: Schedule, stage: Stage, others: Sequence[Any]) -> list[Tensor]:
    """Compute several reductions over the same points in one pass, as one reduction of tuples.

    for k: A = min(A, X[k])        for k: A.all.v0, A.all.v1 = min(A.all.v0, X[k]), A.all.v1 + X[k]
    for k: B = B + X[k]       ->   A = A.all.v0
                                   B = A.all.v1

    The loops of all start anew; their tensors become copies. None may depend on another, nor begin with values of its
    own. Returns the tensors of the new stage, in this order.
    """
    parts = [stage, *(s.stage(x) for x in others)]
    if len(set(parts)) < max(2, len(parts)):
        raise Illegal("there is nothing to compute together", "two or more reductions, each one once")
    first = min(parts, key=s.stages.index)
    for x in parts:
        _may_reduce_together(s, stage, x, first)
    axes = [IterVar(a.name, a.extent, "spatial", a.min) for a in stage.axis]
    over = [IterVar(a.name, a.extent, "reduce", a.min) for a in stage.reduce_axis]
    sources, conditions = [], set()
    for x in parts:
        to = {a.var: b.var for a, b in zip((*x.axis, *x.reduce_axis), (*axes, *over), strict=True)}
        source, condition = (substitute(e, to) for e in x.body[0].args)
        sources.append(source)
        conditions.add(condition)
    if len(conditions) > 1:
        raise Illegal("they leave out different points", "reductions with the same `where`")
    types = [e.dtype for e in sources]
    left, right = ([var(f"{side}{i}", t, "let") for i, t in enumerate(types)] for side in "xy")
    reductions = [x.body[0].value for x in parts]
    result = tuple(r.combine((a,), (b,))[0] for r, a, b in zip(reductions, left, right, strict=True))
    identity = tuple(r.identity((t,))[0] for r, t in zip(reductions, types, strict=True))
    combiner = Combiner("together", tuple(left), tuple(right), result, identity)
    body = [
        make("reduce", t, (*sources, *conditions), Reduction(combiner, tuple(over), i)) for i, t in enumerate(types)
    ]
    op = ComputeOp(f"{stage.op.name}.all", [a.extent for a in axes], axes, body)
    s.insert_stage(op.output_tensor, first)
    for x, t in zip(parts, op.outputs, strict=True):
        x.define(x.axis, (), (make("read", t.dtype, tuple(a.var for a in x.axis), t),))
    return list(op.outputs)


def _may_reduce_together(s: Schedule, stage: Stage, x: Stage, first: Stage) -> None:
    """Raise Illegal where `x` is no reduction over the points of `stage`, or needs what is computed after `first`."""
    computed(x)
    scans.forbid(x, "reduce_together")
    starts_anew(s, x, "reduce_together")
    if not x.reduce_axis or x.scatter_axes or len(x.body) > 1 or x.body[0].value.size > 1 or x.first_values:
        legal = "sums, products, minima and maxima of single values, without init="
        raise Illegal(f"{x.name} is no plain reduction", legal)
    if x.init is not None or x.relations or x.attach.kind != "root":
        raise Illegal(f"loops of {x.name} are cut or moved already, and the loops start anew", "reduce_together first")
    pairs = [list(zip(a, b, strict=False)) for a, b in ((stage.axis, x.axis), (stage.reduce_axis, x.reduce_axis))]
    same = all(a.extent is b.extent and a.min is b.min for found in pairs for a, b in found)
    if not same or len(stage.axis) != len(x.axis) or len(stage.reduce_axis) != len(x.reduce_axis):
        raise Illegal(f"{x.name} and {stage.name} run over different points", "axes of the same lengths, in order")
    late = next((y for y in s.reads(x) if s.stages.index(y) >= s.stages.index(first)), None)
    if late is not None:
        why = f"{x.name} reads {late.name}, which is computed after {first.name}"
        raise Illegal(why, "reductions of what is computed before the first of them")
