"""Chains of butterflies: each stage makes a few elements of a row from the same few elements of the stage before.

butterflies             S1[b, i] = f(S0[b, i], S0[b, i ^ 1])   ->   parallel for b:  S0 of the row, turned
                        S2[b, i] = f(S1[b, i], S1[b, i ^ 2])          for i.h: S1, S2 of 4 x 16 elements, in registers
                        ..                                            for i.h: S3, S4 of 4 x 16 elements, in registers

Fast Fourier and Walsh-Hadamard transforms, wavelets and sorting networks are such chains. The index along the row is a
number of several digits, of which a stage mixes one. Several stages are a group: its loops over the digits that it
mixes are written out inside of all others, so that each group reads and writes a row once. Vectors run along a digit
that no stage of a *segment* of the chain mixes, the lowest or the highest. Between two segments, before the first and
after the last one, rows are turned in registers where vectors run along another digit than before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product, takewhile
from typing import Any

import numpy as np

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, is_const, is_index, var, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import post_order, reads, substitute
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import powers
from autosched.space.rules import rows
from autosched.space.rules.engine import Plan, fuse_all, rule
from autosched.te.tensor import Operation, Tensor

#: Stages of a chain that are worth it, and elements that a stage mixes.
FEWEST_STAGES, MOST_MIXED = 3, 16
#: Statements of a group that are written out.
MOST_STATEMENTS = 256
#: Elements of the rows of a task, at most; tasks for each thread, at least.
MOST_OF_TASK, TASKS = 8192, 4
#: Lanes of the shortest vectors.
FEWEST_LANES = 4
#: Elements of a table that is copied for a stage, in multiples of those of a row.
MOST_OF_TABLE = 4
#: Copies of a row that a second-level cache has to hold.
ROWS_AT_ONCE = 4


@dataclass(frozen=True)
class Mixing:
    """A stage makes the element at i of those of `sources` whose places differ from i in one digit: the one of that
    weight, of `radix` values."""

    weight: int
    radix: int
    sources: tuple[Operation, ...]

    @property
    def end(self) -> int:
        return self.weight * self.radix


@analysis.while_unchanged
def mixing(stage: Stage) -> Mixing | None:
    """How a stage mixes the elements of a row of what it reads; None where it does not."""
    n = analysis.length(stage.axis[-1]) if len(stage.axis) > 1 else None
    if n is None or not stage.is_injective or analysis.is_opaque(stage):
        return None
    row = [a.var for a in stage.axis[:-1]]
    found: dict[Tensor, list[Expr]] = {}
    for e in dict.fromkeys(r for value in stage.body for r in reads(value)):
        in_row = len(e.args) == len(row) + 1 and all(a is v for a, v in zip(e.args, row, strict=False))
        if in_row and [*e.value.shape] == [a.extent for a in stage.axis]:
            found.setdefault(e.value, []).append(e.args[-1])
    several = {t: places for t, places in found.items() if len(places) > 1}
    if not several or not all(is_index(i) for places in several.values() for i in places):
        return None
    for weight, radix in _digits([i for places in several.values() for i in places], n):
        if all(_is_closed(places, stage.axis[-1].var, n, weight, radix) for places in several.values()):
            return Mixing(weight, radix, tuple(dict.fromkeys(t.op for t in several)))
    return None


def _digits(places: Sequence[Expr], n: int) -> list[tuple[int, int]]:
    """The digits of an index below `n` that the arithmetic of some places may be about, those of few values first."""
    numbers = {1} | {abs(int(e.value)) for i in places for e in post_order(i) if is_const(e) and e.value}
    weights = sorted(w for w in numbers if n % w == 0)
    found = {(w, v // w) for w in weights for v in weights if v % w == 0 and 1 < v // w <= MOST_MIXED}
    found |= {(w, 2) for w in weights if n % (2 * w) == 0}
    return sorted(found, key=lambda d: (d[1], d[0]))


def _is_closed(places: Sequence[Expr], x: Expr, n: int, weight: int, radix: int) -> bool:
    """Whether places differ from that of the result in one digit alone."""
    high, low, an = var("high", role="loop"), var("low", role="loop"), Analyzer()
    an.bind(high, 0, n // (weight * radix) - 1)
    an.bind(low, 0, weight - 1)
    first = high * (weight * radix) + low
    for digit, place in product(range(radix), places):
        apart = an.simplify(substitute(place, {x: first + digit * weight}) - first)
        if not (is_const(apart) and apart.value % weight == 0 and 0 <= apart.value < weight * radix):
            return False
    return True


def chain_below(plan: Plan, stage: Stage) -> list[Stage]:
    """The butterflies, in order, that end with a stage, or of whose rows its rows are made; none if they are few."""
    found = _last_of_chain(plan, stage)
    while found and (m := mixing(found[0])) is not None and len(m.sources) == 1:
        before = plan.s.stage(m.sources[0].output(0))
        if not _belongs(plan, before, found[0]):
            break
        found.insert(0, before)
    rows_of = analysis.iterations(stage.axis[:-1])
    bytes_of_row = sum(analysis.iterations(x.axis[-1:]) * t.dtype.bytes for x in found[-1:] for t in x.op.outputs)
    few = len(found) < FEWEST_STAGES or rows_of < 2
    return [] if few or ROWS_AT_ONCE * bytes_of_row > plan.machine.l2 else found


def _last_of_chain(plan: Plan, stage: Stage) -> list[Stage]:
    if (
        len(stage.axis) < 2
        or not stage.is_injective
        or analysis.is_opaque(stage)
        or len(stage.loops) != len(stage.axis)
    ):
        return []
    if mixing(stage) is not None:
        return [stage]
    row = [a.var for a in stage.axis[:-1]]
    found = []
    for e in dict.fromkeys(r for value in stage.body for r in reads(value)):
        source = plan.s.stage(e.value)
        if _belongs(plan, source, stage):
            if len(e.args) != len(row) + 1 or not all(a is v for a, v in zip(e.args, row, strict=False)):
                return []
            found.append(source)
    return found[:1] if len(set(found)) == 1 else []


def _belongs(plan: Plan, stage: Stage, reader: Stage) -> bool:
    """Whether a stage is a butterfly that no other one reads."""
    if stage.is_placeholder or stage.is_output or stage in plan.done or stage.attach.kind == "inline":
        return False
    return plan.s.consumers(stage) == [reader] and mixing(stage) is not None


# -- digits ---------------------------------------------------------------------------------------

#: A digit of an index: its weight, and that of the next one.
Digit = tuple[int, int]


def _are_digits(weights: Iterable[int]) -> bool:
    """Whether each weight divides the next one."""
    return all(b % a == 0 for a, b in pairwise(sorted(set(weights))))


def _between(weights: Iterable[int]) -> list[Digit]:
    """The digits whose weights these are, highest first."""
    return list(pairwise(sorted(set(weights))))[::-1]


@dataclass(frozen=True)
class _Segment:
    """Stages of a chain whose vectors run along one digit, in groups, of each of which a row is passed once."""

    lane: Digit
    groups: list[list[Stage]]


def _segments(stages: list[Stage], n: int, lanes: int, points: int) -> list[_Segment]:
    """A chain cut into segments, the first ones as long as can be; none if no vectors fit between its digits."""
    if n % (lanes * lanes):
        return []
    windows, found, rest = [(1, lanes), (n // lanes, n)], [], stages
    while rest:
        most = {w: list(takewhile(lambda x, w=w: _fits(_mixed([x])[0], w), rest)) for w in windows}  # type: ignore[misc]
        lane = max(windows, key=lambda w: len(most[w]))
        if not most[lane]:
            return []
        found.append(_Segment(lane, _balanced(most[lane], points)))
        rest = rest[len(most[lane]) :]
    return found


def _mixed(stages: Iterable[Stage]) -> list[Digit]:
    found = (mixing(x) for x in stages)
    return sorted({(m.weight, m.weight * m.radix) for m in found if m is not None}, reverse=True)


def _fits(digit: Digit, lane: Digit) -> bool:
    """Whether a digit that is mixed leaves a lane's alone."""
    above = digit[0] >= lane[1] and digit[0] % lane[1] == 0
    return above or (digit[1] <= lane[0] and lane[0] % digit[1] == 0)


