"""Reads outside of tensors: those that certainly happen, and those that cannot be ruled out.

The analysis looks at definitions, not at loops. It considers the elements that are certainly computed: all elements of
a stage at the root; of any other stage, those that its readers read. So the result does not depend on how loops are
split, and a read that a condition prevents is not refused.

A read is *inside* if the prover shows it, or if every assignment of its variables was tried. It is *outside* if an
assignment was found that leaves the tensor while all conditions around the read hold, or if the prover shows this at
the ends of the axes for all sizes. Every other read stays legal: it depends on data or on sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from math import prod

import numpy as np

from autosched.errors import out_of_bounds
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, const, is_const, is_index, logical_not, variables
from autosched.ir.node import order
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import conjuncts, post_order, substitute
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.te.reduction import REDUCTIONS
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar

#: assignments tried for one index: all of them, or the ends and middles of the ranges
MOST_POINTS = 2**16
#: chains of readers followed from a stage to the root
MOST_WAYS = 64
#: nodes of an expression that are visited, each once for every condition it stands under
MOST_PARTS = 20_000

_EXACT = frozenset(
    "const var add sub mul neg min max floordiv floormod truncdiv truncmod cast lt le gt ge eq ne and or not "
    "likely select if_then_else".split()
)


@dataclass(frozen=True)
class _Index:
    """One index of a read, and the conditions under which it is evaluated."""

    read: Expr
    dimension: int
    index: Expr
    guards: tuple[Expr, ...]  #: the read happens only if these hold
    choices: tuple[Expr, ...]  #: the value read is used only if these hold (`te.select`)
    axes: tuple[IterVar, ...]  #: the loops around it

    @property
    def extent(self) -> Expr:
        return self.read.value.shape[self.dimension]  # type: ignore[no-any-return]

    def within(self, mapping: dict[Expr, Expr], user: _Index) -> _Index:
        """This index for the one element of its stage that the read of `user` is of."""
        return replace(
            self,
            index=substitute(self.index, mapping),
            guards=(*user.guards, *(substitute(c, mapping) for c in self.guards)),
            choices=(*user.choices, *(substitute(c, mapping) for c in self.choices)),
            axes=(*user.axes, *(a for a in self.axes if a.var not in mapping)),
        )


@dataclass(frozen=True)
class Doubt:
    """A read that may leave its tensor: nothing known before the program runs says that it does not."""

    stage: str
    read: str
    dimension: int
    index: Expr
    extent: Expr

    def __str__(self) -> str:
        return f"nothing shows that the index {self.index!r} of dimension {self.dimension} is in 0..{self.extent - 1!r}"


def check_reads(s: Schedule) -> None:
    """Raise BoundsError for a read outside its tensor that certainly happens."""
    _Reads(s).check()


def doubtful_reads(s: Schedule) -> list[Doubt]:
    """The reads that are neither certain to stay inside nor certain to leave."""
    found: dict[tuple[str, Expr, int], Doubt] = {}
    reads = _Reads(s)
    for stage, i in reads.open():
        ways = list(islice(reads.uses(stage, i), MOST_WAYS + 1))
        if len(ways) > MOST_WAYS or not all(_Domain(at.axes).keeps_inside(at) or _tried_inside(at) for at in ways):
            doubt = Doubt(stage.name, i.read.value.name, i.dimension, i.index, i.extent)
            found.setdefault((stage.name, i.read, i.dimension), doubt)
    return list(found.values())


def unread_outside(s: Schedule) -> dict[Stage, dict[Expr, list[tuple[Expr, Expr]]]]:
    """Stages at the root -> reads that certainly leave their tensor, for elements that nobody reads: with the indices
    that leave, and how many places there are."""
    reads, found = _Reads(s), dict[Stage, dict[Expr, list[tuple[Expr, Expr]]]]()
    for stage, i in reads.open():
        if stage.attach.kind == "root" and not stage.is_output and _found_outside(i) is not None:
            ways = list(islice(reads.through_readers(stage, i), MOST_WAYS + 1))
            if 1 <= len(ways) <= MOST_WAYS and all(_Domain(x.axes).keeps_inside(x) or _tried_inside(x) for x in ways):
                found.setdefault(stage, {}).setdefault(i.read, []).append((i.index, i.extent))
    return found


def open_reads(body: Sequence[Expr], axes: Sequence[IterVar]) -> set[Expr]:
    """The reads in a body of which its axes, and the conditions of `te.if_then_else`, do not show that they stay
    inside."""
    domain = _Domain(axes)
    found = [i for e in body for i in _indices(e, tuple(axes))]
    return {i.read for i in found if not domain.keeps_inside(i) and not _tried_inside(i)}


class _Reads:
    """The reads of a schedule's stages."""

    def __init__(self, s: Schedule) -> None:
        self.s = s
        self._indices: dict[Stage, list[_Index]] = {}

    def open(self) -> Iterator[tuple[Stage, _Index]]:
        """The indices that the ranges of their stage's axes do not keep inside, as proofs and trials show."""
        for stage in self.s.stages:
            if stage.is_placeholder or isinstance(stage.op, ScanOp):
                continue
            axes = _axes(stage)
            if not any(is_const(a.extent) and a.extent.value <= 0 for a in axes if a.kind != "reduce"):
                domain = _Domain(axes)
                for i in self.indices(stage):
                    if not domain.keeps_inside(i) and not _tried_inside(i):
                        yield stage, i

    def check(self) -> None:
        for stage, i in self.open():
            if stage.store_predicate is not None or any(x.pragmas for x in stage.loops):
                continue  # stores that may be left out
            for at in islice(self.uses(stage, i), MOST_WAYS):
                found = _found_outside(at)
                if found is not None:
                    raise out_of_bounds(i.read.value.name, i.dimension, *found, reader=stage.name)

    def indices(self, stage: Stage) -> list[_Index]:
        found = self._indices.get(stage)
        if found is None:
            found = self._indices[stage] = [i for e in stage.body for i in _indices(e, _axes(stage))]
        return found

    def uses(self, stage: Stage, i: _Index) -> Iterator[_Index]:
        """The index over all elements that are certainly computed: of the stage itself, or through its readers."""
        if stage.attach.kind == "root":
            yield i
        else:
            yield from self.through_readers(stage, i)

    def through_readers(self, stage: Stage, i: _Index) -> Iterator[_Index]:
        """The index over all elements that readers read, of those that are certainly computed."""
        outputs = stage.op.outputs
        for user in self.s.consumers(stage):
            reads: dict[tuple[Expr, tuple[Expr, ...], tuple[Expr, ...]], _Index] = {}
            for x in self.indices(user):
                if x.read.value in outputs:
                    reads.setdefault((x.read, x.guards, x.choices), x)
            for x in reads.values():
                mapping = dict(zip((a.var for a in stage.axis), x.read.args, strict=True))
                if isinstance(stage.op, ScanOp):
                    del mapping[stage.op.scan_axis.var]  # all steps are computed, from the first after the init on
                yield from self.uses(user, i.within(mapping, x))


