"""Tasks and work-groups, how evenly they divide, and what ragged tails waste."""

from __future__ import annotations

from autosched.ir.expr import Expr, compare, const, floordiv, floormod, maximum, minimum, select, variables
from autosched.ir.stmt import Allocate, Stmt, children
from autosched.ir.visit import post_order, substitute
from autosched.space.features.footprint import Footprints
from autosched.space.features.machine import Machine
from autosched.space.features.memory import buffer_bytes
from autosched.space.features.sites import Nest, Site, is_task, product, ratio
from autosched.space.features.work import step

__all__ = ["parallel_features"]

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
        "imbalance": ratio(rounds * machine.units, tasks),
        "regions": _regions(root, const(1)),
        **_waste(out),
        **_groups(main, body, machine),
        **_item_loads(root.sites, prints),
    }


def _regions(nest: Nest, times: Expr) -> Expr:
    """How often a parallel loop is begun, or a kernel: the outermost loops of its kind."""
    total: Expr = const(0)
    for x in nest.inside:
        if isinstance(x, Nest) and x.loop is not None:
            begins = is_task(x.loop) or x.loop.thread.startswith("threadIdx")
            total = total + (times if begins else _regions(x, times * x.loop.extent))
    return total


def _waste(out: Site) -> dict[str, Expr]:
    useful: Expr = const(1)
    worst, row = const(1, "float64"), const(1, "float64")
    for reached, extent in _reached(out):
        useful = useful * extent
        row = ratio(reached, extent)
        worst = maximum(worst, row)
    return {"waste": ratio(out.iterations, useful), "axis_waste": worst, "row_waste": row}


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
        known = known and not any(e.op == "load" for e in post_order(reached))
        found.append((maximum(reached, 1) if known else extent, extent))
    return found


def _groups(main: Site, body: Stmt, machine: Machine) -> dict[str, Expr]:
    threads = product(x for x in main.loops if x.thread.startswith("threadIdx"))
    warps = floordiv(threads + (machine.warp - 1), machine.warp)
    shared: Expr = const(0)

    def visit(s: Stmt) -> None:
        nonlocal shared
        if isinstance(s, Allocate) and s.buffer.scope == "shared":
            shared = shared + buffer_bytes(s.buffer)
        for c in children(s):
            visit(c)

    visit(body)
    return {
        "threads": threads,
        "threads_x": product(x for x in main.loops if x.thread == "threadIdx.x"),
        "warp_fill": ratio(threads, warps * machine.warp),
        "shared_bytes": shared,
        "resident_groups": minimum(floordiv(const(machine.shared), maximum(shared, 1)), BANKS),
    }


def _item_loads(sites: tuple[Site, ...], prints: Footprints) -> dict[str, Expr]:
    """What neighbouring work-items read: neighbours in main memory, and different banks of shared memory?"""
    apart: Expr = const(0)
    queued: Expr = const(0)
    for site in sites:
        items = [x for x in site.loops if x.thread == "threadIdx.x"]
        for load in site.loads if items else ():
            by = step(load, items[-1].var, prints.an)
            if load.value.scope == "shared":
                queued = queued + site.iterations * (const(BANKS) if by is None else _conflict(by, load.dtype.bytes))
            elif load.value.scope == "global":
                near = const(False) if by is None else compare("le", by, maximum(site.lanes, 1))
                apart = apart + site.iterations * select(near, 0, 1)
    return {"uncoalesced_loads": apart, "bank_conflicts": queued}


def _conflict(by: Expr, width: int) -> Expr:
    """Work-items of 32 that queue for one bank, where neighbours are `by` elements apart."""
    words = by * const(max(1, width // BANK_BYTES))
    queue: Expr = const(1)
    for power in (2, 4, 8, 16, BANKS):
        queue = select(compare("eq", floormod(words, power), 0), power, queue)
    return select(compare("eq", by, 0), 1, queue)
