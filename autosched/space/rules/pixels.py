"""Loops over pixels of few channels, and over elements of little matrices.

whole_pixels            for x: for c: C[x, c] = A[2*x, c]   ->   for x.o: unroll p in 3: C[x.o*192 + p*64 : .. + 64]
planes_of_pixels        for x: for c: C[x, c] = A[c, x]     ->   for x.o: unroll c: C[x.o*16 : x.o*16+16, c] = A[c, ..]
"""

from __future__ import annotations

from itertools import combinations, takewhile

from autosched.ir.expr import variables
from autosched.ir.ops import CHOICES
from autosched.ir.visit import post_order
from autosched.schedule.stage import Stage
from autosched.space import analysis
from autosched.space.analysis import Access, long_lanes, powers
from autosched.space.rules import rows
from autosched.space.rules.engine import Plan, rule
from autosched.space.rules.rows import LONG, SHORT
from autosched.te.tensor import IterVar


def steps_over_pixels(plan: Plan, stage: Stage) -> bool:
    """Whether neighbouring pixels of several channels are made of pixels that are no neighbours."""
    if (
        not rows.is_map(plan, stage)
        or len(stage.axis) < 3
        or not 1 < (analysis.length(stage.axis[-1]) or SHORT) <= analysis.MOST_CHANNELS
        or len(mixed_channels(plan, stage)) > 1
    ):
        return False
    return any(any(step != (at == 1) for at, step in enumerate(reversed(steps))) for steps in _steps_of_pixels(stage))


def _steps_of_pixels(stage: Stage) -> list[tuple[int | None, ...]]:
    """The distances that indices move from a pixel to the next, for each read of whole pixels, away from clamps."""
    x, c = stage.axis[-2:]
    reads = [a for a in analysis.accesses(stage) if a.mentions(x) and rows.away_from_clamps(a, c).is_contiguous(c)]
    return [rows.away_from_clamps(a, x).steps(x) for a in reads]


def _ways(stage: Stage) -> list[str]:
    """How pixels may be taken: vectors have the same pattern wherever pixels lie equally far apart in a row, and are
    put together byte by byte where each pixel lies in another row."""
    found = _steps_of_pixels(stage)
    if any(step for steps in found for step in steps[:-2]):
        return ["one by one"]
    return ["vectors"] if all(None not in steps for steps in found) else ["one by one", "vectors"]


@rule(when=steps_over_pixels)
def whole_pixels(plan: Plan, stage: Stage) -> None:
    """Pixels of few channels that are made of pixels elsewhere: vectors that end where a pixel does, or pixel by pixel.

    There are as many such vectors as channels. Pixel by pixel, the places it is made of are computed once for all
    channels.

    for x: for c: C[x, c] = A[2*x, c]   ->   for x.o: unroll p in 3: C[x.o*192 + p*64 : .. + 64] = A[the same pattern]
                                             for x: unroll c: C[x, c] = A[2*x, c]
    """
    types = rows.types_of(stage)
    *outer, x, c = (stage.roots[a] for a in stage.axis)
    channels, n = analysis.length(stage.axis[-1]), analysis.points(stage.axis[-2:])
    if plan.choose(stage, "pixels", _ways(stage)) == "vectors":
        lanes = plan.knob(stage, "lanes", long_lanes(plan.machine, types, n))
        block, part = stage.split(stage.fuse(x, c), factor=lanes * channels)
        inside = [*stage.split(part, factor=lanes)]
        stage.unroll(inside[0])
        stage.vectorize(inside[1])
    else:
        block, near = stage.split(x, factor=plan.knob(stage, "near", (1, 2, 4, 8)))
        inside = [near, c]
        stage.unroll(near)
        stage.unroll(c)
    rows.strips(plan, stage, outer, block, inside)


def mixed_channels(plan: Plan, stage: Stage) -> list[IterVar]:
    """The innermost axes that are the few channels of a pixel, or the elements of a little matrix, if these are made in
    different ways, or of other ones: lanes along a row would differ then. Else none."""
    if not rows.is_map(plan, stage):
        return []
    inner = [*takewhile(lambda a: 1 < (analysis.length(a) or LONG) <= analysis.MOST_CHANNELS, stage.axis[:0:-1])]
    inner = inner[1::-1]  # of more axes than two, the outer ones are loops
    if len(inner) > 1 and _are_elements(stage, inner):
        return inner
    return inner[-1:] if mixes_channels(plan, stage) else []


