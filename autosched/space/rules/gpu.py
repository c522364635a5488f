"""Rules for GPU-style targets: loops bound to work-groups and work-items, tiles in shared memory.

opaque_kernels          for t: for j: S[t, j] = ..      ->  a work-item for each j:
                                                              for t: S[t, j] = ..

launched_steps          for t: for x:               ->  the host: for t: a kernel, a work-item for a vector of S[t]
                          S[t, x] = f(S[t-1, ..])

shared_tiles            for i: for j: for k:            ->  a work-group for each block of C:                     S
                          C[i, j] += A[i, k] * B[k, j]        virtual threads, places apart:                      S
                                                                work-items:                                       S
                                                                  for k0: A', B' = tiles of A and B, fetched by   R
                                                                          all work-items together; a barrier
                                                                    for k1:                                       R
                                                                      rows x lanes of sums in registers           S
                                                                C = what is done with the sums, element by element

pieces_of_sums          for k: R += A[k]                ->  a kernel before:  for p: Q[p] = the sum of a piece
                                                            one work-item:    R = the sum of Q

group_reduction         for i: for k: R[i] += A[i, k]   ->  a work-group for each i:
                                                              work-items n: for k.o: P[n] += A[i, k.o*items + n]
                                                              8 of them:    Q[m] = the sum of each 8th P
                                                              one of them:  R[i] = the sum of Q

row_groups              for i: for k: B[i] += A[i, k]   ->  a work-group for each i:
                        for i: for j: C[i, j] = f(B[i])       B = as above, in shared memory
                                                              work-items: C[i, j], each n-th one

inline_or_share         for y: for x: B[y, x] = ..      ->  a work-group for each patch of a reader:
                        C[y, x] = B[y-1, x] + B[y, x]         work-items: B' = the patch and its borders, shared
                                                              work-items: C[y, x] = B'[y-1, x] + B'[y, x]
                                                            or B inlined, or a kernel of its own before

patches                 for y: for x: C[y, x] = ..      ->  a work-group for each block of rows and columns:
                                                              work-items: C[y, x], C[y+1, x], .. that share reads

elements                for i: for j: C[i, j] = ..      ->  a work-group for each block of i * j:
                                                              work-items: a vector of C
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autosched.ir.expr import Expr, compare, const, floormod
from autosched.ir.visit import reached
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import length
from autosched.space.default import bind_free_loops, is_launched_in_steps, is_of_launched_step, places_of_step
from autosched.space.gpu import add_up_rows, bind_elements, bind_patches, share
from autosched.space.rules.engine import Plan, fuse_all, partial_results, rule
from autosched.space.rules.inline import MAX_TAPS, ROOT, adds_too_much, choose_way, common_places, inline
from autosched.space.rules.rows import neighbours_share
from autosched.space.rules.scans import is_used_once_in_a_step
from autosched.space.rules.sums import may_be_cut
from autosched.space.rules.tiles import best_rows, has_tiles
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar

#: Sums that one work-item may have in registers.
MOST_SUMS = 64
#: Elements of a vector, of which a GPU reads 16 bytes at once.
LANES, WIDEST = (1, 2, 4), 16
#: Reduce loops this short are written out, all together or not at all.
SHORT = 7
#: An operand that is read for so many points of the result is worth being stored again in another order.
WORTH_TURNING = 16
#: Work-items that have a row together; devices that allow no group as large refuse it before it is built.
ITEMS_OF_ROW = (16, 32, 64, 128, 256, 512, 1024)
#: A reduction this long is worth a work-group.
LONG = 32
#: Fewer results than these leave a device idle; reductions this long are worth a second kernel, and pieces of them.
FEW_RESULTS, WORTH_PIECES, PIECES = 64, 1 << 15, (32, 64, 128, 256)


def _lanes(axes: Sequence[IterVar]) -> tuple[int, ...]:
    """Those that leave nothing over, where lengths are known: kernels are not cut, and a vector that might end beyond
    the border is computed lane by lane."""
    total = analysis.points(axes)
    return tuple(n for n in LANES if total is None or total % n == 0)


@rule(when=lambda plan, stage: analysis.is_opaque(stage), because=lambda plan, stage: analysis.why_opaque(stage))
def opaque_kernels(plan: Plan, stage: Stage) -> None:
    """Scans and scatters: a work-item for each element that is computed by itself."""
    scans = plan.s.scans
    if scans.step_of(stage) and not scans.part(stage) and not stage.reduce_axis:
        stage.compute_inline()  # a step inside a kernel has no memory of a size known at run time only
    elif stage.attach.kind == "root":
        bind_free_loops(stage)


def _is_launched(plan: Plan, stage: Stage) -> bool:
    return is_of_launched_step(stage) or is_launched_in_steps(stage)


@rule(when=_is_launched)
def launched_steps(plan: Plan, stage: Stage) -> None:
    """A kernel for each step, which reads what all work-items wrote in the steps before; the host runs the loop.

    for t: for x: S[t, x] = f(S[t-1, around x])   ->   the host, for t: a kernel: S[t, x] = f(S[t-1, around x])
    """
    if isinstance(stage.op, ScanOp):
        return
    if is_used_once_in_a_step(plan, stage):
        stage.compute_inline()
        return
    places = places_of_step(stage)
    if not places:
        return
    if stage.is_injective and len(places) > 1:
        _in_patches(plan, stage, places)
        return
    _items(plan, stage, LANES, places)


def _items(plan: Plan, stage: Stage, lanes: Sequence[int], loops: Sequence[Loop] | None = None) -> None:
    """A work-item for each vector of results, which writes out short reductions."""
    # Vectors of sums of rows would take each lane from a row of its own.
    bind_elements(plan.s, stage, (1,) if analysis.adds_up_rows(stage) else lanes, loops)
    if analysis.has_fewer(stage.reduce_axis, analysis.MAX_WINDOW + 1):
        for x in stage.reduce_loops:
            stage.unroll(x)


@rule(when=has_tiles)
def shared_tiles(plan: Plan, stage: Stage) -> None:
    """Tiles of operands in shared memory, fetched by a work-group together; sums in registers."""
    s = plan.s
    vector = stage.axis.index(analysis.long_axes(stage)[-1])
    row = stage.axis.index(best_rows(stage, stage.axis[vector]))
    sources = list(dict.fromkeys(plan.s.stage(a.tensor) for a in analysis.accesses(stage)))
    long = max(range(len(stage.reduce_axis)), key=lambda i: length(stage.reduce_axis[i]) or 1 << 30)
    rows, lanes = plan.knob(stage, "rows", (1, 2, 4, 8)), plan.knob(stage, "lanes", _lanes([stage.axis[vector]]))
    items_y, items_x = plan.knob(stage, "items_y", (4, 8, 16)), plan.knob(stage, "items_x", (8, 16, 32))
    apart = plan.knob(stage, "apart", (1, 2))
    apart_from = {x: d for x in sources if (d := _apart(stage, x, vector)) is not None}
    single = [x for x in sources if len(analysis.reads_of(stage, x)) == 1]
    s.constrain(rows * lanes * apart * apart <= MOST_SUMS, "the sums do not fit into registers")
    sums, host = _register_sums(plan, stage)
    axes = list(host.axis)
    block_y, i = host.split(axes[row], factor=items_y * rows * apart)
    block_x, j = host.split(axes[vector], factor=items_x * lanes * apart)
    virtual_y, i = host.split(i, nparts=apart)
    virtual_x, j = host.split(j, nparts=apart)
    item_y, line = host.split(i, factor=rows)
    item_x, lane = host.split(j, factor=lanes)
    others = [host.roots[a] for k, a in enumerate(axes) if k not in (row, vector)]
    host.reorder(*others, block_y, block_x, virtual_y, virtual_x, item_y, item_x, line, lane)
    tags = {block_y: "blockIdx.y", block_x: "blockIdx.x", item_y: "threadIdx.y", item_x: "threadIdx.x"}
    for loop, tag in tags.items():
        host.bind(loop, tag)
    for loop in (virtual_y, virtual_x):
        host.bind(loop, "vthread")
    if others:
        host.bind(fuse_all(host, others), "blockIdx.z")
    host.unroll(line)
    host.vectorize(lane)

    sums.compute_at(host, item_x)
    outer = _sum_loops(plan, stage, sums, long, row, vector)
    turned: dict[Stage, Stage] = {}
    if apart_from and plan.choose(stage, "columns", ["turned", "left"]) == "turned":
        turned = {x: _turn(plan, sums, x, at) for x, at in apart_from.items()}
    # Of what is read at two places a tile would hold all that is between them.
    if single and plan.choose(stage, "operands", ["shared", "cached"]) == "shared":
        for source in single:
            items = {"threadIdx.x": items_x, "threadIdx.y": items_y}
            _fetch(plan, stage, sums, turned.get(source, source), outer, items)


def _register_sums(plan: Plan, stage: Stage) -> tuple[Stage, Stage]:
    """The stage that adds up, in registers, and the one that finished sums are stored by."""
    host = plan.hosts.get(stage)
    if host is not None:
        stage.set_scope("local")
        return stage, host
    sums = plan.s[plan.s.cache_write(stage.tensor, "local")]
    plan.done[sums] = "cache_write"
    return sums, stage


def _apart(stage: Stage, source: Stage, vector: int) -> int | None:
    """The dimension of a tensor along which neighbouring sums read it in places apart; None if they do not, or not
    often enough."""
    axis = stage.axis[vector]
    found = [a for a in analysis.reads_of(stage, source) if a.mentions(axis) and not a.is_contiguous(axis)]
    places = {a.dimension(axis) for a in found}
    others = [a for a in stage.axis if a is not axis and not all(x.mentions(a) for x in found)]
    return None if len(places) != 1 or analysis.has_fewer(others, WORTH_TURNING) else places.pop()


def _turn(plan: Plan, sums: Stage, source: Stage, at: int) -> Stage:
    """A kernel before, which is returned, stores a tensor so that what neighbouring sums read lies side by side.

    C[i, j] += A[i, k] * B[j, k]   ->   T[k, j] = B[j, k];  C[i, j] += A[i, k] * T[k, j]
    """
    turned = plan.s[plan.s.cache_read(source.tensor, "global", [sums])]
    plan.done[turned] = "cache_read"
    turned.transform_layout(lambda *i: [*i[:at], *i[at + 1 :], i[at]])
    own_kernel(plan, turned)
    return turned


def _sum_loops(plan: Plan, stage: Stage, sums: Stage, long: int, row: int, vector: int) -> Loop:
    """Reduce loops around the sums of a work-item. Returns the outermost, at which operands are fetched."""
    steps = plan.knob(stage, "steps", (4, 8, 16, 32))
    outer, inner = sums.split(sums.roots[sums.reduce_axis[long]], factor=steps)
    window = [sums.roots[a] for i, a in enumerate(sums.reduce_axis) if i != long]
    line, lane = sums.roots[sums.axis[row]], sums.roots[sums.axis[vector]]
    others = [sums.roots[a] for i, a in enumerate(sums.axis) if i not in (row, vector)]
    sums.reorder(outer, inner, *window, *others, line, lane)
    short = [x for x in window if x.root is not None and (length(x.root) or SHORT + 1) <= SHORT]
    if short and plan.choose(stage, "window", ["loops", "written out"]) == "written out":
        for x in short:
            sums.unroll(x)
    sums.unroll(line)
    sums.vectorize(lane)
    return outer


def _fetch(plan: Plan, stage: Stage, sums: Stage, source: Stage, at: Loop, items: dict[str, Any]) -> None:
    """Copy to shared memory what the work-group reads of a tensor; its stage may be inlined into the copy."""
    fetched = plan.s[plan.s.cache_read(source.tensor, "shared", [sums])]
    plan.done[fetched] = "cache_read"
    fetched.compute_at(sums, at)
    share(fetched, items, plan.knob(stage, "loads", (1, 4)))


def reduces_rows(stage: Stage) -> bool:
    if not stage.reduce_axis or analysis.is_opaque(stage) or not may_be_cut(stage):
        return False
    return not analysis.has_fewer(stage.reduce_axis, LONG)


def _few(plan: Plan, stage: Stage) -> bool:
    """Whether a long reduction has too few results to keep a device busy."""
    found = analysis.has_fewer(stage.axis, FEW_RESULTS) and not analysis.has_fewer(stage.reduce_axis, WORTH_PIECES)
    return found and reduces_rows(stage) and not common_places(plan, stage)


@rule(when=_few)
def pieces_of_sums(plan: Plan, stage: Stage) -> None:
    """Few long reductions: a kernel before makes those of pieces, so that all of the device has something to do."""
    piece, _ = stage.split(fuse_all(stage, stage.reduce_loops), nparts=plan.knob(stage, "pieces", PIECES))
    pieces = partial_results(plan, stage, piece, "", factor_axis=0)
    del plan.done[pieces]  # rules are asked about it
    own_kernel(plan, stage)


@rule(when=lambda plan, stage: reduces_rows(stage) and stage.is_output, last=False)
def group_reduction(plan: Plan, stage: Stage) -> None:
    """A work-group for each result: its work-items read neighbouring elements, and add up together."""
    fuse_all(stage, stage.reduce_loops)
    row = fuse_all(stage, stage.spatial_loops or [stage.fuse()])
    stage.bind(row, "blockIdx.x")
    _add_up(plan, stage, stage, row)


def _add_up(plan: Plan, stage: Stage, host: Stage, row: Loop) -> None:
    before = set(plan.s.stages)
    add_up_rows(plan.s, stage, host, row, plan.knob(host, "items", ITEMS_OF_ROW))
    plan.done.update(dict.fromkeys(set(plan.s.stages) - before, "group_reduction"))


def row_reductions(stage: Stage) -> bool:
    """Whether it is computed from reductions of the same rows, as a softmax is."""

    def sources(x: Stage) -> Iterator[Stage]:
        found = (stage.schedule.stage(a.tensor) for a in analysis.accesses(x))
        return (y for y in found if not (y.is_placeholder or y.is_output or analysis.is_opaque(y)))

    return any(0 < len(x.axis) < len(stage.axis) and reduces_rows(x) for x in reached([stage], sources))


@rule(when=lambda plan, stage: stage.is_injective and len(stage.axis) > 1 and row_reductions(stage))
def row_groups(plan: Plan, stage: Stage) -> None:
    """A work-group for each row, which first makes the reductions that the row needs."""
    *outer, column = (stage.roots[a] for a in stage.axis)
    _, item = stage.split(column, factor=plan.knob(stage, "items", ITEMS_OF_ROW))
    row = fuse_all(stage, outer)
    stage.bind(row, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    plan.offer(stage, row=row)


@rule(when=lambda plan, stage: analysis.is_inner(stage))
def inline_or_share(plan: Plan, stage: Stage) -> None:
    """What others read: computed again where it is read, in a work-group's shared memory, or by a kernel before."""
    places = {p.name: p for p in common_places(plan, stage)}
    if stage.reduce_axis:
        if "row" in places and reduces_rows(stage):
            place = places["row"]
            fuse_all(stage, stage.reduce_loops)
            _add_up(plan, stage, place.stage, place.loop)
        elif reduces_rows(stage):
            group_reduction(plan, stage)
        else:
            own_kernel(plan, stage)
        return
    ways = ["inline"] if _may_inline(plan, stage) else []
    ways += [name for name in places if name == "patch"]
    way = choose_way(plan, stage, [*ways, ROOT])
    if way == "inline":
        inline(plan, stage)
    elif way == ROOT:
        own_kernel(plan, stage)
    else:
        place = places[way]
        stage.compute_at(place.stage, place.loop)
        stage.set_scope("shared")
        share(stage, plan.items[place.stage])


