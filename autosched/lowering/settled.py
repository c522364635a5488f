"""Loops over time that look now and then whether any state still changes, and do nothing more once none does.

    for t in 64:                                       ->    for t.block in 16:
      c[0:16] = select(z[0:16] <= 4, c[0:16] + 1, c[0:16])      if active:
      z[0:16] = select(z[0:16] <= 4, f(z[0:16]), z[0:16])         four steps
                                                                  active = whether z <= 4 held in some lane

A step keeps each state where conditions say so, which depend on states and on nothing else that changes. Where they
say so for all that a step stores, the next step finds the same states, and keeps them again: all later steps are done.
Conditions are evaluated once a step, so that all that ask them agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosched.ir.dtype import INT32
from autosched.ir.expr import (
    Expr,
    cast,
    combine_lanes,
    compare,
    const,
    is_const,
    is_index,
    logical_and,
    logical_not,
    logical_or,
    maximum,
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
    load,
    map_stmt,
    seq,
    substitute_stmt,
)
from autosched.ir.visit import post_order, rewrite, substitute

#: Steps between two looks at whether some state changes. Even: states that two planes hold in turns lie, in each step
#: that is written out, where they always do.
STEPS = 4
#: Statements of a step, at most, of which so many are written out.
MOST = 16


def stop_when_settled(body: Stmt, an: Analyzer, combine: bool) -> Stmt:
    """Loops over time end where no state changes any more. `combine`: lanes of a vector can be asked together."""
    return map_stmt(body, on_stmt=lambda s: _stopping(s, an, combine) or s)


def _stopping(s: Stmt, an: Analyzer, combine: bool) -> Stmt | None:
    """The loop that stops, if it is one over time whose states may stay; None otherwise."""
    if (
        not isinstance(s, For)
        or s.kind != "serial"
        or s.lanes
        or s.pragmas
        or (s.extent.op == "const" and s.extent.value < 2 * STEPS)
    ):
        return None
    stores = list(_stores(s.body))
    if None in stores or len(stores) > MOST:
        return None
    known = [x for x in stores if x is not None]
    states = {x.buffer for x in known}
    if not any(e.op == "load" and e.value in states for x in known for e in post_order(x.value)):
        return None
    steps = _Steps.of(s.var, known, an)
    found = None if steps is None else steps.active()
    if found is None or (not combine and any(e.dtype.lanes > 1 for e in found[1])):
        return None
    return _in_blocks(s, *found, an)


def _stores(s: Stmt) -> Iterator[Store | None]:
    """The stores of straight-line code, in order; None for all else that it does."""
    match s:
        case Store():
            yield s
        case Seq(stmts=stmts):
            for x in stmts:
                yield from _stores(x)
        case Produce(body=body):
            yield from _stores(body)
        case _:
            yield None


@dataclass(frozen=True)
class _State:
    """Where a store of one step writes, and where that of the step before did: the same place, or another plane."""

    store: Store
    before: Expr  #: the index, scalar or a ramp
    moves: bool

    @staticmethod
    def of(t: Expr, store: Store, an: Analyzer) -> _State | None:
        """None where the steps store neither at one place nor at two in turns."""
        (index,) = store.indices
        base, reach = index, 1
        if index.op == "ramp":
            base, stride = index.args
            if not is_const(stride):
                return None
            reach = (index.dtype.lanes - 1) * abs(stride.value) + 1
        if not is_index(index) or base.dtype.lanes > 1:
            return None
        if t not in variables(index):
            return _State(store, index, False)
        before, after = (substitute(base, {t: t + by}) for by in (-1, 1))
        if an.poly(before) != an.poly(after):
            return None
        for time in (0, 1):
            apart = an.simplify(substitute(base - before, {t: const(time, t.dtype)}))
            if not is_const(apart) or abs(apart.value) < reach:
                return None
        return _State(store, substitute(index, {t: t - 1}), True)

    def holds(self, e: Expr, an: Analyzer) -> bool:
        """Whether an expression loads what the step before left here."""
        return e.op == "load" and e.value is self.store.buffer and _is_same(e.args[0], self.before, an)


def _is_same(a: Expr, b: Expr, an: Analyzer) -> bool:
    if a is b:
        return True
    if not is_index(a) or not is_index(b):
        return False
    if "ramp" not in (a.op, b.op):
        return a.dtype.lanes == b.dtype.lanes == 1 and an.poly(a) == an.poly(b)
    return (
        a.op == b.op
        and a.dtype.lanes == b.dtype.lanes
        and all(an.poly(x) == an.poly(y) for x, y in zip(a.args, b.args, strict=True))
    )


@dataclass(frozen=True)
class _Steps:
    """The stores of one step, one for each buffer."""

    t: Expr
    states: dict[Buffer, _State]
    an: Analyzer

    @staticmethod
    def of(t: Expr, stores: Sequence[Store], an: Analyzer) -> _Steps | None:
        states = {x.buffer: _State.of(t, x, an) for x in stores}
        if len(states) < len(stores):
            return None
        found = {b: x for b, x in states.items() if x is not None}
        return _Steps(t, found, an) if len(found) == len(states) else None

    def active(self) -> tuple[dict[Expr, Expr], list[Expr]] | None:
        """Names for conditions, and formulas over them without which no store changes a state; None where some store
        may always do so."""
        names: dict[Expr, Expr] = {}
        found = [self._changes(x.store.value, x, names) for x in self.states.values()]
        if any(is_const(e, True) for e in found) or not any(map(self._asks_states, names)):
            return None
        return names, list(dict.fromkeys(e for e in found if not is_const(e, False)))

    def _changes(self, e: Expr, state: _State, names: dict[Expr, Expr]) -> Expr:
        """When a value may be another than the step before left."""
        if state.holds(e, self.an):
            return const(False)
        if e.op == "select":
            c, *sides = e.args
            return self._either(c, [self._changes(x, state, names) for x in sides], names)
        if e.op == "if_then_else":  # no condition of a side is asked before it is known that the side is needed
            c, *sides = e.args
            return self._either(c, [const(not state.holds(x, self.an)) for x in sides], names)
        if e.op in ("add", "sub") and e.dtype.kind in ("int", "uint"):
            a, b = e.args
            if state.holds(a, self.an):
                return self._not_zero(b, names)
            if e.op == "add" and state.holds(b, self.an):
                return self._not_zero(a, names)
        return const(True)

    def _not_zero(self, e: Expr, names: dict[Expr, Expr]) -> Expr:
        """When an integer may be another than 0."""
        if is_const(e, 0):
            return const(False)
        if e.op == "broadcast":
            return self._not_zero(e.args[0], names)
        if e.op == "cast" and e.args[0].dtype.is_bool:
            return self._either(e.args[0], [const(True), const(False)], names)
        if e.op == "select":
            c, *sides = e.args
            return self._either(c, [self._not_zero(x, names) for x in sides], names)
        return const(True)

    def _either(self, condition: Expr, sides: Sequence[Expr], names: dict[Expr, Expr]) -> Expr:
        """The first where a condition holds, else the second; where it may change by itself, whether one holds."""
        yes, no = sides
        if yes is no:
            return yes
        if not self._is_settled_by_states(condition):
            return logical_or(yes, no)
        c = names.setdefault(condition, var(f"{self.t.name}.active", condition.dtype, "let"))
        return logical_or(logical_and(c, yes), logical_and(logical_not(c), no))

    def _asks_states(self, condition: Expr) -> bool:
        return any(e.op == "load" and e.value in self.states for e in post_order(condition))

    def _is_settled_by_states(self, condition: Expr) -> bool:
        """Whether a condition is what it was as long as no state changes, and may be evaluated before a step."""
        order = list(self.states)
        stores = [x.store for x in self.states.values()]
        users = [k for k, x in enumerate(stores) if any(e is condition for e in post_order(x.value))]
        for e in post_order(condition):
            if e.op == "call":
                return False
            if e.op != "load":
                continue
            state = self.states.get(e.value)
            if state is None:
                if self.t in variables(e):
                    return False
            elif not state.holds(e, self.an) or (not state.moves and max(users) > order.index(e.value)):
                return False
        return self.t not in variables(rewrite(condition, self._without_time))

    def _without_time(self, e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        """Nothing for what a state holds: what it is indexed by is known to go with the time."""
        return const(0, e.dtype) if e.op == "load" and e.value in self.states else None


def _in_blocks(s: For, names: dict[Expr, Expr], active: Sequence[Expr], an: Analyzer) -> Stmt:
    """The loop in blocks of steps, of which the last says whether another block is needed."""
    going = Buffer(f"{s.var.name}.going", (const(1),), INT32, "local")
    is_going = compare("ne", load(going, const(0)), 0)

    def step(time: Expr, is_last: bool) -> Stmt:
        body = map_stmt(s.body, on_expr=lambda e: rewrite(e, lambda x, _: names.get(x)))
        if is_last:
            some = logical_or(*(combine_lanes("bitor", e) for e in active))
            body = seq(body, Store(going, (const(0),), cast(INT32, some)))
        for c, name in reversed(names.items()):
            body = Let(name, c, body)
        return substitute_stmt(body, {s.var: time})

    block, rest = (var(f"{s.var.name}.{part}", role="loop") for part in ("block", "rest"))
    blocks = an.simplify(maximum(s.extent, 0) // STEPS)
    first_left = s.start + blocks * STEPS
    steps = [step(s.start + block * STEPS + k, k == STEPS - 1) for k in range(STEPS)]
    left = For(rest, first_left, an.simplify(s.extent - blocks * STEPS), "serial", step(rest, False))
    return Allocate(
        going,
        seq(
            Store(going, (const(0),), const(1, INT32)),
            For(block, const(0), blocks, "serial", If(is_going, seq(*steps))),
            If(is_going, left),
        ),
    )
