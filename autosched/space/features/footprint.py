"""Distinct bytes that loops touch, and the bytes that caches of a given size have to fetch.

A footprint is a box for each buffer: the hull of all accesses as some loop variables run through
their ranges (Ansor's "unique bytes": Zheng et al., OSDI 2020, appendix B). What a cache of C bytes
fetches follows from footprints (the reasoning of Halide's autoscheduler; Adams et al., SIGGRAPH 2019):

    fetched(loop) = footprint(all of it)                      if one iteration's footprint fits into C
                    iterations * sum of fetched(inside)       otherwise

for if one iteration fits, the next one finds what both touch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autosched.ir.expr import (
    Expr,
    compare,
    const,
    floordiv,
    floormod,
    logical_and,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer
from autosched.lower.bounds import interval
from autosched.space.features.sites import Access, Nest

__all__ = ["CACHE_LINE", "PAGE", "Footprints"]

#: Bytes that caches fetch at once.
CACHE_LINE = 64
#: Bytes of a page of memory; and addresses so far apart share a place in a first-level cache.
PAGE = 4096


@dataclass
class Footprints:
    """Footprints under one analyzer, which knows the ranges of all loops; each is worked out once."""

    an: Analyzer
    _intervals: dict[tuple[Expr, frozenset[Expr]], tuple[Poly, Poly] | None] = field(default_factory=dict)
    _sides: dict[object, list[Expr]] = field(default_factory=dict)
    _units: dict[object, Expr] = field(default_factory=dict)
    _fetched: dict[object, Expr] = field(default_factory=dict)

    def distinct(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """Bytes touched as the relaxed variables run, each counted once."""
        total: Expr = const(0)
        for buffer, sides in self._boxes(accesses, relaxed):
            size: Expr = const(buffer.dtype.bytes)
            for side in sides:
                size = size * side
            total = total + size
        return total

    def fetched(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """The same in whole cache lines: what a row of a box lacks to a line is fetched with it."""
        key = (tuple(accesses), relaxed)
        if key not in self._fetched:
            total: Expr = const(0)
            for buffer, sides in self._boxes(key[0], relaxed):
                if buffer.scope in ("global", ""):
                    total = total + self._in_units(buffer, sides, CACHE_LINE)
                else:
                    size: Expr = const(buffer.dtype.bytes)
                    for side in sides:
                        size = size * side
                    total = total + size
            self._fetched[key] = total
        return self._fetched[key]

    def pages(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """Pages of memory that the boxes lie in."""
        total: Expr = const(0)
        for buffer, sides in self._boxes(accesses, relaxed):
            if buffer.scope in ("global", ""):
                total = total + floordiv(self._in_units(buffer, sides, PAGE), PAGE)
        return total

    def crowded(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """Cache lines of those boxes whose rows lie whole pages apart."""
        total: Expr = const(0)
        for buffer, sides in self._boxes(accesses, relaxed):
            if buffer.scope not in ("global", "") or len(sides) < 2:
                continue
            rows, size = sides[-2], buffer.dtype.bytes
            lines = rows * floordiv(_whole(sides[-1] * size, CACHE_LINE), CACHE_LINE)
            meet = compare("eq", floormod(buffer.shape[-1] * size, PAGE), 0)
            total = total + select(logical_and(rows > 1, meet), lines, 0)
        return total

    def sides(self, access: Access, relaxed: frozenset[Expr]) -> list[Expr]:
        """Elements along each dimension that an access reaches as the relaxed variables run."""
        buffer, indices = access
        return self._box(buffer, (indices,), relaxed)

    def traffic(self, nest: Nest, capacity: int) -> Expr:
        """Bytes that a cache of `capacity` bytes fetches while a nest runs."""
        accesses = [a for s in nest.sites for a in s.accesses]
        whole = nest.loops | ({nest.loop.var} if nest.loop is not None else set())
        compulsory = self.fetched(accesses, frozenset(whole))
        apart: Expr = const(0)
        for x in nest.inside:
            apart = apart + (
                self.traffic(x, capacity) if isinstance(x, Nest) else self.fetched(x.accesses, frozenset())
            )
        again = nest.times * apart
        return select(self.fetched(accesses, nest.loops) <= capacity, compulsory, again)

    def _in_units(self, buffer: Buffer, sides: list[Expr], unit: int) -> Expr:
        """The function of that name, asked once for each box."""
        key = (buffer, tuple(sides), unit)
        if key not in self._units:
            self._units[key] = _in_units(buffer, sides, unit)
        return self._units[key]

    def _boxes(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> list[tuple[Buffer, list[Expr]]]:
        boxes: dict[Buffer, list[tuple[Expr, ...]]] = {}
        for buffer, indices in accesses:
            boxes.setdefault(buffer, []).append(indices)
        return [(buffer, self._box(buffer, tuple(dict.fromkeys(found)), relaxed)) for buffer, found in boxes.items()]

    def _box(self, buffer: Buffer, found: tuple[tuple[Expr, ...], ...], relaxed: frozenset[Expr]) -> list[Expr]:
        """The sides of the hull of some accesses to a buffer; the whole dimension where one is not known."""
        moving = frozenset(v for indices in found for i in indices for v in variables(i)) & relaxed
        key = (buffer, found, moving)
        if key not in self._sides:
            dims = [[self._interval(i, moving) for i in indices] for indices in found]
            self._sides[key] = [_side([d[at] for d in dims], extent) for at, extent in enumerate(buffer.shape)]
        return self._sides[key]

    def _interval(self, index: Expr, relaxed: frozenset[Expr]) -> tuple[Poly, Poly] | None:
        key = (index, relaxed & variables(index))
        if key not in self._intervals:
            known = interval(index, key[1], self.an)
            self._intervals[key] = None if known is None else (known.low, known.width)
        return self._intervals[key]


def _side(spans: list[tuple[Poly, Poly] | None], extent: Expr) -> Expr:
    """Elements along one dimension of the hull of intervals (low, width)."""
    side: Expr | None = None
    first = spans[0]
    for span in spans:
        if span is None or first is None:
            return extent
        shift = (span[0] - first[0]).constant
        length = span[1] + 1 + (abs(shift) if shift is not None else 0)
        if not _is_open(length):
            return extent
        side = length.expr() if side is None else maximum(side, length.expr())
    assert side is not None
    return minimum(side, extent)


def _is_open(length: Poly) -> bool:
    """Whether it mentions sizes and knobs only."""
    return all(v.value.role in ("size", "knob") for v in variables(length.expr()))


def _in_units(buffer: Buffer, sides: list[Expr], unit: int) -> Expr:
    """Bytes of the cache lines, pages or other units that a box of a row-major buffer lies in, if its rows begin
    where a unit does."""
    held: Expr = const(buffer.dtype.bytes)  # bytes of the box, the outer dimensions aside
    apart = held  # bytes from one element of a dimension to the next
    fetched: Expr = _whole(held, unit)
    covered = const(True)  # whether the inner dimensions are covered from end to end
    for side, extent in zip(reversed(sides), reversed(buffer.shape), strict=True):
        held = held * side
        fetched = select(covered, _whole(held, unit), minimum(side * fetched, _whole(side * apart, unit)))
        apart = apart * extent
        covered = logical_and(covered, side is extent or compare("eq", side, extent))
    return fetched


def _whole(size: Expr, unit: int) -> Expr:
    return floordiv(size + (unit - 1), unit) * unit