def _may_inline(plan: Plan, stage: Stage) -> bool:
    """Whether its readers may compute it: not those that read memory, and not what is long, or again and again."""
    if any(isinstance(x.op, ExternOp) for x in analysis.readers(stage)) or analysis.taps(stage) > MAX_TAPS:
        return False
    return not adds_too_much(plan, stage)


def own_kernel(plan: Plan, stage: Stage) -> None:
    if not stage.axis:  # one work-item
        block, item = stage.split(stage.fuse(), factor=1)
        stage.bind(block, "blockIdx.x")
        stage.bind(item, "threadIdx.x")
        return
    _items(plan, stage, _lanes(stage.axis))


def _is_image(plan: Plan, stage: Stage) -> bool:
    """Elements that share what they read with their neighbours along any axis."""
    if not stage.is_injective or len(stage.axis) < 2:
        return False
    return any(neighbours_share(stage, axis) for axis in stage.axis)


@rule(when=_is_image)
def patches(plan: Plan, stage: Stage) -> None:
    """Blocks of a row for work-items, a few rows for each; what they share may be in shared memory."""
    _in_patches(plan, stage, [stage.roots[a] for a in stage.axis])


def _vectors_of_rows(plan: Plan, stage: Stage, row: Sequence[IterVar]) -> tuple[tuple[int, ...], Expr | None]:
    """Elements of a vector of rows that are these axes as one, and what has to be true of the sizes: all rows begin at
    a multiple of it."""
    lanes = tuple(n for n in (1, 2, 4, 8, 16) if n * stage.tensor.dtype.bytes <= WIDEST)
    unknown = [a.extent for a in row if length(a) is None]
    if not unknown:
        total = analysis.points(row)
        return tuple(n for n in lanes if total is None or total % n == 0), None
    if len(unknown) > 1 or unknown[0].op != "var" or plan.s.scans.step_of(stage) is not None:
        return (1,), None
    return lanes[1:], compare("eq", floormod(unknown[0], lanes[-1]), const(0))


def _in_patches(plan: Plan, stage: Stage, loops: Sequence[Loop]) -> None:
    y, *rest = loops
    lanes, divides = _vectors_of_rows(plan, stage, [a for a in stage.axis if stage.roots[a] in rest])
    if divides is not None and plan.choose(stage, "vectors", ["single", "whole"]) == "single":
        lanes, divides = (1,), None
    row = fuse_all(stage, rest)
    items, bands = (
        plan.knob(stage, "items", (16, 32, 64, 128)),
        plan.knob(stage, "bands", (1, 2, 4)),
    )
    rows = plan.knob(stage, "rows", (1, 2, 4, 8))
    of_rows = plan.knob(stage, "lanes", lanes) if len(lanes) > 1 else lanes[0]
    plan.offer(stage, patch=bind_patches(stage, y, row, rows, bands, items, of_rows))
    plan.items[stage] = {"threadIdx.x": items, "threadIdx.y": bands}
    if divides is not None:
        stage.specialize(divides)


@rule(when=lambda plan, stage: True)
def elements(plan: Plan, stage: Stage) -> None:
    """A work-item for a vector of results."""
    own_kernel(plan, stage)
