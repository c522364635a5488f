"""The interior of a loop: the iterations in which its body asks no questions. `partition` cuts it out.

    for x in W: out[x] = in[max(x - 1, 0)]     the question: x - 1 >= 0;  its answer: x - 1;  the interior: 1 <= x < W

Two kinds of questions count: the guards that ragged splits leave behind, and clamps (`min`, `max`,
`select` and `if_then_else` over indices) that a vectorized or innermost loop would have to ask for
every element. Each is an inequality `p >= 0`. Inner vector, unrolled and small loops are relaxed to
the worst case, `floor(a/d) >= k` is turned into `a >= d*k`, and what is left is solved for the loop
variable. The interior keeps the answer, the borders keep the question: a bound that is off costs
speed, never correctness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.ir import expr as E
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr
from autosched.ir.node import order
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import VTHREAD, Allocate, For, If, Stmt, Store, expressions, walk
from autosched.ir.visit import conjuncts, post_order, substitute
from autosched.lowering.simplify_stmt import bind_loop

#: A serial loop of at most this constant extent is relaxed like an unrolled one.
SMALL = 4
#: Values of a relaxed variable, at most, of which each is tried.
MOST_VALUES = 1024
#: A size or knob that is not known, for what pays where it is large.
LARGE = 4096


@dataclass(slots=True)
class _Question:
    """A node of the body, what it becomes in the interior, and when that is right."""

    node: Expr
    answer: Expr
    holds: list[Poly]


@dataclass(slots=True)
class Span:
    """The iterations in which all answers hold: `low <= v < high`, if all of `provided` hold.

    asked:  conditions that could not be solved for `v`: each iteration tests them
    solved: those that could, in their original form: free of divisions, they are of more use to the prover
    """

    asked: list[Expr] = field(default_factory=list)
    solved: list[Expr] = field(default_factory=list)
    low: list[Expr] = field(default_factory=list)
    high: list[Expr] = field(default_factory=list)
    provided: list[Expr] = field(default_factory=list)
    answers: dict[Expr, Expr] = field(default_factory=dict)


def interior_of(loop: For, an: Analyzer, items: frozenset[Expr], only: Collection[Expr] | None = None) -> Span | None:
    """The interior with regard to the questions that this loop can settle, or `only` some; None if there is nothing to
    gain.

    `items` are the variables of the loops over work-items around it, whose questions stay. A loop that fills shared
    memory stays whole: its barriers would end up in a piece that not all work-items reach, or in a branch, where PoCL
    3.0 decides the other conditions for all work-items by those of the first.
    """
    inner = [s for s in walk(loop.body) if isinstance(s, For)]
    if any(isinstance(s, (Allocate, Store)) and s.buffer.scope == "shared" for s in walk(loop.body)):
        return None
    relaxed, unknown = by_variable([s for s in inner if is_relaxed(s)], an)
    serial = unknown | {s.var for s in inner if not is_relaxed(s)}
    lanes = frozenset(s.var for s in inner if s.kind == "vectorize" or _is_work_item(s))
    small = frozenset(s.var for s in relaxed if s.kind == "serial")
    if loop.thread.startswith("blockIdx"):
        items = items | {s.var for s in inner if asks_itself(s)}
    innermost = not serial
    span, unsolved = Span(), Span()
    with an.tightened({}):
        for s in relaxed:  # their ranges, but not that they run: a question may be asked outside them
            bind_loop(s, an)
        over = frozenset(s.var for s in relaxed)
        for question in questions(loop.body, an):
            mentioned = asked_of(question.node)
            if loop.var not in mentioned or mentioned & (serial | items) or (only and question.node not in only):
                continue
            is_guard = question.node.dtype.is_bool and E.is_const(question.answer, True)
            if is_guard and mentioned & small:  # `partition.tighten` turns it into that loop's bound
                continue
            if not is_guard and not (mentioned & lanes or innermost):
                continue
            if not _settle(question, loop.var, over, an, span) and mentioned & lanes:
                _ask(question, over, an, unsolved)
    if not span.answers or loop.kind != "serial":  # a serial loop is cut where it can be
        span.asked += unsolved.asked
        span.answers.update(unsolved.answers)
    return span if span.answers else None


def by_variable(loops: Iterable[For], an: Analyzer) -> tuple[list[For], frozenset[Expr]]:
    """A loop for each variable that has the ranges of all of its loops, since pieces of a loop share their variable;
    and the variables of which that is not known."""
    found: dict[Expr, For] = {}
    unknown: set[Expr] = set()
    for s in loops:
        known = found.setdefault(s.var, s)
        if known.start is s.start and known.extent is s.extent:
            continue
        low = _one_of(an.poly(known.start), an.poly(s.start), an, least=True)
        high = _one_of(an.poly(known.start + known.extent), an.poly(s.start + s.extent), an, least=False)
        if low is None or high is None:
            unknown.add(s.var)
        else:
            found[s.var] = replace(known, start=low.expr(), extent=(high - low).expr())
    return [s for s in found.values() if s.var not in unknown], frozenset(unknown)


def _one_of(a: Poly, b: Poly, an: Analyzer, *, least: bool) -> Poly | None:
    """The least of two, or the largest; None where that is not known."""
    rest = b - a if least else a - b
    return a if an.prove_nonneg(rest) else b if an.prove_nonneg(-rest) else None


def asked_of(node: Expr) -> frozenset[Expr]:
    """The variables that decide a question: of a choice, those of its condition."""
    return E.variables(node.args[0] if node.op in CHOICES else node)


def _is_work_item(s: For) -> bool:
    return s.thread.startswith("threadIdx") or s.thread == VTHREAD


def asks_itself(loop: For) -> bool:
    """Whether each work-item asks for its own elements, not a group for all of its items: those have vectors."""
    is_item = loop.thread.startswith("threadIdx")
    return is_item and any(isinstance(s, For) and s.kind == "vectorize" and not s.masked for s in walk(loop.body))


def is_relaxed(s: For) -> bool:
    if s.kind in ("vectorize", "unroll") or _is_work_item(s):
        return True
    return s.kind == "serial" and s.extent.op == "const" and (s.ragged or s.extent.value <= SMALL)


def questions(body: Stmt, an: Analyzer) -> Iterable[_Question]:
    """The guards, clamps and choices over indices of a body, each once."""
    seen: set[Expr] = set()
    for s in walk(body):
        if isinstance(s, If) and s.condition.op == "likely":
            for c in conjuncts(s.condition):
                holds = an.inequalities(c)
                if holds and c.op != "eq" and c not in seen:
                    seen.add(c)
                    yield _Question(c, E.const(True), holds)
        for root in expressions(s):
            for e in post_order(root):
                if e not in seen:
                    seen.add(e)
                    question = _clamp(e, an) or _wrap(e, an)
                    if question is not None:
                        yield question


def _clamp(e: Expr, an: Analyzer) -> _Question | None:
    """The question of a `min` or `max` of which one side varies with all the loops of the other, answered by that one,
    or by the other where that is nearly everywhere: `max(20 - x, 0)` by 0. That of a choice, by its condition."""
    if e.dtype.lanes > 1:
        return None
    if e.op in ("min", "max") and E.is_index(e):
        a, b = e.args
        loops = [set(filter(_is_of_a_loop, E.variables(x))) for x in (a, b)]
        if not (loops[0] < loops[1] or loops[1] < loops[0]):  # borders of one would lie anywhere in the other
            return None
        kept, other = (a, b) if loops[0] > loops[1] else (b, a)
        ahead = (an.poly(kept) - an.poly(other)) * (1 if e.op == "max" else -1)
        low, high = (an.extreme(ahead, sorted(loops[0] | loops[1], key=order), largest=x) for x in (False, True))
        if low is not None and high is not None and _are_few(high + 1, -low, an):
            return _Question(e, other, [-ahead])
        return _Question(e, kept, [ahead])
    if e.op in CHOICES and E.is_index(e.args[0]):
        parts = conjuncts(e.args[0])
        holds = [an.inequalities(c) for c in parts]
        if all(h and c.op != "eq" for h, c in zip(holds, parts, strict=True)):
            return _Question(e, e.args[1], [p for h in holds for p in h])
    return None


def _wrap(e: Expr, an: Analyzer) -> _Question | None:
    """The question of a remainder, as of places on a ring, that is the same multiple less nearly everywhere.

    (x + 1) % n   ->   x + 1, if x + 1 < n
    """
    times = wraps(e, an)
    if times is None:
        return None
    a, d = map(an.poly, e.args)
    rest = a - d * times
    return _Question(e, rest.expr(), [rest, d - 1 - rest])


def wraps(e: Expr, an: Analyzer, *, roughly: bool = False) -> int | None:
    """How many times the divisor a remainder over loops takes off nearly everywhere: of two neighbouring numbers, the
    one for all but a few iterations, or a quarter of them. None where it is no such remainder. With `roughly`, open
    knobs have their least values."""
    if e.op != "floormod" or e.dtype.lanes > 1 or not E.is_index(e):
        return None
    loops = list(filter(_is_of_a_loop, E.variables(e.args[0])))
    a, d = map(an.poly, e.args)
    ends = [an.extreme(a, loops, largest=x) for x in (False, True)]
    if roughly:
        ends = [None if p is None else _with_least_knobs(p, an) for p in ends]
    low, high = ends
    if low is None or high is None or not an.prove_nonneg(d - 1):
        return None
    for first in (-1, 0):
        if not (an.prove_nonneg(low - d * first) and an.prove_nonneg(d * (first + 2) - 1 - high)):
            continue
        over, under = high + 1 - d * (first + 1), d * (first + 1) - low
        all_of_them = high + 1 - low
        for times, others in ((first, over), (first + 1, under)):
            if _are_few(others, all_of_them, an):
                return times
    return None


def _are_few(some: Poly, others: Poly, an: Analyzer) -> bool:
    """Whether some are at most a quarter as many as others, for sure or where sizes and knobs are large."""
    more = others - some * 4
    if more.constant is None and not any(map(_is_of_a_loop, more.variables)):
        return bool(evaluate([more.expr()], dict.fromkeys(more.variables, LARGE))[0] >= 0)
    return an.prove_nonneg(more)


def _is_of_a_loop(v: Expr) -> bool:
    return v.value.role in ("loop", "thread")


def _with_least_knobs(p: Poly, an: Analyzer) -> Poly:
    least = {v: E.const(v.value.lower) for v in p.variables if v.value.role == "knob" and v.value.lower is not None}
    return an.poly(substitute(p.expr(), least)) if least else p


# -- what is made of an interior -----------------------------------------------------------------


def limits(loop: For, span: Span, an: Analyzer) -> tuple[Expr, Expr]:
    """First interior iteration and one past the last, within the loop, in this order."""
    end = an.simplify(loop.start + loop.extent)
    low, high = loop.start, end
    for e in span.low:
        low = an.simplify(E.maximum(low, e))
    for e in span.high:
        high = an.simplify(E.minimum(high, e))
    low = an.simplify(E.minimum(low, end))
    if span.provided:
        high = E.select(E.logical_and(*span.provided), high, low)
    high = an.simplify(E.maximum(high, low))
    return low, high


def is_inside(loop: For, span: Span) -> Expr:
    """The condition that an iteration belongs to the interior."""
    tests: list[Expr] = [*span.provided, *span.asked]
    tests += [E.make("ge", E.const(True).dtype, (loop.var, e)) for e in span.low if e is not loop.start]
    tests += [E.make("lt", E.const(True).dtype, (loop.var, e)) for e in span.high]
    return E.logical_and(*tests)


# -- solving -------------------------------------------------------------------------------------


def _ask(question: _Question, over: frozenset[Expr], an: Analyzer, span: Span) -> None:
    """Settle the question by a test, for the worst case of the variables in `over`."""
    tests: list[Expr] = []
    for p in question.holds:
        p = _at_worst(p, over, an)
        worst = an.extreme(p, [x for x in over if x in p.variables], largest=False)
        if worst is None or worst.variables & over or an.prove_nonneg(-worst - 1):
            return
        tests.append(E.make("ge", E.const(True).dtype, (worst.expr(), E.const(0))))
    span.asked += [t for t in tests if t not in set(span.asked)]
    span.answers[question.node] = question.answer


def _settle(question: _Question, v: Expr, over: frozenset[Expr], an: Analyzer, span: Span) -> bool:
    """Add to the span the iterations that settle the question; return False if they are not found."""
    trial = Span()
    for p in question.holds:
        if not solve(p, v, over, an, trial, 8):
            return False
    span.low += trial.low
    span.high += trial.high
    span.solved += trial.solved
    span.provided += [c for c in trial.provided if c not in set(span.provided)]
    span.answers[question.node] = question.answer
    return True


def solve(p: Poly, v: Expr, over: frozenset[Expr], an: Analyzer, span: Span, depth: int, exact: bool = False) -> bool:
    """Add bounds on `v` that imply `p >= 0` for all values of the variables in `over`, and if `exact` are implied by
    it. Return False if none are found."""
    if an.prove_nonneg(p):
        return True
    if depth == 0:
        return False
    p = _at_worst(p, over, an)
    opaque = [a for a in p.atoms() if a.op != "var" and E.variables(a) & (over | {v})]
    if opaque:
        apart = over & p.variables - frozenset().union(*map(E.variables, opaque))
        p = (an.extreme(p, apart, largest=False) if apart else p) or p  # before it is divided
        return _solve_opaque(p, max(opaque, key=order), v, over, an, span, depth - 1, exact)
    worst = an.extreme(p, [x for x in over if x in p.variables], largest=False)
    if worst is None:
        return False
    linear = worst.linear_in(v)
    if linear is None:
        return False
    k, rest = linear[0].constant, linear[1]
    if k is None:
        return False
    if k == 0:
        if exact or an.prove_nonneg(-rest - 1):  # it never holds: nothing to gain
            return False
        span.provided.append(E.make("ge", E.const(True).dtype, (rest.expr(), E.const(0))))
        return True
    span.solved.append(E.make("ge", E.const(True).dtype, (worst.expr(), E.const(0))))
    if k > 0:  # v >= ceil(-rest / k)
        span.low.append(an.simplify(E.const(0) - E.floordiv(rest.expr(), k)))
    else:  # v <= floor(rest / -k)
        span.high.append(an.simplify(E.floordiv(rest.expr(), -k) + 1))
    return True


def _at_worst(p: Poly, over: frozenset[Expr], an: Analyzer) -> Poly:
    """`p` with the least of what depends on one variable in `over` alone, where several terms do: `2*x - 3*(x//2)` is
    0 or more for 0 <= x < 32, although `-3*(x//2)` may be -45."""
    for v in sorted(over & p.variables, key=order):
        own = {m: c for m, c in p.terms.items() if any(v in E.variables(a) for a in m)}
        low, high = (None if end is None else end.constant for end in an.range(v))
        if len(own) < 2 or low is None or high is None or not 0 <= high - low < MOST_VALUES:
            continue
        if all(E.variables(a) == {v} for m in own for a in m):
            (values,) = evaluate([Poly(own).expr()], {v: np.arange(low, high + 1)})
            p = p - Poly(own) + int(values.min())
    return p


def _solve_opaque(
    p: Poly, atom: Expr, v: Expr, over: frozenset[Expr], an: Analyzer, span: Span, depth: int, exact: bool
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
        return solve(a + d * rest if k > 0 else d * rest + d - 1 - a, v, over, an, span, depth, exact)
    if atom.op in ("min", "max"):
        sides = [an.poly(x) * k + rest for x in atom.args]
        if (atom.op == "min") == (k > 0):
            return all(solve(side, v, over, an, span, depth, exact) for side in sides)
        if any(an.prove_nonneg(side) for side in sides):
            return True
        if exact:
            return False
        varying = [s for s, x in zip(sides, atom.args, strict=True) if E.variables(x) & (over | {v})]
        return solve(varying[0], v, over, an, span, depth)
    return False
