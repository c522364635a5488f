"""Primitives that add stages, caches and factored reductions; and `decompose_reduction`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal, ScheduleError
from autosched.ir.dtype import BFLOAT16, INT32, DType
from autosched.ir.expr import (
    Expr,
    compare,
    const,
    floormod,
    if_then_else,
    is_const,
    is_index,
    logical_and,
    make,
    variables,
)
from autosched.ir.expr import cast as cast_to
from autosched.ir.node import order
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import conjuncts, contains, post_order, reads, rewrite, substitute
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.kinds import computed, leaf, scope_of, starts_anew
from autosched.schedule.loop import (
    Attach,
    Loop,
    Split,
    axis_values,
    leaf_extents,
    leaf_positions,
    leaf_predicates,
    loop_extents,
)
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.schedule.primitives.loops import GUARDED
from autosched.schedule.primitives.together import inline_reduction
from autosched.te.reduction import Reduction
from autosched.te.tensor import ComputeOp, IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


# -- caches ---------------------------------------------------------------------------------------
@primitive(K.NAME, keep_loops=K.FLAG, of_schedule=True)
@keeps_meaning
def cache_write(s: Schedule, stage: Stage, scope: str = "global", keep_loops: bool = False) -> Any:
    """Compute into a cache; the tensor becomes a copy of it.

    for i: for j: B[i, j] = f(i, j)   ->   for j.c: for i.c: B.local[j.c, i.c] = f(i.c, j.c)
                                           for i: for j:     B[i, j] = B.local[j, i]

    The cache's layout is the current order of the stage's loops (here after `reorder(j, i)`), so that layout and order
    of computation are independent. With `keep_loops` the cache has the layout of the tensor and takes over the loops
    with their marks, and the copy's loops are plain, as in `tir.Schedule.cache_write`. Returns the cache's tensor; of
    several outputs that are computed together, all are cached, and a list is returned.
    """
    computed(stage)
    if stage.scan_loop is not None:
        scans.forbid(stage, "cache_write")
    if stage.scatter_axes:
        raise Illegal(
            f"{stage.name} is a scatter: its values belong to places that are known one by one",
            f"rfactor {stage.name}, or cache_read it",
        )
    scope = scope_of(scope)
    if keep_loops:
        return _cache_keeping_loops(s, stage, scope)
    _may_start_anew(s, stage)
    spatial = stage.spatial_loops
    extents, values, guards = leaf_extents(stage), axis_values(stage), leaf_predicates(stage)
    if s.scans.part(stage) == "init":  # a scan may be shorter than its first values, which may not exist then
        first, times = stage.axis[0], s.scans.storage[stage.tensor].shape[0]
        if not Analyzer().prove(compare("le", first.extent, times)):
            guards.append(compare("lt", values[first], times))
    axes = [IterVar(f"{loop.name}.c", extents[loop]) for loop in spatial]
    reduce_axes = [IterVar(f"{a.name}.c", a.extent, "reduce", a.min) for a in stage.reduce_axis]
    to_cache = {loop.var: a.var for loop, a in zip(spatial, axes, strict=True)}
    mapping = {a.var: substitute(values[a], to_cache) for a in stage.axis}
    mapping.update({a.var: c.var for a, c in zip(stage.reduce_axis, reduce_axes, strict=True)})
    body = [rebased(e, mapping, reduce_axes) for e in stage.body]
    if any(values[a].op != "var" for a in stage.axis):  # so that it shows which loops an index depends on
        body = [_with_short_indices(e) for e in body]
    for guard in guards:
        body = [guarded(e, substitute(guard, to_cache)) for e in body]
    op = ComputeOp(f"{stage.name}.{scope}", [a.extent for a in axes], axes, body)
    cache = s.insert_stage(op.output_tensor, stage, scope)
    cache.former = stage.former_of(dict(zip(stage.reduce_axis, reduce_axes, strict=True)))
    place = tuple(map(leaf_positions(stage).__getitem__, spatial))
    stage.define(stage.axis, (), tuple(make("read", t.dtype, place, t) for t in op.outputs))
    return cache.tensor if op.num_outputs == 1 else list(op.outputs)


def _with_short_indices(body: Expr) -> Expr:
    """W[(2*i.outer + i.inner)%2]   ->   W[i.inner]"""

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if is_index(e) or not any(map(is_index, args)):
            return None
        return make(e.op, e.dtype, tuple(simplify(a) if is_index(a) else a for a in args), e.value)

    return rewrite(body, change)


def _may_start_anew(s: Schedule, stage: Stage) -> None:
    """Raise Illegal where a cache, whose loops start anew, would lose what is known of the stage's loops."""
    starts_anew(s, stage, "cache_write")
    if stage.init is not None:
        why = f"{stage.name} is decomposed, and the loops start anew"
        raise Illegal(why, "cache_write first, or with keep_loops=True")
    if any(loop.is_reduce and loop.root is None for loop in stage.loops):
        legal = "cache_write first, then split the cache's reduce loops"
        raise Illegal(f"a reduce loop of {stage.name} is split already", legal)
    odd = next((r for r in stage.relations if isinstance(r, Split) and r.tail not in GUARDED), None)
    if odd is not None:
        what = "shift inwards" if odd.tail == "shift_inwards" else "go without its conditions"
        raise Illegal(f"a layout cannot {what}", "split with tail='guard' before cache_write")


