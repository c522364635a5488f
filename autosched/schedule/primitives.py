"""The schedule primitives: one function each, with a picture of before and after.

A primitive checks what is illegal as structure and raises `Illegal`; `Schedule.apply` adds the
call and the caller's line. What a later call may still repair (an attach point that has not been
made yet, say) is left to `schedule.check()` and `lower`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import UsageError
from autosched.ir.expr import (
    Expr,
    as_expr,
    cast,
    compare,
    const,
    if_then_else,
    is_const,
    logical_and,
    make,
    maximum,
    substitute,
    variables,
)
from autosched.ir.simplify import simplify
from autosched.ir.stmt import THREAD_TAGS, VTHREAD
from autosched.ir.visit import rewrite
from autosched.schedule import scans
from autosched.schedule.illegal import Illegal
from autosched.schedule.relations import axis_values, leaf_extents, leaf_positions, leaf_predicates
from autosched.schedule.stage import PRAGMAS, SCOPES, TAILS, Attach, Fetch, Fuse, Loop, Split, Stage
from autosched.te.tensor import ComputeOp, IterVar, Reduction, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["PRIMITIVES", "Illegal"]


#: The largest factor or nparts: loops count in 32 bits.
MAX_FACTOR = 2**31 - 1


# -- resolving arguments --------------------------------------------------------------------------


def leaf(stage: Stage, handle: Any) -> Loop:
    """The live loop that a handle names: a Loop, an axis of the operation, or a name."""
    _computed(stage)
    legal = f"loops of {stage.name}: {stage.describe()}"
    if isinstance(handle, IterVar):
        if handle not in stage.roots:
            raise Illegal(f"axis {handle.name} does not belong to {stage.name}", legal)
        handle = stage.roots[handle]
    if isinstance(handle, str):
        found = stage.loop_named(handle)
        if found is None:
            near = difflib.get_close_matches(handle, [loop.name for loop in stage.loops], n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise Illegal(f"{stage.name} has no loop {handle!r}", hint + legal)
        return found
    if not isinstance(handle, Loop):
        raise Illegal(f"{handle!r} is not a loop", legal)
    if handle.stage is not stage:
        raise Illegal(f"{handle.full_name} is a loop of another stage", legal)
    if handle not in stage.loops:
        raise Illegal(f"{handle.full_name} was already split or fused away", legal)
    return handle


def _factor(s: Schedule, value: Any, what: str) -> Expr:
    legal = f"legal: a positive integer, a knob, or arithmetic on knobs and sizes, for {what}"
    try:
        e = as_expr(value)
    except UsageError:
        raise Illegal(f"{value!r} is not a {what}", legal) from None
    if not e.dtype.is_integer:
        raise Illegal(f"{what} {value!r} is not an integer", legal)
    if e.op == "const" and e.value < 1:
        raise Illegal(f"{what} {e.value} is not positive", legal)
    if e.op == "const" and e.value > MAX_FACTOR:
        raise Illegal(f"{what} {e.value} is more than any loop has iterations", legal)
    known = {k.var for k in s.knobs.values()} | set(s.sizes().values())
    bad = sorted(v.name for v in variables(e) if v not in known)
    if bad:
        raise Illegal(f"{what} depends on {bad[0]}, which is no knob or size of this schedule", legal)
    if any(v.value.role == "size" for v in variables(e)):
        return simplify(maximum(e, 1))  # sizes are known at the call only, and some make it 0
    return e


def _unmarked(loop: Loop, action: str) -> None:
    if loop.pragmas:
        raise Illegal(f"{loop!r} is marked; {action} would undo that", f"{action} before pragma")
    if loop.kind != "serial":
        state = {"parallel": "parallel", "vectorize": "vectorized", "unroll": "unrolled"}.get(loop.kind)
        raise Illegal(
            f"{loop.full_name} is {state or 'bound to ' + loop.thread}; {action} would undo that",
            f"{action} before {loop.kind if state else 'bind'}",
        )


def _computed(stage: Stage) -> None:
    if stage.is_placeholder:
        raise Illegal(f"{stage.name} is an input: it has no loops", "schedule what reads it, or cache_read it")


# -- loop structure -------------------------------------------------------------------------------


def split(
    s: Schedule, stage: Stage, parent: Any, *, factor: Any = None, nparts: Any = None, tail: str = "guard"
) -> Any:
    """Replace a loop by two. Exactly one of `factor` (inner extent) and `nparts` (outer extent).

    for i in N: f(i)   ->   for i.outer in ceil(N/factor): for i.inner in factor:
                                if i.outer*factor + i.inner < N: f(i.outer*factor + i.inner)

    `tail` says what becomes of the condition when the factor does not divide: see `TAILS`.
    """
    loop = leaf(stage, parent)
    scans.forbid_on_time(loop, "split")
    _unmarked(loop, "split")
    if (factor is None) == (nparts is None):
        raise Illegal("exactly one of factor and nparts is needed", "split(loop, factor=8) or split(loop, nparts=4)")
    if tail not in TAILS:
        raise Illegal(f"no tail strategy {tail!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in TAILS.items()))
    if tail == "shift_inwards" and stage.scan_loop is not None:
        raise Illegal(f"{stage.name} is a scan: it cannot compute elements twice", "tail='guard' for loops of a scan")
    if tail == "shift_inwards" and loop.is_reduce:
        raise Illegal("a reduction cannot compute elements twice", "tail='guard' for reduce loops")
    if tail == "shift_inwards" and loop.root is None:
        raise Illegal(
            f"{loop.full_name} is itself the result of a split or fuse; only an axis can shift inwards",
            "tail='guard', or split the axis with shift_inwards first",
        )
    outer = stage.new_loop(f"{loop.name}.outer", loop.is_reduce)
    inner = stage.new_loop(f"{loop.name}.inner", loop.is_reduce)
    amount = None if factor is None else _factor(s, factor, "factor")
    parts = None if nparts is None else _factor(s, nparts, "nparts")
    stage.relations.append(Split(loop, outer, inner, amount, parts, tail))
    at = stage.loops.index(loop)
    stage.loops[at : at + 1] = [outer, inner]
    return outer, inner


def tile(
    s: Schedule, stage: Stage, x_parent: Any, y_parent: Any, x_factor: Any, y_factor: Any, *, tail: str = "guard"
) -> Any:
    """Split two loops and bring the inner ones inside: computes block by block.

    for x: for y: f   ->   for x.outer: for y.outer: for x.inner in x_factor: for y.inner in y_factor: f
    """
    x, y = leaf(stage, x_parent), leaf(stage, y_parent)
    if x is y:
        raise Illegal(f"{x.full_name} is given twice", "two different loops")
    xo, xi = split(s, stage, x, factor=x_factor, tail=tail)
    yo, yi = split(s, stage, y, factor=y_factor, tail=tail)
    reorder(s, stage, xo, yo, xi, yi)
    return xo, yo, xi, yi


def fuse(s: Schedule, stage: Stage, *loops: Any) -> Any:
    """One loop in place of adjacent ones, outermost first.

    for i in N: for j in M: f(i, j)   ->   for i.j.fused in N*M: f(i.j.fused // M, i.j.fused % M)
    """
    chosen = [leaf(stage, loop) for loop in loops]
    if not chosen:
        raise Illegal("nothing to fuse", f"loops of {stage.name}: {stage.describe()}")
    fused = chosen[0]
    for inner in chosen[1:]:
        scans.forbid_on_time(fused, "fuse")
        scans.forbid_on_time(inner, "fuse")
        _unmarked(fused, "fuse")
        _unmarked(inner, "fuse")
        at = stage.loops.index(fused)
        if at + 1 >= len(stage.loops) or stage.loops[at + 1] is not inner:
            raise Illegal(
                f"{inner.full_name} is not directly inside {fused.full_name}",
                f"adjacent loops, outermost first, of {stage.name}: {stage.describe()}; reorder brings them together",
            )
        if (fused in stage.scatter_loops) != (inner in stage.scatter_loops):
            raise Illegal(
                f"{fused.full_name} and {inner.full_name} are not both loops over places",
                f"loops over places of {stage.name}: {', '.join(x.name for x in stage.scatter_loops)}",
            )
        if fused.is_reduce != inner.is_reduce:
            raise Illegal(
                f"{fused.full_name} and {inner.full_name} are not both spatial or both reduce loops",
                "fuse loops of one kind",
            )
        made = stage.new_loop(f"{fused.name}.{inner.name}.fused", fused.is_reduce)
        stage.relations.append(Fuse(fused, inner, made))
        stage.loops[at : at + 2] = [made]
        fused = made
    return fused


def reorder(s: Schedule, stage: Stage, *loops: Any) -> None:
    """Put the given loops in this order, in the places they now take; others stay.

    for i: for j: for k: f   --reorder(k, i)->   for k: for j: for i: f
    """
    chosen = [leaf(stage, loop) for loop in loops]
    if len(set(chosen)) != len(chosen):
        twice = next(loop for loop in chosen if chosen.count(loop) > 1)
        raise Illegal(f"{twice.full_name} is given twice", "each loop once")
    places = sorted(stage.loops.index(loop) for loop in chosen)
    for place, loop in zip(places, chosen, strict=True):
        stage.loops[place] = loop


# -- loop kinds -----------------------------------------------------------------------------------


def _mark(stage: Stage, handle: Any, kind: str, thread: str = "") -> None:
    _computed(stage)
    loop = leaf(stage, handle)
    if loop.is_reduce and kind in ("parallel", "thread"):
        raise Illegal(
            f"{loop.full_name} is a reduce loop: its iterations depend on one another",
            f"{'bind' if thread else kind} a spatial loop of {stage.name}: "
            + (", ".join(x.name for x in stage.loops if not x.is_reduce) or "there is none"),
        )
    if stage.scatter_axes:
        _mark_scatter(stage, loop, kind)
    scans.forbid_on_time(loop, "bind" if thread else kind)
    if stage.scan_loop is not None and kind == "vectorize":
        raise Illegal(f"a lane of {loop.full_name} would run the whole scan", "vectorize a loop of the update")
    loop.kind, loop.thread = kind, thread


def _mark_scatter(stage: Stage, loop: Loop, kind: str) -> None:
    """Points may meet at one element, so nothing but the leading loops of a scatter can be shared out."""
    legal = [x.name for x in stage.loops if not x.is_reduce and x not in stage.scatter_loops]
    if loop.is_reduce and kind == "vectorize":
        raise Illegal(
            f"{loop.full_name} is a reduce loop of a scatter: two lanes may add to one element",
            f"vectorize one of: {', '.join(legal) or 'none'}; rfactor of a reduce loop makes another",
        )
    if loop in stage.scatter_loops and kind == "thread":
        raise Illegal(
            f"{loop.full_name} only sets elements to begin with: other work-items would add to them before",
            f"bind one of: {', '.join(legal) or 'none'}; rfactor of a reduce loop makes another",
        )


def parallel(s: Schedule, stage: Stage, loop: Any) -> None:
    """Run the iterations of a spatial loop on the CPU's threads.

    for y in H: f   ->   parallel y in H: f
    """
    _mark(stage, loop, "parallel")


def vectorize(s: Schedule, stage: Stage, loop: Any) -> None:
    """Compute all iterations of a loop at once, one per vector lane.

    for x in 8: B[x] = A[x] + 1   ->   B[0..7] = A[0..7] + 1
    for k in 8: S += A[k]         ->   S += combine_lanes(A[0..7])

    The extent must be a constant once the knobs are chosen; split first. The lanes of a reduce loop
    are combined with one another, half on half, before they join what was there, so that a sum of
    floats may round differently. That takes log2(extent) shuffles: where it is done often, keep
    partial results apart with `rfactor` and vectorize the last reduction only. A reduction that
    skips some lanes, and one on a GPU-style target, stays a plain loop.
    """
    chosen = leaf(stage, loop)
    inside = [x.name for x in s.attached_at(chosen)]
    if inside:
        raise Illegal(
            f"{inside[0]} is computed at {chosen.full_name}; a producer cannot be computed inside a vector lane",
            f"compute {inside[0]} at a loop outside {chosen.full_name}",
        )
    _mark(stage, loop, "vectorize")


def unroll(s: Schedule, stage: Stage, loop: Any) -> None:
    """Write the iterations out one after the other.

    for i in 2: f(i)   ->   f(0); f(1)
    """
    _computed(stage)
    leaf(stage, loop).kind = "unroll"


def bind(s: Schedule, stage: Stage, loop: Any, thread: Any) -> None:
    """Give each iteration of a spatial loop to a work-group or work-item of a GPU-style target.

    for x in N: f(x)   ->   f(blockIdx.x)   on a grid of N work-groups

    `vthread` makes virtual threads: each work-item does the work of N, interleaved statement by
    statement, so that its elements lie apart and those of neighbouring work-items side by side.
    What is shared among the work-group is computed once for all of them.

    for v in 2: for k: C[v] += A[k, v]   --bind(v, "vthread")->   for k: C[0] += A[k, 0]; C[1] += A[k, 1]
    """
    tag = getattr(thread, "thread_tag", thread)
    if tag not in (*THREAD_TAGS, VTHREAD):
        raise Illegal(f"no hardware axis {tag!r}", f"legal: {', '.join((*THREAD_TAGS, VTHREAD))}")
    taken = [x for x in stage.loops if x.thread == tag != VTHREAD]
    if taken and taken[0] is not leaf(stage, loop):
        raise Illegal(f"{taken[0].full_name} is bound to {tag} already", "one loop of a stage for each hardware axis")
    _mark(stage, loop, "thread", tag)


def pragma(s: Schedule, stage: Stage, loop: Any, pragma_type: Any) -> None:
    """Ask something of the code for a loop that does not change what is computed: see `PRAGMAS`.

    for x in N: B[x] = f(x)   --pragma(x, "streaming_store")->   for x in N: stream B[x] = f(x)

    `streaming_store` saves reading what is about to be overwritten, and leaves the caches to data
    that is needed again. It is for whole vectors on x86; other stores, and other targets, take no
    notice.
    """
    _computed(stage)
    chosen = leaf(stage, loop)
    if pragma_type not in PRAGMAS:
        raise Illegal(f"no pragma {pragma_type!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in PRAGMAS.items()))
    if stage.reduce_axis:
        raise Illegal(
            f"{stage.name} is a reduction: it reads back what it stores",
            f"s.cache_write({stage.name!r}, 'local'), and the pragma on the copy that {stage.name} becomes",
        )
    if pragma_type not in chosen.pragmas:
        chosen.pragmas += (pragma_type,)


def prefetch(s: Schedule, stage: Stage, tensor: Any, loop: Any, offset: Any) -> None:
    """While one iteration of a loop runs, bring what a later one reads of a tensor into the cache.

    for i: B[i] = f(A[i])   --prefetch(A, i, 2)->   for i: prefetch A[i + 2]; B[i] = f(A[i])

    offset: by how many iterations; a positive integer or a knob

    The last stage inside the loop that reads the tensor asks along with each of its reads, in vectors
    if it reads vectors. Reads from clamped, conditional or data-dependent places are left alone.
    Hardware sees regular accesses coming by itself: this is for reads that pause while the iteration
    does something else. It never changes a result, and means nothing on GPU-style targets.
    """
    _computed(stage)
    source = s.stage(tensor)
    if source is stage or not s.depends_on(stage, source):
        read = [x.name for x in s.stages if x is not stage and s.depends_on(stage, x)]
        raise Illegal(f"{stage.name} does not read {source.name}", f"tensors it is computed from: {', '.join(read)}")
    stage.fetches.append(Fetch(source.tensor, leaf(stage, loop), _factor(s, offset, "distance")))


# -- where a stage is computed --------------------------------------------------------------------


def compute_at(s: Schedule, stage: Stage, parent: Any, scope: Any) -> None:
    """Compute what one iteration of a consumer's loop needs, just before it is needed.

    for y: A[y] = ..                 for y:
    for y: B[y] = g(A[y])     ->         A[y] = ..
                                         B[y] = g(A[y])
    """
    consumer, loop = _loop_of_a_consumer(s, stage, parent, scope, "compute")
    if loop.kind == "vectorize":
        outside = [x.name for x in consumer.loops if x.kind != "vectorize"]
        raise Illegal(
            f"{loop.full_name} is vectorized; a producer cannot be computed inside a vector lane",
            f"legal for {stage.name}: {', '.join(outside) or 'no loop of ' + consumer.name}\n  {consumer!r}",
        )
    stage.attach = Attach("at", consumer, loop)


def store_at(s: Schedule, stage: Stage, parent: Any, scope: Any) -> None:
    """Keep what is computed through all iterations of a loop outside the one of `compute_at`.

    for t:                                 for t:
      for y:                                 allocate A: 3 rows
        allocate A: 3 rows                   for y:
        A[y - 1 .. y + 1] = ..       ->        if y == 0: A[y - 1 .. y] = ..
        B[t, y] = g(A[y - 1 .. y + 1])         A[y + 1] = ..
                                               B[t, y] = g(A[y - 1 .. y + 1])

    Where the region that is needed moves one way as the loops in between advance, an iteration
    computes only what earlier ones have not: a sliding window. Rows that are needed no more make
    room for new ones: the storage is folded to the rows of one window. The innermost dimension is
    never folded, so that vectors stay whole.
    """
    consumer, loop = _loop_of_a_consumer(s, stage, parent, scope, "store")
    stage.store = Attach("at", consumer, loop)


def _loop_of_a_consumer(s: Schedule, stage: Stage, parent: Any, scope: Any, verb: str) -> tuple[Stage, Loop]:
    """The loop that `compute_at` or `store_at` names, of a stage that uses this one."""
    _computed(stage)
    consumer = s.stage(parent)
    scans.forbid(stage, f"{verb}_at")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it is {verb}d at the root", f"{verb}_at is for intermediates")
    if consumer is stage or s.depends_on(stage, consumer):
        raise Illegal(
            f"{consumer.name} does not come after {stage.name}",
            "legal consumers of " + stage.name + ": " + ", ".join(x.name for x in s.consumers(stage, deep=True)),
        )
    loop = leaf(consumer, scope)
    if loop in consumer.scatter_loops:
        places = [x.name for x in consumer.loops if x not in consumer.scatter_loops]
        raise Illegal(
            f"{loop.full_name} runs before any point is looked at", f"loops of {consumer.name}: {', '.join(places)}"
        )
    scans.forbid_outside(stage, consumer, loop)
    if not s.depends_on(consumer, stage):
        raise Illegal(
            f"{consumer.name} does not use {stage.name}",
            "legal consumers: " + ", ".join(x.name for x in s.consumers(stage, deep=True)),
        )
    return consumer, loop


def compute_inline(s: Schedule, stage: Stage) -> None:
    """Recompute the element wherever it is read; the tensor is never stored.

    A[i] = f(i); B[i] = g(A[i])   ->   B[i] = g(f(i))
    """
    _computed(stage)
    scans.forbid(stage, "compute_inline")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it must be stored", "compute_inline is for intermediates")
    if stage.reduce_axis:
        raise Illegal(f"{stage.name} is a reduction: it cannot be one expression", "compute_at puts it near its use")
    stage.attach, stage.store = Attach("inline"), Attach()


def compute_root(s: Schedule, stage: Stage) -> None:
    """Compute the whole tensor before anything that needs it: the default."""
    _computed(stage)
    stage.attach, stage.store = s.scans.home(stage), Attach()


def set_scope(s: Schedule, stage: Stage, scope: str) -> None:
    """Say where an intermediate is stored: see `SCOPES`."""
    scans.forbid(stage, "set_scope")
    if scope not in SCOPES:
        raise Illegal(f"no scope {scope!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in SCOPES.items()))
    if stage.is_placeholder or (stage.is_output and scope != "global"):
        what = "an input" if stage.is_placeholder else "an output"
        reader = f"s.cache_{'read' if stage.is_placeholder else 'write'}({stage.name!r}, {scope!r})"
        raise Illegal(f"{stage.name} is {what}: it is global memory", f"{reader} makes a {scope} copy")
    stage.scope, stage.scope_given = scope, True


def storage_align(s: Schedule, stage: Stage, axis: Any, factor: Any, offset: Any = 0) -> None:
    """Pad an intermediate so that the stride of a dimension is a multiple of `factor`, plus `offset`.

    allocate B[8, 32]   --storage_align(i, 32, 1)->   allocate B[8, 32] strides [33, 1]

    Elements of one column then lie in different banks of shared memory (or sets of a cache).
    `axis` is an axis of the operation: its stride is how far apart two elements are whose indices
    differ by one in that dimension. TVM's primitive of that name.
    """
    _computed(stage)
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: its layout is the caller's", "storage_align is for intermediates")
    scans.forbid(stage, "storage_align")
    name = axis.name if isinstance(axis, (Loop, IterVar)) else axis
    found = next((a for a, loop in stage.roots.items() if loop.name == name or a is axis), None)
    legal = f"axes of {stage.name}: {', '.join(stage.roots[a].name for a in stage.axis) or 'none'}"
    if found is None:
        raise Illegal(f"{name!r} is not an axis of {stage.name}", legal)
    if found not in stage.axis:
        raise Illegal(f"{name} is a reduce axis: {stage.name} has no such dimension", legal)
    shift = _factor(s, offset, "offset") if not is_const(as_expr(offset), 0) else const(0)
    stage.alignments[found] = (_factor(s, factor, "factor"), shift)


# -- caches ---------------------------------------------------------------------------------------


def cache_write(s: Schedule, stage: Stage, scope: str) -> Any:
    """Compute into a cache; the tensor becomes a copy of it.

    for i: for j: B[i, j] = f(i, j)   ->   for j.c: for i.c: B.local[j.c, i.c] = f(i.c, j.c)
                                           for i: for j:     B[i, j] = B.local[j, i]

    The cache's storage layout is the current order of the stage's loops (here after
    `reorder(j, i)`), so layout and compute order can be chosen apart. Returns the cache's tensor.
    """
    _computed(stage)
    if stage.scan_loop is not None:
        scans.forbid(stage, "cache_write")
    if stage.scatter_axes:
        raise Illegal(
            f"{stage.name} is a scatter: its values belong to places that are known one by one",
            f"rfactor {stage.name}, or cache_read it",
        )
    if scope not in SCOPES:
        raise Illegal(f"no scope {scope!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in SCOPES.items()))
    spatial = [loop for loop in stage.loops if not loop.is_reduce]
    marked = [loop for loop in stage.loops if loop.mark]
    if marked:
        raise Illegal(
            f"{marked[0]!r} is marked, and the loops start anew", "cache_write first, then mark the new loops"
        )
    guests = [x for x in s.stages if x.attach.stage is stage]
    if guests:
        raise Illegal(
            f"{guests[0].name} is computed at {guests[0].attach.loop!r}, and the loops start anew",
            f"cache_write first, then compute {guests[0].name} at a new loop",
        )
    if any(loop.is_reduce and loop.root is None for loop in stage.loops):
        raise Illegal(
            f"a reduce loop of {stage.name} is split already", "cache_write first, then split the cache's reduce loops"
        )
    if any(isinstance(r, Split) and r.tail != "guard" for r in stage.relations):
        raise Illegal("a layout cannot shift inwards", "split with tail='guard' before cache_write")
    assert stage.body is not None
    extents, values, guards = leaf_extents(stage), axis_values(stage), leaf_predicates(stage)
    axes = [IterVar(f"{loop.name}.c", extents[loop]) for loop in spatial]
    reduce_axes = [IterVar(f"{a.name}.c", a.extent, "reduce", a.min) for a in stage.reduce_axis]
    to_cache = {loop.var: a.var for loop, a in zip(spatial, axes, strict=True)}
    mapping = {a.var: substitute(values[a], to_cache) for a in stage.axis}
    mapping.update({a.var: c.var for a, c in zip(stage.reduce_axis, reduce_axes, strict=True)})
    body = _rebase(stage.body, mapping, dict(zip(stage.reduce_axis, reduce_axes, strict=True)))
    for guard in guards:
        body = _guarded(body, substitute(guard, to_cache))
    op = ComputeOp(f"{stage.tensor.name}.{scope}", [a.extent for a in axes], axes, body)
    cache = s.insert_stage(op.output_tensor, before=stage)
    cache.scope, cache.scope_given = scope, True
    positions = leaf_positions(stage)
    copy = make("read", op.dtype, tuple(positions[loop] for loop in spatial), cache.tensor)
    stage.define(stage.axis, (), copy)
    return cache.tensor


def _rebase(body: Expr, mapping: dict[Expr, Expr], axes: dict[IterVar, IterVar]) -> Expr:
    if body.op != "reduce":
        return substitute(body, mapping)
    args = tuple(substitute(a, mapping) for a in body.args)
    reduction = Reduction(body.value.combiner, tuple(axes[a] for a in body.value.axes))
    return make("reduce", body.dtype, args, reduction)


def _guarded(body: Expr, condition: Expr) -> Expr:
    """The padding of a cache laid out in blocks holds zeros (for a reduction: its identity)."""
    if body.op == "reduce":
        return make("reduce", body.dtype, (body.args[0], logical_and(body.args[1], condition)), body.value)
    return if_then_else(condition, body, const(0, body.dtype))


def cache_read(s: Schedule, stage: Stage, scope: str, readers: Sequence[Any]) -> Any:
    """Copy a tensor before some of its readers read it; they read the copy.

    B[i] = f(A[i])   ->   for ax0: A.shared[ax0] = A[ax0]
                          B[i] = f(A.shared[i])

    Returns the cache's tensor; put it with `compute_at` where the copy should happen.
    """
    if scope not in SCOPES:
        raise Illegal(f"no scope {scope!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in SCOPES.items()))
    users = [s.stage(r) for r in readers]
    direct = s.consumers(stage)
    if not users:
        raise Illegal(f"nothing reads {stage.name}", "cache_write keeps what a stage computes")
    for user in users:
        if user.scan_loop is not None:
            raise Illegal(
                f"{user.name} does not read {stage.name}, which is stored with it", "readers other than a scan"
            )
        if user not in direct:
            raise Illegal(
                f"{user.name} does not read {stage.name}",
                f"readers of {stage.name}: {', '.join(x.name for x in direct) or 'none'}",
            )
    axes = [IterVar(f"ax{i}", d) for i, d in enumerate(stage.tensor.shape)]
    body = make("read", stage.tensor.dtype, tuple(a.var for a in axes), stage.tensor)
    op = ComputeOp(f"{stage.tensor.name}.{scope}", stage.tensor.shape, axes, body)
    cache = s.insert_stage(op.output_tensor, before=min(users, key=s.stages.index))
    cache.scope, cache.scope_given = scope, True
    for user in users:
        assert user.body is not None
        user.body = retarget(user.body, stage.tensor, cache.tensor)
    return cache.tensor


def retarget(body: Expr, old: Tensor, new: Tensor) -> Expr:
    """`body` reading `new` wherever it read `old`, at the same indices."""

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return make("read", e.dtype, args, new) if e.op == "read" and e.value is old else None

    return rewrite(body, change)


# -- reductions -----------------------------------------------------------------------------------


def rfactor(s: Schedule, stage: Stage, reduce_loop: Any, *, factor_axis: int = 0) -> Any:
    """Factor a reduction: one partial result for each iteration of a reduce loop, then their reduction.

    for i: for k.outer: for k.inner: B[i] += f(i, k)   --rfactor(B, k.inner)->
        for k.inner: for i: for k.outer: B.rf[k.inner, i] += f(i, k)
        for i: for k.inner.v: B[i] += B.rf[k.inner.v, i]

    The loop becomes axis `factor_axis` (negative: counted from the end) of the new tensor, which is
    returned; where a split is ragged, its last elements are the combiner's identity. The loops of
    the new stage start anew, one reduce loop for each that was left; the spatial loops of the old
    stage stay as they are. The order of a sum changes, so floats may round differently.
    """
    _computed(stage)
    loop = leaf(stage, reduce_loop)
    others = [x for x in stage.loops if x.is_reduce and x is not loop]
    _factorable(s, stage, loop, others)
    rank = len(stage.axis) - len(stage.scatter_axes)  # the new axis is one of those that are computed one by one
    if isinstance(factor_axis, bool) or not isinstance(factor_axis, int) or not -rank - 1 <= factor_axis <= rank:
        legal = f"an integer from {-rank - 1} to {rank}: {stage.name} has {rank} axes, and one more is put among them"
        raise Illegal(f"factor_axis {factor_axis!r} is no place for the new axis", legal)
    at = factor_axis % (rank + 1)
    assert stage.body is not None
    reduction: Reduction = stage.body.value

    extents, values = leaf_extents(stage), axis_values(stage)
    axes = [IterVar(a.name, a.extent, "spatial", a.min) for a in stage.axis]
    axes.insert(at, IterVar(loop.name, extents[loop]))
    left = {x: IterVar(x.name, extents[x], "reduce") for x in others}
    to_axes = {loop.var: axes[at].var, **{x.var: a.var for x, a in left.items()}}
    mapping = {a.var: substitute(values[a], to_axes) for a in stage.reduce_axis}
    mapping.update({a.var: b.var for a, b in zip(stage.axis, axes[:at] + axes[at + 1 :], strict=True)})
    source, condition, *place = (substitute(e, mapping) for e in stage.body.args)
    guards = [g for g in leaf_predicates(stage) if any(x.var in variables(g) for x in (loop, *others))]
    condition = logical_and(condition, *(substitute(g, to_axes) for g in guards))
    if left:
        over = Reduction(reduction.combiner, tuple(left.values()))
        partial = make(stage.body.op, source.dtype, (source, condition, *place), over)
    else:
        identity = reduction.identity(source.dtype)
        here = [compare("eq", cast("int64", i), a.var) for i, a in zip(place, axes[rank + 1 :], strict=True)]
        source = if_then_else(logical_and(*here), source, identity) if here else source
        partial = if_then_else(condition, source, identity)
    op = ComputeOp(f"{stage.tensor.name}.rf", [a.extent for a in axes], axes, partial)
    factored = s.insert_stage(op.output_tensor, before=stage)

    again = IterVar(f"{loop.name}.v", extents[loop], "reduce")
    indices = [a.var for a in stage.axis]
    indices.insert(at, again.var)
    read = make("read", source.dtype, tuple(indices), factored.tensor)
    body = make("reduce", source.dtype, (read, const(True)), Reduction(reduction.combiner, (again,)))
    stage.replace_reduction(again, body)
    return factored.tensor


def _factorable(s: Schedule, stage: Stage, loop: Loop, others: Sequence[Loop]) -> None:
    if not loop.is_reduce:
        legal = ", ".join(x.name for x in others) or f"none, {stage.name} is no reduction"
        raise Illegal(f"{loop.full_name} is not a reduce loop", f"reduce loops of {stage.name}: {legal}")
    for x in (loop, *others):
        if x.kind != "serial":
            raise Illegal(f"{x!r} is marked, and reduce loops start anew", "rfactor first, then mark the new loops")
        guests = s.attached_at(x)
        if guests:
            raise Illegal(
                f"{guests[0].name} is computed at {x.full_name}, and reduce loops start anew",
                f"rfactor first, then compute {guests[0].name} at a loop of the new stage",
            )


#: Every primitive a trace may name. A stored trace can call nothing else.
PRIMITIVES: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        split, tile, fuse, reorder, parallel, vectorize, unroll, bind, prefetch, pragma,
        compute_at, store_at, compute_inline, compute_root, set_scope, storage_align, cache_write, cache_read, rfactor,
    )
}  # fmt: skip
