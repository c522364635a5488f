"""Vector loops whose iterations seldom change anything: where no lane would, all lanes are left out.

    for k in 64 lanes:                      if any(A[0..63] > best):
      if A[k] > best:                         k = the first lane that changes something
        best, at = A[k], k           ->       while k < 64 (a few times): step k;  k = the next such lane
                                              the steps from k on, if there are any left

So are `te.argmax` and what else chooses between the old state and a new one. Iterations keep their order, so that any
combiner may be taken: as long as no lane before has changed a state, each lane finds the one that was there before
the loop. After a few lanes that change something, the others are run one by one: where most do, as in rows
that rise, asking all of them again and again would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autosched.ir.calls import is_opaque
from autosched.ir.dtype import INT32
from autosched.ir.expr import (
    Expr,
    broadcast,
    combine_lanes,
    compare,
    const,
    is_const,
    logical_and,
    logical_not,
    logical_or,
    make,
    ramp,
    select,
    var,
    variables,
)
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    Allocate,
    Buffer,
    For,
    If,
    Let,
    Produce,
    Seq,
    Stmt,
    Store,
    While,
    load,
    seq,
    substitute_stmt,
)
from autosched.ir.visit import conjuncts, contains, post_order, substitute
from autosched.lowering.masks import may_run_anyway
from autosched.lowering.simplify_stmt import bind_loop

#: Lanes that change something, of one vector, that are looked for; the rest is run lane by lane.
MOST_FOUND = 8
#: Fewer lanes are run one by one, and so are more than the bits of a machine word.
FEWEST_LANES, MOST_LANES = 8, 64


def skip_lanes(loop: For, lanes: int, on_lanes: Callable[[Expr], Expr], an: Analyzer) -> Stmt | None:
    """The loop over that many lanes, if it keeps what is stored under conditions that lanes can ask together; None
    otherwise. `on_lanes` makes an expression over the loop's variable one of all lanes."""
    asked = _asked(loop, an) if FEWEST_LANES <= lanes <= MOST_LANES else None
    if asked is None:
        return None
    exact, roughly = asked
    found = Buffer(f"{loop.var.name}.found", (const(2),), INT32, "local")
    lane, count = load(found, const(0)), load(found, const(1))
    numbers = ramp(const(0), 1, lanes)

    def find(after: Expr | None) -> Store:
        changes = on_lanes(exact)
        if after is not None:
            changes = logical_and(changes, compare("gt", numbers, broadcast(after, lanes)))
        return Store(found, (const(0),), combine_lanes("min", select(changes, numbers, broadcast(const(lanes), lanes))))

    def step(at: Expr) -> Stmt:
        return substitute_stmt(loop.body, {loop.var: loop.start + at})

    chosen, rest = (var(f"{loop.var.name}.{part}", role=role) for part, role in (("lane", "let"), ("rest", "loop")))
    search = While(
        logical_and(compare("lt", lane, lanes), compare("lt", count, MOST_FOUND)),
        seq(Let(chosen, lane, step(chosen)), find(lane), Store(found, (const(1),), count + 1)),
    )
    first = var(f"{loop.var.name}.left", role="let")
    left = Let(first, lane, For(rest, const(0), lanes - first, "serial", step(first + rest), ragged=True))
    body = seq(find(None), Store(found, (const(1),), const(0, INT32)), search, left)
    return If(_any(roughly, loop.var, on_lanes), Allocate(found, body))


def seldom_changes(loop: For, an: Analyzer) -> bool:
    """Whether `skip_lanes` would leave out the vectors of a loop, of as many lanes as it asks together."""
    return _asked(loop, an) is not None


def _asked(loop: For, an: Analyzer) -> tuple[Expr, Expr] | None:
    """When a step may change what is stored, exactly and roughly; None where lanes cannot ask it together."""
    steps = _Steps.of(loop, an)
    exact = None if steps is None else steps.changes()
    if steps is None or exact is None or not any(map(steps.is_state, post_order(exact))):
        return None
    roughly = steps.roughly(exact)
    return None if is_const(roughly, True) or loop.var not in variables(roughly) else (exact, roughly)


def _any(condition: Expr, lane: Expr, on_lanes: Callable[[Expr], Expr]) -> Expr:
    """Whether a condition holds for some lane. What does not depend on the lane is asked once."""
    sides = _sides(condition)
    vectors = [c for c in sides if lane in variables(c)]
    some = combine_lanes("bitor", on_lanes(logical_or(*vectors)))
    return logical_or(*(c for c in sides if lane not in variables(c)), some)


def _sides(condition: Expr) -> list[Expr]:
    """The conditions of which one suffices."""
    return [x for a in condition.args for x in _sides(a)] if condition.op == "or" else [condition]


