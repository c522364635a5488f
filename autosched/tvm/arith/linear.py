"""Linear forms: coefficients of variables, and conditions solved for a variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.ir.expr import Expr, maximum, minimum, variables
from autosched.ir.poly import Poly
from autosched.ir.prove import conjuncts, is_integer_index
from autosched.ir.simplify import Analyzer as Prover
from autosched.tvm.arith.sets import NEG_INF, POS_INF, IntervalSet

__all__ = ["deduce_bound", "detect_clip_bound", "detect_linear_equation"]


def detect_linear_equation(expr: Expr, vars: Sequence[Expr]) -> list[Expr]:
    """The coefficient of each variable, then what is left; empty if `expr` is not linear in them.

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
    """The smallest and the largest value of each variable that a conjunction of comparisons allows.

    [min of vars[0], max of vars[0], min of vars[1], ...], None for an end that is open; empty if the
    condition does not bound the variables one by one.

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
        ends[v] = end if v not in ends else prover.simplify((maximum if is_low else minimum)(ends[v], end))
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
    var: Expr,
    cond: Expr,
    hint_map: Mapping[Expr, IntervalSet],
    relax_map: Mapping[Expr, IntervalSet],
) -> IntervalSet:
    """The values of `var` for which `cond` holds, whatever the variables of `relax_map` are in their sets.

    `hint_map` says within which sets the other variables lie: it decides signs. The result is
    `IntervalSet.nothing()` where the condition cannot be solved for the variable.

    >>> deduce_bound(a, a*4 + b < 63, {}, {b: IntervalSet(0, 3)})
    IntervalSet[neg_inf, 14]
    """
    prover = Prover()
    for v, s in (*hint_map.items(), *relax_map.items()):
        prover.bind(
            v,
            None if s.min_value is NEG_INF else s.min_value,
            None if s.max_value is POS_INF else s.max_value,
        )
    low: Expr | None = None
    high: Expr | None = None
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
        if is_low:
            low = end if low is None else prover.simplify(maximum(low, end))
        else:
            high = end if high is None else prover.simplify(minimum(high, end))
    return IntervalSet(NEG_INF if low is None else low, POS_INF if high is None else high)


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