def _cache_keeping_loops(s: Schedule, stage: Stage, scope: str) -> Any:
    scans.forbid(stage, "cache_write")
    again = {a: IterVar(a.name, a.extent, a.kind, a.min) for a in (*stage.axis, *stage.reduce_axis)}
    mapping = {a.var: b.var for a, b in again.items()}
    axes, reduce_axes = ([again[a] for a in of] for of in (stage.axis, stage.reduce_axis))
    body = tuple(rebased(e, mapping, reduce_axes) for e in stage.body)
    op = ComputeOp(f"{stage.name_of(stage.tensor)}.{scope}", [a.extent for a in axes], axes, body)
    cache = s.insert_stage(op.output_tensor, stage, scope)
    cache.attach = stage.attach
    cache.former = stage.former_of({a: again[a] for a in stage.reduce_axis})
    stage.move_loops(cache, again)
    for x in s.stages:
        for where in ("attach", "store"):
            at = getattr(x, where)
            if at.stage is stage:
                setattr(x, where, Attach(at.kind, cache, at.loop))
    indices = tuple(a.var for a in stage.axis)
    copies = tuple(make("read", t.dtype, indices, t) for t in op.outputs)
    stage.define(stage.axis, (), copies)
    return cache.tensor if op.num_outputs == 1 else list(op.outputs)


def rebased(body: Expr, mapping: dict[Expr, Expr], reduce_axes: Sequence[IterVar]) -> Expr:
    """A body with other expressions in place of its axes, its reduction over others."""
    if body.op != "reduce":
        return substitute(body, mapping)
    return make("reduce", body.dtype, tuple(substitute(a, mapping) for a in body.args), body.value.over(reduce_axes))


def guarded(body: Expr, condition: Expr) -> Expr:
    """The padding of a cache laid out in blocks holds zeros (for a reduction: its identity)."""
    if body.op == "reduce":
        reduction: Reduction = body.value
        sources, taken, inits = reduction.parts(body.args)
        identity = reduction.identity([e.dtype for e in sources])
        begin = [if_then_else(condition, e, i) for e, i in zip(inits, identity, strict=False)]
        return make("reduce", body.dtype, (*sources, logical_and(taken, condition), *begin), reduction)
    return if_then_else(condition, body, const(0, body.dtype))


