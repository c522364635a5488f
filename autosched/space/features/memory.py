"""Distinct bytes that loops touch, traffic and reuse for each level of caches, the bytes of intermediates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import mul

from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import (
    Expr,
    ceildiv,
    compare,
    const,
    floordiv,
    floormod,
    is_const,
    logical_and,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.node import order
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Allocate, Buffer, For, Prefetch, Stmt, children
from autosched.ir.visit import contains, post_order, rewrite, substitute
from autosched.lowering.bounds import interval
from autosched.space.features.sites import Access, Nest, Site, of_the_last, product, ratio, total
from autosched.target import Target


@dataclass(frozen=True)
class Machine:
    """Bytes of the caches, one unit's share of the last; bytes and number of vector registers, and bytes that a pipe
    takes of one at once; units.

    Where the target's limits do not say, they are those of a small CPU of today.
    """

    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    vector_bytes: int = 32
    registers: int = 16
    units: int = 1
    warp: int = 1
    shared: int = 32 << 10
    pipe_bytes: int = 64

    @property
    def masks_bytes(self) -> bool:
        """Whether bytes are loaded under a mask in one instruction, as AVX-512 does and AVX2 and NEON do not; the
        work-items of a GPU ask for themselves."""
        return self.warp > 1 or (self.vector_bytes > 16 and self.registers >= 32)

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine that a target's limits describe (`runtime.device.with_machine` adds a CPU's)."""
        known = target.limits
        units = known.get("compute_units", 1) if target.is_gpu_style else target.num_threads
        return Machine(
            known.get("l1_bytes", Machine.l1),
            known.get("l2_bytes", Machine.l2),
            known.get("l3_bytes", Machine.l3),
            known.get("vector_bytes", Machine.vector_bytes),
            known.get("vector_registers", Machine.registers),
            max(1, units),
            max(1, target.thread_warp_size),
            known.get("shared_memory_bytes", Machine.shared),
            known.get("vector_pipe_bytes", known.get("vector_bytes", Machine.vector_bytes)),
        )