def _stores(s: Stmt, under: tuple[Expr, ...], let: dict[Expr, Expr]) -> Iterator[tuple[Store, tuple[Expr, ...]] | None]:
    """The stores of code without loops, each under its conditions, names replaced; None for all else that it does."""
    match s:
        case Store():
            yield Store(s.buffer, tuple(substitute(i, let) for i in s.indices), substitute(s.value, let)), under
        case Seq(stmts=stmts):
            for x in stmts:
                yield from _stores(x, under, let)
        case Produce(body=body):
            yield from _stores(body, under, let)
        case Let():
            yield from _stores(s.body, under, {**let, s.var: substitute(s.value, let)})
        case If(otherwise=None):
            yield from _stores(s.then, (*under, *conjuncts(substitute(s.condition, let))), let)
        case _:
            yield None


@dataclass(frozen=True)
class _Steps:
    """The stores of one iteration, each to a place of its own that is the same for all iterations."""

    lane: Expr
    stores: Sequence[tuple[Store, tuple[Expr, ...]]]
    places: dict[Buffer, tuple[Expr, ...]]

    @staticmethod
    def of(loop: For, an: Analyzer) -> _Steps | None:
        """None where a step does anything else, or what it asks cannot be evaluated for all lanes at once."""
        stores = [x for x in _stores(loop.body, (), {}) if x is not None]
        if not stores or any(x is None for x in _stores(loop.body, (), {})):
            return None
        places = {s.buffer: s.indices for s, _ in stores}
        steps = _Steps(loop.var, stores, places)
        asked = [e for s, under in stores for e in post_order((s.value, *under))]
        at = [i for indices in places.values() for i in indices]
        if any(e.dtype.lanes > 1 for e in (*asked, *at)):
            return None  # vector loops inside
        if len(places) < len(stores) or contains(at, "load") or any(loop.var in variables(i) for i in at):
            return None
        if any(e.op == "load" and e.value in places and not steps.is_state(e) or is_opaque(e) for e in asked):
            return None
        with an.tightened({}):
            bind_loop(loop, an)
            fits = all(may_run_anyway(If(logical_and(*under), s), an) for s, under in stores if under)
        return steps if fits else None

    def is_state(self, e: Expr) -> bool:
        """Whether an expression loads what some step stores."""
        place = self.places.get(e.value) if e.op == "load" else None
        return place is not None and all(a is b for a, b in zip(e.args, place, strict=True))

    def changes(self) -> Expr | None:
        """When a step may leave another state than it found; None where it always may."""
        found = logical_or(*(logical_and(*under, self._changes(s.value, s.buffer)) for s, under in self.stores))
        if is_const(found):
            return None
        return logical_and(*(logical_or(*_in_one_comparison(_sides(c))) for c in conjuncts(found)))

    def _changes(self, e: Expr, of: Buffer) -> Expr:
        """When a value may be another one than the state of a buffer."""
        if self.is_state(e) and e.value is of:
            return const(False)
        if e.op == "select":
            c, then, otherwise = e.args
            yes, no = self._changes(then, of), self._changes(otherwise, of)
            return yes if yes is no else logical_or(logical_and(c, yes), logical_and(logical_not(c), no))
        if e.op in ("min", "max"):
            a, b = e.args if self.is_state(e.args[0]) else reversed(e.args)
            if self.is_state(a) and a.value is of:  # of floats, what is equal may have another sign, or be no number
                stays = ("gt" if e.op == "min" else "lt") if a.dtype.is_float else ("ge" if e.op == "min" else "le")
                return logical_not(compare(stays, b, a))
        return const(True)

    def roughly(self, condition: Expr) -> Expr:
        """A condition that holds wherever this one does, and asks less of each lane: what has nothing to do with states
        is left out, and that a state is a number."""
        asked = [c for c in conjuncts(condition) if any(map(self.is_state, post_order(c)))]
        return logical_and(*(logical_or(*map(_of_any_state, _sides(c))) for c in asked))


#: Comparisons, and those that hold where they do not, numbers given.
_NOT = {"gt": "le", "lt": "ge", "ge": "lt", "le": "gt"}


def _in_one_comparison(sides: list[Expr]) -> list[Expr]:
    """Of conditions of which one suffices, what is larger or no number by one comparison:

    x > best or isnan(x) and not isnan(best)   ->   not (x <= best) and not isnan(best)
    """
    for c in [c for c in sides if c.op in ("gt", "lt") and c.args[0].dtype.is_float]:
        for a, b in (c.args, c.args[::-1]):
            is_number = logical_not(make("isnan", c.dtype, (b,)))
            alone = logical_and(make("isnan", c.dtype, (a,)), is_number)
            if any(x is alone for x in sides):
                either = logical_and(logical_not(compare(_NOT[c.op], *c.args)), is_number)
                sides = [either if x is c else x for x in sides if x is not alone]
                break
    return sides


def _of_any_state(side: Expr) -> Expr:
    """A condition without the question whether what it compares are numbers, if it asks that besides."""
    asked = conjuncts(side)
    kept = [c for c in asked if not (c.op == "not" and c.args[0].op == "isnan")]
    return logical_and(*kept) if kept else side