@primitive(K.NAME, K.READERS, output=K.NUMBER, only=K.NUMBER, cast=K.FLAG, of_schedule=True)
@keeps_meaning
def cache_read(
    s: Schedule,
    stage: Stage,
    scope: str,
    readers: Sequence[Any],
    output: int = 0,
    only: int | None = None,
    cast: bool = False,
) -> Any:
    """Copy a tensor before some of its readers read it; they read the copy.

    B[i] = f(A[i])   ->   for ax0: A.shared[ax0] = A[ax0]
                          B[i] = f(A.shared[i])

    Returns the cache's tensor; put it with `compute_at` where the copy should happen. `output` says
    which one of several tensors that are computed together. Of a reader that reads the tensor at several places, as a
    product with its own transpose does, `only` one reads the copy, counted from 0 in the order of `ir.visit.reads`.
    With `cast` the copy has the type to which the readers cast what they read, B[i] = f(float32(A[i])), and they cast
    no more.
    """
    if isinstance(output, bool) or not isinstance(output, int) or not 0 <= output < stage.op.num_outputs:
        raise Illegal(f"{stage.name} has no output {output!r}", f"0 to {stage.op.num_outputs - 1}")
    tensor = stage.op.output(output)
    name = stage.name if stage.op.num_outputs == 1 else tensor.name
    scope = scope_of(scope)
    users = [s.stage(r) for r in readers]
    direct = s.readers(tensor)
    if not users:
        raise Illegal(f"nothing reads {name}", "cache_write keeps what a stage computes")
    for user in users:
        if user.scan_loop is not None:
            why = f"{user.name} does not read {stage.name}, which is stored with it"
            raise Illegal(why, "readers other than a scan")
        if user not in direct:
            legal = f"readers of {name}: {', '.join(x.name for x in direct) or 'none'}"
            raise Illegal(f"{user.name} does not read {name}", legal)
    found = list(dict.fromkeys(e for user in users for value in user.body for e in reads(value) if e.value is tensor))
    if only is not None and (len(users) > 1 or isinstance(only, bool) or only not in range(len(found))):
        legal = f"one reader, and 0 to {len(found) - 1}"
        raise Illegal(f"only={only!r} is none of the places at which {name} is read", legal)
    chosen = frozenset(found if only is None else [found[only]])
    to = type_of_casts([e for user in users for e in user.body], chosen) if cast else tensor.dtype
    if to is None:
        raise Illegal(f"{name} is not cast to one type wherever it is read", "cast=False")
    axes = [IterVar(f"ax{i}", d) for i, d in enumerate(tensor.shape)]
    body = cast_to(to, make("read", tensor.dtype, tuple(a.var for a in axes), tensor))
    op = ComputeOp(f"{s.stage(tensor).name_of(tensor)}.{scope}", tensor.shape, axes, (body,))
    cache = s.insert_stage(op.output_tensor, min(users, key=s.stages.index), scope)
    one = None if only is None else found[only]
    for user in users:
        if cast:
            user.body = tuple(_without_casts(e, chosen, cache.tensor) for e in user.body)
        else:
            user.body = tuple(retarget(e, tensor, cache.tensor, one) for e in user.body)
    return cache.tensor


def type_of_casts(bodies: Sequence[Expr], chosen: frozenset[Expr]) -> DType | None:
    """The type to which all of some reads are cast, if they are read for nothing else, and cast to one."""
    uses = {(e.op, e.dtype) for e in post_order(bodies) if any(a in chosen for a in e.args)}
    op, of = uses.pop() if len(uses) == 1 else ("", None)
    return of if op == "cast" and chosen.isdisjoint(bodies) else None


def _without_casts(body: Expr, chosen: frozenset[Expr], new: Tensor) -> Expr:
    """`body` reading `new`, which has the type of the casts, in place of casts of some reads."""

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return make("read", e.dtype, args[0].args, new) if e.op == "cast" and e.args[0] in chosen else None

    return rewrite(body, change)


def retarget(body: Expr, old: Tensor, new: Tensor, only: Expr | None = None) -> Expr:
    """`body` reading `new` wherever it read `old`, at the same indices; or in place of this one read alone."""

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        is_meant = e.op == "read" and e.value is old and (only is None or e is only)
        return make("read", e.dtype, args, new) if is_meant else None

    return rewrite(body, change)