def _are_elements(stage: Stage, axes: list[IterVar]) -> bool:
    """Whether a condition or a division asks which element of a little matrix it is, or some of what it is made of has
    rows and some has columns; or that is so of what its elements are made of one by one."""
    place, reads = tuple(a.var for a in axes), analysis.accesses(stage)
    for e in post_order([*stage.body, *(i for a in reads for i in a.indices)]):
        if e.op in (*CHOICES, "floordiv", "floormod") and not variables(e.args[0]).isdisjoint(place):
            return True
    found = {frozenset(a.var for a in axes if read.mentions(a)) for read in reads}
    sources = {stage.schedule.stage(a.tensor) for a in reads if a.indices[-len(place) :] == place}
    are_made_so = (x.is_injective and _are_elements(x, list(x.axis[-len(place) :])) for x in sources)
    return any(not (x <= y or y <= x) for x, y in combinations(found, 2)) or any(are_made_so)


def mixes_channels(plan: Plan, stage: Stage) -> bool:
    """Whether the innermost axis is such; it looks through stages that are not settled yet, and of which each element
    is used once."""
    if not rows.is_map(plan, stage) or len(stage.axis) < 2:
        return False
    waiting = [(stage, stage.axis[-2], stage.axis[-1])]
    seen = {stage}
    while waiting:
        reader, x, c = waiting.pop()
        if not 1 < (analysis.length(c) or SHORT) <= analysis.MOST_CHANNELS:
            continue
        if rows.is_decided_by(reader, c):
            return True
        for a in analysis.accesses(reader):
            source = reader.schedule.stage(a.tensor)
            if a.mentions(x) != a.mentions(c) or (a.mentions(c) and _lie_elsewhere(a, x, c)):
                return True
            is_last = a.mentions(c) and a.dimension(c) == len(a.indices) - 1 > 0
            if is_last and source not in seen and source.is_injective and analysis.recomputed_by_pixel(source) <= 1:
                seen.add(source)
                waiting.append((source, source.axis[-2], source.axis[-1]))
    return False


def _lie_elsewhere(read: Access, x: IterVar, c: IterVar) -> bool:
    """Whether the channels that are read are planes, run backwards, or are only some of those that are there: along the
    pixels of a row they are no row."""
    if not rows.away_from_clamps(read, c).is_contiguous(c):
        return True
    *_, along, _ = (0, *rows.away_from_clamps(read, x).steps(x))
    return along == 1 and read.tensor.shape[-1] is not c.extent


@rule(when=lambda plan, stage: bool(mixed_channels(plan, stage)))
def planes_of_pixels(plan: Plan, stage: Stage) -> None:
    """Pixels whose channels differ: a vector of pixels for each channel, which are stored interleaved.

    for x: for c: C[x, c] = f(A[x, 0], A[x, 1], c)   ->   for x.o: unroll c: C[x.o*16 : x.o*16+16, c] = f(.., c)
    """
    *outer, x = stage.axis[: -len(mixed_channels(plan, stage))]
    channels = [stage.roots[c] for c in stage.axis[len(outer) + 1 :]]
    widths = long_lanes(plan.machine, rows.types_of(stage), analysis.length(x))
    if len(channels) > 1:  # many vectors at once, interleaved by shuffles: of narrow ones there are fewer
        widths = sorted({max(2, widths[0] // 4), max(2, widths[0] // 2)})
    block, lane = stage.split(stage.roots[x], factor=plan.knob(stage, "lanes", widths))
    stage.reorder(block, *channels, lane)
    for c in channels:
        stage.unroll(c)
    stage.vectorize(lane)
    if outer:
        written_out = analysis.iterations(stage.axis[-len(channels) :])
        rows.strips(plan, stage, [stage.roots[a] for a in outer], block, [*channels, lane], written_out)
    elif len(channels) > 1:
        task, block = stage.split(block, factor=plan.knob(stage, "blocks", powers(1, 64)))
        stage.parallel(task)
        plan.offer(stage, task=task, block=block)
    else:
        stage.parallel(block)
