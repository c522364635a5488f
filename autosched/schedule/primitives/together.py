"""Several stages as one, of tuples; one reduction in two passes, or as an expression."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.expr import Expr, const, if_then_else, is_const, is_index, logical_or, make, minimum, var, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import post_order, rewrite, substitute
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
    op = ComputeOp(f"{stage.name}.all", [a.extent for a in axes], axes, body)
    s.insert_stage(op.output_tensor, first)
    for x, t in zip(parts, op.outputs, strict=True):
        x.define(x.axis, (), (make("read", t.dtype, tuple(a.var for a in x.axis), t),))
    return list(op.outputs)


@primitive(K.STAGES, of_schedule=True)
@keeps_meaning
def compute_together(s: Schedule, stage: Stage, others: Sequence[Any]) -> list[Tensor]:
    """Compute several tensors over the same elements as the results of one stage: what they share is computed once.

    for i: B[i] = f(A[i])        for i: B[i], C[i] = f(A[i]), g(A[i])
    for i: C[i] = g(A[i])   ->

    None may depend on another. The new stage takes their place; its loops are those of the axes. Outputs stay outputs.
    Returns the tensors of the new stage, in this order.
    """
    parts = [stage, *(s.stage(x) for x in others)]
    if len(set(parts)) < max(2, len(parts)):
        raise Illegal("there is nothing to compute together", "two or more stages, each one once")
    for x in parts:
        _may_compute_together(s, parts, x)
    axes = [IterVar(a.name, a.extent, "spatial", a.min) for a in stage.axis]
    body = [substitute(x.body[0], {a.var: b.var for a, b in zip(x.axis, axes, strict=True)}) for x in parts]
    op = ComputeOp(f"{stage.name}.all", stage.tensor.shape, axes, body)
    made = s.insert_stage(op.output_tensor, max(parts, key=s.stages.index))
    later = {y for x in parts for y in s.consumers(x, deep=True)}
    before, after = s.stages[: s.stages.index(made)], s.stages[s.stages.index(made) :]
    s.stages[:] = [*(y for y in before if y not in later), made, *(y for y in before if y in later), *after[1:]]
    s.version += 1
    new = dict(zip((x.tensor for x in parts), op.outputs, strict=True))
    declared = {s.passed(t): t for t in (*new, *s.laid_out)}
    for x in parts:
        new[x.tensor].name = x.name
        made.is_output |= x.is_output
        s.laid_out[declared[x.tensor]] = new[x.tensor]
        s.stages.remove(x)
    s._by_name.update(dict.fromkeys((x.name for x in parts), made))
    s._stage_of.update({t: made for t, x in s._stage_of.items() if x in parts})
    s.version += 1
    for user in (x for x in s.stages if not new.keys().isdisjoint(x.reads_of_body())):
        user.body = tuple(rewrite(e, lambda e, at: _read_of(new, e, at)) for e in user.body)
    return list(op.outputs)


def _read_of(new: Mapping[Tensor, Tensor], e: Expr, at: tuple[Expr, ...]) -> Expr | None:
    """A read of the tensor that stands for the one that `e` reads, if there is one."""
    return make("read", e.dtype, at, new[e.value]) if e.op == "read" and e.value in new else None


def _may_compute_together(s: Schedule, parts: Sequence[Stage], x: Stage) -> None:
    """Raise Illegal where `x` does not run over the elements of the first of the parts, or depends on one."""
    computed(x)
    scans.forbid(x, "compute_together")
    starts_anew(s, x, "compute_together")
    if not x.is_injective or len(x.body) > 1:
        legal = "stages of one result each without a reduction; reduce_together for reductions"
        raise Illegal(f"{x.name} is not computed element by element", legal)
    moved = x.attach.kind != "root" or x.scope_given or x.shares is not None
    if moved or x.relations or x.fetches or x.alignments or x.store_predicate is not None or x.special_cases:
        why = f"{x.name} is part of a scan, or its loops are cut, moved or marked already, and the loops start anew"
        raise Illegal(why, "compute_together first, of stages outside scans")
    axes = parts[0].axis
    if len(x.axis) != len(axes) or any(
        a.extent is not b.extent or a.min is not b.min for a, b in zip(x.axis, axes, strict=True)
    ):
        raise Illegal(f"{x.name} and {parts[0].name} have different elements", "axes of the same lengths, in order")
    needed = next((y for y in parts if s.depends_on(x, y)), None)
    if needed is not None:
        raise Illegal(f"{x.name} needs {needed.name}", "stages that do not depend on each other")


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
        f"{stage.name}.first",
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


#: Terms that `inline_reduction` writes out, at most; of a combiner of one's own, each may choose between all before it.
MAX_TERMS, MAX_TUPLES = 256, 4


@primitive(nested=K.FLAG)
@keeps_meaning
def inline_reduction(s: Schedule, stage: Stage, nested: bool = False) -> Stage:
    """Write a short reduction out as one expression: the stage has no reduce loops any more, and may be inlined.

    for i: for k in 3: B[i] += A[i + k]   ->   for i: B[i] = A[i] + A[i + 1] + A[i + 2]

    The stage's loops start anew. The terms come in the order of the reduce axes, the last of them fastest. With
    `nested`, those of each row are combined first, then the rows: rows of results that are written out together share
    them. A window's rows are along the axis of the innermost results. The order of a sum changes with it, so floats may
    round differently.

    for p in 2: for q in 2: B[i, j] += A[i + p, j + q]   ->   B[i, j] = (A[i, j] + A[i, j + 1]) + (A[i + 1, j] + ..)

    Of a sum of negative zeros the sign is open: 0.0 + -0.0 is 0.0, and nothing begins at 0.0 here.
    """
    computed(stage)
    starts_anew(s, stage, "inline_reduction")
    if not stage.reduce_axis or stage.scatter_axes:
        raise Illegal(f"{stage.name} is no reduction of one place's terms", "stages with a reduce axis, no scatter")
    if stage.init is not None or stage.relations:
        raise Illegal(f"loops of {stage.name} are cut already, and the loops start anew", "inline_reduction first")
    if nested and not isinstance(stage.body[0].value.combiner, str):
        raise Illegal(f"{stage.name} is combined in an order of its own", "nested sums, products, minima and maxima")
    lengths = [int(a.extent.value) for a in stage.reduce_axis if is_const(a.extent)]
    most = MAX_TERMS if isinstance(stage.body[0].value.combiner, str) else MAX_TUPLES
    if len(lengths) < len(stage.reduce_axis) or math.prod(lengths) > most:
        said = " x ".join(repr(a.extent) for a in stage.reduce_axis)
        raise Illegal(f"{stage.name} combines {said} terms", f"at most {most}, a number that is known")
    stage.define(stage.axis, (), _terms_combined(stage, nested))
    return stage


def _terms_combined(stage: Stage, nested: bool) -> tuple[Expr, ...]:
    """The expressions of a reduction's results without its reduce axes."""
    body = stage.body[0]
    reduction: Reduction = body.value
    sources, _, begin = reduction.parts(body.args)
    identity = reduction.identity([e.dtype for e in sources])
    start: tuple[Expr, ...] | None = begin or (identity if isinstance(reduction.combiner, Combiner) else None)

    def term(at: dict[Expr, Expr]) -> tuple[Expr, ...]:
        terms, taken, _ = reduction.parts(tuple(simplify(substitute(e, at)) for e in body.args))
        if is_const(taken, True):
            return terms
        return tuple(if_then_else(taken, e, i) for e, i in zip(terms, identity, strict=True))

    def combined(
        axes: Sequence[IterVar], at: dict[Expr, Expr], total: tuple[Expr, ...] | None = None
    ) -> tuple[Expr, ...]:
        together, inner = (axes[:1], axes[1:]) if nested else (axes, ())
        for steps in itertools.product(*(range(int(a.extent.value)) for a in together)):
            there = at | {a.var: a.min + k for a, k in zip(together, steps, strict=True)}
            terms = combined(inner, there) if inner else term(there)
            total = terms if total is None else reduction.combine(total, terms)
        return identity if total is None else total

    total = combined(_rows_last(stage) if nested else stage.reduce_axis, {}, start)
    return tuple(total[e.value.value_index] for e in stage.body)


def _rows_last(stage: Stage) -> list[IterVar]:
    """The reduce axes in the order of the spatial axes that they are added to, as in `y + dy`."""

    def place(a: IterVar) -> int:
        found = separable(stage, a)
        return len(stage.axis) if found is None else stage.axis.index(found[0])

    return sorted(stage.reduce_axis, key=place)
