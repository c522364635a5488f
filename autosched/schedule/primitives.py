"""The schedule primitives: one function each, with a picture of before and after.

A primitive checks what is illegal as structure and raises `Illegal`; `Schedule.apply` adds the
call and the caller's line. What a later call may still repair (an attach point that has not been
made yet, say) is left to `schedule.verify()` and `lower`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autosched.ir.expr import Expr, as_expr, compare, const, is_const, variables
from autosched.ir.stmt import THREAD_TAGS, VTHREAD, VTHREAD_SPELLINGS
from autosched.schedule import scans, tails
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.schedule.stage import Attach, Fetch, Fuse, Loop, Split, Stage
from autosched.schedule.tensorize import tensorize
from autosched.te.extern import ExternOp
from autosched.te.tensor import IterVar

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

from autosched.schedule.decompose import decompose_reduction
from autosched.schedule.double_buffer import double_buffer
from autosched.schedule.handles import computed, factor_of, leaf, outside_intrinsic, scope_of, unmarked
from autosched.schedule.layouts import transform_layout
from autosched.schedule.new_stages import cache_read, cache_write, rfactor
from autosched.schedule.pragmas import pragma
from autosched.schedule.predicates import set_store_predicate
from autosched.schedule.reverse import reverse_compute_at, reverse_compute_inline
from autosched.schedule.rolling import rolling_buffer
from autosched.schedule.specialize import specialize
from autosched.schedule.split_into import split_into

__all__ = ["PRIMITIVES", "Illegal"]


# -- loop structure -------------------------------------------------------------------------------


@keeps_meaning
def split(
    s: Schedule,
    stage: Stage,
    parent: Any,
    *,
    factor: Any = None,
    nparts: Any = None,
    tail: str = "guard",
    disable_predication: bool = False,
) -> Any:
    """Replace a loop by two. Exactly one of `factor` (inner extent) and `nparts` (outer extent).

    for i in N: f(i)   ->   for i.outer in ceil(N/factor): for i.inner in factor:
                                if i.outer*factor + i.inner < N: f(i.outer*factor + i.inner)

    `tail` says what becomes of the condition when the factor does not divide: see `TAILS`. With
    `disable_predication` there is none: you promise that the factor divides. The promise is a
    constraint on knobs, and checked whenever the sizes are known; a call that breaks it is refused.
    """
    loop = leaf(stage, parent)
    scans.forbid_on_time(loop, "split")
    unmarked(loop, "split")
    if (factor is None) == (nparts is None):
        raise Illegal("exactly one of factor and nparts is needed", "split(loop, factor=8) or split(loop, nparts=4)")
    amount = None if factor is None else factor_of(s, factor, "factor")
    parts = None if nparts is None else factor_of(s, nparts, "nparts")
    chosen = tails.choose_tail(s, stage, loop, tail, disable_predication)
    outer = stage.new_loop(f"{loop.name}.outer", loop.is_reduce)
    inner = stage.new_loop(f"{loop.name}.inner", loop.is_reduce)
    made = Split(loop, outer, inner, amount, parts, chosen)
    if chosen == "exact":
        tails.check_exact(stage, made)
    stage.relations.append(made)
    at = stage.loops.index(loop)
    stage.loops[at : at + 1] = [outer, inner]
    return outer, inner


@keeps_meaning
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


@keeps_meaning
def fuse(s: Schedule, stage: Stage, *loops: Any) -> Any:
    """One loop in place of adjacent ones, outermost first.

    for i in N: for j in M: f(i, j)   ->   for i.j.fused in N*M: f(i.j.fused // M, i.j.fused % M)

    With no loops, a stage that has no spatial ones (a tensor without dimensions) gets a loop with
    one iteration, to be bound or computed at.
    """
    computed(stage)
    chosen = [leaf(stage, loop) for loop in loops]
    if not chosen:
        if any(not loop.is_reduce for loop in stage.loops):
            raise Illegal("nothing to fuse", f"loops of {stage.name}: {stage.describe()}")
        return stage.add_singleton()
    fused = chosen[0]
    for inner in chosen[1:]:
        scans.forbid_on_time(fused, "fuse")
        scans.forbid_on_time(inner, "fuse")
        unmarked(fused, "fuse")
        unmarked(inner, "fuse")
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


@keeps_meaning
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
    computed(stage)
    loop = leaf(stage, handle, init=True)
    outside_intrinsic(loop, "bind" if thread else kind)
    by_the_group = thread.startswith("threadIdx") and not stage.scatter_axes
    if loop.is_reduce and kind in ("parallel", "thread") and not by_the_group:
        raise Illegal(
            f"{loop.full_name} is a reduce loop: its iterations depend on one another",
            f"{'bind' if thread else kind} a spatial loop of {stage.name}: "
            + (", ".join(x.name for x in stage.loops if not x.is_reduce) or "there is none")
            + ("; or this one to threadIdx, for the group to combine" if thread and not stage.scatter_axes else ""),
        )
    if stage.scatter_axes:
        _mark_scatter(stage, loop, kind)
    scans.forbid_on_time(loop, "bind" if thread else kind)
    if stage.scan_loop is not None and kind == "vectorize":
        raise Illegal(f"a lane of {loop.full_name} would run the whole scan", "vectorize a loop of the update")
    loop.kind, loop.thread = kind, thread
    if thread and stage.init is not None and loop in stage.init.loops:
        stage.init.loops[loop].kind, stage.init.loops[loop].thread = kind, thread


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


@keeps_meaning
def parallel(s: Schedule, stage: Stage, loop: Any) -> None:
    """Run the iterations of a spatial loop on the CPU's threads.

    for y in H: f   ->   parallel y in H: f
    """
    _mark(stage, loop, "parallel")


@keeps_meaning
def vectorize(s: Schedule, stage: Stage, loop: Any) -> None:
    """Compute all iterations of a loop at once, one per vector lane.

    for x in 8: B[x] = A[x] + 1   ->   B[0..7] = A[0..7] + 1
    for k in 8: S += A[k]         ->   S += combine_lanes(A[0..7])

    The extent must be a constant once the knobs are chosen; split first. The lanes of a reduce loop
    are combined with one another, half on half, before they join what was there, so that a sum of
    floats may round differently. That takes log2(extent) shuffles: where it is done often, keep
    partial results apart with `rfactor` and vectorize the last reduction only. A reduction that
    skips some lanes, one on a GPU-style target, and one whose combiner is more than an operator
    (+, *, min, max, &, |, ^) on each component, stays a plain loop.
    """
    chosen = leaf(stage, loop, init=True)
    inside = [x.name for x in s.attached_at(chosen)]
    if inside:
        raise Illegal(
            f"{inside[0]} is computed at {chosen.full_name}; a producer cannot be computed inside a vector lane",
            f"compute {inside[0]} at a loop outside {chosen.full_name}",
        )
    _mark(stage, loop, "vectorize")


@keeps_meaning
def unroll(s: Schedule, stage: Stage, loop: Any) -> None:
    """Write the iterations out one after the other.

    for i in 2: f(i)   ->   f(0); f(1)
    """
    computed(stage)
    chosen = leaf(stage, loop, init=True)
    outside_intrinsic(chosen, "unroll")
    chosen.kind = "unroll"


@keeps_meaning
def bind(s: Schedule, stage: Stage, loop: Any, thread: Any) -> None:
    """Give each iteration of a spatial loop to a work-group or work-item of a GPU-style target.

    for x in N: f(x)   ->   f(blockIdx.x)   on a grid of N work-groups

    `vthread` makes virtual threads: each work-item does the work of N, interleaved statement by
    statement, so that its elements lie apart and those of neighbouring work-items side by side.
    What is shared among the work-group is computed once for all of them.

    A reduce loop bound to threadIdx is a reduction by the group: each work-item combines a part, and a
    tree in shared memory combines the parts, so that a sum of floats may round differently. Every
    work-item can read the result; one of them stores it where others see it.

    for v in 2: for k: C[v] += A[k, v]   --bind(v, "vthread")->   for k: C[0] += A[k, 0]; C[1] += A[k, 1]
    """
    tag = getattr(thread, "thread_tag", thread)
    tag = VTHREAD if tag in VTHREAD_SPELLINGS else tag
    if tag not in (*THREAD_TAGS, VTHREAD):
        raise Illegal(f"no hardware axis {tag!r}", f"legal: {', '.join((*THREAD_TAGS, VTHREAD))}")
    chosen = leaf(stage, loop, init=True)
    taken = [x for x in stage.loops if x.thread == tag != VTHREAD and chosen in stage.loops]
    if taken and taken[0] is not chosen:
        raise Illegal(f"{taken[0].full_name} is bound to {tag} already", "one loop of a stage for each hardware axis")
    _mark(stage, loop, "thread", tag)
    chosen.thread_var = getattr(thread, "var", None)


@keeps_meaning
def prefetch(s: Schedule, stage: Stage, tensor: Any, loop: Any, offset: Any) -> None:
    """While one iteration of a loop runs, bring what a later one reads of a tensor into the cache.

    for i: B[i] = f(A[i])   --prefetch(A, i, 2)->   for i: prefetch A[i + 2]; B[i] = f(A[i])

    offset: by how many iterations; a positive integer or a knob

    The last stage inside the loop that reads the tensor asks along with each of its reads, in vectors
    if it reads vectors. Reads from clamped, conditional or data-dependent places are left alone.
    Hardware sees regular accesses coming by itself: this is for reads that pause while the iteration
    does something else. It never changes a result, and means nothing on GPU-style targets.
    """
    computed(stage)
    source = s.stage(tensor)
    if source is stage or not s.depends_on(stage, source):
        read = [x.name for x in s.stages if x is not stage and s.depends_on(stage, x)]
        raise Illegal(f"{stage.name} does not read {source.name}", f"tensors it is computed from: {', '.join(read)}")
    stage.fetches.append(Fetch(source.tensor, leaf(stage, loop), _at_least(s, factor_of(s, offset, "distance"), 1)))


# -- where a stage is computed --------------------------------------------------------------------


@keeps_meaning
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


@keeps_meaning
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
    computed(stage)
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


@keeps_meaning
def compute_inline(s: Schedule, stage: Stage) -> None:
    """Recompute the element wherever it is read; the tensor is never stored.

    A[i] = f(i); B[i] = g(A[i])   ->   B[i] = g(f(i))
    """
    computed(stage)
    scans.forbid(stage, "compute_inline")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it must be stored", "compute_inline is for intermediates")
    if stage.reduce_axis:
        raise Illegal(f"{stage.name} is a reduction: it cannot be one expression", "compute_at puts it near its use")
    opaque = next((x for x in s.consumers(stage) if isinstance(x.op, ExternOp)), None)
    if opaque is not None:
        raise Illegal(f"{opaque.name} is a te.extern, which reads memory", f"{stage.name} stays at the root")
    stage.attach, stage.store = Attach("inline"), Attach()


@keeps_meaning
def compute_root(s: Schedule, stage: Stage) -> None:
    """Compute the whole tensor before anything that needs it: the default."""
    if not isinstance(stage.op, ExternOp):  # which is nowhere else
        computed(stage)
    stage.attach, stage.store = s.scans.home(stage), Attach()


@keeps_meaning
def set_scope(s: Schedule, stage: Stage, scope: str) -> None:
    """Say where an intermediate is stored: see `SCOPES`."""
    scans.forbid(stage, "set_scope")
    scope = scope_of(scope)
    if stage.is_placeholder or (stage.is_output and scope != "global"):
        what = "an input" if stage.is_placeholder else "an output"
        reader = f"s.cache_{'read' if stage.is_placeholder else 'write'}({stage.name!r}, {scope!r})"
        raise Illegal(f"{stage.name} is {what}: it is global memory", f"{reader} makes a {scope} copy")
    stage.scope, stage.scope_given = scope, True


@keeps_meaning
def storage_align(s: Schedule, stage: Stage, axis: Any, factor: Any, offset: Any = 0) -> None:
    """Pad an intermediate so that the stride of a dimension is a multiple of `factor`, plus `offset`.

    allocate B[8, 32]   --storage_align(i, 32, 1)->   allocate B[8, 32] strides [33, 1]

    Elements of one column then lie in different banks of shared memory (or sets of a cache).
    `axis` is an axis of the operation: its stride is how far apart two elements are whose indices
    differ by one in that dimension. TVM's primitive of that name.
    """
    computed(stage)
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
    shift = factor_of(s, offset, "offset") if not is_const(as_expr(offset), 0) else const(0)
    stage.alignments[found] = (_at_least(s, factor_of(s, factor, "factor"), 1), _at_least(s, shift, 0))


def _at_least(s: Schedule, e: Expr, least: int) -> Expr:
    """A number that depends on knobs, which may be too small: those candidates are infeasible."""
    if any(v in {k.var for k in s.knobs.values() if k.values and min(k.values) < 1} for v in variables(e)):
        s.require(compare("ge", e, least), f"{e!r} is less than {least}")
    return e


#: Every primitive a trace may name. A stored trace can call nothing else.
PRIMITIVES: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        split, split_into, tile, fuse, reorder, parallel, vectorize, unroll, bind, tensorize, prefetch, pragma,
        compute_at, store_at, reverse_compute_at, compute_inline, reverse_compute_inline,
        compute_root, decompose_reduction, set_scope, storage_align, cache_write, cache_read, rfactor,
        transform_layout,
        rolling_buffer,
        specialize,
        set_store_predicate,
        double_buffer,
    )
}  # fmt: skip