#: A buffer and the sides of a box of it.
Box = tuple[Buffer, list[Expr]]
#: Bytes that caches fetch at once.
CACHE_LINE = 64
#: Caches do not lose all lines of a place as soon as there is one too many: times as many as they have ways.
SLACK = 1.4
#: Rows that lie no simple fraction of a page apart: more than any box has find places.
_FAR_APART = 1 << 40
#: More elements than any dimension has.
_NO_LIMIT = 1 << 62
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
    _interiors: dict[tuple[Expr, ...], tuple[Expr, ...]] = field(default_factory=dict)

    def distinct(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """Bytes touched as the relaxed variables run, each counted once."""
        return self._of_boxes(self._boxes(accesses, relaxed), _bytes)

    def fetched(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """The same in whole cache lines: what a row of a box lacks to a line is fetched with it."""
        key = (tuple(accesses), relaxed)
        if key not in self._fetched:
            self._fetched[key] = self._of_boxes(self._boxes(key[0], relaxed), self._lines)
        return self._fetched[key]

    def _lines(self, buffer: Buffer, sides: list[Expr]) -> Expr:
        return self._in_units(buffer, sides, CACHE_LINE) if _in_main_memory(buffer) else _bytes(buffer, sides)

    def _of_boxes(self, boxes: list[Box], size: Callable[[Buffer, list[Expr]], Expr]) -> Expr:
        """The size of all boxes; of several of one buffer no more than that of the buffer."""
        found: dict[Buffer, list[Expr]] = {}
        for buffer, sides in boxes:
            found.setdefault(buffer, []).append(size(buffer, sides))
        return total(
            each[0] if len(each) == 1 else minimum(total(each), size(buffer, list(buffer.shape)))
            for buffer, each in found.items()
        )

    def pages(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """Pages of memory that the boxes lie in."""
        boxes = (box for box in self._boxes(accesses, relaxed) if _in_main_memory(box[0]))
        return total(floordiv(self._in_units(*box, PAGE), PAGE) for box in boxes)

    def crowded(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> Expr:
        """Rows of those boxes whose rows lie whole pages apart."""
        found = []
        for buffer, sides in self._boxes(accesses, relaxed):
            rows, apart = const(1), const(buffer.dtype.bytes)
            for side, extent in zip(reversed(sides), reversed(buffer.shape), strict=True):
                rows = rows * select(compare("eq", floormod(apart, PAGE), 0), side, 1)
                apart = apart * extent
            if _in_main_memory(buffer) and len(sides) > 1:
                found.append(select(rows > 1, rows, 0))
        return total(found)

    def sides(self, access: Access, relaxed: frozenset[Expr]) -> list[Expr]:
        """Elements along each dimension that an access reaches as the relaxed variables run."""
        buffer, indices = access
        return self._box(buffer, (self._interior(indices),), relaxed)

    def finds_places(self, accesses: Iterable[Access], relaxed: frozenset[Expr], ways: int) -> Expr:
        """Whether a first-level cache has places for what is touched: addresses whole pages apart share one of so many
        ways, so of rows that lie fractions of a page apart it keeps as many times more."""
        found = const(True)
        for buffer, sides in self._boxes(accesses, relaxed):
            if len(sides) > 1:
                found = logical_and(found, self._lines_in_a_place(buffer, sides) <= SLACK * ways)
        return found

    def _lines_in_a_place(self, buffer: Buffer, sides: list[Expr]) -> Expr:
        """How many lines of a box share a place of a first-level cache: of rows that lie fractions of a page apart.

        Of rows that are a line wide or more, whole lines are read at once: they need not stay for the rest of them.
        """
        key = (buffer, tuple(sides), 0)
        if key not in self._units:
            shared, apart = const(1, "float64"), const(buffer.dtype.bytes)
            for side, extent in zip(reversed(sides), reversed(buffer.shape), strict=True):
                places = const(_FAR_APART)
                for power in (8, 4, 2, 1):
                    places = select(compare("eq", floormod(apart, PAGE // power), 0), power, places)
                if not is_const(side, 1) and not is_const(places, _FAR_APART):
                    shared = shared * maximum(ratio(side, places), 1.0)
                apart = apart * extent
            narrow = sides[-1] * const(buffer.dtype.bytes) < CACHE_LINE
            self._units[key] = select(narrow, shared, const(1, "float64"))
        return self._units[key]

    def traffic(self, nest: Nest, capacity: int, ways: int | None = None) -> Expr:
        """Bytes that a cache of `capacity` bytes fetches while a nest runs; `ways` as in `finds_places`."""
        accesses = [a for s in nest.sites for a in s.accesses]
        whole = nest.loops | ({nest.loop.var} if nest.loop is not None else set())
        compulsory = self.fetched(accesses, frozenset(whole))
        apart = total(
            self.traffic(x, capacity, ways) if isinstance(x, Nest) else self.fetched(x.accesses, frozenset())
            for x in nest.inside
        )
        fits = self.fetched(accesses, nest.loops) <= capacity
        if ways is not None:
            fits = logical_and(fits, self.finds_places(accesses, nest.loops, ways))
        return select(fits, compulsory, nest.times * apart)

    def _in_units(self, buffer: Buffer, sides: list[Expr], unit: int) -> Expr:
        key = (buffer, tuple(sides), unit)
        if key not in self._units:
            self._units[key] = _in_units(buffer, sides, unit)
        return self._units[key]

    def _boxes(self, accesses: Iterable[Access], relaxed: frozenset[Expr]) -> list[Box]:
        """The hulls of what is touched of each buffer. Accesses that lie apart by what varies, as places on a ring do,
        `t % 2` and `(t + 1) % 2`, have hulls of their own."""
        boxes: dict[Buffer, list[list[tuple[Expr, ...]]]] = {}
        for buffer, clamped in dict.fromkeys(accesses):
            indices = self._interior(clamped)
            groups = boxes.setdefault(buffer, [])
            near = next((group for group in groups if self._is_near(group[0], indices, relaxed)), None)
            if near is None:
                groups.append([indices])
            else:
                near.append(indices)
        return [(buffer, self._box(buffer, tuple(x), relaxed)) for buffer, groups in boxes.items() for x in groups]

    def _interior(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Indices as they are away from the borders: there it is known how far apart those of a window are."""
        if indices not in self._interiors:
            self._interiors[indices] = tuple(map(_without_clamps, indices))
        return self._interiors[indices]

    def _is_near(self, one: tuple[Expr, ...], other: tuple[Expr, ...], relaxed: frozenset[Expr]) -> bool:
        """Whether it is known how far apart two accesses are along each dimension, or for one of them nothing is."""
        for a, b in zip(one, other, strict=True):
            if a is not b:
                lows = self._interval(a, relaxed), self._interval(b, relaxed)
                if lows[0] is not None and lows[1] is not None and (lows[0][0] - lows[1][0]).constant is None:
                    return False
        return True

    def _box(self, buffer: Buffer, found: tuple[tuple[Expr, ...], ...], relaxed: frozenset[Expr]) -> list[Expr]:
        """The sides of the hull of some accesses to a buffer; the whole dimension where one is not known."""
        moving = frozenset(v for indices in found for i in indices for v in variables(i)) & relaxed
        key = (buffer, found, moving)
        if key not in self._sides:
            along = [list(dict.fromkeys(column)) for column in zip(*found, strict=True)]
            sides = [self._side(buffer, at, indices, moving) for at, indices in enumerate(along)]
            if len(found) == 1:
                sides = [minimum(side, x) for side, x in zip(sides, self._digits(found[0], moving), strict=True)]
            looked_up = [at for at, indices in enumerate(along) if all(map(is_looked_up, indices))]
            if len(looked_up) > 1:  # each look-up is one element, not a row of all columns
                *others, last = looked_up
                others_meet = reduce(mul, (sides[at] for at in others))
                each = ceildiv(self._look_ups(buffer, last, along[last], moving), others_meet)
                sides[last] = minimum(sides[last], each)
            self._sides[key] = sides
        return self._sides[key]

    def _side(self, buffer: Buffer, at: int, indices: list[Expr], relaxed: frozenset[Expr]) -> Expr:
        """Elements along one dimension of the hull; of those that data look up, no more than there are look-ups."""
        hull = _side([self._interval(i, relaxed) for i in indices], buffer.shape[at])
        if not all(map(is_looked_up, indices)):
            return hull
        return minimum(self._look_ups(buffer, at, indices, relaxed), hull)

    def _digits(self, indices: tuple[Expr, ...], relaxed: frozenset[Expr]) -> list[Expr]:
        """Of a number that is taken apart into digits, `f // n` and `f % n`: no more values than the number has, of the
        higher digit a share. Their hulls, each by itself, are whole dimensions wherever a digit may wrap."""
        limits = [const(_NO_LIMIT)] * len(indices)
        for at, index in enumerate(indices):
            if (digit := _digit_of(index)) is not None and not relaxed.isdisjoint(variables(digit[0])):
                number, base = digit
                known = self._interval(number, relaxed)
                if known is not None and all(v.value.role in ("size", "knob") for v in variables(known[1].expr())):
                    values = (known[1] + 1).expr()
                    limits[at] = values
                    for other, quotient in enumerate(indices):
                        if quotient.op == "floordiv" and quotient.args[0] is number and quotient.args[1] is base:
                            limits[other] = ceildiv(values, base)
        return limits

    def _look_ups(self, buffer: Buffer, at: int, indices: list[Expr], relaxed: frozenset[Expr]) -> Expr:
        """How many there are, times the elements that come with each along the last dimension: those of a line, or none
        where neighbours look up neighbours, because what is looked up there is the same for all."""
        scattered = any(e.op == "load" and not relaxed.isdisjoint(variables(e)) for e in post_order(indices))
        each = max(1, CACHE_LINE // buffer.dtype.bytes) if scattered and at == len(buffer.shape) - 1 else 1
        looked_up = (sorted(variables(i) & relaxed, key=order) for i in indices)
        return total(reduce(mul, map(self._steps, found), const(each)) for found in looked_up)

    def _steps(self, v: Expr) -> Expr:
        """How many values a loop's variable has; 1 for a knob, and what else stands still."""
        known = self._interval(v, frozenset({v}))
        return const(1) if known is None else (known[1] + 1).expr()

    def _interval(self, index: Expr, relaxed: frozenset[Expr]) -> tuple[Poly, Poly] | None:
        key = (index, relaxed & variables(index))
        if key not in self._intervals:
            known = interval(index, key[1], self.an)
            self._intervals[key] = None if known is None else (known.low, known.width)
        return self._intervals[key]


def _without_clamps(index: Expr) -> Expr:
    """Of each clamp the side that moves, and of what is wrapped around a border the side that is not."""

    def side(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        moving = [a for a in args if any(v.value.role not in ("size", "knob") for v in variables(a))]
        inside = [a for a in args[1:] if all(x.op != "floormod" for x in post_order(a))] if e.op == "select" else moving
        clamp = e.op in ("min", "max", "select") and len(inside) == 1
        return inside[0] if clamp else None

    return rewrite(index, side)


def _digit_of(index: Expr) -> tuple[Expr, Expr] | None:
    """The number and the base of an index that is its last digit: `f % n`, or `f - f // n * n`."""
    if index.op == "floormod":
        return index.args[0], index.args[1]
    if index.op == "sub" and index.args[1].op == "mul":
        for quotient, base in (index.args[1].args, index.args[1].args[::-1]):
            if quotient.op == "floordiv" and quotient.args[0] is index.args[0] and quotient.args[1] is base:
                return quotient.args[0], base
    return None


def is_looked_up(index: Expr) -> bool:
    """Whether data say what it is."""
    return contains(index, "load", "call")


def _side(spans: list[tuple[Poly, Poly] | None], extent: Expr) -> Expr:
    """Elements along one dimension of the hull of intervals (low, width)."""
    side: Expr | None = None
    first = spans[0]
    for span in spans:
        if span is None or first is None:
            return extent
        shift = (span[0] - first[0]).constant
        length = span[1] + 1 + (abs(shift) if shift is not None else 0)
        if any(v.value.role not in ("size", "knob") for v in variables(length.expr())):
            return extent
        side = length.expr() if side is None else maximum(side, length.expr())
    assert side is not None
    return minimum(side, extent)


def _in_main_memory(buffer: Buffer) -> bool:
    return buffer.scope in ("global", "")


def _bytes(buffer: Buffer, sides: Iterable[Expr]) -> Expr:
    return reduce(mul, sides, const(buffer.dtype.bytes))


def _in_units(buffer: Buffer, sides: list[Expr], unit: int) -> Expr:
    """Bytes of the cache lines or pages that a box of a row-major buffer lies in, if its rows begin where one does."""
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


def memory_features(
    root: Nest, main: Site, body: Stmt, prints: Footprints, machine: Machine, work: Mapping[str, Expr]
) -> dict[str, Expr]:
    """The columns of this file; `work` has those of `work.py`."""
    l1 = prints.traffic(root, machine.l1, max(1, machine.l1 // PAGE))
    l2, l3 = (prints.traffic(root, size) for size in (machine.l2, machine.l3))
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

    whole, task = of(main.loops), [x for x in main.loops if x not in main.outer]
    buffers = dict.fromkeys(buffer for buffer, _ in main.accesses)
    distance: Expr = const(0)
    for load in main.loads:
        repeats = [x for x in main.loops if x.kind != "vectorize" and not _moves(load, x)]
        distance = maximum(distance, of_the_last(repeats, lambda at, r=repeats: inside(r[at]), const(0)))  # type: ignore[misc]

    def of_a_row(units: Callable[[Iterable[Access], frozenset[Expr]], Expr]) -> Expr:
        def value(loops: Iterable[For]) -> Expr:
            return units(main.accesses, frozenset(x.var for x in loops))

        rows = [main.loops[main.loops.index(x) :] for x in serial]
        return of_the_last(serial, lambda at: value(rows[at]), value(task))

    return {
        "traffic": whole,
        "task_footprint": of(task),
        "shared_by_tasks": total(_if_shared(main, x, prints) for x in buffers),
        "inner_footprint": of_the_last(serial, lambda at: inside(serial[at]), of(task)),
        "row_footprint": of_the_last(serial, lambda at: inside(serial[at], 1), of(task)),
        "reuse_distance": distance,
        "row_pages": of_a_row(prints.pages),
        "crowded_rows": of_a_row(prints.crowded),
    }


def _if_shared(main: Site, buffer: Buffer, prints: Footprints) -> Expr:
    """The distinct bytes of a buffer, where the tasks together touch twice as many or more."""
    accesses = [a for a in main.accesses if a[0] is buffer]
    all_tasks, task = (
        prints.distinct(accesses, frozenset(x.var for x in loops))
        for loops in (main.loops, [x for x in main.loops if x not in main.outer])
    )
    return select(product(main.outer) * task >= 2 * all_tasks, all_tasks, 0)


def _asked_ahead(body: Stmt) -> Expr:
    """The most bytes that a prefetch runs ahead of the loops around it, of those whose places no data tell."""
    most: Expr = const(0)

    def visit(s: Stmt, first: dict[Expr, Expr]) -> None:
        nonlocal most
        if isinstance(s, For):
            first = {**first, s.var: const(0)}
        if isinstance(s, Prefetch) and not contains(s.indices, "load"):
            distance = row_major_offset([substitute(index, first) for index in s.indices], s.buffer.shape)
            most = maximum(most, distance * s.buffer.dtype.bytes)
        for c in children(s):
            visit(c, first)

    visit(body, {})
    return most


def _moves(load: Expr, loop: For) -> bool:
    return any(loop.var in variables(i) for i in load.args)


def _intermediates(body: Stmt) -> dict[str, Expr]:
    found = list(_allocations(body, const(1)))
    return {
        "private_bytes": total(select(times > 1, size, 0) for size, times in found),
        "global_intermediate_bytes": total(select(times > 1, 0, size) for size, times in found),
    }


def _allocations(s: Stmt, times: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Bytes of each allocation, and how often it is made."""
    if isinstance(s, Allocate):
        yield s.buffer.elements * s.buffer.dtype.bytes, times
    for c in children(s):
        yield from _allocations(c, times * s.extent if isinstance(s, For) else times)
