"""Whether the iterations of a loop of statements meet: what marks and new orders of loops ask.

Nothing that a script declares is believed (that an axis is spatial); what is proved follows from indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from autosched.ir.expr import Expr, compare, const, is_const, logical_and, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Allocate, Buffer, For, If, Let, Seq, Stmt, Store, children, expressions
from autosched.ir.visit import conjuncts, post_order, substitute
from autosched.te.reduction import BUILT_IN

Access = tuple[tuple[Expr, ...], dict[Expr, tuple[Expr, Expr]]]  #: indices, and the loops around


class Meets(Exception):
    """The reason why iterations may not be run in any order."""


def check_independent(loop: For) -> None:
    """Raise Meets unless no iteration of a loop touches what another one writes."""
    for buffer, accesses in _written(loop).items():
        if not apart(loop.var, accesses):
            raise Meets(f"iterations of {loop.var.value.name} may meet in {buffer.name}")


def check_any_order(outer: For, moved: Sequence[Expr]) -> None:
    """Raise Meets unless the loops `moved`, each directly inside the one before, compute the same in any order.

    Each element is stored to once, or by sums, products, minima and maxima alone.
    """
    inside = set(moved)
    for buffer, accesses in _written(outer).items():
        indices = {a[0] for a in accesses}
        if len(indices) > 1:
            raise Meets(f"{buffer.name} is written and read at different places")
        (at,), around = indices, accesses[0][1]
        left = _unrecovered(at, [v for v in around if v in inside], around)
        if left and not _sums_up(outer, buffer, left, around):
            raise Meets(f"several iterations of {left[0].value.name} store to the same element of {buffer.name}")
        mixed = [v for v in left if any(v in variables(i) for i in at)]
        if mixed:
            raise Meets(f"which elements of {buffer.name} an iteration of {mixed[0].value.name} stores to overlaps")


def _sums_up(outer: Stmt, buffer: Buffer, left: Sequence[Expr], around: dict[Expr, tuple[Expr, Expr]]) -> bool:
    """Whether all that happens to the elements of a buffer are steps of one sum, product, minimum or maximum, and a
    first value where the loops `left` are at their beginning."""
    steps: set[str] = set()
    for s, conditions in _with_conditions(outer, ()):
        if isinstance(s, Store) and s.buffer is buffer:
            if _accumulates(s):
                steps.add(s.value.op)
                continue
            if not set(left) <= _at_their_beginning(conditions, left, around):
                return False
        if any(e.op == "load" and e.value is buffer for root in expressions(s) for e in post_order(root)):
            return False
    return len(steps) <= 1


def _with_conditions(s: Stmt, conditions: tuple[Expr, ...]) -> Iterator[tuple[Stmt, tuple[Expr, ...]]]:
    """This statement and those below, with the conditions under which they run."""
    yield s, conditions
    for c in children(s):
        met = conjuncts(s.condition) if isinstance(s, If) and c is s.then else ()
        yield from _with_conditions(c, (*conditions, *met))


def _at_their_beginning(
    conditions: Sequence[Expr], left: Sequence[Expr], around: dict[Expr, tuple[Expr, Expr]]
) -> set[Expr]:
    """The loops of which `k_0 * 4 + k_1 == 0` says that they are at their first iteration."""
    found: set[Expr] = set()
    for c in conditions:
        if c.op != "eq":
            continue
        e = simplify(c.args[0] - c.args[1])
        here = [v for v in left if v in variables(e)]
        rises = [simplify(substitute(e, {v: v + 1}) - e) for v in here]
        first = simplify(substitute(e, {v: around[v][0] for v in here}))
        if is_const(first, 0) and all(r.op == "const" and r.value > 0 for r in rises):
            found.update(here)
    return found


def _accumulates(s: Store) -> bool:
    """`B[i] = B[i] + x`, where x does not read B."""
    if s.value.op not in BUILT_IN.values():
        return False
    own = [a for a in s.value.args if a.op == "load" and a.value is s.buffer and a.args == s.indices]
    others = [a for a in s.value.args if a not in own]
    places = (*others, *s.indices)
    return len(own) == 1 and not any(e.op == "load" and e.value is s.buffer for a in places for e in post_order(a))


def _written(loop: For) -> dict[Buffer, list[Access]]:
    """Every access to each buffer that is written inside and lives outside. Raises Meets for what is not seen."""
    found: dict[Buffer, list[Access]] = {}
    stored: set[Buffer] = set()
    own: set[Buffer] = set()
    for s, around in _below(loop, {}):
        if isinstance(s, Allocate):
            own.add(s.buffer)
        if isinstance(s, Store):
            stored.add(s.buffer)
            found.setdefault(s.buffer, []).append((s.indices, around))
        elif not isinstance(s, (Allocate, For, If, Let, Seq)):
            raise Meets(f"it does more than store values ({type(s).__name__.lower()})")
        for e in (e for root in expressions(s) for e in post_order(root)):
            if e.op in ("address", "view", "call"):
                raise Meets("it calls functions, or hands out memory")
            if e.op == "load":
                found.setdefault(e.value, []).append((e.args, around))
    return {b: accesses for b, accesses in found.items() if b in stored and b not in own}


def touched(s: Stmt, buffer: Buffer) -> list[Access]:
    """Every load and store of a buffer in a statement, with the loops around."""
    found: list[Access] = []
    for inner, around in _below(s, {}):
        if isinstance(inner, Store) and inner.buffer is buffer:
            found.append((inner.indices, around))
        for e in (e for root in expressions(inner) for e in post_order(root)):
            if e.op == "load" and e.value is buffer:
                found.append((e.args, around))
    return found


def _below(s: Any, around: dict[Expr, tuple[Expr, Expr]]) -> Iterator[tuple[Stmt, dict[Expr, tuple[Expr, Expr]]]]:
    if isinstance(s, For):
        around = {**around, s.var: (s.start, s.extent)}
    yield s, around
    for c in children(s):
        yield from _below(c, around)


def apart(v: Expr, accesses: Sequence[Access]) -> bool:
    """Whether some dimension tells iterations of v apart, whatever else runs inside."""
    ranks = {len(at) for at, _ in accesses}
    if len(ranks) != 1:
        return False
    for k in range(ranks.pop()):
        parts = {_digit(at[k], v, around, around.keys()) for at, around in accesses}
        if len(parts) == 1 and None not in parts:
            return True
    same = [
        simplify(first) for first, *others in zip(*(at for at, _ in accesses), strict=True) if _alike(first, others)
    ]
    return bool(same) and v not in _unrecovered(same, [v, *accesses[0][1]], accesses[0][1])


def _alike(first: Expr, others: Sequence[Expr]) -> bool:
    return all(e is first or simplify(e) is simplify(first) for e in others)


def _unrecovered(at: Sequence[Expr], wanted: Sequence[Expr], around: dict[Expr, tuple[Expr, Expr]]) -> list[Expr]:
    """Those of some loops that the indices of an element do not determine."""
    left, at = list(dict.fromkeys(wanted)), _wholes(at)
    varying = set(around)
    while True:
        known = [v for v in left if any(_digit(i, v, around, varying) is not None for i in at)]
        if not known:
            return left
        left = [v for v in left if v not in known]
        varying -= set(known)


def _wholes(at: Sequence[Expr]) -> list[Expr]:
    """Indices, and what they are the digits of: x, where both `x // n` and `x % n` are there."""
    found = list(map(simplify, at))
    for e in found:  # which grows
        rests = [q for q in found if q.op == "floormod" and q.args[0] not in found]
        found += dict.fromkeys(q.args[0] for q in rests if e is simplify(q.args[0] // q.args[1]))
    return found


def _digit(
    index: Expr, v: Expr, around: dict[Expr, tuple[Expr, Expr]], varying: Iterable[Expr]
) -> tuple[Expr, Expr] | None:
    """`index = v*c + fixed + rest` with 0 <= rest < |c|, as (c, fixed); None where it has not that form."""
    index = simplify(index)
    unit = simplify(substitute(index, {v: v + 1}) - index)
    if unit.op != "const" or unit.value == 0:
        return None
    here = [x for x in varying if x is not v]
    rest = simplify(index - v * unit)
    fixed = simplify(substitute(rest, {x: around[x][0] for x in here}))
    an = Analyzer()
    for x in here:
        an.bind(x, around[x][0], around[x][0] + around[x][1] - 1)
    if v in variables(rest) or any(e.value.role == "let" for e in variables(rest)):
        return None
    more = simplify(rest - fixed)
    inside = logical_and(compare("ge", more, const(0)), compare("lt", more, const(abs(unit.value))))
    return (unit, fixed) if an.prove(inside) else None
