"""Which loops are written out although nobody said so: short ones with a constant number of iterations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.ir.stmt import For, Stmt, Store, children, map_stmt

__all__ = ["choose_unrolled"]


@dataclass(frozen=True)
class _Size:
    """Of what a statement becomes: stores, written-out loops around one another, and loops that stay."""

    steps: int = 0
    unrolled: int = 0
    loops: int = 0

    def beside(self, other: _Size) -> _Size:
        return _Size(self.steps + other.steps, max(self.unrolled, other.unrolled), max(self.loops, other.loops))


def choose_unrolled(s: Stmt, max_step: int, max_depth: int = 8, max_extent: int = 0) -> Stmt:
    """`s` with innermost serial loops marked for unrolling, where that makes at most `max_step` stores
    or the loop has at most `max_extent` iterations; no more than `max_depth` such loops in one another.

    This is TVM's rule of `tir.UnrollLoop`. Nothing is marked with `max_step` and `max_extent` 0.
    """
    if max_step <= 0 and max_extent <= 0:
        return s
    sizes: dict[Stmt, _Size] = {}

    def measure(s: Stmt) -> Stmt:
        size = _Size(steps=int(isinstance(s, Store)))
        for c in children(s):
            size = size.beside(sizes[c])
        if isinstance(s, For):
            s, size = with_mark(s, size)
        sizes[s] = size
        return s

    def with_mark(s: For, size: _Size) -> tuple[For, _Size]:
        times = s.extent.value if s.extent.op == "const" else -1
        fits = times >= 0 and (times * size.steps <= max_step or times <= max_extent)
        chosen = s.kind == "serial" and fits and size.loops == 0 and size.unrolled < max_depth
        if chosen:
            s = replace(s, kind="unroll")
        if s.kind == "unroll" and times >= 0:
            return s, _Size(size.steps * times, size.unrolled + 1, size.loops)
        return s, replace(size, loops=size.loops + 1)

    return map_stmt(s, on_stmt=measure)
