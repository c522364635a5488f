"""Linear forms: coefficients of variables, and conditions solved for a variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.ir.expr import Expr, maximum, minimum, variables
from autosched.ir.poly import Poly
from autosched.ir.prove import is_integer_index
from autosched.ir.simplify import Analyzer as Prover
from autosched.ir.visit import conjuncts
from autosched.tvm.arith.sets import IntervalSet


def detect_linear_equation(expr: Expr, vars: Sequence[Expr]) -> list[Expr]:
    """Return the coefficient of each variable, then the rest; empty if `expr` is not linear in them.

    >>> detect_linear_equation(a*4 + b*6 + 7, [a])
    [4, b*6 + 7]
    """
    prover = Prover()
    if not is_integer_index(expr):
        return []
    rest, slopes = prover.poly(expr), []
    for v in vars:
        linear = rest.linear_in(v)
        if linear is None:
            return []
        slopes.append(linear[0])
        rest = linear[1]
    if any(p.variables & set(vars) for p in (*slopes, rest)):
        return []
    return [prover.expr(p) for p in (*slopes, rest)]


def detect_clip_bound(expr: Expr, vars: Sequence[Expr]) -> list[Expr | None]:
    """Return the smallest and the largest value of each variable that a conjunction of comparisons allows.

    [min of vars[0], max of vars[0], min of vars[1], ...], None for an end that is open; empty if the condition does
    not bound the variables one by one.

    >>> detect_clip_bound(te.all(a*1 < b*6, a - 1 > 0), [a])
    [2, b*6 - 1]
    """
    prover = Prover()
    lows: dict[Expr, Expr] = {}
    highs: dict[Expr, Expr] = {}
    for p in _inequalities(expr, prover):
        if p is None:
            return []
        mentioned = [v for v in vars if v in p.variables]
        if not mentioned:
            continue
        solved = _solve(p, mentioned[0], prover) if len(mentioned) == 1 else None
        if solved is None:
            return []
        v, (end, is_low) = mentioned[0], solved
        ends = lows if is_low else highs
        ends[v] = _tighter(ends.get(v), end, is_low, prover)
    if not lows and not highs:
        return []
    return [ends.get(v) for v in vars for ends in (lows, highs)]


def _inequalities(condition: Expr, prover: Prover) -> list[Poly | None]:
    """Polynomials that are `>= 0` where the condition holds; None for a part that is no such thing."""
    found: list[Poly | None] = []
    for part in conjuncts(condition):
        polys = prover.inequalities(part)
        if not polys:
            return [None]
        for p in polys:
            found += _cases(p, prover)
    return found


def _cases(p: Poly, prover: Prover) -> list[Poly | None]:
    """`min(a, b) >= c` is `a >= c` and `b >= c`; so is `max(a, b) <= c`."""
    for atom in p.atoms():
        if atom.op in ("min", "max"):
            linear = p.linear_in(atom)
            slope = None if linear is None else linear[0].constant
            if linear is None or slope is None or (slope > 0) != (atom.op == "min"):
                return [None]
            return [c for a in atom.args for c in _cases(linear[1] + prover.poly(a) * slope, prover)]
    return [p]


def _solve(p: Poly, v: Expr, prover: Prover) -> tuple[Expr, bool] | None:
    """`p >= 0` as a bound of `v`: its value, and whether it is the smallest. The slope has a known sign."""
    linear = p.linear_in(v)
    if linear is None or v in linear[0].variables | linear[1].variables:
        return None
    slope, rest = linear
    if prover.prove_nonneg(slope - 1):  # v >= ceil(-rest / slope) = -floor(rest / slope)
        return prover.simplify(prover.expr(-prover.floordiv(rest, slope))), True
    if prover.prove_nonneg(-slope - 1):
        return prover.simplify(prover.expr(prover.floordiv(rest, -slope))), False
    return None


def deduce_bound(
    var: Expr, cond: Expr, hint_map: Mapping[Expr, IntervalSet], relax_map: Mapping[Expr, IntervalSet]
) -> IntervalSet:
    """Return the values of `var` for which `cond` holds, whatever the variables of `relax_map` are in their sets.

    hint_map: the sets of the other variables, which decide signs
    The result is `IntervalSet.nothing()` where the condition cannot be solved for the variable.

    >>> deduce_bound(a, a*4 + b < 63, {}, {b: IntervalSet(0, 3)})
    IntervalSet[neg_inf, 14]
    """
    prover = Prover()
    for v, s in (*hint_map.items(), *relax_map.items()):
        prover.bind(v, *s.ends)
    ends: dict[bool, Expr] = {}
    for p in _inequalities(cond, prover):
        worst = None if p is None else _worst(p, var, tuple(relax_map), prover)
        if worst is None:
            return IntervalSet.nothing()
        if var not in worst.variables:
            if not prover.prove_nonneg(worst):
                return IntervalSet.nothing()
            continue
        solved = _solve(worst, var, prover)
        if solved is None:
            return IntervalSet.nothing()
        end, is_low = solved
        ends[is_low] = _tighter(ends.get(is_low), end, is_low, prover)
    return IntervalSet(ends.get(True), ends.get(False))


def _tighter(old: Expr | None, end: Expr, is_low: bool, prover: Prover) -> Expr:
    return end if old is None else prover.simplify((maximum if is_low else minimum)(old, end))


def _worst(p: Poly, var: Expr, relaxed: Sequence[Expr], prover: Prover) -> Poly | None:
    """The smallest value of `p` as the relaxed variables run, `var` left as it is."""
    linear = p.linear_in(var)
    if linear is None or any(variables(a) & {var} for q in linear for a in q.atoms()):
        return None
    slope, rest = linear
    if slope.variables & set(relaxed):
        return None
    smallest = prover.extreme(rest, [v for v in relaxed if v in rest.variables], largest=False)
    return None if smallest is None else slope * Poly.of(var) + smallest