def _axes(stage: Stage) -> tuple[IterVar, ...]:
    if isinstance(stage.op, ScanOp):
        return (stage.op.scan_axis, *stage.op.spatial_axis_)
    return (*stage.axis, *stage.reduce_axis)


def _indices(body: Expr, axes: tuple[IterVar, ...]) -> Iterator[_Index]:
    """Every index below an expression, with the conditions around it."""
    without = tuple(a for a in axes if a.kind != "reduce")
    todo: list[tuple[Expr, tuple[Expr, ...], tuple[Expr, ...], tuple[IterVar, ...]]] = [(body, (), (), without)]
    seen: set[object] = set()
    while todo and len(seen) < MOST_PARTS:
        part = todo.pop()
        if part in seen:
            continue
        seen.add(part)
        e, guards, choices, around = part
        if e.op == "read":
            yield from (_Index(e, d, i, guards, choices, around) for d, i in enumerate(e.args))
        match e.op:
            case "if_then_else":
                c, a, b = e.args
                todo += [(b, (*guards, logical_not(c)), choices, around), (a, (*guards, c), choices, around)]
                todo.append((c, guards, choices, around))
            case "select":
                c, a, b = e.args
                todo += [(b, guards, (*choices, logical_not(c)), around), (a, guards, (*choices, c), around)]
                todo.append((c, guards, choices, around))
            case "and" | "or":  # C asks no further where the first one decides
                a, b = e.args
                todo += [(b, guards, (*choices, a if e.op == "and" else logical_not(a)), around)]
                todo.append((a, guards, choices, around))
            case op if op in REDUCTIONS:
                sources, condition, rest = e.value.parts(e.args)
                inside = guards if is_const(condition, True) else (*guards, condition)
                rest_axes, rest_guards = (axes, inside) if op == "scatter" else (around, guards)
                todo += [(x, rest_guards, choices, rest_axes) for x in reversed(rest)]
                if op == "scatter":
                    inside = (*inside, e)  # its place is inside, too: nothing is certain of that
                todo.append((condition, guards, choices, axes))
                todo += [(x, inside, choices, axes) for x in reversed(sources)]
            case _:
                todo += [(a, guards, choices, around) for a in reversed(e.args)]


