"""Several reductions as one, of tuples; one reduction in two passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.expr import (
    Expr,
    const,
    if_then_else,
    is_const,
    is_index,
    logical_or,
    make,
    minimum,
    var,
    variables,
)
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import post_order, substitute
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.kinds import computed, leaf, starts_anew
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.te.reduction import Combiner, Reduction
from autosched.te.tensor import ComputeOp, IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Loop, Stage


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


@primitive(K.LOOP, factor=K.NUMBER, of_schedule=True)
@keeps_meaning
def separate_reduction(s: Schedule, stage: Stage, reduce_loop: Any, factor: int = 0) -> Any:
    """Reduce along the other axes first, once for all results of a window that shares what comes out.

    for y: for x: for p: for q: B[y, x] += A[y + p, x + q]   --separate_reduction(B, q)->
        for y: for x: for p: B.first[y, x] += A[y + p, x]
        for y: for x: for q: B[y, x] += B.first[y, x + q]

    An axis alone is cut: every `factor`-th element is reduced first, and what is left over comes at the end.

    for x: for q in 101: B[x] += A[x + q]   --separate_reduction(B, q, factor=10)->
        for x: for q.outer in 10: B.first[x] += A[x + q.outer*10]
        for x: for q in 11: B[x] += B.first[x + q] if q < 10 else A[x + q + 90]

    That needs a spatial axis that the terms depend on as one sum alone: `x + q`, or a multiple of x. The loops of the
    stage start anew. The order of a sum changes, so floats may round differently; a combiner of one's own must be
    associative and commutative, which nothing checks. Returns the tensor of the first pass; of tuples a list.
    """
    computed(stage)
    last = _separated(s, stage, leaf(stage, reduce_loop), factor)
    found = separable(stage, last)
    if found is None:
        why = f"the terms of {stage.name} do not depend on {last.name} and a spatial axis as their sum alone"
        raise Illegal(why, "windows of known length: te.sum(a[y + p, x + q], axis=[p, q])")
    axis, step, terms = found
    points = int(last.extent.value)
    shared = IterVar(axis.name, _places(axis, factor or points, step), "spatial")
    kept = [a for a in stage.reduce_axis if a is not last]
    others = [IterVar(a.name, a.extent, "reduce", a.min) for a in kept]
    axes = [shared if a is axis else IterVar(a.name, a.extent, "spatial", a.min) for a in stage.axis]
    to = {a.var: b.var for a, b in zip((*stage.axis, *kept), (*axes, *others), strict=True)} | {last.var: shared.var}
    if factor:
        others = [IterVar(f"{last.name}.outer", const(points // factor), "reduce")]
        to[last.var] = shared.var + others[0].var * factor
    args = tuple(substitute(e, to) for e in terms)
    op = ComputeOp(
        f"{stage.op.name}.first",
        [a.extent for a in axes],
        axes,
        [make("reduce", e.dtype, args, e.value.over(others)) for e in stage.body],
    )
    first = s.insert_stage(op.output_tensor, before=stage)
    left = points % factor if factor else 0
    again = IterVar(last.name, const((factor or points) + left), "reduce")
    place = tuple(a.var * step + again.var if a is axis else a.var for a in stage.axis)
    sources: list[Expr] = [make("read", t.dtype, place, t) for t in op.outputs]
    condition = const(True)
    body = stage.body[0]
    if left:
        end = {last.var: last.min + again.var + (points - left - factor)}
        *rest, taken = (substitute(e, end) for e in body.args[: len(sources) + 1])
        is_first = again.var < factor
        sources = [if_then_else(is_first, x, y) for x, y in zip(sources, rest, strict=True)]
        condition = logical_or(is_first, taken)
    args = (*sources, condition, *body.value.parts(body.args)[2])
    stage.define(stage.axis, (again,), tuple(make("reduce", e.dtype, args, e.value.over([again])) for e in stage.body))
    return first.tensor if op.num_outputs == 1 else list(op.outputs)


def _separated(s: Schedule, stage: Stage, loop: Loop, factor: int) -> IterVar:
    """The reduce axis of the second pass. Raises Illegal where a stage cannot have two."""
    scans.forbid(stage, "separate_reduction")
    starts_anew(s, stage, "separate_reduction")
    if not loop.is_reduce or stage.scatter_axes or (len(stage.reduce_axis) < 2 and not factor):
        legal = "reductions along two axes or more, or along one with a factor"
        raise Illegal(f"{loop.full_name} is not one of several reduce loops", legal)
    if stage.init is not None or stage.relations:
        raise Illegal(f"loops of {stage.name} are cut already, and the loops start anew", "separate_reduction first")
    last = next(a for a in stage.reduce_axis if stage.roots[a] is loop)
    if factor and (
        len(stage.reduce_axis) > 1 or not is_const(last.extent) or not 2 <= factor <= int(last.extent.value) // 2
    ):
        why = f"{factor} does not cut {loop.full_name} into pieces"
        raise Illegal(why, "from 2 to half the length of an axis that is reduced alone")
    return last


def separable(stage: Stage, last: IterVar) -> tuple[IterVar, int, list[Expr]] | None:
    """The spatial axis of a reduction whose terms depend on `step * axis + last` alone, innermost ones first, with that
    step, and the terms and their condition in which `last` stands for this sum; None if there is none."""
    body = stage.body[0]
    sources, condition, _ = body.value.parts(body.args)
    terms = [*sources, condition]
    if not is_const(last.extent):
        return None
    for axis in (a for a in reversed(stage.axis) if is_const(a.min, 0)):
        steps = dict.fromkeys(_step_of(e, axis.var, last.var) for e in post_order(terms) if is_index(e))
        for step in steps:
            if step is None or not 0 < step <= int(last.extent.value):
                continue
            moved = [simplify(substitute(e, {last.var: last.min + last.var - axis.var * step})) for e in terms]
            if not any(axis.var in variables(e) for e in moved):
                return axis, step, moved
    return None


def _step_of(e: Expr, v: Expr, of: Expr) -> int | None:
    """How many steps of `of` an affine expression moves when `v` goes on by one; None if it is none of both."""
    if not {v, of} <= variables(e):
        return None
    an = Analyzer()
    found = [an.poly(e).affine_in(x) for x in (v, of)]
    (a, b) = (None if f is None else f[0] for f in found)
    return a // b if a and b and a % b == 0 else None


def _places(axis: IterVar, points: int, step: int) -> Expr:
    """How many places there are from the first to the last `step * axis + q`, for so many q; none where the axis is
    empty, for nothing may be read then."""
    if is_const(axis.extent):
        return simplify((axis.extent - 1) * step + points) if int(axis.extent.value) else const(0)
    return simplify(axis.extent * step + minimum(axis.extent, 1) * (points - step))
