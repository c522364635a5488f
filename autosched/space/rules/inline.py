"""Rules for stages that need no loops of their own, and for where the others are computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from autosched.errors import ScheduleError
from autosched.ir.expr import Expr, is_const, var, variables
from autosched.ir.simplify import simplify
from autosched.ir.visit import post_order, substitute
from autosched.schedule.loop import Attach, axis_values, is_computed_whole
from autosched.schedule.primitives.together import separable
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.space import analysis
from autosched.space.rules import sums
from autosched.space.rules.engine import Place, Plan, rule
from autosched.space.rules.producers import loops_of_producer
from autosched.space.rules.rows import ROWS, limit_colliding_rows
from autosched.te.tensor import IterVar, Tensor

#: Chains of inlined stages may read so many elements for one of theirs.
MAX_TAPS = 64
#: Operations of one element that are written out, inlined stages included, and those of all rows of a strip.
MAX_WORK, MAX_WRITTEN_OUT = 2048, 4096
#: Arithmetic of a sketch, at most, in multiples of that of the program with every stage stored.
MAX_RECOMPUTED = 8
#: Operations of each element of what is read across a border, beside which a copy of it costs little.
MUCH_WORK = 256
#: Stages of a pipeline whose places are chosen one by one; where there are more, every n-th is stored.
MOST_CHOSEN = 3
#: An element of a tensor: its indices, in terms of the places of the stage that is made of it.
Element = tuple[Tensor, tuple[Expr, ...]]
#: Windows of fewer points than this are written out whole, rather than in two passes.
WRITTEN_OUT_WHOLE = 16
#: Results of one stage, at most, that are computed together; one of so many elements that they are made of is common.
MOST_TOGETHER, COMMON = 8, 4
#: The two places that are none of a reader's loops, and the outermost one of them.
ROOT, SLIDING, TASK = "root", "sliding", "task"
#: The place at the rows of a stage that is itself computed before its readers.
ROW = "row"
#: Loops over the times of a scan, which goes on in them: vectors of places or blocks of times, and single values.
ALONG, ALONE = "along", "alone"
#: TVM's attribute of stages that read constant matrices: names of the axes at which they do.
CONSTANT_INDICES = "auto_scheduler_simplify_const_tensor_indices"


def write_out_stencils(s: Schedule, *, for_items: bool = False) -> None:
    """Sums over a few neighbours become the expressions that somebody might have written instead, before any rule looks
    at the stages: then a filter is the same program however it is spelled.

    S[y, x] = sum over dy, dx of A[y + dy, x + dx]   ->   S[y, x] = (A[y, x] + A[y, x + 1] + ..) + (A[y + 1, x] + ..) ..

    With `for_items`, sums of rows stay: work-items would take each term from places apart.
    """
    for stage in s.stages:
        if analysis.is_stencil(stage) and not (for_items and analysis.adds_up_rows(stage)):
            stage.inline_reduction(nested=_shares_rows(stage))


def _shares_rows(stage: Stage) -> bool:
    """Whether rows of a window are also those of other results, in rows of results beside them."""
    if len(stage.reduce_axis) < 2:
        return False
    found = ((a, separable(stage, a)) for a in stage.reduce_axis)
    return any(x is not None and x[0] is not stage.axis[-1] and x[1] < analysis.iterations([a]) for a, x in found)


def separate_windows(s: Schedule) -> None:
    """Windows of many points are reduced along one axis after the other, before any rule looks at the stages; those
    along one axis in pieces.

    S[y, x] = sum over dy, dx of A[y + dy, x + dx]   ->
        F[y, x] = sum over dy of A[y + dy, x];  S[y, x] = sum over dx of F[y, x + dx]
    S[x] = sum over d in 100 of A[x + d]   ->   F[x] = A[x] + A[x + 10] + ..;  S[x] = F[x] + F[x + 1] + ..
    """
    waiting = [x for x in s.stages if x.reduce_axis and not analysis.is_opaque(x)]
    while waiting:
        stage = waiting.pop()
        few = analysis.has_fewer(stage.reduce_axis, WRITTEN_OUT_WHOLE)
        if (few and analysis.is_stencil(stage)) or not sums.may_be_cut(stage):
            continue
        passes = (p for axis in reversed(stage.reduce_axis) if (p := _passes(stage, axis)) is not None)
        best = min(passes, key=lambda p: p[0], default=None)
        if best is not None and 2 * best[0] <= analysis.iterations(stage.reduce_axis):
            waiting += [s.stage(s.separate_reduction(stage, stage.roots[best[1]], best[2])), stage]


def _passes(stage: Stage, last: IterVar) -> tuple[int, IterVar, int] | None:
    """The terms of each result if a reduction is made in two passes, the second along this axis; the axis; and the
    length of pieces where it is the only one."""
    found = separable(stage, last)
    if found is None:
        return None
    (axis, step, _), own = found, analysis.iterations([last])
    results = analysis.iterations([axis])

    def terms(first: int, second: int) -> int:
        places = step * (results - 1) + second
        return first * places // results + second

    if len(stage.reduce_axis) > 1:
        return terms(analysis.iterations(stage.reduce_axis) // own, own), last, 0
    return min((terms(own // n, n) + own % n, last, n) for n in range(2, max(3, own // 2)))


def compute_phases(s: Schedule) -> None:
    """Transposed convolutions and the like: every n-th element takes the same terms, so each such phase is dense.

    C[i] = sum over k where (i - k) % 2 == 0 of A[(i - k)//2] * W[k]   ->
        P[p, i] = sum over k of A[i - k] * W[2*k + p];  C[i] = P[i % 2, i//2]
    """
    for stage in list(s.stages):
        if not stage.reduce_axis or analysis.is_opaque(stage):
            continue
        with suppress(ScheduleError):  # no condition asks for a remainder
            cut = {axis: stage.split(stage.roots[axis], factor=n) for axis, n in stage.compact_reduction()}
            phases = [inner for _, inner in cut.values()]
            rest = [cut[a][0] if a in cut else stage.roots[a] for a in stage.axis]
            stage.reorder(*phases, *rest)
            s.cache_write(list(stage.op.outputs), "global")


def compute_maps_together(s: Schedule) -> None:
    """Results over the same elements that are made of the same elements become one stage, before any rule looks at the
    stages: outputs, such as the two parts of a flow, and what the same stages read, such as sums of the products of two
    gradients. What they are made of is loaded once, or computed once where that is inlined.

    B[i] = f(A[i - 1], A[i]);  C[i] = g(A[i - 1], A[i])   ->   B[i], C[i] = f(A[i - 1], A[i]), g(A[i - 1], A[i])
    """
    found = [x for x in s.stages if _may_go_along(x)]
    places = [var(f"place{k}", role="loop") for k in range(max((len(x.axis) for x in found), default=0))]
    made_of = {x: _made_of(x, places) for x in found}
    while found:
        first, *others = _alike(s, found, made_of)
        if others:
            s.compute_together(first, others)
        found = [x for x in found if x is not first and x not in others]


def _alike(s: Schedule, stages: Sequence[Stage], made_of: Mapping[Stage, frozenset[Element]]) -> list[Stage]:
    """The first of the stages, and those that have enough in common with it or with what goes along already."""
    first, *others = stages
    group, elements, size = [first], made_of[first], 0
    while len(group) > size:
        size = len(group)
        for x in (x for x in others if x not in group):
            most = max(len(made_of[first]), len(made_of[x]))
            if 0 < most <= COMMON * len(elements & made_of[x]) and _fits(s, group, x):
                group.append(x)
                elements |= made_of[x]
    return group


def _may_go_along(stage: Stage) -> bool:
    """Whether it is made element by element, in loops that are likely to be of its own."""
    if not stage.is_injective or not stage.axis or len(stage.body) > 1 or analysis.is_opaque(stage):
        return False
    if stage.schedule.scans.step_of(stage) is not None or stage.relations:
        return False
    return stage.is_output or not (_is_used_once(stage) or _is_copied_in(stage))


def _is_used_once(stage: Stage) -> bool:
    """Whether each element is used for one of a stage that is not always inlined."""
    waiting, seen = [stage], {stage}
    for x in waiting:
        if analysis.recomputed_by_pixel(x) > 1:
            return False
        new = [r for r in analysis.readers(x) if r not in seen and not r.is_output and _is_copied_in(r)]
        waiting += new
        seen.update(new)
    return True


@analysis.while_unchanged
def _is_copied_in(stage: Stage) -> bool:
    """Whether it is so simple that it is always inlined."""
    return analysis.is_plain(stage) and analysis.is_cheap(stage)


def _fits(s: Schedule, stages: Sequence[Stage], x: Stage) -> bool:
    """Whether a stage has the elements of others, and does not depend on them, nor they on it."""
    first = stages[0]
    if first.is_output != x.is_output or len(first.axis) != len(x.axis) or len(stages) == MOST_TOGETHER:
        return False
    if any(a.extent is not b.extent or a.min is not b.min for a, b in zip(first.axis, x.axis, strict=True)):
        return False
    return not any(s.depends_on(x, y) or s.depends_on(y, x) for y in stages)


def _made_of(stage: Stage, places: Sequence[Expr]) -> frozenset[Element]:
    """What the element at a place is made of, each for itself, through stages that are always inlined; nothing where
    that is too much to tell. What a whole row of elements needs, such as a coefficient, does not count."""
    own = {v for v, a in zip(places, stage.axis, strict=False) if analysis.length(a) != 1}
    found: set[Element] = set()
    waiting = [(stage, tuple(places[: len(stage.axis)]))]
    for reader, place in waiting:
        to = {a.var: i for a, i in zip(reader.axis, place, strict=True)}
        for read in analysis.accesses(reader):
            source, there = stage.schedule.stage(read.tensor), tuple(simplify(substitute(i, to)) for i in read.indices)
            if source.is_placeholder or source.is_output or not source.is_injective or not _is_copied_in(source):
                if own <= {v for i in there for v in variables(i)}:
                    found.add((read.tensor, there))
            elif (source, there) not in waiting:
                waiting.append((source, there))
        if len(waiting) > MAX_TAPS:
            return frozenset()
    return frozenset(found)


def store_paddings(s: Schedule) -> None:
    """What products and convolutions read across a border is stored with it: their innermost loops ask for nothing. So
    is what stages read that compute so much of each element that a copy costs little beside it.

    C[i] += (A[i + k - 1] if .. else 0) * W[k]   ->   P[i] = A[i - 1] if .. else 0;  C[i] += P[i + k] * W[k]
    """
    stages = [x for x in s.stages if not x.is_placeholder and not analysis.is_opaque(x)]
    worked: dict[Tensor, int] = {}
    for stage in stages:
        points = analysis.iterations((*stage.axis, *stage.reduce_axis))
        for tensor in analysis.read_across_borders(stage):
            worked[tensor] = worked.get(tensor, 0) + points * max(analysis.flops(stage), analysis.work(stage))
    much = {t for t, n in worked.items() if n >= MUCH_WORK * math.prod(int(d.value) for d in t.shape)}
    for stage in stages:
        if analysis.is_contraction(stage) or not much.isdisjoint(analysis.read_across_borders(stage)):
            with suppress(ScheduleError):  # nothing is read across a border
                stage.cache_padding()


def compute_terms(plan: Plan) -> None:
    """Terms of a contraction that a stage of their own makes of its operands, each for one product, are computed where
    they are added up, before any rule looks at the stages: then it is seen to be a contraction.

    D[i, j, k] = A[i, k] - B[j, k];  S[i, j] += D[i, j, k]**2   ->   S[i, j] += (A[i, k] - B[j, k])**2
    """
    for stage in reversed(plan.s.stages):
        if stage.is_output or not stage.is_injective or analysis.is_opaque(stage):
            continue
        if not analysis.uses_each_once(stage) or not _is_short_with(stage):
            continue
        (reader,) = plan.s.consumers(stage)
        axes = analysis.long_axes(stage)
        if not reader.reduce_axis or len(reader.body) > 1 or len(analysis.long_axes(reader)) < 2:
            continue  # with one axis there is no tile
        if axes and not any(all(map(a.mentions, axes)) for a in analysis.accesses(stage)):
            plan.done[stage], plan.why[stage] = "compute_terms", "a term of a contraction, which is used once"
            stage.compute_inline()


@rule(when=lambda plan, stage: analysis.is_opaque(stage), because=lambda plan, stage: analysis.why_opaque(stage))
def leave_opaque(plan: Plan, stage: Stage) -> None:
    """Scans, scatters and code from outside keep their loops.

    for t: S[t] = f(S[t-1])   ->   for t: S[t] = f(S[t-1])
    """


def _costs_nothing(plan: Plan, stage: Stage) -> bool:
    if stage.is_output or not stage.is_injective:
        return False
    if _must_be_stored(stage):
        return False
    if analysis.is_plain(stage) and analysis.is_cheap(stage):
        return True
    return bool(analysis.readers(stage)) and _recomputed(plan, stage) <= 1 and _is_short_with(stage)


def _is_short_with(stage: Stage) -> bool:
    """Whether the readers of a stage stay short enough to be written out for each vector, if it is inlined."""
    own = analysis.work(stage)
    return all(analysis.work(r) + len(analysis.reads_of(r, stage)) * own <= MAX_WORK for r in analysis.readers(stage))


def _must_be_stored(stage: Stage) -> bool:
    """Whether a reader takes it from memory, or would compute it for each tile again."""
    return any(
        analysis.is_opaque(c) or (analysis.is_contraction(c) and not analysis.is_window(c))
        for c in analysis.readers(stage)
    )


@rule(when=_costs_nothing)
def always_inline(plan: Plan, stage: Stage) -> None:
    """What is cheap, or used once for each element, is computed where it is used.

    B = A + 1;  C = B * 2   ->   C = (A + 1) * 2
    """
    inline(plan, stage)


def inline(plan: Plan, stage: Stage) -> None:
    """Inline a stage; fewer rows of a reader are written out together, the longer it becomes."""
    readers = analysis.readers(stage)
    plan.extra_work += _extra_work(plan, stage)
    stage.compute_inline()
    for reader in readers:
        rows, work = plan.knob_of(reader, "rows"), analysis.work(reader)
        if rows is not None and reader.is_injective and work * ROWS[-1] > MAX_WRITTEN_OUT:
            plan.s.constrain(rows * work <= MAX_WRITTEN_OUT, f"{reader.name} is long: too much is written out")
        limit_colliding_rows(plan, reader)


def _recomputed(plan: Plan, stage: Stage) -> float:
    """How many times an element would be computed if the stage were inlined, on average. Of pixels, loops on a CPU have
    a vector for each channel; work-items may have one channel each."""
    found = analysis.recomputed if not plan.target.is_cpu else analysis.recomputed_by_pixel
    return found(stage)


def _extra_work(plan: Plan, stage: Stage) -> float:
    """Operations that inlining a stage adds to the program."""
    return (_recomputed(plan, stage) - 1) * analysis.iterations(stage.axis) * analysis.work(stage)


def _constant(plan: Plan, stage: Stage) -> bool:
    return CONSTANT_INDICES in (getattr(stage.op, "attrs", None) or {}) and not analysis.is_opaque(stage)


@rule(when=_constant)
def unroll_constant(plan: Plan, stage: Stage) -> None:
    """Loops over the indices of a constant matrix are written out, so that its zeros and ones fold away.

    for i: for k in 4: C[i] += M(k) * A[i, k]   ->   parallel for i: C[i] += A[i, 0];  C[i] -= A[i, 2]
    """
    named = stage.op.attrs[CONSTANT_INDICES]  # type: ignore[attr-defined]
    names = {str(n) for n in (named if isinstance(named, (list, tuple)) else [named])}
    inner = [x for x in stage.loops if x.name in names]
    outer = [x for x in stage.loops if x.name not in names and not x.is_reduce]
    stage.reorder(*outer, *(x for x in stage.reduce_loops if x not in inner), *inner)
    for loop in inner:
        stage.unroll(loop)
    if outer:
        stage.parallel(stage.fuse(*outer))


def reachable(plan: Plan, stage: Stage) -> list[Place]:
    """The places where what a stage reads may be computed: around it, and those it offers itself."""
    own = plan.places.get(stage, [])
    host, at = stage.attach.stage, stage.attach.loop
    if stage.attach.kind == "init" and host is not None:
        return [p for p in reachable(plan, host) if p.stage is not host] + own
    if stage.attach.kind != "at" or host is None or at not in host.loops:
        return own
    around = host.loops[: host.loops.index(at) + 1]
    return [p for p in reachable(plan, host) if p.stage is not host or p.loop in around] + own


def common_places(plan: Plan, stage: Stage) -> list[Place]:
    """The places that every reader of the stage has."""
    first, *others = [reachable(plan, r) for r in analysis.readers(stage)] or [[]]
    return [p for p in first if all(p in other for other in others)]


def _may_inline(plan: Plan, stage: Stage) -> bool:
    if not stage.is_injective or _must_be_stored(stage):
        return False
    if _recomputed(plan, stage) > 1 and (analysis.has_math(stage) or analysis.taps(stage) > MAX_TAPS):
        return False
    return not adds_too_much(plan, stage)


def adds_too_much(plan: Plan, stage: Stage) -> bool:
    """Whether, inlined, it would make a reader too long to be written out, or the program do too much."""
    recomputed = plan.extra_work + _extra_work(plan, stage) > (MAX_RECOMPUTED - 1) * plan.plain_work
    return recomputed or not _is_short_with(stage)


def _window(stage: Stage, places: list[Place]) -> tuple[Place, Place] | None:
    """Where a window may slide, and where it is stored: along the rows of a task, neighbouring iterations of which read
    some of the same elements. None if nothing can.

    Along the vectors of a row it could slide, too, but each vector would have to find its elements in the window.
    """
    walked = [p for p in places if p.name != "block"]
    if len(walked) < 2 or not stage.is_injective:
        return None
    outer, inner = walked[-2:]
    if outer.stage is not inner.stage or inner.loop.kind != "serial":
        return None
    shared = any(len(analysis.reads_of(r, stage)) > 1 for r in analysis.readers(stage))
    return (inner, outer) if shared else None


def choose_way(plan: Plan, stage: Stage, ways: list[str]) -> str:
    """One of the ways, each of them a sketch. Of a long pipeline every n-th stage is stored, all alike."""
    if len(ways) == 1:
        return ways[0]
    if not is_long(plan):
        # tiles of a contraction read it again and again: there it is stored in the sketch that is looked at first
        first = [ROOT] if ROOT in ways and any(map(analysis.is_contraction, analysis.readers(stage))) else []
        return str(plan.choose(stage, "at", [*first, *ways]))
    last = plan.s.stages[-1]
    if ways[0] == "inline":
        plan.placed += 1
        if plan.placed % plan.choose(last, "stores_every", [1, 2, 3, 4]):
            return "inline"
    # of what neighbouring rows share, each task of many rows makes its own, or rows are kept for the next ones
    shared = [w for w in ways if w in (TASK, SLIDING)] if SLIDING in ways else ["inside"]
    kind = plan.choose(last, "stores_at", [ROOT, *shared])
    stored = [w for w in ways if w != "inline"]
    if kind in (ROOT, TASK) and _is_of_one_row(stage):
        rows = [p.name for p in common_places(plan, stage) if p.name in ("strip", ROW) and _is_for_all_axes(stage, p)]
        kind = next((w for w in ("strip", ROW) if w in stored and w in rows), kind)
    return str(kind) if kind in stored else next((w for w in stored if w not in (SLIDING, ROOT)), stored[-1])


def is_long(plan: Plan) -> bool:
    """Whether too many stages are left to choose the place of each by itself."""
    if plan.is_long is None:
        plan.is_long = sum(_is_undecided(plan, x) for x in plan.s.stages) >= MOST_CHOSEN
    return plan.is_long


def _is_of_one_row(stage: Stage) -> bool:
    """Whether each element of its readers is made of elements of one row of it: row by row, none is made twice."""
    inner = 2 if len(stage.axis) > 2 and analysis.has_fewer(stage.axis[-1:], analysis.MOST_CHANNELS + 1) else 1
    return all(len({a.indices[:-inner] for a in analysis.reads_of(r, stage)}) == 1 for r in analysis.readers(stage))


def _is_undecided(plan: Plan, stage: Stage) -> bool:
    """Whether it is still to find its place, about."""
    settled = stage in plan.done or stage.is_placeholder or stage.is_output
    fixed = settled or analysis.is_opaque(stage) or analysis.is_contraction(stage)
    return not fixed and not _costs_nothing(plan, stage)


def _is_looked_up(stage: Stage) -> bool:
    """Whether data tell which elements its readers take: any iteration of theirs may need any of them."""
    return any(a.is_looked_up for r in analysis.readers(stage) for a in analysis.reads_of(r, stage))


def _places_of_output(plan: Plan, stage: Stage) -> list[Place]:
    """Loops of the readers of an output at which it may be computed: each element once, and none is left out."""
    if not stage.is_output or not analysis.readers(stage) or analysis.is_opaque(stage) or not plan.target.is_cpu:
        return []
    if _is_looked_up(stage):
        return []
    return [
        p for p in common_places(plan, stage) if p.name != "block" or analysis.colliding_rows(stage) <= analysis.WAYS
    ]


def _goes_along(plan: Plan, stage: Stage) -> bool:
    return any(_is_whole_there(plan, stage, p) for p in _places_of_output(plan, stage))


def _is_whole_there(plan: Plan, stage: Stage, place: Place) -> bool:
    """Whether what the iterations around a place need of an output is all of it, and each element is needed once."""
    if not is_made_once(stage, place) or _is_needed_twice(stage, place):
        return False
    kept = stage.attach
    stage.attach = Attach("at", place.stage, place.loop)
    try:
        return is_computed_whole(plan.s, stage)
    finally:
        stage.attach = kept


@rule(when=_goes_along, last=False)
def output_in_a_reader(plan: Plan, stage: Stage) -> None:
    """An output that others read is computed at a loop of theirs: what it is made of is read once for all.

    for i: M[i] = f(A[i]);  for i: C[i] = g(A[i], M[i])   ->   for i: M[i] = f(A[i]), C[i] = g(A[i], M[i])
    """
    places = {p.name: p for p in _places_of_output(plan, stage) if _is_whole_there(plan, stage, p)}
    place = places[str(plan.choose(stage, "at", [*reversed(places)]))]
    stage.compute_at(place.stage, place.loop)
    _prefetch_rows(plan, stage, place)
    loops_of_producer(plan, stage)


@rule(when=lambda plan, stage: analysis.is_inner(stage))
def compute_location(plan: Plan, stage: Stage) -> None:
    """In loops of its own: before its readers, or at one of their loops; or inlined.

    for y: P[y] = ..          for y: C = .. P's body ..            inlined
    for y: C = .. P ..   ->   for y: (P[y..y+2] = ..)  C = ..      at a loop of C's
                              for y: P;  for y: C                  as it is
                              for y: (P[y+2] = ..)  C = ..         sliding: the rest is kept
    """
    # whole rows of an operand are read for a few sums: other loops have nothing to give
    at_root = _is_looked_up(stage) or (bool(stage.reduce_axis) and analysis.sums_of_a_row(stage) > 1)
    places = [] if at_root else [p for p in common_places(plan, stage) if p.name != ALONE]
    if stage.reduce_axis and not analysis.is_window(stage):
        places = [p for p in places if is_made_once(stage, p)]
    if not (is_long(plan) and stage.is_injective and _is_of_one_row(stage)):
        places = [p for p in places if p.name != ROW]
    if analysis.colliding_rows(stage) > analysis.WAYS:  # row after row, whole lines of the cache are used
        places = [p for p in places if p.name != "block"]
    window = _window(stage, places)
    named = {"inline": _may_inline(plan, stage), SLIDING: window is not None}
    way = choose_way(plan, stage, [*(w for w in named if named[w]), *(p.name for p in reversed(places)), ROOT])
    if way == "inline":
        inline(plan, stage)
        return
    if way != ROOT:
        place = window[0] if window and way == SLIDING else next(p for p in places if p.name == way)
        stage.compute_at(place.stage, place.loop)
        if window and way == SLIDING:
            stage.store_at(place.stage, window[1].loop)
        _prefetch_rows(plan, stage, place)
        if way == sums.BAND:
            sums.few_rows(plan, stage)
            return
    elif stage.reduce_axis and sums.whole_sums(plan, stage):
        return
    loops_of_producer(plan, stage)


def is_made_once(stage: Stage, place: Place) -> bool:
    """Whether what each iteration of the loops around a place needs of a reduction is of its own.

    for i: for j: C[i, j] = A[i, j] / S[j]   ->   not at the loop over i, which would add S up again for each row
    """
    around = {x.var for x in place.stage.loops[: place.stage.loops.index(place.loop) + 1] if not x.is_reduce}
    return around <= frozenset().union(*_chosen_by(stage, place, {}))


def _is_for_all_axes(stage: Stage, place: Place) -> bool:
    """Whether each axis that the loops around a place go along has a part in which elements are needed there.

    for n.c: for h: C[n, c, h] = A[n, c, h] / S[c]   ->   no: at the fused loop, S would be made again for each n
    """
    around = {x.var for x in place.stage.loops[: place.stage.loops.index(place.loop) + 1]}
    values = axis_values(place.stage)
    each = {a: frozenset({a.var}) for a in values}
    chosen = frozenset().union(*_chosen_by(stage, place, {}, each))
    return all(a.var in chosen for a, value in values.items() if not around.isdisjoint(variables(value)))


def _is_needed_twice(stage: Stage, place: Place) -> bool:
    """Whether neighbouring iterations of a loop over several axes may need one element of a stage.

    for v: for l: C[v*16 + l] = A[..] / S[(v*16 + l) // 7]   ->   at v they do: rows of 7 do not end where a vector does
    """
    around = {x.var for x in place.stage.loops[: place.stage.loops.index(place.loop) + 1]}
    chosen, values = frozenset().union(*_chosen_by(stage, place, {})), axis_values(place.stage).values()
    quotients = (variables(e) for value in values for e in post_order(value) if e.op == "floordiv")
    return any(v & around and v & chosen and not v <= around for v in quotients)


def _chosen_by(
    stage: Stage,
    place: Place,
    done: dict[Stage, list[frozenset[Expr]]],
    each: Mapping[IterVar, frozenset[Expr]] | None = None,
) -> list[frozenset[Expr]]:
    """The loops of the place's stage that choose the elements of a stage, along each of its dimensions; or what `each`
    has for an axis in place of its loops. `done` has those of stages that were asked for before."""
    if stage in done:
        return done[stage]
    found = [frozenset[Expr]() for _ in stage.axis]
    for reader in analysis.readers(stage):
        if reader is place.stage:
            each = each or {a: variables(value) for a, value in axis_values(reader).items()}
            by = {a.var: x for a, x in each.items()}
        else:
            by = dict(zip((a.var for a in reader.axis), _chosen_by(reader, place, done, each), strict=True))
        for a in analysis.reads_of(reader, stage):
            used = [frozenset().union(*(by.get(v, frozenset()) for v in variables(i))) for i in a.indices]
            found = [x | y for x, y in zip(found, used, strict=True)]
    done[stage] = found
    return found


def _prefetch_rows(plan: Plan, stage: Stage, place: Place) -> None:
    """The rows of an input that a reduction goes over first come from afar: they are asked for one or two strips ahead.

    for s: (R = max of A[s])  B[s] = f(A[s], R)   ->   for s: prefetch A[s + 1];  (R = max of A[s])  B[s] = f(A[s], R)
    """
    if not stage.reduce_axis or place.loop.kind != "serial" or analysis.is_window(stage):
        return
    row = (analysis.points(stage.reduce_axis) or 0) * stage.tensor.dtype.bytes
    if row > plan.machine.l1:  # when its turn comes, its beginning is gone again
        return
    for tensor in dict.fromkeys(a.tensor for a in analysis.accesses(stage)):
        size = tensor.dtype.bytes
        for n in tensor.shape:
            size *= int(n.value) if is_const(n) else 0
        source, asked = plan.s.stage(tensor), (place.stage, tensor)
        if source.is_placeholder and size > plan.machine.l2 and asked not in plan.prefetched:
            plan.prefetched.add(asked)
            ahead = plan.knob(place.stage, "ahead", (1, 2))
            place.stage.prefetch(tensor, place.loop, ahead)
            rows = plan.knob_of(place.stage, "lanes" if place.name == "block" else "rows")
            if rows is not None and len(place.stage.axis) == 1:
                why = "more rows are asked for ahead than a first-level cache holds"
                plan.s.constrain(rows * ahead * row <= plan.machine.l1, why)