# -- inside -------------------------------------------------------------------------------------------


class _Ranges(Analyzer):
    """The facts inside the loops over some axes: each has at least one value."""

    def __init__(self, axes: Sequence[IterVar]) -> None:
        super().__init__()
        for a in axes:
            extent = self.poly(a.extent)
            self.assume_nonneg(extent - 1)
            start = self.poly(a.min)
            self.bind(a.var, start, start + extent - 1)

    def is_inside(self, index: Expr, extent: Expr) -> bool:
        """Also of one that is chosen, where each choice is inside under its condition."""
        if index.op in CHOICES:
            c, a, b = index.args
            with self.assuming(c):
                holds = self.is_inside(a, extent)
            with self.assuming(logical_not(c)):
                return holds and self.is_inside(b, extent)
        return super().is_within(index, extent)


class _Domain:
    """The values that some axes take."""

    def __init__(self, axes: Sequence[IterVar]) -> None:
        self._axes = {a.var: a for a in axes}

    @cached_property
    def _ranges(self) -> _Ranges:
        return _Ranges([*self._axes.values()])

    def keeps_inside(self, i: _Index) -> bool:
        """Return whether the index is inside wherever its guards hold."""
        if _is_evident(i.index, i.extent, i.guards, self._axes) or self._ranges.is_inside(i.index, i.extent):
            return True
        return _under(i.guards, i, self._ranges) if i.guards else False


def _is_evident(index: Expr, extent: Expr, guards: Sequence[Expr], axes: Mapping[Expr, IterVar]) -> bool:
    """Return whether an index is inside at a glance, as most are: an axis as long as the dimension, a clamped index,
    one that a condition compares with both ends."""
    if index.op == "var" and index in axes:
        start, length = axes[index].min, axes[index].extent
        is_long = extent is length or (is_const(extent) and is_const(length) and extent.value >= length.value)
        if is_const(start, 0) and is_long:
            return True
    if is_const(index) and is_const(extent):
        return bool(0 <= index.value < extent.value)
    if index.op == "max" and is_const(index.args[1], 0) and index.args[0].op == "min":
        return bool(index.args[0].args[1] is extent - 1) and not is_const(extent, 0)
    if index.op in CHOICES:
        c, a, b = index.args
        return _is_evident(a, extent, (*guards, c), axes) and _is_evident(b, extent, guards, axes)
    compared = {(c.op, c.args[1]) for g in guards for c in conjuncts(g) if len(c.args) == 2 and c.args[0] is index}
    return ("ge", const(0, index.dtype)) in compared and ("lt", extent) in compared


def _under(guards: tuple[Expr, ...], i: _Index, an: _Ranges) -> bool:
    if not guards:
        return an.is_inside(i.index, i.extent)
    with an.assuming(guards[0]):
        return _under(guards[1:], i, an)


# -- outside ------------------------------------------------------------------------------------------


def _found_outside(i: _Index) -> tuple[object, object] | None:
    """An index that is certainly outside and the extent, or None."""
    conditions = (*i.guards, *i.choices)
    if not all(map(_is_exact, (i.index, i.extent, *conditions))):
        return None
    if any(is_const(a.extent) and a.extent.value <= 0 for a in i.axes):
        return None
    own = {a.var for a in i.axes}
    if any(variables(e) & own for a in i.axes for e in (a.min, a.extent)):
        return None  # a triangle: which elements there are is another question
    at = _Points(i)
    if at.ranges is not None:
        wrong = at.wrong
        if not len(wrong):
            return None
        low, high = int(wrong.min()), int(wrong.max())
        return (low if low < 0 else high), int(i.extent.value)
    return _outside_for_all_sizes(i)