# -- sums of products of bytes --------------------------------------------------------------------
@primitive(K.TENSOR, of_schedule=True)
@keeps_meaning
def offset_bytes(s: Schedule, stage: Stage, operand: Any) -> list[Tensor]:
    """Read one operand of a sum of products of 8-bit integers as bytes of the other sign, 128 more or less.

    for k: C[i, j] += int32(A[i, k]) * int32(B[k, j])   --offset_bytes(C, B), of signed ones->
        B.offset[k, j] = uint8(B[k, j]) ^ 128
        for k: C.offset[i] += int32(A[i, k]) * -128
        C[i, j] = C.offset[i]; for k: C[i, j] += int32(A[i, k]) * int32(B.offset[k, j])

    For instructions that multiply unsigned by signed bytes, such as x86's. The sum is the same, for it wraps in 32
    bits. Returns the tensors of the operand and of what the sum begins with; the latter has those axes only that
    the other operand has.
    """
    computed(stage)
    scans.forbid(stage, "offset_bytes")
    factors = factors_of_parts(stage, *BYTES)
    source = s.stage(operand)
    chosen = [e for e in factors if s.stage(e.value) is source]
    if len(chosen) != 1 or stage.init is not None or stage.intrinsic is not None:
        raise Illegal(
            f"{stage.name} is no sum of products of which one factor is {source.name}",
            "te.sum(a.astype('int32') * b.astype('int32')) of two tensors of int8 or uint8, without a condition or "
            "first values, before decompose_reduction and tensorize",
        )
    (read,), (other,) = chosen, [e for e in factors if e is not chosen[0]]
    turned = s.insert_stage(_of_other_sign(read.value), stage)
    begin, axes = _taken_off(stage, other, -128 if read.dtype.kind == "int" else 128)
    first = s.insert_stage(begin, stage)
    again = make("read", turned.tensor.dtype, read.args, turned.tensor)
    product, condition = stage.body[0].args
    product = rewrite(product, lambda e, args: again if e is read else None)
    init = make("read", INT32, axes, first.tensor)
    stage.body = (make("reduce", INT32, (product, condition, init), stage.body[0].value),)
    return [turned.tensor, first.tensor]


def _of_other_sign(t: Tensor) -> Tensor:
    """Signed bytes 128 higher, unsigned ones 128 lower."""
    axes = [IterVar(f"ax{i}", d) for i, d in enumerate(t.shape)]
    element = make("read", t.dtype, tuple(a.var for a in axes), t)
    turned = cast_to("uint8", element) ^ 128
    body = turned if t.dtype.kind == "int" else cast_to("int8", turned)
    return ComputeOp(f"{t.name}.offset", t.shape, axes, (body,)).output_tensor


def _taken_off(stage: Stage, factor: Expr, times: int) -> tuple[Tensor, tuple[Expr, ...]]:
    """The sums of one factor, so many times, and the axes of the stage that it depends on."""
    kept = [a for a in stage.axis if a.var in variables(factor)]
    axes = [IterVar(a.name, a.extent, "spatial", a.min) for a in kept]
    steps = [IterVar(a.name, a.extent, "reduce", a.min) for a in stage.reduce_axis]
    mapping = {a.var: b.var for a, b in zip((*kept, *stage.reduce_axis), (*axes, *steps), strict=True)}
    term = cast_to("int32", substitute(factor, mapping)) * const(times, "int32")
    body = make("reduce", INT32, (term, const(True)), stage.body[0].value.over(steps))
    op = ComputeOp(f"{stage.name}.offset", [a.extent for a in axes], axes, (body,))
    return op.output_tensor, tuple(a.var for a in kept)


#: types of which instructions add up four products
BYTES = ("int8", "uint8")


def factors_of_parts(stage: Stage, *types: str) -> tuple[Expr, ...]:
    """The two reads whose products a stage adds up, if that is all it does and instructions add neighbours up:
    8-bit integers as int32, or bfloat16 as float32. `types` are the only ones to look for."""
    body = stage.body[0]
    if body.op != "reduce" or body.value.combiner != "sum" or len(body.args) != 2:
        return ()
    product, condition = body.args
    of = {"int32": BYTES, "float32": (BFLOAT16,)}.get(body.dtype, ())
    factors = [e.args[0] for e in product.args if e.op == "cast"] if product.op == "mul" else []
    fits = all(e.op == "read" and e.dtype in of and e.dtype in (types or of) for e in factors)
    return tuple(factors) if len(factors) == 2 and fits and is_const(condition, True) else ()


