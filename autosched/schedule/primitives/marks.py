"""Primitives for the way a loop runs: on threads, lanes or hardware axes, unrolled, by an intrinsic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal, ScheduleError, UsageError
from autosched.ir.expr import as_expr, is_const, variables
from autosched.ir.stmt import THREAD_TAGS, VTHREAD, VTHREAD_SPELLINGS
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.kinds import at_least, computed, condition_of, factor_of, leaf, outside_intrinsic
from autosched.schedule.loop import Fetch, Loop
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.schedule.primitives.place import lies_under, users_through_inlining
from autosched.te.tensor import ComputeOp
from autosched.te.tensor_intrin import TensorIntrin, find_tensor_intrin

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def _mark(stage: Stage, handle: Any, kind: str, thread: str = "") -> None:
    computed(stage)
    loop = leaf(stage, handle, init=True)
    outside_intrinsic(loop, "bind" if thread else kind)
    by_the_group = thread.startswith("threadIdx") and not stage.scatter_axes
    if loop.is_reduce and kind in ("parallel", "thread") and not by_the_group:
        raise Illegal(
            f"{loop.full_name} is a reduce loop: its iterations depend on one another",
            f"{'bind' if thread else kind} a spatial loop of {stage.name}: "
            + (", ".join(x.name for x in stage.spatial_loops) or "there is none")
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
    """Raise Illegal unless the loop of a scatter can be shared out: points may meet at one element."""
    legal = [x.name for x in stage.spatial_loops if x not in stage.scatter_loops]
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


@primitive(K.SHARED_LOOP)
@keeps_meaning
def parallel(s: Schedule, stage: Stage, var: Any) -> None:
    """Run the iterations of a spatial loop on the CPU's threads.

    for y in H: f   ->   parallel y in H: f
    """
    _mark(stage, var, "parallel")


@primitive(K.LOOP, copies=True)
@keeps_meaning
def vectorize(s: Schedule, stage: Stage, var: Any) -> None:
    """Compute all iterations of a loop at once, one per vector lane.

    for x in 8: B[x] = A[x] + 1   ->   B[0..7] = A[0..7] + 1
    for k in 8: S += A[k]         ->   S += combine_lanes(A[0..7])
    for x in 8: for k in 4: C[x] += int32(A[k]) * int32(B[x, k])   ->   C[0..7] = dot(C[0..7], A[0..3], B[0..7, 0..3])

    The extent must be a constant once the knobs are chosen; split first. The lanes of a reduce loop
    are combined with one another, half on half, before they join what was there, so that a sum of
    floats may round differently. That takes log2(extent) shuffles: where it is done often, keep
    partial results apart with `rfactor` and vectorize the last reduction only. A reduction that
    skips some lanes, one on a GPU-style target, and one whose combiner is more than an operator
    (+, *, min, max, &, |, ^) on each component, stays a plain loop. Where the combiner chooses between
    the result and what comes, as `te.argmax` does, vectors in which no lane would change the result are
    left out in native code, and the order stays. Four products of 8-bit integers or two of
    bfloat16 that are summed up in each lane of another vector loop are one instruction where the CPU has it.
    """
    chosen = leaf(stage, var, init=True)
    inside = [x.name for x in s.attached_at(chosen)]
    if inside:
        raise Illegal(
            f"{inside[0]} is computed at {chosen.full_name}; a producer cannot be computed inside a vector lane",
            f"compute {inside[0]} at a loop outside {chosen.full_name}",
        )
    _mark(stage, var, "vectorize")


@primitive(K.LOOP, copies=True)
@keeps_meaning
def unroll(s: Schedule, stage: Stage, var: Any) -> None:
    """Write the iterations out one after the other.

    for i in 2: f(i)   ->   f(0); f(1)
    """
    computed(stage)
    chosen = leaf(stage, var, init=True)
    outside_intrinsic(chosen, "unroll")
    chosen.kind, chosen.thread = "unroll", ""


@primitive(K.LOOP, K.NAME, copies=lambda i: str(i.args[1]).startswith("threadIdx"))
@keeps_meaning
def bind(s: Schedule, stage: Stage, ivar: Any, thread_ivar: Any) -> None:
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
    tag = getattr(thread_ivar, "thread_tag", thread_ivar)
    tag = VTHREAD if tag in VTHREAD_SPELLINGS else tag
    if tag not in (*THREAD_TAGS, VTHREAD):
        raise Illegal(f"no hardware axis {tag!r}", f"legal: {', '.join((*THREAD_TAGS, VTHREAD))}")
    chosen = leaf(stage, ivar, init=True)
    taken = [x for x in stage.loops if x.thread == tag != VTHREAD and chosen in stage.loops]
    if taken and taken[0] is not chosen:
        raise Illegal(f"{taken[0].full_name} is bound to {tag} already", "one loop of a stage for each hardware axis")
    _mark(stage, ivar, "thread", tag)
    chosen.thread_var = getattr(thread_ivar, "var", None)


@primitive(K.LOOP, K.NAME, copies=True)
@keeps_meaning
def tensorize(s: Schedule, stage: Stage, var: Any, tensor_intrin: Any) -> None:
    """Do what the loops from this one on inwards compute by an intrinsic (or by the name of one).

    for i.outer:                                for i.outer:
      for i.inner in 16:        ->                gemv(&C[i.outer*16], &A[0], &B[i.outer*16, 0], ...)
        for k: C[..] += A[k]*B[.., k]

    Lowering makes sure that those loops compute just what the intrinsic does, and says what differs.
    Where loops of a reduction stay outside, the intrinsic's reset and update are used. A later call takes the place of
    an earlier one.
    """
    found = tensor_intrin if isinstance(tensor_intrin, TensorIntrin) else find_tensor_intrin(str(tensor_intrin))
    if found is None:
        raise Illegal(
            f"no intrinsic {tensor_intrin!r} is declared in this process",
            f"te.decl_tensor_intrin(..., name={str(tensor_intrin)!r}) in a file that this process imports",
        )
    chosen = leaf(stage, var)
    if not isinstance(stage.op, ComputeOp) or stage.op.num_outputs != 1:
        raise Illegal(f"{stage.name} is not a computation of one output", "tensorize one that is")
    inside = stage.loops[stage.loops.index(chosen) :]
    marked = [x for x in inside if x.kind not in ("serial", "tensorize")]
    if marked:
        raise Illegal(
            f"{marked[0]!r} would be inside the intrinsic", "loops that are not marked; the intrinsic says how it runs"
        )
    if stage.intrinsic is not None:
        stage.intrinsic[0].kind = "serial"
    stage.intrinsic = (chosen, found)
    chosen.kind = "tensorize"


def _check_fetches(s: Schedule, stage: Stage) -> None:
    for fetch in stage.fetches:
        source, loop = s.stage(fetch.tensor), fetch.loop
        why, legal = "", f"loops of {stage.name}: {stage.describe()}"
        users = users_through_inlining(s, source)
        if stage.attach.kind == "inline":
            why, legal = f"{stage.name} is inlined: it has no loops", "prefetch in a stage that is stored"
        elif loop not in stage.loops:
            why = f"{loop.full_name} was split or fused away afterwards"
        elif source.attach.kind == "inline":
            why, legal = f"{source.name} is inlined: it is nowhere in memory", "prefetch what it is computed from"
        elif lies_under(source, stage, loop):
            why, legal = f"{source.name} is computed inside {loop.full_name}", "prefetch what it is computed from"
        elif not any(lies_under(user, stage, loop) for user in users):
            why = f"nothing inside {loop.full_name} reads {source.name}"
            legal = f"loops of the stages that do: {', '.join(x.name for x in users)}"
        if why:
            asked = s.earlier("prefetch", stage, f"{source.name}, {loop.name}")
            raise ScheduleError(why, asked=asked, legal=legal)


@primitive(K.TENSOR, K.LOOP_AROUND, K.FACTOR, check=_check_fetches)
@keeps_meaning
def prefetch(s: Schedule, stage: Stage, tensor: Any, var: Any, offset: Any) -> None:
    """While one iteration of a loop runs, bring what a later one reads of a tensor into the cache.

    for i: B[i] = f(A[i])   --prefetch(A, i, 2)->   for i: prefetch A[i + 2]; B[i] = f(A[i])

    offset: by how many iterations; a positive integer or a knob

    The last stage inside the loop that reads the tensor asks along with each of its reads, in vectors
    if it reads vectors. Where elements of inputs name the place, as in A[rows[i], j], those of the last
    iteration stand for any beyond it. Reads from other places, clamped, conditional or dependent on what
    is computed, are left alone.
    Hardware sees regular accesses coming by itself: this is for reads that pause while the iteration
    does something else. It never changes a result, and means nothing on GPU-style targets.
    """
    computed(stage)
    source = s.stage(tensor)
    if source is stage or not s.depends_on(stage, source):
        read = [x.name for x in s.stages if x is not stage and s.depends_on(stage, x)]
        raise Illegal(f"{stage.name} does not read {source.name}", f"tensors it is computed from: {', '.join(read)}")
    stage.fetches.append(Fetch(source.tensor, leaf(stage, var), at_least(s, factor_of(s, offset, "distance"), 1)))


@primitive(K.PREDICATE)
@keeps_meaning
def specialize(s: Schedule, stage: Stage, condition: Any) -> Stage:
    """Write the loops once more for calls whose sizes satisfy a condition, and make use of it there.

    for i.outer: for i.inner in 8: if i < n: B[i] = f(i)   --specialize(n % 8 == 0)->

    if n % 8 == 0: for i.outer: for i.inner in 8: B[i] = f(i)
    else:          for i.outer: for i.inner in 8: if i < n: B[i] = f(i)

    The condition is over sizes; several are one after the other, and the first that holds decides. Of
    `size % number == 0` and `size == number` most is made. Whatever is computed inside the loops is
    written again too. Halide's `specialize`; unlike there, all versions have the loops of the stage.
    """
    computed(stage)
    if not isinstance(stage.op, ComputeOp):
        raise Illegal(f"{stage.name} is no plain computation: it is not written twice", "specialize what reads it")
    legal = f"a comparison of sizes: {', '.join(s.sizes()) or 'there are none'}"
    found = condition_of(condition, s, stage)
    if not found.dtype.is_bool:
        raise Illegal(f"{found!r} is no condition", legal)
    strange = sorted(v.name for v in variables(found) if v.value.role != "size")
    if strange or not variables(found):
        raise Illegal(f"{strange[0] if strange else repr(found)} is no size: a call cannot choose by it", legal)
    stage.special_cases.append(found)
    return stage


# -- pragmas --------------------------------------------------------------------------------------
#: pragma -> what it asks of a loop, and what its value means
PRAGMAS = {
    "streaming_store": "what the loop stores goes past the caches: for more than they hold, and read much later",
    "auto_unroll_max_step": "it and the serial loops in it are unrolled as long as that makes at most so many steps",
    "unroll_explicit": "0: unrolled loops in it stay loops, for the compiler to unroll; 1, as anyway: written out",
    "loop_partition_hint": "0: it is not cut into borders and interior; 1, as anyway: it is where that helps",
    "debug_skip_region": "it is left out, to see what the rest costs; what it would have stored has no value",
    "parallel_barrier_when_finish": "all threads meet after it, as they do after each parallel loop",
}


#: pragmas that change nothing but the speed; a stored schedule may not use the others
KEEP_MEANING = (
    "streaming_store",
    "auto_unroll_max_step",
    "unroll_explicit",
    "loop_partition_hint",
    "parallel_barrier_when_finish",
)
#: pragmas whose value is a number
COUNTS = ("auto_unroll_max_step",)
#: pragmas whose value is 0 or 1
_FLAGS = ("unroll_explicit", "loop_partition_hint")
#: pragma of other compilers -> why it means nothing here, and what does
_ELSEWHERE = {
    "parallel_launch_point": (
        "each parallel loop starts its own threads, which wait for work in between",
        "parallel(loop) of the loop whose iterations are shared out",
    ),
    "parallel_stride_pattern": (
        "iterations of a parallel loop are handed out in chunks, by a counter",
        "parallel(loop); to give each thread every n-th iteration, split the loop by nparts and parallel the inner one",
    ),
    "import_c": (
        "functions come by their names, not with a loop",
        "autosched.runtime.registry.import_c(source), and call_extern of what it defines",
    ),
    "import_llvm": (
        "functions come by their names, not with a loop",
        "autosched.runtime.registry.import_llvm(ir), and call_extern of what it defines",
    ),
    "tensor_core": ("no pass looks for matrix products", "tensorize(loop, intrinsic)"),
}


@primitive(K.LOOP, K.NAME, pragma_value=K.VALUE)
@keeps_meaning(unless=lambda i: "" if i.args[-1] in KEEP_MEANING else PRAGMAS.get(i.args[-1], ""))
def pragma(s: Schedule, stage: Stage, var: Any, pragma_type: str, pragma_value: Any = None) -> None:
    """Ask something of the code for a loop: see `PRAGMAS`.

    for x in N: B[x] = f(x)   --pragma(x, "streaming_store")->   for x in N: stream B[x] = f(x)

    `streaming_store` saves reading what is about to be overwritten, and leaves the caches to data
    that is needed again. It is for whole vectors on x86; other stores, and other targets, take no
    notice. `auto_unroll_max_step` counts the stores of all copies; loops are unrolled from the inside
    out, and those whose extent is no number stay.
    """
    computed(stage)
    chosen = leaf(stage, var)
    if pragma_type in _ELSEWHERE:
        why, legal = _ELSEWHERE[pragma_type]
        raise Illegal(f"{pragma_type} means nothing here: {why}", legal)
    if pragma_type not in PRAGMAS:
        raise Illegal(f"no pragma {pragma_type!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in PRAGMAS.items()))
    if pragma_type == "streaming_store" and stage.reduce_axis:
        raise Illegal(
            f"{stage.name} is a reduction: it reads back what it stores",
            f"s.cache_write({stage.name!r}, 'local'), and the pragma on the copy that {stage.name} becomes",
        )
    text = pragma_type + _value(pragma_type, pragma_value)
    others = tuple(p for p in chosen.pragmas if p.partition("=")[0] != pragma_type)
    chosen.pragmas = (*others, text)


def _value(pragma_type: str, value: Any) -> str:
    """The value as part of the pragma's text. Raises Illegal for one that it does not take."""
    if pragma_type in COUNTS or (pragma_type in _FLAGS and value is not None):
        legal = "0 or 1" if pragma_type in _FLAGS else "a number of steps, from 0 up"
        try:
            e = as_expr(value)
        except UsageError:
            e = None
        fits = e is not None and e.op == "const" and e.dtype.is_integer | e.dtype.is_bool and int(e.value) >= 0
        if e is None or not fits or (pragma_type in _FLAGS and int(e.value) > 1):
            raise Illegal(f"{value!r} is no value of {pragma_type}", legal)
        return f"={int(e.value)}"
    if value is None or value == "" or is_const(as_expr(value), 1):
        return "=1" if pragma_type in _FLAGS else ""
    raise Illegal(f"{pragma_type} takes no value", f"pragma(loop, {pragma_type!r})")


class MarkPrimitives:
    """Methods of a stage."""

    parallel = parallel
    vectorize = vectorize
    unroll = unroll
    bind = bind
    tensorize = tensorize
    prefetch = prefetch
    specialize = specialize
    pragma = pragma