def _tried_inside(i: _Index) -> bool:
    """Return whether all assignments were tried and none leaves the tensor."""
    own = {a.var for a in i.axes}
    if not _is_exact(i.index) or any(variables(e) & own for a in i.axes for e in (a.min, a.extent)):
        return False
    i = replace(i, guards=tuple(c for c in i.guards if _is_exact(c)), choices=())  # fewer conditions: more points
    at = _Points(i)
    return at.ranges is not None and at.is_complete and not len(at.wrong)


def _is_exact(e: Expr) -> bool:
    """Return whether evaluation in 64 bits gives what the program computes: not of values, which may wrap."""
    return all(n.op in _EXACT and (n.dtype.is_bool or is_index(n)) and n.dtype.lanes == 1 for n in post_order(e))


class _Points:
    """The assignments to try for an index whose variables all have constant ranges."""

    def __init__(self, i: _Index) -> None:
        self._i = i
        self._conditions = [*i.guards, *i.choices]
        mentioned = frozenset().union(*map(variables, (i.index, *self._conditions)))
        axes = {a.var: a for a in i.axes}
        #: first value and length for each; None where one is open
        self.ranges: dict[Expr, tuple[int, int]] | None = {}
        for v in sorted(mentioned, key=order):
            a = axes.get(v)
            if a is None or not is_const(a.min) or not is_const(a.extent) or not is_const(i.extent):
                self.ranges = None
                break
            self.ranges[v] = int(a.min.value), int(a.extent.value)
        if not is_const(i.extent):
            self.ranges = None
        self.is_complete = self.ranges is not None and prod(n for _, n in self.ranges.values()) <= MOST_POINTS

    @cached_property
    def wrong(self) -> np.ndarray:
        """The values of the index that are outside, at points where all conditions hold."""
        assert self.ranges is not None
        if any(n <= 0 for _, n in self.ranges.values()):
            return np.empty(0, np.int64)
        env: dict[Expr, np.ndarray] = {}
        left = MOST_POINTS
        for k, (v, (low, n)) in enumerate(self.ranges.items()):
            some: Sequence[int] = range(low, low + n)
            if not self.is_complete:  # the ends, what is next to them, and the middle
                some = sorted({some[0], some[min(1, n - 1)], some[n // 2], some[max(n - 2, 0)], some[-1]})
                some = some[: max(left, 1)]
            left //= len(some)
            env[v] = np.array(some, np.int64).reshape([-1 if d == k else 1 for d in range(len(self.ranges))])
        index, *held = evaluate([self._i.index, *self._conditions], dict(env))
        extent = int(self._i.extent.value)
        bad = (index < 0) | (index >= extent)
        for condition in held:
            bad = bad & condition.astype(bool)
        return np.broadcast_to(index, bad.shape)[bad]


def _outside_for_all_sizes(i: _Index) -> tuple[object, object] | None:
    """The same for symbolic sizes: the index at an end of each axis is outside for all of them."""
    an = _Ranges(i.axes)
    moving = [a for a in i.axes if a.var in variables(i.index) or any(a.var in variables(c) for c in i.guards)]
    if len(moving) > 4 or any(a.extent.op != "const" and not variables(a.extent) for a in i.axes):
        return None
    for ends in product((False, True), repeat=len(moving)):
        at = {a.var: a.min + a.extent - 1 if last else a.min for a, last in zip(moving, ends, strict=True)}
        if not all(an.prove(substitute(c, at)) for c in (*i.guards, *i.choices)):
            continue
        p, extent = an.poly(substitute(i.index, at)), an.poly(i.extent)
        if (an.prove_nonneg(p - extent) or an.prove_nonneg(-p - 1)) and _happens(i, p, extent):
            return an.expr(p), an.expr(extent)
    return None


def _happens(i: _Index, index: Poly, extent: Poly) -> bool:
    """Return whether all axes have values for some sizes, and the index is outside. Else the proof is vacuous."""
    sizes = {v for a in i.axes for e in (a.min, a.extent) for v in variables(e)} | index.variables | extent.variables
    env = {}
    for k, v in enumerate(sorted(sizes, key=order)):
        low, high = v.value.lower, v.value.upper
        value = 1000 + 7 * k
        env[v] = min(max(value, value if low is None else low), value if high is None else high)
    lengths = evaluate([a.extent for a in i.axes], env)
    at, end = evaluate([index.expr(), extent.expr()], env)
    return all(int(n) > 0 for n in lengths) and not 0 <= int(at) < int(end)