# -- reductions -----------------------------------------------------------------------------------
@primitive(K.LOOP, factor_axis=K.NUMBER, of_schedule=True)
@keeps_meaning
def rfactor(s: Schedule, stage: Stage, reduce_loop: Any, factor_axis: int = 0) -> Any:
    """Factor a reduction: one partial result for each iteration of a reduce loop, then their reduction.

    for i: for k.outer: for k.inner: B[i] += f(i, k)   --rfactor(B, k.inner)->
        for k.inner: for i: for k.outer: B.rf[k.inner, i] += f(i, k)
        for i: for k.inner.v: B[i] += B.rf[k.inner.v, i]

    The loop becomes axis `factor_axis` (negative: counted from the end) of the new tensor, which is
    returned; where a split is ragged, its last elements are the combiner's identity. The loops of
    the new stage start anew, one reduce loop for each that was left, which goes by its old axis, too:
    those of other axes come before those of the same one. The spatial loops of the old stage stay as
    they are. The order of a sum changes, so floats may round differently; a combiner of one's own
    must be associative and commutative, which nothing checks. A reduction of tuples gives a list of
    tensors.
    """
    computed(stage)
    loop = leaf(stage, reduce_loop)
    others = _left_over(stage, loop)
    _factorable(s, stage, loop, others)
    rank = len(stage.axis) - len(stage.scatter_axes)  # the new axis is one of those that are computed one by one
    if isinstance(factor_axis, bool) or not isinstance(factor_axis, int) or not -rank - 1 <= factor_axis <= rank:
        legal = f"an integer from {-rank - 1} to {rank}: {stage.name} has {rank} axes, and one more is put among them"
        raise Illegal(f"factor_axis {factor_axis!r} is no place for the new axis", legal)
    at = factor_axis % (rank + 1)
    body = stage.body[0]
    reduction: Reduction = body.value

    extents, values = leaf_extents(stage), axis_values(stage)
    axes = [IterVar(a.name, a.extent, "spatial", a.min) for a in stage.axis]
    axes.insert(at, IterVar(loop.name, extents[loop]))
    left = {x: IterVar(x.name, extents[x], "reduce") for x in others}
    to_axes = {loop.var: axes[at].var, **{x.var: a.var for x, a in left.items()}}
    mapping = {a.var: substitute(values[a], to_axes) for a in stage.reduce_axis}
    mapping.update({a.var: b.var for a, b in zip(stage.axis, axes[:at] + axes[at + 1 :], strict=True)})
    sources, condition, rest = reduction.parts(tuple(substitute(e, mapping) for e in body.args))
    place = rest if body.op == "scatter" else ()
    guards = [g for g in leaf_predicates(stage) if any(x.var in variables(g) for x in (loop, *others))]
    condition = logical_and(*(substitute(g, to_axes) for g in guards), condition)  # which may read what they guard
    if left:
        args = (*sources, condition, *place)
        partial = [make(e.op, e.dtype, args, e.value.over(left.values())) for e in stage.body]
    else:
        identity = reduction.identity([e.dtype for e in sources])
        here = [compare("eq", cast_to("int64", i), a.var) for i, a in zip(place, axes[rank + 1 :], strict=True)]
        partial = []
        for e, nothing in zip(sources, identity, strict=True):
            e = if_then_else(logical_and(*here), e, nothing) if here else e
            partial.append(if_then_else(condition, e, nothing))
    op = ComputeOp(f"{stage.name}.rf", [a.extent for a in axes], axes, partial)
    factored = s.insert_stage(op.output_tensor, before=stage)
    factored.former = stage.former_of({x.root: a for x, a in left.items() if x.root is not None})

    again = IterVar(f"{loop.name}.v", extents[loop], "reduce")
    indices = [a.var for a in stage.axis]
    indices.insert(at, again.var)
    partials = [make("read", t.dtype, tuple(indices), t) for t in op.outputs]
    inits = reduction.parts(body.args)[2] if body.op == "reduce" else ()
    totals = [make("reduce", e.dtype, (*partials, const(True), *inits), e.value.over([again])) for e in stage.body]
    stage.replace_reduction(again, tuple(totals), loop_extents(stage))
    return factored.tensor if op.num_outputs == 1 else list(op.outputs)


