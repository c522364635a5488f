"""Loops over elements: of results computed element by element, and of stages that have found a place.

whole_rows              for y: for x: C        ->  parallel for t:           tasks of a few strips
                                                     for s:                  a strip of rows       <- producers
                                                       for x.o:
                                                         unroll y.i:         the rows of the strip
                                                           C[.., x.o*16 : x.o*16+16]

Short innermost axes (the channels of a pixel) are one axis with what is outside them. Rows that read the
same elements as their neighbours are written out together, so that those are loaded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, is_const, is_index, variables
from autosched.ir.ops import CHOICES
from autosched.ir.simplify import simplify
from autosched.ir.visit import post_order, reached, substitute
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import Access, long_lanes, powers
from autosched.space.features.work import unclamped
from autosched.space.rules.engine import Plan, fuse_all, rule
from autosched.te.tensor import IterVar

#: A row of fewer elements than this is one axis with the axis outside it.
SHORT = 16
#: A row of fewer may be joined to the next.
LONG = 1024
#: A reduction of fewer terms than this is short beside the vector that it gives an element of.
LONG_ROW = 256
#: Bytes of a line of a cache.
LINE = 64
#: Vectors of results that are written out; each comes with all that it is computed from.
MOST_VECTORS = 32
#: Vectors at least in a row whose first and last ones ask where they are.
VECTORS_OF_BORDERED = 4
#: Elements of a little matrix, or planes made in different ways, that are written out together.
MOST_WRITTEN_OUT = 16
#: Rows that are written out together; of stages before their readers, and strips of them in a task.
ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
FEW_ROWS, STRIPS_OF_TASK = (1, 2, 3, 4), 8


def is_map(plan: Plan, stage: Stage) -> bool:
    return stage.is_injective and not analysis.is_opaque(stage) and bool(stage.axis)


def away_from_clamps(a: Access, axis: IterVar) -> Access:
    """A read as it is where no minimum or maximum along an axis keeps it inside of its tensor."""
    return replace(a, indices=tuple(unclamped(i, axis.var) for i in a.indices))


@rule(when=is_map)
def whole_rows(plan: Plan, stage: Stage) -> None:
    """Strips of rows in parallel, along which vectors walk; producers may be computed for each strip.

    for y: for x: C[y, x]   ->   parallel for t: for s: for x.o: unroll y.i: C[y.i, x.o*16 : x.o*16+16]
    """
    types = types_of(stage)
    if _is_flat(stage):
        _one_row(plan, stage, types)
        return
    outer, row, n = row_loops(stage, inner=_long_row(plan, stage))
    widths = long_lanes(plan.machine, types, n)
    # of results that are made of a row each, one is enough to do with a row while it is near
    widths = [1, *widths] if not outer and _is_made_of_rows(plan, stage) else widths
    block, lane = stage.split(row, factor=plan.knob(stage, "lanes", widths))
    stage.vectorize(lane)
    _stream_stores(plan, stage, lane)
    apart = [a for a in stage.axis[: len(outer)] if _is_plane(stage, a)]
    planes = [stage.roots[a] for a in apart]
    for plane in planes:
        stage.unroll(plane)
    outer = [x for x in outer if x not in planes]
    if not outer:
        task, block = stage.split(block, factor=plan.knob(stage, "blocks", powers(1, 64)))
        stage.reorder(task, block, *planes, lane)
        stage.parallel(task)
        plan.offer(stage, task=task, block=block)
        return
    strips(plan, stage, outer, block, [*planes, lane], analysis.iterations(apart))


def _is_plane(stage: Stage, axis: IterVar) -> bool:
    """Whether the elements of a few planes are made in different ways, or of channels of the same pixels: written out
    together, each is made in its own way, and what they share is loaded once.

    for k in 3: for y, x: C[k, y, x] = Y if k == 0 else ..   ->   for y, x.o: C[0, y, x.o] = Y; C[1, y, x.o] = ..
    """
    if not 1 < (analysis.length(axis) or LONG) <= MOST_WRITTEN_OUT:
        return False
    if analysis.has_fewer([axis], analysis.MOST_CHANNELS + 1) and any(
        a.is_contiguous(axis) and away_from_clamps(a, stage.axis[-1]).steps(stage.axis[-1])[-2:] == (1, 0)
        for a in analysis.accesses(stage)
    ):
        return True
    conditions = (e.args[0] for e in post_order(stage.body) if e.op in CHOICES)
    return any(variables(condition) == {axis.var} for condition in conditions)


def _is_made_of_rows(plan: Plan, stage: Stage) -> bool:
    """Whether an element needs a reduction over a long row of its own, in stages that are not settled yet, too."""

    def sources(x: Stage) -> Iterator[Stage]:
        moving = (a for a in analysis.accesses(x) if any(map(variables, a.indices)))
        return (y for y in map(plan.s.stage, (a.tensor for a in moving)) if not y.is_placeholder)

    reductions = (x.reduce_axis for x in reached([stage], sources) if x.reduce_axis)
    return any(not analysis.has_fewer(axes, LONG_ROW) for axes in reductions)


def runs(stage: Stage) -> list[list[IterVar]]:
    """The axes of a stage, those together that follow each other in the result and in all that it reads: one axis."""
    reads, asked = analysis.made_of(stage)

    def follows(a: IterVar, b: IterVar, read: Access) -> bool:
        if not (read.mentions(a) or read.mentions(b)):
            return True
        first, second = read.dimension(a), read.dimension(b)
        return first is not None and second == first + 1 and read.tensor.shape[second] is b.extent

    found = [[stage.axis[0]]]
    for a, b in pairwise(stage.axis):
        if asked.isdisjoint((a.var, b.var)) and all(follows(a, b, read) for read in reads):
            found[-1].append(b)
        else:
            found.append([b])
    return found


def is_decided_by(stage: Stage, axis: IterVar) -> bool:
    """Whether a condition in the expressions of a stage asks for the place along an axis."""
    decisions = (e.args[0] for e in post_order(stage.body) if e.op in CHOICES)
    return any(axis.var in variables(condition) for condition in decisions)


def _lies_in_blocks(plan: Plan, stage: Stage) -> bool:
    """Whether rows are read in blocks, and nothing that may yet be inlined is read in other ways."""
    if not is_map(plan, stage):
        return False
    sources = (plan.s.stage(a.tensor) for a in analysis.accesses(stage))
    is_settled = all(x.is_placeholder or not x.is_injective for x in sources)
    return is_settled and bool(analysis.blocks(stage, stage.axis[-1]))


@rule(when=_lies_in_blocks)
def blocks_of_rows(plan: Plan, stage: Stage) -> None:
    """Rows whose elements lie in blocks, such as those of a Kronecker product or a shuffle of pixels: vectors that end
    where a block does; of short blocks, a vector of first elements, one of second elements, and so on.

    for j: C[j] = A[j // 40] * B[j % 40]   ->   for j.o: for v: C[j.o*40 + v*8 : +8] = A[j.o] * B[v*8 : +8]
    for j: C[j] = A[j % 3, j // 3]   ->   for v: unroll p in 3: C[v*48 + p : : 3] = A[p, v*16 : +16]
    for j: C[j] = A[j] > B[j % 8]   ->   for v: C[v*16 : +16] = A[v*16 : +16] > (B[0 : 8], B[0 : 8])
    """
    *outer, row = (stage.roots[a] for a in stage.axis)
    found = analysis.blocks(stage, stage.axis[-1])
    longest = max(found)
    if longest < SHORT and analysis.repeats(stage, stage.axis[-1], longest):
        return _whole_periods(plan, stage, outer, row, longest)
    along, part = stage.split(row, factor=longest)
    widths = long_lanes(plan.machine, types_of(stage), longest if (walks := longest >= SHORT) else None)
    lanes = plan.knob(stage, "lanes", widths)
    if walks:
        block, lane = stage.split(part, factor=lanes)
        stage.vectorize(lane)
        strips(plan, stage, [*outer, along], block, [lane])
        return
    block, lane = stage.split(along, factor=lanes)
    stage.reorder(block, part, lane)
    stage.unroll(part)
    stage.vectorize(lane)
    _blocks_of_a_row(plan, stage, outer, block, [part, lane])


def _whole_periods(plan: Plan, stage: Stage, outer: list[Loop], row: Loop, period: int) -> None:
    """Blocks of vectors in which what repeats begins anew: each lane of a vector reads the same place of it."""
    widths = long_lanes(plan.machine, types_of(stage), None)
    lanes = plan.knob(stage, "lanes", widths)
    is_period = all(n % period == 0 for n in widths)
    block, part = stage.split(row, factor=lanes if is_period else lanes * period)
    inside = [part] if is_period else [*stage.split(part, factor=lanes)]
    for copy in inside[:-1]:
        stage.unroll(copy)
    stage.vectorize(inside[-1])
    _stream_stores(plan, stage, inside[-1])
    _blocks_of_a_row(plan, stage, outer, block, inside)


def _blocks_of_a_row(plan: Plan, stage: Stage, outer: list[Loop], block: Loop, inside: list[Loop]) -> None:
    """Strips of rows, or tasks of blocks where there is one row."""
    if outer:
        strips(plan, stage, outer, block, inside)
    else:
        task, _ = stage.split(block, factor=plan.knob(stage, "blocks", powers(1, 64)))
        stage.parallel(task)


def strips(plan: Plan, stage: Stage, outer: list[Loop], block: Loop, inside: list[Loop], written_out: int = 1) -> None:
    """Tasks of strips of rows, each walked block after block; `inside` is a block, of which so much is written out."""
    *outer, y = outer
    axis = next((a for a in stage.axis if stage.roots[a] is y), stage.axis[-1])  # or a part of the last one
    shares = neighbours_share(stage, axis)
    strip, line = stage.split(y, factor=plan.knob(stage, "rows", ROWS if shares else (1, 2, 4)))
    task, strip = stage.split(strip, factor=plan.knob(stage, "strips", powers(1, 32)))
    if shares:
        limit_written_out(plan, stage, types_of(stage), written_out)
        limit_colliding_rows(plan, stage)
        stage.reorder(*outer, task, strip, block, line, *inside)
        stage.unroll(line)
    else:
        stage.reorder(*outer, task, strip, line, block, *inside)
    task = stage.fuse(*outer, task) if outer else task
    stage.parallel(task)
    in_vectors = shares and inside[-1].kind == "vectorize"
    plan.offer(stage, task=task, strip=strip, **({"block": block} if in_vectors else {}))


def limit_written_out(plan: Plan, stage: Stage, types: list[DType], planes: int = 1) -> None:
    """The rows of a strip that are written out, in some planes, each some vectors wide, must stay few."""
    lanes, rows = (plan.knob_of(stage, what) for what in ("lanes", "rows"))
    widest = max(t.bytes for t in types)
    if lanes is not None and rows is not None:
        most = MOST_VECTORS * plan.machine.vector_bytes // widest
        together = max(1, planes // analysis.MOST_CHANNELS)
        plan.s.constrain(lanes * rows * together <= most, f"more than {MOST_VECTORS} vectors written out")


def limit_colliding_rows(plan: Plan, stage: Stage) -> None:
    """Rows that are written out together must leave each other their lines of a first-level cache."""
    rows, read = plan.knob_of(stage, "rows"), analysis.colliding_rows(stage)
    if rows is not None and read > 1:
        each = 2 if analysis.lies_in_pages(stage.tensor) else 1
        most = max(analysis.WAYS, each + read - 1)
        plan.s.constrain(rows * each + (read - 1) <= most, "rows a page apart drive each other out of the cache")


def _one_row(plan: Plan, stage: Stage, types: list[DType]) -> None:
    """All elements as one row, in tasks of some vectors."""
    row = fuse_all(stage, stage.loops)
    vectors, lane = stage.split(row, factor=plan.knob(stage, "lanes", long_lanes(plan.machine, types)))
    task, _ = stage.split(vectors, factor=plan.knob(stage, "vectors", powers(16, 4096)))
    stage.parallel(task)
    stage.vectorize(lane)
    _stream_stores(plan, stage, lane)


def _stream_stores(plan: Plan, stage: Stage, lane: Loop) -> None:
    """Results that nothing reads again, and that no cache holds, may go straight to memory.

    for x: B[x] = f(x)   ->   for x: stream B[x] = f(x)     the lines of B are not read before they are written
    """
    is_last = stage.is_output and not plan.s.consumers(stage)
    # a line of the cache that is written in parts past it goes to memory in parts
    in_lines = _is_flat(stage) or _row_bytes(stage) % LINE == 0
    ways = ["kept", "streamed"] if is_last and in_lines and _bytes(stage) > plan.machine.l3 else ["kept"]
    if plan.choose(stage, "stores", ways) == "streamed":
        stage.pragma(lane, "streaming_store")


def _row_bytes(stage: Stage) -> int:
    """Bytes of a row of a result, short ones joined; 1 where that is not known."""
    inner = _joined(stage.axis)
    return (analysis.points(stage.axis[-inner:]) or 0) * stage.tensor.dtype.bytes or 1


def _bytes(stage: Stage) -> int:
    """Bytes of a result; 0 where its size is not known."""
    return (analysis.points(stage.axis) or 0) * stage.tensor.dtype.bytes


def _long_row(plan: Plan, stage: Stage) -> int:
    """How many innermost axes, which are one axis of all that is read, make a long row: most of a vector at the end of
    a short one, as any of open length may be, would be a rest. Enough rows are left for all threads, and producers keep
    the rows that they have."""
    run, inner = len(runs(stage)[-1]), _joined(stage.axis)
    if _has_producers(stage):
        return inner
    while inner < run and (analysis.points(stage.axis[-inner:]) or 0) < LONG:
        if analysis.has_fewer(stage.axis[: -inner - 1], 8 * plan.target.num_threads):
            break
        inner += 1
    return inner


def _has_producers(stage: Stage) -> bool:
    """Whether it reads what may still be computed at its loops."""
    sources = (stage.schedule.stage(a.tensor) for a in analysis.made_of(stage)[0])
    return any(not source.is_placeholder and not source.is_output for source in sources)


def row_loops(stage: Stage, axes: Sequence[IterVar] = (), inner: int = 0) -> tuple[list[Loop], Loop, int | None]:
    """Of the loops over some axes, or all, the outer ones, the innermost ones as one that is long enough for vectors,
    and how long that is."""
    axes = axes or stage.axis
    loops, inner = [stage.roots[a] for a in axes], inner or _joined(axes)
    return loops[:-inner], fuse_all(stage, loops[-inner:]), analysis.points(axes[-inner:])


def _joined(axes: Sequence[IterVar]) -> int:
    """How many of the innermost axes make a row that is long enough for vectors."""
    inner = 1
    while inner < len(axes) and analysis.has_fewer(axes[-inner:], SHORT):
        inner += 1
    return inner


def in_vectors(
    plan: Plan, stage: Stage, axes: Sequence[IterVar], alike: Sequence[Stage], owner: Stage
) -> tuple[list[Loop], Loop]:
    """Vectors along the row of some axes; the loops over the others, and that over the vectors of a row. Their lanes
    are those of all stages that are `alike`, by a knob of their `owner`: where borders are asked for, so many that most
    vectors of a row do not."""
    outer, row, n = row_loops(stage, axes)
    types = {t for x in alike for t in types_of(x)}
    widths = long_lanes(plan.machine, sorted(types, key=str), n)
    if n is not None and any(map(_asks_along_rows, alike)):
        widths = [w for w in widths if VECTORS_OF_BORDERED * w <= n] or widths[:1]
    known = plan.knob_of(owner, "lanes")
    block, lane = stage.split(row, factor=plan.knob(owner, "lanes", widths) if known is None else known)
    stage.vectorize(lane)
    return outer, block


def _asks_along_rows(stage: Stage) -> bool:
    """Whether what is read, or computed, is another thing near the ends of rows, in stages along the same rows, too."""

    def sources(x: Stage) -> Iterator[Stage]:
        along = (a.tensor for a in analysis.accesses(x) if a.is_contiguous(x.axis[-1]))
        return (y for y in map(x.schedule.stage, along) if y.is_injective)

    for reader in reached([stage], sources):
        if not reader.axis or is_decided_by(reader, reader.axis[-1]):
            return bool(reader.axis)
        if any(None in a.steps(reader.axis[-1]) for a in analysis.accesses(reader)):
            return True
    return False


def types_of(stage: Stage) -> list[DType]:
    """The types of the elements that a statement of this stage handles, intermediate results included."""
    found = {stage.tensor.dtype}
    for e in post_order(stage.body):
        if not is_index(e) and not e.dtype.is_bool:
            found.add(e.dtype)
    found |= {a.tensor.dtype for a in analysis.accesses(stage)}
    return sorted(found, key=str)


def _is_flat(stage: Stage) -> bool:
    """Every element is read at the very place that is written, and no place is asked for."""
    axes = [a.var for a in stage.axis]
    reads, asked = analysis.made_of(stage)
    if _has_producers(stage) or not asked.isdisjoint(axes):
        return False
    return all(
        not any(variables(i) for i in a.indices)
        or (len(a.indices) == len(axes) and all(i is v for i, v in zip(a.indices, axes, strict=True)))
        for a in reads
    )


def neighbours_share(stage: Stage, axis: IterVar) -> bool:
    """Whether neighbours along an axis read some element both: at several offsets along it, directly or through stages
    that are not settled yet."""
    waiting, seen = [(stage, frozenset({axis.var}))], {(stage, axis.var)}
    while waiting:
        reader, along = waiting.pop()
        offsets: dict[object, set[tuple[tuple[int, Expr], ...]]] = {}
        for a in analysis.accesses(reader):
            moving = [d for d, i in enumerate(a.indices) if variables(i) & along]
            offsets.setdefault(a.tensor, set()).add(tuple((d, a.indices[d]) for d in moving))
            source = stage.schedule.stage(a.tensor)
            if moving and not source.is_placeholder and source.is_injective:
                found = [source.axis[d].var for d in moving if (source, source.axis[d].var) not in seen]
                seen.update((source, v) for v in found)
                waiting += [(source, frozenset(found))] if found else []
        if any(_meet(places - {()}, along) for places in offsets.values()):
            return True
    return False


def _meet(places: set[tuple[tuple[int, Expr], ...]], along: frozenset[Expr]) -> bool:
    """Whether a place of one iteration, (dimension, index) each, may be another place of a later iteration: in steps
    by 2, the next element never is."""
    for a, b in combinations(sorted(places, key=repr), 2):
        away = [_steps_away(i, j, along) for (d, i), (e, j) in zip(a, b, strict=False) if d == e]
        if len(away) != len(a) or len(a) != len(b) or all(n is None or n.denominator == 1 for n in away):
            return True
    return False


def _steps_away(i: Expr, j: Expr, along: frozenset[Expr]) -> Fraction | None:
    """How many iterations later the index `j` is what `i` is now; None where that is not known."""
    moving = list(variables(i) & along)
    if len(moving) != 1:
        return None
    (v,) = moving
    step, apart = simplify(substitute(i, {v: v + 1}) - i), simplify(i - j)
    return Fraction(int(apart.value), int(step.value)) if is_const(step) and is_const(apart) and step.value else None
