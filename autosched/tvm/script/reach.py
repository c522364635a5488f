"""What statements of a tree read and write, and where: what moving and copying blocks asks.

Regions follow from indices alone. What a block declares to read and write (`T.reads`) is not believed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.ir.expr import Expr, compare, const, is_const, maximum, minimum
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import (
    Allocate,
    Buffer,
    For,
    If,
    Let,
    Seq,
    Store,
    While,
    children,
    expressions,
    handed_out,
    read_buffers,
    walk,
)
from autosched.ir.visit import post_order, pre_order
from autosched.lowering.bounds import Region, interval
from autosched.lowering.sliding import loop_free
from autosched.tvm.script.parts import Block
from autosched.tvm.script.statements import dissolved
from autosched.tvm.script.walking import path_to


class NotHere(Exception):
    """The reason why a tree is not rewritten as it was asked for, and what is legal."""

    def __init__(self, why: str, legal: str = "") -> None:
        super().__init__(why)
        self.legal = legal


@dataclass(frozen=True, eq=False)
class Access:
    """One load or store of a buffer; loops and names around it, and whether there are conditions, inside of the
    statement looked at."""

    buffer: Buffer
    at: tuple[Expr, ...]
    stores: bool
    around: tuple[Expr, ...]
    conditional: bool = False


@dataclass(frozen=True, eq=False)
class Span:
    """`low <= x <= high` along one dimension; `width` is free of loops where that is known, and at least high - low."""

    low: Expr
    high: Expr
    width: Expr

    @property
    def extent(self) -> Expr:
        return simplify(self.width + 1)


def accesses(s: Any, an: Analyzer) -> list[Access]:
    """All loads and stores of a statement. Binds the ranges of its loops."""
    found: list[Access] = []

    def look(s: Any, around: tuple[Expr, ...], conditional: bool) -> None:
        if isinstance(s, For):
            _bind(an, s)
        if isinstance(s, Store):
            found.append(Access(s.buffer, s.indices, True, around, conditional))
        if not isinstance(s, Allocate):
            for e in pre_order([s.value, *s.indices] if isinstance(s, Store) else expressions(s)):
                if e.op == "load":
                    found.append(Access(e.value, e.args, False, around, conditional))
        inside = (*around, s.var) if isinstance(s, (For, Let)) else around
        for c in children(s):
            look(c, inside, conditional or isinstance(s, (If, While)))

    look(dissolved(s), (), False)
    return found


def _bind(an: Analyzer, s: For) -> None:
    an.bind(s.var, s.start, s.start + s.extent - 1)


def accesses_below(s: Any, part: Any, an: Analyzer) -> list[Access]:
    """The loads and stores of a part of a statement, with the loops of the statement around the part, too."""
    around = [x for x in (*(path_to(s, part) or []),) if isinstance(x, (For, Let))]
    for x in around:
        if isinstance(x, For):
            _bind(an, x)
    outside = tuple(x.var for x in around)
    return [replace(a, around=(*outside, *a.around)) for a in accesses(part, an)]


def surroundings(body: Any, target: Any) -> tuple[Analyzer, list[Expr]]:
    """What is known of the loops and axes around a statement, and these."""
    an, visible = Analyzer(), list[Expr]()
    for s in path_to(body, target) or []:
        if isinstance(s, For):
            _bind(an, s)
            visible.append(s.var)
        elif isinstance(s, Let):
            visible.append(s.var)
        elif isinstance(s, Block):
            for a in s.axes:
                found = interval(an.simplify(a.binding), frozenset(visible), an)
                if found is not None:
                    an.bind(a.var, found.low, found.high)
            visible += [a.var for a in s.axes]
    return an, visible


def span(an: Analyzer, index: Expr, around: Collection[Expr]) -> Span | None:
    """The range of an index while the loops around it run; None where it is not known outside of them."""
    inside = frozenset(around)
    for e in (an.simplify(index), index):
        found = interval(e, inside, an)
        if found is not None and not _mentions(found, inside):
            return Span(an.expr(found.low), an.expr(found.high), an.expr(found.width))
    return None


def _mentions(found: Region, inside: frozenset[Expr]) -> bool:
    atoms = {v for p in (found.low, found.high) for v in p.variables}
    opaque = any(e.op in ("load", "call") for p in (found.low, found.high) for e in post_order(p.expr()))
    return bool(atoms & inside) or opaque


def box(an: Analyzer, found: Sequence[Access]) -> list[Span]:
    """The smallest box around what accesses to one buffer reach, inside of the buffer."""
    whole = whole_of(found[0].buffer)
    return [_along(an, [span(an, a.at[d], a.around) for a in found], w) for d, w in enumerate(whole)]


def whole_of(buffer: Buffer) -> list[Span]:
    """All elements of a buffer."""
    return [Span(const(0), simplify(n - 1), simplify(n - 1)) for n in buffer.shape]


def _along(an: Analyzer, parts: Sequence[Span | None], whole: Span) -> Span:
    known = [p for p in parts if p is not None]
    if len(known) != len(parts):
        return whole
    low, high, width = (an.poly(e) for e in (known[0].low, known[0].high, known[0].width))
    for p in known[1:]:
        low, high = an.extremum("min", low, an.poly(p.low)), an.extremum("max", high, an.poly(p.high))
        width = high - low
    return clipped(an, Span(an.expr(low), an.expr(high), an.expr(width)), whole)


def clipped(an: Analyzer, one: Span, whole: Span) -> Span:
    """The part of a span inside of another one."""
    low, high = one.low, one.high
    if not an.prove(compare("ge", low, whole.low)):
        low = an.simplify(maximum(low, whole.low))
    if not an.prove(compare("le", high, whole.high)):
        high = an.simplify(minimum(high, whole.high))
    exact = an.simplify(high - low)
    width = exact if loop_free(an.poly(exact)) else an.simplify(one.width)
    if not loop_free(an.poly(width)):
        width = an.simplify(whole.width)
    return Span(low, high, width)


def writes_of(s: Any) -> set[Buffer]:
    """The buffers that a statement stores to, or hands to functions."""
    found: set[Buffer] = set()
    for x in walk(dissolved(s)):
        found |= handed_out(x)
        if isinstance(x, Store):
            found.add(x.buffer)
    return found


def reads_of(s: Any) -> set[Buffer]:
    """The buffers that a statement loads from, or hands to functions."""
    return read_buffers(dissolved(s))


def hands_out(s: Any) -> set[Buffer]:
    """The buffers whose memory functions get from a statement."""
    return set[Buffer]().union(*map(handed_out, walk(dissolved(s))))


def allocated(s: Any) -> set[Buffer]:
    """The buffers that live inside of a statement alone."""
    return {x.buffer for x in walk(dissolved(s)) if isinstance(x, Allocate)}


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where the ways to two statements part: in a sequence, or elsewhere (`sequence` is None)."""

    around: list[Any]  #: what both are in
    sequence: Seq | None
    first: int = 0  #: position of what has the one statement
    second: int = 0

    @property
    def between(self) -> tuple[Any, ...]:
        """The statements after that with the one, up to that with the other."""
        assert self.sequence is not None
        return self.sequence.stmts[self.first + 1 : self.second]


