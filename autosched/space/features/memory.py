"""Footprints, traffic and reuse for each level of caches, and the bytes of intermediates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from autosched.ir.expr import Expr, const, maximum, select, variables
from autosched.ir.stmt import Allocate, Buffer, For, Prefetch, Stmt, children
from autosched.ir.visit import substitute
from autosched.space.features.footprint import Footprints
from autosched.space.features.machine import Machine
from autosched.space.features.sites import Access, Nest, Site, of_the_last, ratio

__all__ = ["buffer_bytes", "memory_features"]


def memory_features(
    root: Nest, main: Site, body: Stmt, prints: Footprints, machine: Machine, work: Mapping[str, Expr]
) -> dict[str, Expr]:
    """The columns of this file; `work` has those of `work.py`."""
    l1, l2, l3 = (prints.traffic(root, size) for size in (machine.l1, machine.l2, machine.l3))
    found = {
        "bytes_into_l1": l1,
        "bytes_into_l2": l2,
        "bytes_into_l3": l3,
        "l1_reuse": ratio(work["bytes_loaded"], l1),
        "l2_reuse": ratio(l1, l2),
        "l3_reuse": ratio(l2, l3),
        "l2_intensity": ratio(work["arithmetic"], l2),
        "memory_intensity": ratio(work["arithmetic"], l3),
    }
    found |= _main_footprints(main, prints)
    found["reuse"] = ratio(work["bytes_loaded"], found["traffic"])
    found["prefetch_distance"] = _asked_ahead(body)
    return found | _intermediates(body)


def _main_footprints(main: Site, prints: Footprints) -> dict[str, Expr]:
    serial = [x for x in main.loops if x.kind == "serial"]

    def of(loops: list[For] | tuple[For, ...]) -> Expr:
        return prints.distinct(main.accesses, frozenset(x.var for x in loops))

    def inside(loop: For, with_itself: int = 0) -> Expr:
        return of(main.loops[main.loops.index(loop) + 1 - with_itself :])

    whole = of(main.loops)
    distance: Expr = const(0)
    for load in main.loads:
        repeats = [x for x in main.loops if x.kind != "vectorize" and not _moves(load, x)]
        distance = maximum(distance, of_the_last(repeats, lambda at, r=repeats: inside(r[at]), const(0)))  # type: ignore[misc]

    def of_a_row(of: Callable[[Iterable[Access], frozenset[Expr]], Expr]) -> Expr:
        def value(at: int) -> Expr:
            return of(main.accesses, frozenset(x.var for x in main.loops[main.loops.index(serial[at]) :]))

        return of_the_last(serial, value, of(main.accesses, frozenset(x.var for x in main.loops)))

    return {
        "traffic": whole,
        "task_footprint": of([x for x in main.loops if x not in main.outer]),
        "inner_footprint": of_the_last(serial, lambda at: inside(serial[at]), whole),
        "row_footprint": of_the_last(serial, lambda at: inside(serial[at], 1), whole),
        "reuse_distance": distance,
        "row_pages": of_a_row(prints.pages),
        "crowded_lines": of_a_row(prints.crowded),
    }


def _asked_ahead(body: Stmt) -> Expr:
    """How many bytes prefetches run ahead of where the loops around them are, at most."""
    most: Expr = const(0)

    def visit(s: Stmt, first: dict[Expr, Expr]) -> None:
        nonlocal most
        if isinstance(s, For):
            first = {**first, s.var: const(0)}
        if isinstance(s, Prefetch):
            distance: Expr = const(0)
            for index, extent in zip(s.indices, s.buffer.shape, strict=True):
                distance = distance * extent + substitute(index, first)
            most = maximum(most, distance * s.buffer.dtype.bytes)
        for c in children(s):
            visit(c, first)

    visit(body, {})
    return most


def _moves(load: Expr, loop: For) -> bool:
    return any(loop.var in variables(i) for i in load.args)


def _intermediates(body: Stmt) -> dict[str, Expr]:
    private: Expr = const(0)
    shared: Expr = const(0)

    def visit(s: Stmt, times: Expr) -> None:
        nonlocal private, shared
        if isinstance(s, Allocate):
            size = buffer_bytes(s.buffer)
            private = private + select(times > 1, size, 0)
            shared = shared + select(times > 1, 0, size)
        for c in children(s):
            visit(c, times * s.extent if isinstance(s, For) else times)

    visit(body, const(1))
    return {"private_bytes": private, "global_intermediate_bytes": shared}


def buffer_bytes(b: Buffer) -> Expr:
    return b.elements * b.dtype.bytes
