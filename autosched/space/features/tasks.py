"""Tasks of threads, and work-groups: how many there are, how full, and what borders waste."""

from __future__ import annotations

from functools import reduce
from operator import mul

from autosched.ir.expr import (
    Expr,
    compare,
    const,
    floordiv,
    floormod,
    is_index,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.ops import ORDERS
from autosched.ir.stmt import Allocate, Stmt, walk
from autosched.ir.visit import contains, substitute
from autosched.space.features.memory import Footprints, Machine
from autosched.space.features.sites import (
    Nest,
    Site,
    is_task,
    product,
    ratio,
    total,
)
from autosched.space.features.work import step

#: Banks of shared memory, and the bytes of a word of one: NVIDIA's, and nearly all others'.
BANKS, BANK_BYTES = 32, 4


def parallel_features(
    root: Nest, main: Site, out: Site, body: Stmt, prints: Footprints, machine: Machine
) -> dict[str, Expr]:
    """The columns of this file."""
    tasks = product(main.outer)
    rounds = floordiv(tasks + (machine.units - 1), machine.units)
    return {
        "tasks": tasks,
        "task_iterations": ratio(main.iterations, tasks),
        "imbalance": maximum(ratio(rounds * machine.units, tasks), _last_task(main, tasks, machine)),
        "regions": _regions(root, const(1)),
        **_waste(out),
        **_groups(main, body, machine),
        **_item_loads(root.sites, prints),
    }


def _last_task(main: Site, tasks: Expr, machine: Machine) -> Expr:
    """How much longer units take for tasks of which conditions leave more and more, as the rows of a triangle: half of
    the last one, which is twice as long as the others on average, is done by one unit alone."""
    whole = const(1, "float64")
    last = reduce(maximum, (_slope(c, main) for c in main.asked), const(0, "float64"))
    return whole + last * ratio(const(machine.units - 1), tasks)


def _slope(condition: Expr, main: Site) -> Expr:
    """How far one side of a comparison goes for each step of the other, from 0 to 1, where tasks matter: 0 of a border,
    1 of the diagonal of a square."""
    none, sides = const(0, "float64"), condition.args
    if condition.op not in ORDERS or not all(map(is_index, sides)):
        return none
    if all(variables(e).isdisjoint(x.var for x in main.outer) for e in sides):
        return none
    if contains(sides, "load"):
        return none
    first = {x.var: x.start for x in reversed(main.loops)}
    last = {x.var: x.start + x.extent - 1 for x in reversed(main.loops)}
    last_task = first | {x.var: last[x.var] for x in main.outer}

    def moved(to: dict[Expr, Expr]) -> list[Expr]:
        ways = (substitute(e, to) - substitute(e, first) for e in sides)
        return [maximum(way, -way) for way in ways]

    short, long = minimum(*moved(last)), maximum(*moved(last))
    return select(maximum(*moved(last_task)) > 0, ratio(short, maximum(long, 1)), none)


def _regions(nest: Nest, times: Expr) -> Expr:
    """The number of times that a parallel loop, or a kernel, is begun: the outermost loops of its kind."""
    begun = []
    for x in nest.inside:
        if isinstance(x, Nest) and x.loop is not None:
            begins = is_task(x.loop) or x.loop.thread.startswith("threadIdx")
            begun.append(times if begins else _regions(x, times * x.loop.extent))
    return total(begun)


def _waste(out: Site) -> dict[str, Expr]:
    axes = [ratio(reached, extent) for reached, extent in _reached(out)]
    useful = reduce(mul, out.store.buffer.shape, const(1))
    none = const(1, "float64")
    worst = reduce(maximum, axes, none)
    return {"waste": ratio(out.iterations, useful), "axis_waste": worst, "row_waste": [none, *axes][-1]}


def _reached(site: Site) -> list[tuple[Expr, Expr]]:
    """Along each dimension of what is stored: elements from the first iteration to the last, and those there are.

    Not by intervals: a fused loop that is taken apart again, `f // n` and `f - f // n * n`, has both ends
    right where interval arithmetic sees two numbers that have nothing to do with each other.
    """
    first = {x.var: x.start for x in reversed(site.loops)}
    last = {x.var: x.start + x.extent - 1 for x in reversed(site.loops)}
    found = []
    for index, extent in zip(site.store.indices, site.store.buffer.shape, strict=True):
        reached = substitute(index, last) - substitute(index, first) + 1
        known = all(v.value.role in ("size", "knob") for v in variables(reached))
        known = known and not contains(reached, "load")
        found.append((maximum(reached, 1) if known else extent, extent))
    return found


def _groups(main: Site, body: Stmt, machine: Machine) -> dict[str, Expr]:
    threads = product(x for x in main.loops if x.thread.startswith("threadIdx"))
    warps = floordiv(threads + (machine.warp - 1), machine.warp)
    buffers = [s.buffer for s in walk(body) if isinstance(s, Allocate) and s.buffer.scope == "shared"]
    shared = total(b.elements * b.dtype.bytes for b in buffers)
    return {
        "threads": threads,
        "threads_x": product(x for x in main.loops if x.thread == "threadIdx.x"),
        "warp_fill": ratio(threads, warps * machine.warp),
        "shared_bytes": shared,
        "resident_groups": minimum(floordiv(const(machine.shared), maximum(shared, 1)), BANKS),
    }


def _item_loads(sites: tuple[Site, ...], prints: Footprints) -> dict[str, Expr]:
    """Loads whose neighbours in a warp are no neighbours in main memory, and queues at banks of shared memory."""
    apart, queued = [], []
    for site in sites:
        items = [x for x in site.loops if x.thread == "threadIdx.x"]
        for load in site.loads if items else ():
            by = step(load, items[-1].var, prints.an)
            if load.value.scope == "shared":
                queued.append(site.iterations * (const(BANKS) if by is None else _conflict(by, load.dtype.bytes)))
            elif load.value.scope == "global":
                near = const(False) if by is None else compare("le", by, maximum(site.lanes, 1))
                apart.append(site.iterations * select(near, 0, 1))
    return {"uncoalesced_loads": total(apart), "bank_conflicts": total(queued)}


def _conflict(by: Expr, width: int) -> Expr:
    """Work-items of 32 that queue for one bank, where neighbours are `by` elements apart."""
    words = by * const(max(1, width // BANK_BYTES))
    queue: Expr = const(1)
    for power in (2, 4, 8, 16, BANKS):
        queue = select(compare("eq", floormod(words, power), 0), power, queue)
    return select(compare("eq", by, 0), 1, queue)
