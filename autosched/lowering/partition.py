"""Loop partitioning: a loop whose body asks "am I near the border?" becomes border and interior.

    for x in W: out[x] = in[max(x - 1, 0)]     ->     for x in [0, 1):  out[x] = in[max(x - 1, 0)]
                                                      for x in [1, W):  out[x] = in[x - 1]

`interior` says where the questions are settled; here is what becomes of the loop.

A serial loop is cut in three. An iteration of a parallel loop, or a work-group, chooses between the
two bodies instead, so that the pieces still run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autosched.ir.expr import Expr, const, is_const, likely, logical_and, variables
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    For,
    If,
    Let,
    Produce,
    Stmt,
    Store,
    all_expressions,
    children,
    expressions,
    map_stmt,
    seq,
    substitute_stmt,
    walk,
    with_children,
)
from autosched.ir.visit import conjuncts, post_order, substitute
from autosched.lowering.interior import (
    Span,
    asked_of,
    asks_itself,
    by_variable,
    interior_of,
    is_inside,
    is_relaxed,
    limits,
    questions,
    solve,
)
from autosched.lowering.simplify_stmt import bind_loop, inside_loop, replace_exprs, simplify_stmt
from autosched.lowering.unroll import hint

#: Statements that cutting may add to a program in all. Loops that lie in one another multiply their pieces.
MAX_STATEMENTS = 3000


@dataclass(slots=True)
class _Room:
    """The budget of all cuts together: statements that may still be added."""

    statements: int

    def take(self, copied: Stmt, times: int) -> bool:
        """Reserve `times` copies of a statement; return whether they fit."""
        wanted = times * sum(1 for _ in walk(copied))
        if wanted > self.statements:
            return False
        self.statements -= wanted
        return True


@dataclass(frozen=True, slots=True)
class _Deferred:
    """The questions of a loop that an inner loop asks: its interior, and the condition that it holds."""

    span: Span
    holds: Expr


@dataclass(frozen=True, slots=True)
class _Around:
    """The surroundings of a statement: loops over work-items, and the budget that is left.

    No loop is cut where work-items differ: a group runs in step, so each item would pass through all pieces. Only
    items that have vectors choose for themselves: a vector takes the place of many steps.
    """

    items: frozenset[Expr]
    room: _Room
    deferred: tuple[_Deferred, ...] = ()  #: what loops outside leave to the next loop that is cut
    in_patterns: bool = False  #: whether vectors of elements at known distances are as good as neighbours


def partition_loops(s: Stmt, an: Analyzer, in_patterns: bool = False) -> Stmt:
    """Borders are cut off loops, so that interiors ask no questions, as far as there is room for the pieces.

    `in_patterns`: whether the target loads vectors of elements at known distances by shuffles (`split_patterns`).
    """
    return _partition(s, an, _Around(frozenset(), _Room(MAX_STATEMENTS), in_patterns=in_patterns))


def _partition(s: Stmt, an: Analyzer, around: _Around) -> Stmt:
    match s:
        case For():
            return _partition_for(s, an, around)
        case If():
            with an.assuming(s.condition):
                then = _partition(s.then, an, around)
            return If(s.condition, then, None if s.otherwise is None else _partition(s.otherwise, an, around))
        case _:
            return with_children(s, lambda c: _partition(c, an, around))


def _partition_for(loop: For, an: Analyzer, around: _Around) -> Stmt:
    outside = around
    if loop.thread.startswith("threadIdx"):
        around = replace(around, items=around.items | {loop.var})
    if loop.kind in ("serial", "parallel"):
        loop = tighten(loop, an, around.items)
    elif loop.kind in ("unroll", "vectorize") and not loop.masked:
        return _written_out(loop, an, around)
    with inside_loop(loop, an):
        span = None
        is_cut = not loop.ragged and hint(loop, "loop_partition_hint") != 0
        if is_cut and (loop.kind in ("serial", "parallel") or loop.thread.startswith("blockIdx") or asks_itself(loop)):
            span = _interior(loop, an, outside)
        if span is None:
            return _uncut(loop, an, around)
        site = _site(loop.body, span)
        if _works_elsewhere(loop.body, site):
            return replace(loop, body=_partition(_chosen_at(loop, site, span, an, around), an, around))
        if _is_better_asked_inside(loop, span, an, around):
            asked = _Deferred(span, an.simplify(logical_and(*span.provided, *span.asked, *span.solved)))
            return replace(loop, body=_partition(loop.body, an, replace(around, deferred=(*around.deferred, asked))))
    if loop.kind != "serial" or span.asked:
        return _choose(loop, span, an, around)
    # limits may be simplified only by what holds where they are computed: if knowing that the loop
    # runs makes them simpler, it has to be asked
    runs = an.simplify(loop.extent >= 1)
    without_asking = limits(loop, span, an)
    with an.assuming(runs):
        low, high = limits(loop, span, an)
    if low is without_asking[0] and high is without_asking[1]:
        runs = const(True)
    with an.assuming(runs):
        pieces = _cut(loop, span, low, high, an, around)
    return pieces if is_const(runs, True) else If(runs, pieces)


def _written_out(loop: For, an: Analyzer, around: _Around) -> Stmt:
    """Copies and lanes of which the last are beyond the border are fewer, where numbers tell how many:

    unroll u in 2: lanes v in 16: if u*16 + v < 28: f   ->   lanes v in 16: f(0*16 + v);  lanes v in 12: f(1*16 + v)
    """
    fewer = tighten(loop, an, around.items)
    if is_const(fewer.extent) and fewer.start is loop.start:
        if fewer.extent.value <= 0:
            return seq()
        loop = fewer
    inside = _copies_inside(loop, an) if loop.kind == "unroll" else None
    if inside is None:
        with inside_loop(loop, an):
            return _uncut(loop, an, around)
    count = int(loop.extent.value)
    whole = replace(loop, extent=const(inside))
    border = [substitute_stmt(loop.body, {loop.var: loop.start + k}) for k in range(inside, count)]
    pieces = [*([whole] if inside else []), *border]
    return seq(*(_partition(simplify_stmt(piece, an), an, around) for piece in pieces))


def _copies_inside(loop: For, an: Analyzer) -> int | None:
    """How many of the first copies have all lanes of the vector loops in them; None where numbers alone do not tell."""
    vectors = (s for s in walk(loop.body) if isinstance(s, For) and s.kind == "vectorize" and not s.masked)
    known, unknown = by_variable(vectors, an)
    lanes = {s.var: s for s in known}
    guards = (s.condition for s in walk(loop.body) if isinstance(s, If) and s.condition.op == "likely")
    own = frozenset((loop.var, *lanes))
    asked = [c for g in guards for c in conjuncts(g) if loop.var in variables(c) <= own and variables(c) & lanes.keys()]
    if not asked or unknown or not is_const(loop.extent) or not is_const(loop.start):
        return None
    with an.tightened({}):
        for s in lanes.values():
            bind_loop(s, an)
        for k in range(int(loop.extent.value)):
            if not all(an.prove(substitute(c, {loop.var: loop.start + k})) for c in asked):
                return k
    return None


def _interior(loop: For, an: Analyzer, around: _Around) -> Span | None:
    """The interior, where there is one and room to cut it out."""
    span = interior_of(loop, an, around.items)
    if span is None:
        return None
    pieces = 2 if loop.kind == "serial" and not span.asked else 1
    return span if around.room.take(loop.body, pieces) else None


def _uncut(loop: For, an: Analyzer, around: _Around) -> Stmt:
    """A loop that is not cut itself. Deferred questions are settled here if no loop inside is cut."""
    if not around.deferred or _leads_to_a_cut(loop.body, an, around):
        return replace(loop, body=_partition(loop.body, an, around))
    return _interiors(loop.body, Span(), an, around, lambda body: replace(loop, body=body))


def _interiors(body: Stmt, span: Span, an: Analyzer, around: _Around, loop_of: Callable[[Stmt], Stmt]) -> Stmt:
    """The loop over the interior of `span`, or a choice of two where loops around it have deferred questions."""
    within = replace(around, deferred=())
    answers, holds, border = dict(span.answers), const(True), body
    for outer in around.deferred:
        answers.update(outer.span.answers)
        holds = logical_and(holds, outer.holds)
        border = _scalar_border(border, outer.span)
    with an.assuming(holds):
        clean = simplify_stmt(replace_exprs(body, answers), an)
        inside = loop_of(_partition(simplify_stmt(clean, an), an, within))
    if is_const(holds, True):
        return inside
    clean = simplify_stmt(replace_exprs(border, span.answers), an)
    return If(holds, inside, loop_of(_partition(clean, an, within)))


def tighten(loop: For, an: Analyzer, items: frozenset[Expr]) -> For:
    """A guard around the whole body that the loop variable alone decides becomes the loop's bound:

    for y in [0, 8): if y < n: f   ->   for y in [0, min(8, n)): f

    `items` are the loops of work-items, which have no bounds of their own.
    """
    body = loop.body
    if not isinstance(body, If) or body.condition.op != "likely" or body.otherwise is not None:
        return loop
    kept: list[Expr] = []
    span = Span()
    with inside_loop(loop, an):
        for c in conjuncts(body.condition):
            trial = Span()
            holds = None if variables(c) & items else an.inequalities(c)
            if holds and all(solve(p, loop.var, frozenset(), an, trial, 4, exact=True) for p in holds):
                span.low += trial.low
                span.high += trial.high
            else:
                kept.append(c)
    if not span.low and not span.high:
        return loop
    low, high = limits(loop, span, an)
    inner = If(likely(logical_and(*kept)), body.then) if kept else body.then
    return replace(loop, start=low, extent=an.simplify(high - low), body=inner)


def _cut(loop: For, span: Span, low: Expr, high: Expr, an: Analyzer, around: _Around) -> Stmt:
    with inside_loop(loop, an):
        an.bind(loop.var, low, an.poly(high) - 1)
        whole = replace(loop, start=low, extent=high - low)
        inside = _interiors(loop.body, span, an, around, lambda body: replace(whole, body=body))
    border = _border(loop.body, span, around, an)
    within = replace(around, deferred=())
    sides = _other_sides(loop, span, an) if loop.lanes else ({}, {})
    pieces = []
    for side, start, stop in zip(sides, (loop.start, high), (low, loop.start + loop.extent), strict=True):
        kept = None if around.deferred else _in_patterns(loop.body, loop.var, span, start, stop, an, around)
        body = replace_exprs(border if kept is None else kept, side)
        pieces.append(replace(loop, start=start, extent=stop - start, body=body, ragged=True, lanes=0))
    before, after = (_partition(_in_vectors_again(piece, loop.lanes, an), an, within) for piece in pieces)
    return seq(*(simplify_stmt(p, an) for p in (before, inside, after)))


def _other_sides(loop: For, span: Span, an: Analyzer) -> tuple[dict[Expr, Expr], dict[Expr, Expr]]:
    """What becomes of a choice before and after the interior, where one comparison alone decides how far that goes."""
    found: tuple[dict[Expr, Expr], dict[Expr, Expr]] = {}, {}
    if len(span.answers) > 1 or span.provided or len(span.low) + len(span.high) != 1:
        return found
    (node,) = span.answers
    asked = conjuncts(node.args[0]) if node.op in CHOICES else []
    holds = [p for c in asked for p in an.inequalities(c) or ()]
    with inside_loop(loop, an):
        exact = Span()
        if len(holds) == 1 and solve(holds[0], loop.var, frozenset(), an, exact, 8, exact=True):
            for side, own, limit in zip(found, (span.low, span.high), (exact.low, exact.high), strict=True):
                if own and own == limit:
                    side[node] = node.args[2]
    return found


def _in_vectors_again(piece: For, lanes: int, an: Analyzer) -> Stmt:
    """A piece of a vector loop, simplified; in vectors where nothing is asked any more, as on the other side of a
    choice:

    for j in [0, 64): select(j < n, f(j), 0)   ->   for j in [0, n): f(j);  for j in [n, 64): 0
    """
    made = simplify_stmt(piece, an)
    if not lanes or not isinstance(made, For):
        return made
    with inside_loop(made, an):
        asks = any(made.var in asked_of(q.node) for q in questions(made.body, an))
    return made if asks else replace(made, lanes=lanes)


def _border(body: Stmt, span: Span, around: _Around, an: Analyzer) -> Stmt:
    """`body` for the border of `span`, where deferred conditions may or may not hold."""
    for outer in around.deferred:
        body = _scalar_border(body, outer.span)
    return _outside(body, span, an)


def _outside(body: Stmt, span: Span, an: Analyzer) -> Stmt:
    """`body` for the border of `span`: a last tile of known size, or one element after the other."""
    tiles = _tiles(body, span, an)
    return replace_exprs(body, *tiles.values()) if tiles and len(tiles) == 1 else _scalar_border(body, span)


def _tiles(body: Stmt, span: Span, an: Analyzer) -> dict[tuple[Poly, int], dict[Expr, Expr]] | None:
    """The questions by the tile of which they ask whether it fits whole, and what becomes of them where it does not:

    p + l < n, p a multiple of w, l in [0, w)   ->   p < n and l < r, with r in [1, w] the rest of n

    Then numbers alone say which copies and lanes there are. None where a question asks something else, or about a size,
    or of several tiles, of which some may fit.
    """
    pieces = [s for s in walk(body) if isinstance(s, For | Let)]
    within = {s.var: s for s in pieces}
    if len(within) < len(pieces):  # pieces of a loop are tiles of several lengths
        return None
    loops = {v: s for v, s in within.items() if isinstance(s, For) and s.kind in ("unroll", "vectorize")}
    found: dict[tuple[Poly, int], dict[Expr, Expr]] = {}
    for node, answer in span.answers.items():
        holds = an.inequalities(node) if is_const(answer, True) else []
        if not holds or len(holds) > 1:
            return None
        inside, outside, width = Poly({}), Poly({}), 1
        for monomial, factor in holds[0].terms.items():
            if not any(variables(atom) & within.keys() for atom in monomial):
                outside += Poly({monomial: factor})
                continue
            s = loops.get(monomial[0]) if len(monomial) == 1 else None
            if s is None or factor >= 0 or not is_const(s.start, 0) or not is_const(s.extent):
                return None
            inside += Poly({monomial: -factor})
            width -= factor * (int(s.extent.value) - 1)
        last = outside.terms.get((), 0)  # n - 1
        first = outside - last
        if width == 1 or last < 0 or any(factor % width for factor in first.terms.values()):
            return None
        rest = logical_and(outside.expr() >= 0, inside.expr() < last % width + 1)
        found.setdefault((first, last), {})[node] = rest
    return found


def _scalar_border(body: Stmt, span: Span, kept: frozenset[Expr] = frozenset()) -> Stmt:
    """`body` for the border, which runs rarely and should be short: unrolled loops, and vector loops that the
    questions mention, become serial loops, to be cut in turn. Masked vectors stay, those that are `kept`, and those of
    which questions change values alone: lanes ask them all at once."""
    far = _places(body)
    asked = frozenset(
        v for node in span.answers if node.op not in ("min", "max") or node in far for v in asked_of(node)
    )
    asked -= kept

    def scalar(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "unroll" and _asks(s, span):
            return replace(s, kind="serial", ragged=True)
        if isinstance(s, For) and s.kind == "vectorize" and s.var in asked and not s.masked:
            # lanes for what is left: the largest power of two up to half of them
            half = int(s.extent.value) // 2 if s.extent.op == "const" else 0
            return replace(s, kind="serial", lanes=1 << (half.bit_length() - 1) if half >= 4 else 0)
        return s

    return map_stmt(body, on_stmt=scalar)


def _places(body: Stmt) -> set[Expr]:
    """All that decides where memory is accessed, and what is run at all."""
    found = [s.condition for s in walk(body) if isinstance(s, If)]
    found += [x for s in walk(body) if isinstance(s, Store) for x in s.indices]
    for e in post_order(all_expressions(body)):
        found += e.args if e.op == "load" else e.args[:1] if e.op in CHOICES else ()
    return set(post_order(found))


def _lanes_outside(body: Stmt, span: Span) -> Stmt:
    """`body` for a work-item at the border: lane after lane, and for each the copies, which share where lanes read.

    unroll y: lanes x: f(y, x)   ->   for x: unroll y: f(y, x)
    """

    def swapped(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.kind != "unroll" or not _asks(s, span):
            return s
        guards, inner = [], s.body
        while isinstance(inner, If) and inner.otherwise is None:
            guards.append(inner.condition)
            inner = inner.then
        if not isinstance(inner, For) or inner.kind != "vectorize" or inner.masked:
            return s
        if s.var in variables(inner.start) | variables(inner.extent):
            return s
        copies = inner.body
        for condition in reversed(guards):
            copies = If(condition, copies)
        return replace(inner, kind="serial", body=replace(s, body=copies))

    return map_stmt(body, on_stmt=swapped)


def _at_ends(loop: For, body: Stmt, span: Span, an: Analyzer, around: _Around) -> Stmt | None:
    """A part of a loop's body for the first and the last iteration, if these are all of the border, in vectors:

    if b < 1: out[0..15] = in[0, 0, 1, .., 14] else: out[48..63] = in[47, .., 62, 62]
    """
    if around.deferred or span.asked or span.provided:
        return None
    low, high = limits(loop, span, an)
    sides: list[Stmt] = []
    for start, stop in ((loop.start, low), (high, an.simplify(loop.start + loop.extent))):
        if start is not stop:
            side = _in_patterns(body, loop.var, span, start, stop, an, around)
            if side is None:
                return None
            sides.append(substitute_stmt(side, {loop.var: start}))
    return If(loop.var < low, *sides) if len(sides) == 2 else sides[0] if sides else None


def _in_patterns(
    body: Stmt, v: Expr, span: Span, start: Expr, stop: Expr, an: Analyzer, around: _Around
) -> Stmt | None:
    """A part of a loop's body for a border of one iteration that keeps its vectors: numbers tell where lanes read.

    for b in [0, 1): lanes v in 16: out[b*16 + v] = in[max(b*16 + v - 1, 0)]   ->   out[0..15] = in[0, 0, 1, .., 14]

    None where it is no such border.
    """
    if not around.in_patterns or not is_const(an.simplify(stop - start), 1):
        return None
    vectors = frozenset(s.var for s in walk(body) if isinstance(s, For) and s.kind == "vectorize" and not s.masked)
    asked = {node: variables(an.simplify(substitute(node, {v: start}))) for node in span.answers}
    if not all(node.op in ("min", "max", "floormod") and by <= vectors for node, by in asked.items()):
        return None
    for e in post_order(all_expressions(body)):
        far = e.args[:-1] if e.op == "load" and not e.value.strides and not e.dtype.is_bool else e.args
        if e.op == "load" and any(x in span.answers and asked_of(x) & vectors for x in post_order(far)):
            return None  # lanes that lie in several rows
    return _scalar_border(body, span, vectors)


def _choose(loop: For, span: Span, an: Analyzer, around: _Around) -> Stmt:
    tiles = _tiles(loop.body, span, an)
    if tiles and len(tiles) > 1 and not around.deferred and around.room.take(loop.body, 2 ** len(tiles) - 2):
        with inside_loop(loop, an):
            return replace(loop, body=_choose_tile_by_tile(loop, loop.body, list(tiles.values()), an, around))
    with inside_loop(loop, an):
        condition = an.simplify(is_inside(loop, span))
        with an.assuming(condition):
            body = _interiors(loop.body, span, an, around, lambda body: body)
        if not is_const(condition, True):
            body_there = _lanes_outside(loop.body, span) if asks_itself(loop) else loop.body
            border = _at_ends(loop, loop.body, span, an, around) or _border(body_there, span, around, an)
            border = simplify_stmt(border, an)
            body = If(condition, body, _partition(border, an, replace(around, deferred=())))
    return replace(loop, body=body)


def _choose_tile_by_tile(loop: For, body: Stmt, tiles: list[dict[Expr, Expr]], an: Analyzer, around: _Around) -> Stmt:
    """A body for each combination of tiles that fit whole and such that do not."""
    if not tiles:
        return _partition(simplify_stmt(body, an), an, around)
    asked, *rest = tiles
    span = interior_of(loop, an, around.items - {loop.var}, asked)
    condition = const(True) if span is None else an.simplify(is_inside(loop, span))
    with an.assuming(condition):
        inside = replace_exprs(body, dict.fromkeys(asked, const(True)))
        then = _choose_tile_by_tile(loop, inside, rest, an, around)
    if is_const(condition, True):
        return then
    return If(condition, then, _choose_tile_by_tile(loop, replace_exprs(body, asked), rest, an, around))


# -- questions of a loop asked inside another one -------------------------------------------------


def _is_better_asked_inside(loop: For, span: Span, an: Analyzer, around: _Around) -> bool:
    """Return whether a loop inside is cut too, and only guards are asked here. Its borders are short and can go on
    asking them; cutting here would repeat those borders in each piece.

        for y: for x: f(x, y)   ->   for y: {for x in border: f(x, y)
                                             if <y in interior>: for x in interior: ... else: ...}
    """
    only_guards = all(is_const(answer, True) for answer in span.answers.values())
    return only_guards and not loop.thread and not around.items and _leads_to_a_cut(loop.body, an, around)


def _leads_to_a_cut(s: Stmt, an: Analyzer, around: _Around) -> bool:
    """Return whether `s` is a serial loop that will be cut, or little more than one."""
    match s:
        case If(otherwise=None):
            with an.assuming(s.condition):
                return _leads_to_a_cut(s.then, an, around)
        case Produce() | Let():
            return _leads_to_a_cut(s.body, an, around)
        case For(kind="serial", ragged=False, thread="") if not is_relaxed(s):
            with inside_loop(s, an):
                span = _interior(s, an, replace(around, room=replace(around.room)))
                if span is None or hint(s, "loop_partition_hint") == 0:
                    return _leads_to_a_cut(s.body, an, around)
                return not _works_elsewhere(s.body, _site(s.body, span))
    return False


# -- questions asked in one corner of a large body ------------------------------------------------


def _asks(s: Stmt, span: Span) -> bool:
    """Return whether `s` or a statement in it asks one of the questions."""
    return any(_asks_itself(part, span) for part in walk(s))


def _asks_itself(s: Stmt, span: Span) -> bool:
    return any(e in span.answers for e in post_order(expressions(s)))


def _site(s: Stmt, span: Span) -> Stmt:
    """The smallest part of `s`, outside vectors and copies, in which all the questions are asked."""
    while not _asks_itself(s, span) and not (isinstance(s, For) and is_relaxed(s)):
        asking = [c for c in children(s) if _asks(c, span)]
        if len(asking) != 1:
            break
        s = asking[0]
    return s


def _works_elsewhere(s: Stmt, site: Stmt) -> bool:
    """Return whether a long loop of `s` lies beside `site`. Then a test before `site` is cheap, and cutting `s` would
    copy that loop into every piece."""
    if s is site:
        return False
    if isinstance(s, For) and not is_relaxed(s) and all(part is not site for part in walk(s)):
        return True
    return any(_works_elsewhere(c, site) for c in children(s))


def _chosen_at(loop: For, site: Stmt, span: Span, an: Analyzer, around: _Around) -> Stmt:
    """The loop's body with a choice in the one place where the questions are asked:

    for k: f(x, k)                                   for k: f(x, k)
    if x < n: g(x)             ->                    if <interior>: g(x) else: if x < n: g(x)
    """
    border = _at_ends(loop, site, span, an, around) or _outside(site, span, an)
    chosen = If(is_inside(loop, span), replace_exprs(site, span.answers), border)
    return simplify_stmt(_replaced(loop.body, site, chosen), an)


def _replaced(s: Stmt, old: Stmt, new: Stmt) -> Stmt:
    return new if s is old else with_children(s, lambda c: _replaced(c, old, new))