def meeting(body: Any, one: Any, other: Any) -> Meeting:
    """Where the ways to two statements part."""
    left, right = ([*(path_to(body, s) or []), s] for s in (one, other))
    common = [a for a, b in zip(left, right, strict=False) if a is b]
    last = common[-1] if common else None
    n = len(common)
    if not isinstance(last, Seq) or n in (len(left), len(right)):
        return Meeting(common, None)
    places = [next(k for k, c in enumerate(last.stmts) if c is way[n]) for way in (left, right)]
    return Meeting(common, last, *places)


def tiles(an: Analyzer, index: Expr, loops: Sequence[For]) -> tuple[list[For], Expr] | None:
    """The loops of which an index is the number, outermost first, and how many values it takes: all from its least on,
    each once, in rising order where the loops are in that order. None where it is not known to be so."""
    p = an.poly(index)
    here = [x for x in loops if x.var in p.variables and not is_const(x.extent, 1)]
    weights = {x: p.terms.get((x.var,), 0) for x in here}
    rest = p - sum((Poly.of(x.var) * w for x, w in weights.items()), start=Poly({}))
    if any(w < 1 for w in weights.values()) or rest.variables & {x.var for x in here}:
        return None
    ordered: list[For] = []
    total: Expr = const(1)
    for x in sorted(here, key=lambda x: weights[x]):
        if not is_const(an.simplify(total - weights[x]), 0):
            return None
        ordered.insert(0, x)
        total = an.simplify(total * x.extent)
    return ordered, total