def _left_over(stage: Stage, loop: Loop) -> list[Loop]:
    """The other reduce loops: those first that have nothing to do with this one, axis by axis, then its relatives."""
    others = [x for x in stage.reduce_loops if x is not loop]
    families = [stage.made_of([stage.roots[a]]) for a in stage.reduce_axis]
    own = {x for family in families if loop in family for x in family}
    apart = {x: at for at, family in enumerate(families) for x in family if x not in own}
    return sorted(others, key=lambda x: apart.get(x, len(families)))


def _factorable(s: Schedule, stage: Stage, loop: Loop, others: Sequence[Loop]) -> None:
    if not loop.is_reduce:
        legal = ", ".join(x.name for x in others) or f"none, {stage.name} is no reduction"
        raise Illegal(f"{loop.full_name} is not a reduce loop", f"reduce loops of {stage.name}: {legal}")
    if stage.init is not None:
        raise Illegal(f"{stage.name} is decomposed, and reduce loops start anew", "rfactor before decompose_reduction")
    for x in (loop, *others):
        if x.kind != "serial":
            raise Illegal(f"{x!r} is marked, and reduce loops start anew", "rfactor first, then mark the new loops")
        for attached in s.attached_at(x):
            raise Illegal(
                f"{attached.name} is computed at {x.full_name}, and reduce loops start anew",
                f"rfactor first, then compute {attached.name} at a loop of the new stage",
            )


