"""Loop partitioning: a loop whose body asks "am I near the border?" becomes border and interior.

    for x in W: out[x] = in[max(x - 1, 0)]     ->     for x in [0, 1):  out[x] = in[max(x - 1, 0)]
                                                      for x in [1, W):  out[x] = in[x - 1]

Two kinds of questions count: the guards that ragged splits leave behind, and clamps (`min`, `max`,
`select` and `if_then_else` over indices) that a vectorized or innermost loop would have to ask for
every element. Each is an inequality `p >= 0`. Inner vector, unrolled and small loops are relaxed to
the worst case, `floor(a/d) >= k` is turned into `a >= d*k`, and what is left is solved for the loop
variable. The interior keeps the answer, the borders keep the question: a bound that is off costs
speed, never correctness.

A serial loop is cut in three. An iteration of a parallel loop, or a work-group, chooses between the
two bodies instead, so that the pieces still run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from autosched.ir.expr import (
    Expr,
    const,
    floordiv,
    is_const,
    is_index,
    likely,
    logical_and,
    make,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import (
    VTHREAD,
    Allocate,
    For,
    If,
    Launch,
    Let,
    Produce,
    Seq,
    Stmt,
    Store,
    While,
    children,
    expressions,
    map_stmt,
    seq,
    walk,
)
from autosched.ir.visit import post_order
from autosched.lower.hints import hint
from autosched.lower.scoped import enter_loop, replace_exprs, simplify_stmt

__all__ = ["partition_loops"]

#: A serial loop of at most this constant extent is relaxed like an unrolled one.
SMALL = 4
#: Statements that cutting may add to a program in all. Loops that lie in one another multiply their pieces.
MAX_STATEMENTS = 3000


@dataclass(slots=True)
class _Room:
    """Statements that may still be added, by all cuts together."""

    statements: int

    def take(self, copied: Stmt, times: int) -> bool:
        """Whether there is room for `times` more of `copied`; it is taken then."""
        wanted = times * sum(1 for _ in walk(copied))
        if wanted > self.statements:
            return False
        self.statements -= wanted
        return True


@dataclass(frozen=True, slots=True)
class _Open:
    """Questions of a loop that an inner one asks once for all: its interior, and when that is right."""

    span: _Span
    holds: Expr


@dataclass(frozen=True, slots=True)
class _Around:
    """What surrounds a statement: the loops of work-items, and the room that is left.

    Nothing is cut where work-items decide: those of a group run in step, so each would go through the
    pieces of all.
    """

    items: frozenset[Expr]
    room: _Room
    left_open: tuple[_Open, ...] = ()  #: what loops outside leave to the next loop that is cut


@dataclass(slots=True)
class _Question:
    """A node of the body, what it becomes in the interior, and when that is right."""

    node: Expr
    answer: Expr
    holds: list[Poly]


@dataclass(slots=True)
class _Span:
    """Where all the answers hold: `low <= v < high`, provided `provided`.

    `asked` are conditions that could not be solved for `v`: an iteration has to try them. `solved` are
    those that could, as they were: without divisions, they say more to a prover than the limits do.
    """

    asked: list[Expr] = field(default_factory=list)
    solved: list[Expr] = field(default_factory=list)
    low: list[Expr] = field(default_factory=list)
    high: list[Expr] = field(default_factory=list)
    provided: list[Expr] = field(default_factory=list)
    answers: dict[Expr, Expr] = field(default_factory=dict)


def partition_loops(s: Stmt, an: Analyzer) -> Stmt:
    """`s` with its loops cut into borders and interiors, as far as there is room for them."""
    return _partition(s, an, _Around(frozenset(), _Room(MAX_STATEMENTS)))


def _partition(s: Stmt, an: Analyzer, around: _Around) -> Stmt:
    match s:
        case For():
            return _partition_for(s, an, around)
        case If():
            with an.assuming(s.condition):
                then = _partition(s.then, an, around)
            return If(s.condition, then, None if s.otherwise is None else _partition(s.otherwise, an, around))
        case Seq():
            return seq(*(_partition(c, an, around) for c in s.stmts))
        case Let() | Allocate() | Produce() | Launch() | While():
            return replace(s, body=_partition(s.body, an, around))
        case _:
            return s


def _partition_for(loop: For, an: Analyzer, around: _Around) -> Stmt:
    if loop.thread.startswith("threadIdx"):
        around = replace(around, items=around.items | {loop.var})
    if loop.kind in ("serial", "parallel"):
        loop = _tighten(loop, an, around)
    with an.tightened({}):
        enter_loop(loop, an)
        span = None
        is_cut = not loop.ragged and hint(loop, "loop_partition_hint") != 0
        if is_cut and (loop.kind in ("serial", "parallel") or loop.thread.startswith("blockIdx")):
            span = _interior(loop, an, around)
        if span is None:
            return _uncut(loop, an, around)
        site = _site(loop.body, span)
        if _works_elsewhere(loop.body, site):
            return replace(loop, body=_partition(_chosen_at(loop, site, span, an), an, around))
        if _is_better_asked_inside(loop, span, an, around):
            asked = _Open(span, an.simplify(logical_and(*span.provided, *span.asked, *span.solved)))
            return replace(loop, body=_partition(loop.body, an, replace(around, left_open=(*around.left_open, asked))))
    if loop.kind != "serial" or span.asked:
        return _choose(loop, span, an, around)
    # limits may be simplified only by what holds where they are computed: if knowing that the loop
    # runs makes them simpler, it has to be asked
    runs = an.simplify(loop.extent >= 1)
    without_asking = _limits(loop, span, an)
    with an.assuming(runs):
        low, high = _limits(loop, span, an)
    if low is without_asking[0] and high is without_asking[1]:
        runs = const(True)
    with an.assuming(runs):
        pieces = _cut(loop, span, low, high, an, around)
    return pieces if is_const(runs, True) else If(runs, pieces)


def _uncut(loop: For, an: Analyzer, around: _Around) -> Stmt:
    """A loop that settles nothing itself. What was left open for a loop further inside is settled here,
    should there be none."""
    if not around.left_open or _leads_to_a_cut(loop.body, an, around):
        return replace(loop, body=_partition(loop.body, an, around))
    return _interiors(loop.body, _Span(), an, around, lambda body: replace(loop, body=body))


def _interiors(body: Stmt, span: _Span, an: Analyzer, around: _Around, loop_of: Callable[[Stmt], Stmt]) -> Stmt:
    """The loop over the interior of `span`; a choice of loops where questions of loops around are open."""
    within = replace(around, left_open=())
    answers, holds, border = dict(span.answers), const(True), body
    for outer in around.left_open:
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


def _tighten(loop: For, an: Analyzer, around: _Around) -> For:
    """A guard around the whole body that the loop variable alone decides becomes the loop's bound:

    for y in [0, 8): if y < n: f   ->   for y in [0, min(8, n)): f
    """
    body = loop.body
    if not isinstance(body, If) or body.condition.op != "likely" or body.otherwise is not None:
        return loop
    kept: list[Expr] = []
    span = _Span()
    with an.tightened({}):
        enter_loop(loop, an)
        for c in conjuncts(body.condition):
            trial = _Span()
            holds = None if variables(c) & around.items else an.inequalities(c)
            if holds and all(_solve(p, loop.var, frozenset(), an, trial, 4, exact=True) for p in holds):
                span.low += trial.low
                span.high += trial.high
            else:
                kept.append(c)
    if not span.low and not span.high:
        return loop
    low, high = _limits(loop, span, an)
    inner = If(likely(logical_and(*kept)), body.then) if kept else body.then
    return replace(loop, start=low, extent=an.simplify(high - low), body=inner)


def _limits(loop: For, span: _Span, an: Analyzer) -> tuple[Expr, Expr]:
    """First interior iteration and one past the last, within the loop, in this order."""
    end = an.simplify(loop.start + loop.extent)
    low, high = loop.start, end
    for e in span.low:
        low = an.simplify(maximum(low, e))
    for e in span.high:
        high = an.simplify(minimum(high, e))
    low = an.simplify(minimum(low, end))
    if span.provided:
        high = select(logical_and(*span.provided), high, low)
    high = an.simplify(maximum(high, low))
    return low, high


def _cut(loop: For, span: _Span, low: Expr, high: Expr, an: Analyzer, around: _Around) -> Stmt:
    with an.tightened({}):
        enter_loop(loop, an)
        an.bind(loop.var, low, an.poly(high) - 1)
        whole = replace(loop, start=low, extent=high - low)
        inside = _interiors(loop.body, span, an, around, lambda body: replace(whole, body=body))
    border = _border(loop.body, span, around)
    within = replace(around, left_open=())
    left, right = (
        replace(loop, start=start, extent=stop - start, body=border, ragged=True, lanes=0)
        for start, stop in ((loop.start, low), (high, loop.start + loop.extent))
    )
    before, after = (_partition(simplify_stmt(piece, an), an, within) for piece in (left, right))
    return seq(*(simplify_stmt(p, an) for p in (before, inside, after)))


def _border(body: Stmt, span: _Span, around: _Around) -> Stmt:
    """`body` for the border of `span`, whether or not what is left open holds there."""
    for outer in around.left_open:
        body = _scalar_border(body, outer.span)
    return _scalar_border(body, span)


def _scalar_border(body: Stmt, span: _Span) -> Stmt:
    """`body` for the border, where little time is spent and code should be short: loops over
    vector lanes that the questions mention become serial loops, to be cut in turn, and nothing is
    written out that need not be. Masked vectors stay."""
    asked = frozenset(v for node in span.answers for v in variables(node))

    def scalar(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "unroll" and _asks(s, span):
            return replace(s, kind="serial", ragged=True)
        if isinstance(s, For) and s.kind == "vectorize" and s.var in asked and not s.masked:
            return replace(s, kind="serial", lanes=_half(s.extent))
        return s

    return map_stmt(body, on_stmt=scalar)


def _half(extent: Expr) -> int:
    """Lanes for what is left of a vector loop: the largest power of two up to half of it, or none."""
    half = int(extent.value) // 2 if extent.op == "const" else 0
    return 1 << (half.bit_length() - 1) if half >= 4 else 0


def _choose(loop: For, span: _Span, an: Analyzer, around: _Around) -> Stmt:
    with an.tightened({}):
        enter_loop(loop, an)
        condition = an.simplify(_holds(loop, span))
        with an.assuming(condition):
            body = _interiors(loop.body, span, an, around, lambda body: body)
        if not is_const(condition, True):
            border = simplify_stmt(_border(loop.body, span, around), an)
            body = If(condition, body, _partition(border, an, replace(around, left_open=())))
    return replace(loop, body=body)


def _holds(loop: For, span: _Span) -> Expr:
    """Whether an iteration belongs to the interior."""
    tests: list[Expr] = [*span.provided, *span.asked]
    tests += [make("ge", const(True).dtype, (loop.var, e)) for e in span.low if e is not loop.start]
    tests += [make("lt", const(True).dtype, (loop.var, e)) for e in span.high]
    return logical_and(*tests)


# -- questions of a loop asked inside another one -------------------------------------------------


def _is_better_asked_inside(loop: For, span: _Span, an: Analyzer, around: _Around) -> bool:
    """Whether a loop inside is cut too, and all that is asked here are guards, which its borders can go
    on asking: they are short. Cut here, the program would have those borders in each of the pieces.

        for y: for x: f(x, y)   ->   for y: {for x in border: f(x, y)
                                             if <y in interior>: for x in interior: ... else: ...}
    """
    only_guards = all(is_const(answer, True) for answer in span.answers.values())
    return only_guards and not loop.thread and not around.items and _leads_to_a_cut(loop.body, an, around)


def _leads_to_a_cut(s: Stmt, an: Analyzer, around: _Around) -> bool:
    """Whether `s` is a serial loop that is going to be cut, and little besides."""
    match s:
        case If(otherwise=None):
            with an.assuming(s.condition):
                return _leads_to_a_cut(s.then, an, around)
        case Produce() | Let():
            return _leads_to_a_cut(s.body, an, around)
        case For(kind="serial", ragged=False, thread="") if not _is_relaxed(s):
            with an.tightened({}):
                enter_loop(s, an)
                span = _interior(s, an, replace(around, room=replace(around.room)))
                if span is None or hint(s, "loop_partition_hint") == 0:
                    return _leads_to_a_cut(s.body, an, around)
                return not _works_elsewhere(s.body, _site(s.body, span))
    return False


# -- questions asked in one corner of a large body ------------------------------------------------


def _asks(s: Stmt, span: _Span) -> bool:
    """Whether one of the questions is asked somewhere in `s`."""
    return any(_asks_itself(part, span) for part in walk(s))


def _asks_itself(s: Stmt, span: _Span) -> bool:
    return any(e in span.answers for e in post_order(expressions(s)))


def _site(s: Stmt, span: _Span) -> Stmt:
    """The smallest part of `s`, outside vectors and copies, in which all the questions are asked."""
    while not _asks_itself(s, span) and not (isinstance(s, For) and _is_relaxed(s)):
        asking = [c for c in children(s) if _asks(c, span)]
        if len(asking) != 1:
            break
        s = asking[0]
    return s


def _works_elsewhere(s: Stmt, site: Stmt) -> bool:
    """Whether a long loop of `s` lies beside `site`. Then one test before `site` costs nothing, and
    cutting `s` would write that loop down once for each piece."""
    if s is site:
        return False
    if isinstance(s, For) and not _is_relaxed(s) and all(part is not site for part in walk(s)):
        return True
    return any(_works_elsewhere(c, site) for c in children(s))


def _chosen_at(loop: For, site: Stmt, span: _Span, an: Analyzer) -> Stmt:
    """The loop's body with a choice in the one place where the questions are asked:

    for k: f(x, k)                                   for k: f(x, k)
    if x < n: g(x)             ->                    if <interior>: g(x) else: if x < n: g(x)
    """
    chosen = If(_holds(loop, span), replace_exprs(site, span.answers), _scalar_border(site, span))
    return simplify_stmt(_replaced(loop.body, site, chosen), an)


def _replaced(s: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if s is old:
        return new
    match s:
        case Seq():
            return seq(*(_replaced(c, old, new) for c in s.stmts))
        case If():
            other = None if s.otherwise is None else _replaced(s.otherwise, old, new)
            return replace(s, then=_replaced(s.then, old, new), otherwise=other)
        case For() | Let() | Allocate() | Produce() | Launch() | While():
            return replace(s, body=_replaced(s.body, old, new))
        case _:
            return s


# -- which questions -----------------------------------------------------------------------------


def _interior(loop: For, an: Analyzer, around: _Around) -> _Span | None:
    """Where the questions this loop can settle are settled, or None if there is nothing to gain.

    A loop that fills shared memory is left whole. The barriers of that stage would come to stand in
    a piece that not all work-items reach, or in a branch, and there PoCL (3.0) is not to be trusted:
    it decides the other conditions of the branch for all work-items by what the first one finds.
    """
    inner = [s for s in walk(loop.body) if isinstance(s, For)]
    if any(isinstance(s, (Allocate, Store)) and s.buffer.scope == "shared" for s in walk(loop.body)):
        return None
    relaxed = [s for s in inner if _is_relaxed(s)]
    serial = frozenset(s.var for s in inner if not _is_relaxed(s))
    lanes = frozenset(s.var for s in inner if s.kind == "vectorize" or _is_work_item(s))
    small = frozenset(s.var for s in relaxed if s.kind == "serial")
    innermost = not serial
    span, unsolved = _Span(), _Span()
    with an.tightened({}):
        for s in relaxed:  # their ranges, but not that they run: a question may be asked outside them
            start = an.poly(s.start)
            an.bind(s.var, start, start + an.poly(s.extent) - 1)
        over = frozenset(s.var for s in relaxed)
        for question in _questions(loop.body, an):
            mentioned = variables(question.node)
            if loop.var not in mentioned or mentioned & (serial | around.items):
                continue
            is_guard = question.node.dtype.is_bool and is_const(question.answer, True)
            if is_guard and mentioned & small:  # `_tighten` turns it into that loop's bound
                continue
            if not is_guard and not (mentioned & lanes or innermost):
                continue
            if not _settle(question, loop.var, over, an, span) and mentioned & lanes:
                _ask(question, over, an, unsolved)
    if not span.answers or loop.kind != "serial":  # a serial loop is cut where it can be
        span.asked += unsolved.asked
        span.answers.update(unsolved.answers)
    pieces = 2 if loop.kind == "serial" and not span.asked else 1
    return span if span.answers and around.room.take(loop.body, pieces) else None


def _is_work_item(s: For) -> bool:
    return s.thread.startswith("threadIdx") or s.thread == VTHREAD


def _is_relaxed(s: For) -> bool:
    if s.kind in ("vectorize", "unroll") or _is_work_item(s):
        return True
    return s.kind == "serial" and s.extent.op == "const" and (s.ragged or s.extent.value <= SMALL)


def _questions(body: Stmt, an: Analyzer) -> Iterable[_Question]:
    seen: set[Expr] = set()
    for s in walk(body):
        if isinstance(s, If) and s.condition.op == "likely":
            for c in conjuncts(s.condition):
                holds = an.inequalities(c)
                if holds and c.op != "eq" and c not in seen:
                    seen.add(c)
                    yield _Question(c, const(True), holds)
        for root in expressions(s):
            for e in post_order(root):
                if e not in seen:
                    seen.add(e)
                    question = _clamp(e, an)
                    if question is not None:
                        yield question


def _clamp(e: Expr, an: Analyzer) -> _Question | None:
    """`min` / `max`: the side that varies most wins in the interior. Choices: their condition holds."""
    if e.dtype.lanes > 1:
        return None
    if e.op in ("min", "max") and is_index(e):
        a, b = e.args
        loops = [sum(v.value.role in ("loop", "thread") for v in variables(x)) for x in (a, b)]
        if loops[0] == loops[1]:
            return None
        kept, other = (a, b) if loops[0] > loops[1] else (b, a)
        difference = an.poly(kept) - an.poly(other)
        return _Question(e, kept, [difference if e.op == "max" else -difference])
    if e.op in ("select", "if_then_else") and is_index(e.args[0]):
        parts = conjuncts(e.args[0])
        holds = [an.inequalities(c) for c in parts]
        if all(h and c.op != "eq" for h, c in zip(holds, parts, strict=True)):
            return _Question(e, e.args[1], [p for h in holds for p in h])
    return None


# -- solving -------------------------------------------------------------------------------------


def _ask(question: _Question, over: frozenset[Expr], an: Analyzer, span: _Span) -> None:
    """Settle the question by trying it for the worst of the variables in `over`."""
    tests: list[Expr] = []
    for p in question.holds:
        worst = an.extreme(p, [x for x in over if x in p.variables], largest=False)
        if worst is None or worst.variables & over or an.prove_nonneg(-worst - 1):
            return
        tests.append(make("ge", const(True).dtype, (worst.expr(), const(0))))
    span.asked += [t for t in tests if t not in set(span.asked)]
    span.answers[question.node] = question.answer


def _settle(question: _Question, v: Expr, over: frozenset[Expr], an: Analyzer, span: _Span) -> bool:
    """Add to the span where the question is settled; False if that cannot be told."""
    trial = _Span()
    for p in question.holds:
        if not _solve(p, v, over, an, trial, 8):
            return False
    span.low += trial.low
    span.high += trial.high
    span.solved += trial.solved
    span.provided += [c for c in trial.provided if c not in set(span.provided)]
    span.answers[question.node] = question.answer
    return True


def _solve(p: Poly, v: Expr, over: frozenset[Expr], an: Analyzer, span: _Span, depth: int, exact: bool = False) -> bool:
    """Bounds on `v` for `p >= 0`, whatever the variables in `over` are: sufficient, or if `exact`
    necessary too. False if there are none to be found."""
    if an.prove_nonneg(p):
        return True
    if depth == 0:
        return False
    opaque = [a for a in p.atoms() if a.op != "var" and variables(a) & (over | {v})]
    if opaque:
        return _solve_opaque(p, max(opaque, key=lambda a: a.serial), v, over, an, span, depth - 1, exact)
    worst = an.extreme(p, [x for x in over if x in p.variables], largest=False)
    if worst is None:
        return False
    linear = worst.linear_in(v)
    if linear is None:
        return False
    slope, rest = linear
    k = slope.constant
    if k is None:
        return False
    if k == 0:
        if exact:
            return False
        if not an.prove_nonneg(-rest - 1):  # otherwise it never holds: nothing to gain
            span.provided.append(make("ge", const(True).dtype, (rest.expr(), const(0))))
            return True
        return False
    span.solved.append(make("ge", const(True).dtype, (worst.expr(), const(0))))
    if k > 0:  # v >= ceil(-rest / k)
        span.low.append(an.simplify(const(0) - floordiv(rest.expr(), k)))
    else:  # v <= floor(rest / -k)
        span.high.append(an.simplify(floordiv(rest.expr(), -k) + 1))
    return True


def _solve_opaque(
    p: Poly, atom: Expr, v: Expr, over: frozenset[Expr], an: Analyzer, span: _Span, depth: int, exact: bool
) -> bool:
    linear = p.linear_in(atom)
    if linear is None or linear[0].constant is None:
        return False
    k, rest = linear[0].constant, linear[1]
    if atom.op == "floordiv":
        a, d = an.poly(atom.args[0]), an.poly(atom.args[1])
        if not an.prove_nonneg(d - 1):
            return False
        if abs(k) > 1:
            if exact:
                return False
            rest = an.floordiv(rest, Poly.of(abs(k)))
        # floor(a/d) >= -rest  <=>  a >= -d*rest;   floor(a/d) <= rest  <=>  a <= d*rest + d - 1
        return _solve(a + d * rest if k > 0 else d * rest + d - 1 - a, v, over, an, span, depth, exact)
    if atom.op in ("min", "max"):
        sides = [an.poly(x) * k + rest for x in atom.args]
        if (atom.op == "min") == (k > 0):
            return all(_solve(side, v, over, an, span, depth, exact) for side in sides)
        if any(an.prove_nonneg(side) for side in sides):
            return True
        if exact:
            return False
        varying = [s for s, x in zip(sides, atom.args, strict=True) if variables(x) & (over | {v})]
        return _solve(varying[0], v, over, an, span, depth)
    return False