def _points(stages: Sequence[Stage]) -> list[Digit]:
    """The digits that stages mix, cut where any of them begins or ends."""
    mixed = _mixed(stages)
    return [(a, b) for a, b in _between(w for d in mixed for w in d) if any(d[0] <= a and b <= d[1] for d in mixed)]


def _count(digits: Iterable[Digit]) -> int:
    return math.prod(b // a for a, b in digits)


def _balanced(stages: list[Stage], points: int) -> list[list[Stage]]:
    """Stages in as few groups as can be, that mix at most so many elements; all groups about the same number."""
    fewest = len(_groups(stages, points))
    return next(g for p in range(1, points + 1) if len(g := _groups(stages, p)) == fewest)


def _groups(stages: list[Stage], points: int) -> list[list[Stage]]:
    found: list[list[Stage]] = []
    for x in stages:
        both = [*found[-1], x] if found else [x]
        digits = _points(both)
        weights = [w for d in _mixed(both) for w in d]
        if (
            found
            and _are_digits(weights)
            and _count(digits) <= points
            and _count(digits) * len(both) <= MOST_STATEMENTS
        ):
            found[-1].append(x)
        else:
            found.append([x])
    return found


# -- loops ----------------------------------------------------------------------------------------


def _is_chain(plan: Plan, stage: Stage) -> bool:
    stages = chain_below(plan, stage)
    return bool(stages) and bool(_cut(plan, stages))


def _cut(plan: Plan, stages: list[Stage], points: int = 0) -> list[_Segment]:
    """The segments of a chain, with vectors of a whole register or of half of one."""
    n = analysis.length(stages[0].axis[-1])
    whole = plan.machine.vector_bytes // max(t.bytes for x in stages for t in rows.types_of(x))
    assert n is not None
    for lanes in (x for x in (whole, whole // 2) if x >= FEWEST_LANES):
        found = _segments(stages, n, lanes, points or 2)
        if found:
            return found
    return []


@rule(when=_is_chain)
def butterflies(plan: Plan, stage: Stage) -> None:
    """Stages that mix few elements of a row: several at a time in registers, rows of a task in the cache.

    S1[i] = f(S0[i], S0[i ^ 1]);  S2[i] = f(S1[i], S1[i ^ 2])   ->   for i.h: S1[4 x 16 elements];  S2[4 x 16 elements]
    """
    stages = chain_below(plan, stage)
    room = plan.machine.registers // max(len(x.op.outputs) for x in stages)
    points = plan.choose(stage, "points", [max(2, room // 2), max(2, room // 4)])
    _Chain(plan, stage, stages, _cut(plan, stages, points)).apply()


class _Chain:
    """A chain of butterflies, the last of which `host` is, or reads; rows of the host are tasks."""

    def __init__(self, plan: Plan, host: Stage, stages: list[Stage], segments: list[_Segment]) -> None:
        self.plan, self.s, self.host, self.segments = plan, plan.s, host, segments
        self.n, self.first = analysis.length(stages[0].axis[-1]) or 1, stages[0]
        self.lanes = segments[0].lane[1] // segments[0].lane[0]
        first = mixing(self.first)
        self.sources = () if first is None else first.sources
        self.copies: list[tuple[Stage, list[Digit], Digit]] = []  #: with the digits of their loops, and their lane
        self.last = segments[-1].groups[-1]
        self.is_host = host is self.last[-1]
        if self.is_host and segments[-1].lane[0] > 1:
            self._store_last()
        self.row = self._tasks()

    def apply(self) -> None:
        """The loops of each segment, the last one first; copies of what it reads; then those of all copies."""
        if not self.is_host:
            self.copies.append((self.host, [(1, analysis.length(self.host.axis[-1]) or 1)], (1, self.lanes)))
        for k in reversed(range(len(self.segments))):
            segment = self.segments[k]
            reader = segment.groups[0][0]
            for group in reversed(segment.groups):
                self._group(group, segment.lane)
            if k:
                before = self.segments[k - 1].groups[-1][-1]
                for t in before.op.outputs:
                    self._copy(t, reader, segment.lane)
            elif segment.lane[0] > 1:
                for op in self.sources:
                    self._source(op, reader, segment.lane)
        for stage, dims, lane in self.copies:
            self._loops_of_copy(stage, dims, lane)

    def _tasks(self) -> Loop:
        """Short rows together in tasks; the loop over the rows of one."""
        host, rows_of = self.host, analysis.iterations(self.host.axis[:-1])
        row = fuse_all(host, host.loops[:-1])
        most = min(MOST_OF_TASK // self.n, rows_of // (TASKS * self.plan.target.num_threads))
        several = self.plan.knob(host, "rows", powers(1, max(1, most)))
        if isinstance(several, int):
            host.parallel(row)
            self.plan.offer(host, task=row)
            return row
        task, row = host.split(row, factor=several)
        host.parallel(task)
        self.plan.offer(host, task=task, strip=row)
        return row

    def _store_last(self) -> None:
        """The last stage in storage of its own, of which the host is a copy."""
        outputs = list(self.host.op.outputs)
        found = self.s.cache_write(outputs if len(outputs) > 1 else outputs[0], "global")
        self.last[-1] = self.s[found[0] if isinstance(found, list) else found]
        self.is_host = False

    def _settle(self, stage: Stage, at: Stage, loop: Loop) -> None:
        stage.compute_at(at, loop)
        self.plan.done[stage] = butterflies.name

    def _group(self, group: list[Stage], lane: Digit) -> None:
        """Stages of which a few elements are computed together: those that the last one of them mixes, and so on."""
        mixed, host = _points(group), group[-1]
        if lane[0] == 1:
            for x in group:
                self._copy_tables(x, lane)
        dims = self._lay_out(host, lane, ())
        if host is not self.host:
            self._settle(host, self.host, self.row)
        digits = self._digits(host, dims, [*lane, *(w for d in mixed for w in d)])
        others = [x for d, x in digits.items() if d != lane and d not in mixed]
        inside = [digits[d] for d in mixed]
        outer = host.loops[: len(host.loops) - len(digits)]
        host.reorder(*outer, *others, *inside, digits[lane])
        self._write_out(host, inside, digits[lane])
        place = (host, others[-1]) if others else (self.host, self.row)
        for x in reversed(group[:-1]):
            own = self._lay_out(x, lane, [w for d in mixed for w in d])
            self._settle(x, *place)
            x.set_scope("local")
            loops = dict(zip(own, x.loops[-len(own) :], strict=True))
            self._write_out(x, [loops[d] for d in mixed], loops[lane])

    @staticmethod
    def _write_out(stage: Stage, inside: Iterable[Loop], lane: Loop) -> None:
        for x in inside:
            stage.unroll(x)
        stage.vectorize(lane)

    def _lay_out(self, stage: Stage, lane: Digit, cuts: Iterable[int]) -> list[Digit]:
        """Rows of a stage with neighbouring lanes side by side; and the digits that its innermost loops are over."""
        cuts = list(cuts)
        if lane[0] == 1 and not cuts:
            return [(1, self.n)]
        dims = [*(d for d in _between([1, self.n, *lane, *cuts]) if d != lane), lane]

        def digit(x: Any, d: Digit) -> Any:
            above = x // d[0] if d[0] > 1 else x
            return above % (d[1] // d[0]) if d[1] < self.n else above

        stage.transform_layout(lambda *i: [*i[:-1], *(digit(i[-1], d) for d in dims)])
        return dims

    @staticmethod
    def _digits(stage: Stage, dims: Sequence[Digit], weights: Iterable[int]) -> dict[Digit, Loop]:
        """The innermost loops of a stage, over `dims`, cut where digits of these weights begin; highest first."""
        found: dict[Digit, Loop] = {}
        inner = sorted(set(weights))
        for (low, high), loop in zip(dims, stage.loops[-len(dims) :], strict=True):
            at, rest = low, loop
            for w in (w for w in inner if low < w < high):
                rest, digit = stage.split(rest, factor=w // at)
                found[at, w] = digit
                at = w
            found[at, high] = rest
        return dict(sorted(found.items(), reverse=True))

    # -- what is read ---------------------------------------------------------------------------
    def _source(self, op: Operation, reader: Stage, lane: Digit) -> None:
        """Rows of what the first stage mixes, computed or copied with neighbouring lanes side by side."""
        source = self.s.stage(op.output(0))
        is_free = source.is_injective and not source.is_output and source not in self.plan.done
        if is_free and not analysis.is_opaque(source) and self.s.consumers(source) == [reader]:
            self.copies.append((source, self._lay_out(source, lane, ()), lane))
            self._settle(source, self.host, self.row)
            return
        for t in op.outputs:
            if t in reader.reads_of_body():
                self._copy(t, reader, lane)

    def _copy(self, tensor: Tensor, reader: Stage, lane: Digit) -> None:
        copy = self.s[self.s.cache_read(tensor, "global", [reader])]
        self.copies.append((copy, self._lay_out(copy, lane, ()), lane))
        self._settle(copy, self.host, self.row)

    def _copy_tables(self, stage: Stage, lane: Digit) -> None:
        """What lanes read of tables, such as factors that are the same for all rows, a few elements apart: side by side
        in a copy of the table, which is made once.

        W[i % 8 * 64]   ->   C[j, k] = W[64*k + j];  C[0, i % 8]
        """
        high, low, an = var("high", role="loop"), var("low", role="loop"), Analyzer()
        an.bind(high, 0, self.n // lane[1] - 1)
        an.bind(low, 0, lane[1] - 2)
        x, outer = stage.axis[-1].var, {a.var for a in stage.axis[:-1]}
        steps: dict[Tensor, set[int]] = {}
        for e in dict.fromkeys(r for value in stage.body for r in reads(value)):
            if e.args and not outer & variables(e) and not any(x in variables(i) for i in e.args[:-1]):
                at = [substitute(e.args[-1], {x: high * lane[1] + (low + by)}) for by in range(2)]
                step = an.simplify(at[1] - at[0]) if is_index(e.args[-1]) else at[0]
                steps.setdefault(e.value, set()).add(int(step.value) if is_const(step) else 0)
        for t, found in steps.items():
            by, size = min(found), analysis.elements(t)
            if len(found) == 1 and by > 1 and size and size <= MOST_OF_TABLE * self.n and t.shape[-1].value % by == 0:
                copy = self.s[self.s.cache_read(t, "global", [stage])]
                copy.transform_layout(lambda *i, n=by: [*i[:-1], i[-1] % n, i[-1] // n])
                self.plan.done[copy] = butterflies.name

    # -- copies ---------------------------------------------------------------------------------
    def _loops_of_copy(self, stage: Stage, dims: list[Digit], lane: Digit) -> None:
        """Vectors along the lane; where neighbours are no neighbours in what is read, squares of them."""
        if dims[-1][1] % lane[1]:  # of a host that has rows of its own length
            stage.vectorize(stage.split(stage.loops[-1], factor=self.lanes)[1])
            return
        near = self._neighbours(stage, dims, lane)
        digits = self._digits(stage, dims, [*lane, *(near or ())])
        inside = [digits[near]] if near else []
        others = [x for d, x in digits.items() if d not in (near, lane)]
        stage.reorder(*stage.loops[: len(stage.loops) - len(digits)], *others, *inside, digits[lane])
        self._write_out(stage, inside, digits[lane])

    def _neighbours(self, stage: Stage, dims: list[Digit], lane: Digit) -> Digit | None:
        """The digit of whose values neighbours in memory are made, where they are not made of those of the lane's."""
        n = max(high for _, high in dims)
        places = _places(stage, dims, n)
        if places is None or np.ptp(places[lane[0] * np.arange(self.lanes)]) < 2 * self.lanes:
            return None
        for weight in (w for w in range(1, n // self.lanes + 1) if n % (w * self.lanes) == 0):
            digit = weight, weight * self.lanes
            apart = (weight >= lane[1] or digit[1] <= lane[0]) and _are_digits([*digit, *lane, n])
            if apart and np.ptp(places[weight * np.arange(self.lanes)]) == self.lanes - 1:
                return digit
        return None


def _places(stage: Stage, dims: list[Digit], n: int) -> np.ndarray | None:
    """Where in memory the elements of a row read their first operand; None where that is not known."""
    x, axes = np.arange(n), stage.axis[len(stage.axis) - len(dims) :]
    env: dict[Expr, Any] = {a.var: 0 for a in stage.axis}
    env |= {a.var: x // low % (high // low) for a, (low, high) in zip(axes, dims, strict=True)}
    for e in (r for value in stage.body for r in reads(value)):
        known = all(map(is_index, e.args)) and all(variables(i) <= env.keys() for i in e.args)
        if known and all(map(is_const, e.value.shape)) and variables(e) & {a.var for a in axes}:
            found = np.zeros(n, np.int64)
            for index, length in zip(evaluate(e.args, env), e.value.shape, strict=True):
                found = found * int(length.value) + index
            return found
    return None