def _check_init(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError if loops have changed since `decompose_reduction`."""
    init = stage.init
    if init is None:
        return
    gone = [x for x in (init.outside, *init.loops) if x not in stage.loops]
    why = f"{gone[0].full_name} was split or fused away afterwards" if gone else ""
    if not gone:
        around = stage.loops[: stage.loops.index(init.outside)]
        moved = [x for x in stage.loops if (x in around) != (x in init.around)]
        why = f"{moved[0].full_name} was moved across {init.outside.name} afterwards" if moved else ""
        apart = [(x, y) for x, y in init.loops.items() if x.thread != y.thread]
        if apart and not why:
            why = f"{apart[0][0]!r} and {apart[0][1]!r} are not bound alike: others would set what is being summed"
    if why:
        asked = s.earlier("decompose_reduction", stage, init.outside.name)
        raise ScheduleError(why, asked=asked, legal=f"decompose_reduction last; loops: {stage.describe()}")


@primitive(K.LOOP_INSIDE, check=_check_init)
@keeps_meaning
def decompose_reduction(s: Schedule, stage: Stage, loop: Any) -> tuple[Loop, ...]:
    """Set the elements of a reduction to the identity just outside a loop, in loops of their own.

    for i.outer:                             for i.outer:
      for k: for i.inner: B[i] += f(i, k)  ->    for i.inner.init: B[i] = 0
                                                 for k: for i.inner: B[i] += f(i, k)

    Without it that happens just outside the outermost reduce loop, in copies of the spatial loops inside, with their
    marks. The loops made here, which are returned outermost first, have marks of their own: `vectorize`, `unroll` and
    `parallel` take them; `bind` binds both, because work-items set what they sum. No reduce loop may be outside
    `loop`, now or later.
    """
    computed(stage)
    at = leaf(stage, loop)
    scans.forbid(stage, "decompose_reduction")
    if not stage.reduce_axis:
        raise Illegal(f"{stage.name} is no reduction", "stages with a reduce axis")
    if stage.scatter_axes:
        raise Illegal(f"{stage.name} is a scatter: all its elements are set before the first point", "te.compute")
    if stage.init is not None:
        where = stage.init.outside.full_name
        raise Illegal(f"{stage.name} is decomposed already, outside {where}", "one decompose_reduction for a stage")
    place = stage.loops.index(at)
    first = next(i for i, x in enumerate(stage.loops) if x.is_reduce)
    begin = stage.body[0].value.parts(stage.body[0].args)[2]
    if place < first and contains(begin, "read"):
        raise Illegal(
            f"{stage.name} begins with values that are read, and may be computed inside {at.full_name}",
            f"the outermost reduce loop: {stage.loops[first].name}",
        )
    around = [x.name for x in stage.loops[:place] if x.is_reduce]
    if around:
        legal = ", ".join(x.name for x in stage.loops[: first + 1])
        raise Illegal(f"{at.full_name} is inside the reduce loop {around[0]}", f"loops of {stage.name}: {legal}")
    stage.decompose(at)
    assert stage.init is not None
    return tuple(stage.init.loops.values())


@primitive()
@keeps_meaning
def compact_reduction(s: Schedule, stage: Stage) -> list[tuple[IterVar, int]]:
    """Visit only the points of a reduction whose remainder its condition asks for.

    for i: for k in 4: if (i - k) % 2 == 0: B[i] += f(k)   ->   for i: for k in 2: B[i] += f(2*k + i % 2)

    That is each reduce axis of known length with a condition `e % n == 0`, where `e` goes up or down with the axis one
    by one, and depends on spatial axes besides. The stage's loops start anew, and the order of the terms stays. Returns
    each spatial axis that such a condition mentions, with its n: split by n, what it decides is the same in each part.
    """
    computed(stage)
    starts_anew(s, stage, "compact_reduction")
    if stage.init is not None or stage.relations:
        raise Illegal(f"loops of {stage.name} are cut already, and the loops start anew", "compact_reduction first")
    spatial = {a.var: a for a in stage.axis}
    mapping: dict[Expr, Expr] = {}
    axes: list[IterVar] = []
    ends: list[Expr] = []
    asked: dict[IterVar, int] = {}
    for a in stage.reduce_axis if not stage.scatter_axes else ():
        found = _remainder(stage, a, spatial)
        if found is None:
            axes.append(a)
            continue
        first, n = found
        axes.append(IterVar(a.name, (a.extent + (n - 1)) // n, "reduce"))
        mapping[a.var] = a.min + axes[-1].var * n + floormod(first - a.min, n)
        if int(a.extent.value) % n:
            ends.append(compare("lt", mapping[a.var], a.min + a.extent))
        asked |= dict.fromkeys((spatial[v] for v in sorted(variables(first) & spatial.keys(), key=order)), n)
    if not mapping:
        legal = "reductions with where=te.all((i - k) % 2 == 0, ..), k of known length"
        raise Illegal(f"no condition of {stage.name} asks for a remainder of a reduce axis", legal)
    stage.define(stage.axis, tuple(axes), tuple(_compacted(e, mapping, ends, axes) for e in stage.body))
    return list(asked.items())


def _remainder(stage: Stage, axis: IterVar, spatial: Mapping[Expr, IterVar]) -> tuple[Expr, int] | None:
    """(e, n) if a condition of the reduction says that the axis is e modulo n, where e has only spatial axes."""
    body = stage.body[0]
    _, condition, _ = body.value.parts(body.args)
    for c in conjuncts(condition):
        if c.op != "eq" or c.args[0].op != "floormod" or not is_const(c.args[1], 0) or not is_const(axis.extent):
            continue
        dividend, divisor = c.args[0].args
        an = Analyzer()
        parts = an.poly(dividend).affine_in(axis.var) if is_const(divisor) and is_index(dividend) else None
        if parts is None or abs(parts[0]) != 1 or int(divisor.value) < 2:
            continue
        rest = an.expr(-parts[1] if parts[0] == 1 else parts[1])
        if variables(rest) & spatial.keys() and not variables(rest) & {a.var for a in stage.reduce_axis}:
            return rest, int(divisor.value)
    return None


def _compacted(e: Expr, mapping: dict[Expr, Expr], ends: Sequence[Expr], axes: Sequence[IterVar]) -> Expr:
    """A reduction over other axes, with the old ones in terms of these."""
    sources, condition, rest = e.value.parts(tuple(simplify(substitute(x, mapping)) for x in e.args))
    args = (*sources, logical_and(*ends, condition), *rest)
    return make("reduce", e.dtype, args, e.value.over(axes))


class NewStagePrimitives:
    """Methods of a stage."""

    decompose_reduction = decompose_reduction
    compact_reduction = compact_reduction
    inline_reduction = inline_reduction
