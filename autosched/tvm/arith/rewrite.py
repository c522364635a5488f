"""Rules beyond polynomials: min and max, select, comparisons, conditions, truncation.

`rewrite(e, analyzer)` applies them once to every part of `e`, from the leaves up; `Analyzer.simplify` alternates that
with the normal form of polynomials. Each rule is an identity of the integers, where a division by zero gives 0
(`tests/unit/tvm/test_arith_laws.py` checks them by brute force, and z3 proves their results on random expressions). The
comment beside a rule is the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, inf
from typing import TYPE_CHECKING

from autosched.ir.dtype import BOOL
from autosched.ir.expr import Expr, const, floordiv, floormod, logical_and, logical_not, logical_or, make
from autosched.ir.poly import Monomial, Poly, common_type, join
from autosched.ir.prove import is_integer_index
from autosched.ir.visit import rebuild
from autosched.ir.visit import rewrite as rewritten

if TYPE_CHECKING:
    from autosched.tvm.arith.analyzer import Analyzer

_SUMS = frozenset(("add", "sub", "mul", "neg"))
_COMPARE = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_CHOICES = ("select", "if_then_else")
_OTHER = {"min": "max", "max": "min"}


def rewrite(e: Expr, an: Analyzer) -> Expr:
    """Return `e` with every rule applied once to each of its parts, from the leaves up."""
    return rewritten(e, lambda node, args: _apply(rebuild(node, args) if args else node, an))


def _apply(e: Expr, an: Analyzer) -> Expr:
    if e.op in ("and", "or") and e.dtype.lanes == 1:
        return _logic(e, an)
    if e.op in _COMPARE and all(map(is_integer_index, e.args)):
        return _comparison(e, an)
    if not is_integer_index(e):
        return e
    if e.op in _SUMS:
        return _typed(_sum(an.prover.poly(e), an), e, an)
    rule = _RULES.get(e.op)
    return e if rule is None else _typed(rule(e, an), e, an)


def _typed(found: Poly | Expr | None, e: Expr, an: Analyzer) -> Expr:
    """The result of a rule, in the type of `e`."""
    if found is None:
        return e
    return an.prover._typed(an.prover.expr(found) if isinstance(found, Poly) else found, e)


# -- min and max --------------------------------------------------------------------------------------


def _operands(e: Expr, op: str, an: Analyzer) -> list[Poly]:
    """The operands of nested extrema as polynomials, each once."""
    found: dict[Poly, None] = {}
    stack = list(e.args)[::-1]
    while stack:
        a = stack.pop()
        if a.op == op:
            stack.extend(a.args[::-1])
        else:
            found.setdefault(an.prover.poly(a))
    return list(found)


def _extremum(e: Expr, an: Analyzer) -> Poly | Expr | None:
    op = e.op
    x, y = e.args
    if x.op in _CHOICES and x.op == y.op and x.args[0] is y.args[0]:
        # min(select(c, p, q), select(c, r, s)) = select(c, min(p, r), min(q, s))
        return _choose(x.op, x.args[0], join(op, x.args[1], y.args[1]), join(op, x.args[2], y.args[2]))
    operands = _dominant(_operands(e, op, an), op, an)
    common, scale, rest = _common_part(operands)
    if len(rest) == 1:
        return common + rest[0] * scale
    if scale < 0:  # min(-p, -q) = -max(p, q)
        op = _OTHER[op]
    quotients = _same_divisor([an.prover.expr(p) for p in rest])
    if quotients is not None:  # min(p//d, q//d) = min(p, q)//d for d > 0
        numerators, d = quotients
        return common + an.prover.poly(floordiv(_nest(op, numerators), d)) * scale
    return common + Poly.of(_nest(op, _ordered([an.prover.expr(p) for p in rest]))) * scale


def _dominant(operands: list[Poly], op: str, an: Analyzer) -> list[Poly]:
    """Without operands that another one is never larger (smaller) than; constants become one."""
    kept: list[Poly] = []
    for p in operands:
        if any(_is_first(k, p, op, an) for k in kept):
            continue
        kept = [k for k in kept if not _is_first(p, k, op, an)]
        kept.append(p)
    return kept


def _is_first(a: Poly, b: Poly, op: str, an: Analyzer) -> bool:
    return an.prover.prove_nonneg(b - a if op == "min" else a - b)


def _common_part(operands: list[Poly]) -> tuple[Poly, int, list[Poly]]:
    """`(common, scale, rest)`: each operand is `common + scale*rest[i]`.

    min(x + y, x + z) = x + min(y, z), min(4*x, 4*y) = 4*min(x, y), min(-x, -y) = -max(x, y), and the
    first operand that is no constant has no constant term: min(x + 1, 12) = min(x, 11) + 1.
    """
    first = operands[0]
    shared = {m: c for m, c in first.terms.items() if m and all(p.terms.get(m) == c for p in operands[1:])}
    common = Poly(shared)
    rest = [p - common for p in operands]
    offset = next((p.terms.get((), 0) for p in sorted(rest, key=_rank) if p.constant is None), 0)
    common, rest = common + offset, [p - offset for p in rest]
    scale = gcd(*(c for p in rest for c in p.terms.values())) or 1
    if all(c < 0 for p in rest for m, c in p.terms.items() if m) and any(p.constant is None for p in rest):
        scale = -scale
    return common, scale, [Poly({m: c // scale for m, c in p.terms.items()}) for p in rest]


def _rank(p: Poly) -> tuple[int, str]:
    return len(p.terms), repr(p.expr())


def _same_divisor(operands: list[Expr]) -> tuple[list[Expr], Expr] | None:
    """The numerators of quotients by one positive constant."""
    if not all(e.op == "floordiv" and e.args[1].op == "const" and e.args[1].value > 0 for e in operands):
        return None
    d = operands[0].args[1]
    if any(e.args[1].value != d.value for e in operands):
        return None
    return [e.args[0] for e in operands], d


def _ordered(operands: list[Expr]) -> list[Expr]:
    """Constants last, the others in an order that does not depend on how they were written."""
    return sorted(operands, key=lambda e: (e.op == "const", e.depth, repr(e)))


def _nest(op: str, operands: list[Expr]) -> Expr:
    result = operands[0]
    for e in operands[1:]:
        result = join(op, result, e)
    return result


# -- sums ---------------------------------------------------------------------------------------------


def _sum(p: Poly, an: Analyzer) -> Poly | None:
    """Sums of extrema, of choices by one condition, of a truncated quotient and its remainder."""
    for rule in (_min_plus_max, _choices_together, _truncated_parts, _absorbed):
        found = rule(p, an)
        if found is not None:
            return found
    return None


def _single_atoms(p: Poly, ops: tuple[str, ...]) -> list[tuple[Expr, int]]:
    return [(m[0], c) for m, c in p.terms.items() if len(m) == 1 and m[0].op in ops]


def _without(p: Poly, *atoms: Expr) -> Poly:
    return Poly({m: c for m, c in p.terms.items() if not (len(m) == 1 and any(m[0] is a for a in atoms))})


def _min_plus_max(p: Poly, an: Analyzer) -> Poly | None:
    """min(x, y) + max(x, y) = x + y."""
    atoms = _single_atoms(p, ("min", "max"))
    for a, c in atoms:
        for b, d in atoms:
            if a.op == "min" and b.op == "max" and (c > 0) == (d > 0):
                pair = {an.prover.poly(x) for x in a.args}
                if pair == {an.prover.poly(x) for x in b.args}:
                    k = min(abs(c), abs(d)) * (1 if c > 0 else -1)
                    x, y = (an.prover.poly(x) for x in a.args)
                    return p + Poly({(a,): -k, (b,): -k}) + (x + y) * k
    return None


def _choices_together(p: Poly, an: Analyzer) -> Poly | None:
    """select(c, p, q) + select(c, r, s) = select(c, p + r, q + s), and constants go in as well."""
    atoms = _single_atoms(p, _CHOICES)
    for a, _ in atoms:
        group = [(b, d) for b, d in atoms if b.op == a.op and b.args[0] is a.args[0]]
        then, otherwise = Poly({}), Poly({})
        for b, d in group:
            then = then + an.prover.poly(b.args[1]) * d
            otherwise = otherwise + an.prover.poly(b.args[2]) * d
        rest = _without(p, *(b for b, _ in group))
        inside = then + rest, otherwise + rest
        before = sum(len(x.terms) for x in (then, otherwise, rest))
        absorbs = bool(rest.terms) and sum(len(x.terms) for x in inside) < before
        constants = bool(rest.terms) and all(x.constant is not None for x in (then, otherwise, rest))
        if absorbs or constants:
            return Poly.of(_choose(a.op, a.args[0], an.prover.expr(inside[0]), an.prover.expr(inside[1])))
        if len(group) > 1:
            return rest + Poly.of(_choose(a.op, a.args[0], an.prover.expr(then), an.prover.expr(otherwise)))
    return None


def _choose(op: str, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    x, y = common_type(then, otherwise)
    return make(op, x.dtype, (condition, x, y))


def _truncated_parts(p: Poly, an: Analyzer) -> Poly | None:
    """d*truncdiv(x, d) + truncmod(x, d) = x for d != 0."""
    for m, c in p.terms.items():
        if len(m) != 1 or m[0].op != "truncmod" or m[0].args[1].op != "const" or not m[0].args[1].value:
            continue
        x, d = m[0].args
        for q, _ in _single_atoms(p, ("truncdiv",)):
            if q.args[0] is x and q.args[1] is d and p.terms[(q,)] == c * int(d.value):
                return _without(p, m[0], q) + an.prover.poly(x) * c
    return None


def _absorbed(p: Poly, an: Analyzer) -> Poly | None:
    """max(x, y) - x = max(0, y - x): terms beside an extremum go in where that leaves fewer of them."""
    for atom, c in _single_atoms(p, ("min", "max")):
        rest = _without(p, atom)
        if not rest.terms or c not in (1, -1):
            continue
        sides = [an.prover.poly(a) for a in atom.args]
        part = Poly({m: k for m, k in (rest * c).terms.items() if m})  # constants stay outside
        inside = [s + part for s in sides]
        before = sum(len(x.terms) for x in sides) + len(part.terms)
        if part.terms and sum(len(x.terms) for x in inside) < before:
            left = Poly({(): rest.terms[()]}) if () in rest.terms else Poly({})
            op = atom.op
            if c < 0 and any(k < 0 for x in inside for k in x.terms.values()):  # -min(p, q) = max(-p, -q)
                op, c, inside = _OTHER[op], 1, [-x for x in inside]
            return Poly.of(_nest(op, _ordered([an.prover.expr(x) for x in inside]))) * c + left
    return None


# -- divisions ----------------------------------------------------------------------------------------


def _constant_divisor(e: Expr) -> int:
    """The divisor if it is a constant; 0 if not."""
    return int(e.args[1].value) if e.args[1].op == "const" else 0


def _known_quotient(x: Expr, d: int, an: Analyzer) -> int | None:
    """The one value that `x // d` has between the bounds of x."""
    bound = an.bound_of(x)
    if bound.low == -inf or bound.high == inf:
        return None
    low, high = int(bound.low) // d, int(bound.high) // d
    return low if low == high else None


def _floormod(e: Expr, an: Analyzer) -> Poly | Expr | None:
    d = _constant_divisor(e)
    if d <= 0:
        return None
    p = an.prover.poly(e.args[0])
    m = an.congruence_of(e.args[0])
    if m.coeff % d == 0:
        return Poly.of(m.base % d)
    q = _known_quotient(e.args[0], d, an)
    if q is not None:
        return p - q * d
    half = d // 2
    reduced = {k: (c % d if c % d <= half else c % d - d) for k, c in p.terms.items() if k}  # modulo d
    reduced[()] = p.terms.get((), 0) % d
    small = Poly({k: c for k, c in reduced.items() if c})
    if small == p:
        return None
    return floormod(an.prover.expr(small), d)


def _truncdiv(e: Expr, an: Analyzer) -> Poly | Expr | None:
    d = _constant_divisor(e)
    if d == 0:
        return None
    x = e.args[0]
    p = an.prover.poly(x)
    g = gcd(d, *p.terms.values())
    if g == abs(d):  # (d*q)/d = q
        return Poly({m: c // d for m, c in p.terms.items()})
    if g > 1:  # (g*x)/(g*d) = x/d
        return _quotient(Poly({m: c // g for m, c in p.terms.items()}), d // g, an)
    if x.op == "truncdiv" and _constant_divisor(x):  # (x/a)/b = x/(a*b)
        return _quotient(an.prover.poly(x.args[0]), d * _constant_divisor(x), an)
    if d < 0:  # x/(-d) = -(x/d)
        return -Poly.of(_quotient(p, -d, an))
    if all(c < 0 for c in p.terms.values()):  # (-x)/d = -(x/d)
        return -Poly.of(_quotient(-p, d, an))
    if an.prover.prove_nonneg(-p):  # rounded toward zero from below
        return -an.prover.floordiv(-p, Poly.of(d))
    return None


def _quotient(p: Poly, d: int, an: Analyzer) -> Expr:
    x = an.prover.expr(p)
    return join("truncdiv", x, const(d))


def _truncmod(e: Expr, an: Analyzer) -> Poly | Expr | None:
    d = _constant_divisor(e)
    if d == 0:
        return None
    x = e.args[0]
    if an.congruence_of(x).coeff % d == 0 and an.congruence_of(x).base % d == 0:
        return Poly({})
    if d < 0:  # the sign of the divisor says nothing
        return join("truncmod", x, const(-d))
    p = an.prover.poly(x)
    g = gcd(d, *p.terms.values())
    if g > 1:  # (g*x) % (g*d) = g*(x % d)
        inner = an.prover.expr(Poly({m: c // g for m, c in p.terms.items()}))
        return Poly.of(join("truncmod", inner, const(d // g))) * g
    if x.op == "truncmod" and _constant_divisor(x) and _constant_divisor(x) % d == 0:  # (x % (a*d)) % d = x % d
        return join("truncmod", x.args[0], const(d))
    return None


def _floordiv(e: Expr, an: Analyzer) -> Poly | Expr | None:
    """(x - x%d)/d needs no rounding where x%d is known."""
    d = _constant_divisor(e)
    if d <= 0:
        return None
    p = an.prover.poly(e.args[0])
    m = an.congruence_of(e.args[0])
    q = _known_quotient(e.args[0], d, an)
    if q is not None:
        return Poly.of(q)
    known = m.base % d
    if m.coeff % d == 0 and known != p.terms.get((), 0) % d:
        return join("floordiv", an.prover.expr(p - known), const(d))
    return None


# -- choices and conditions ---------------------------------------------------------------------------


def _select(e: Expr, an: Analyzer) -> Poly | Expr | None:
    """Each side is simplified where it is chosen; a choice between equals is none."""
    condition, then, otherwise = e.args
    with an.prover.assuming(condition):
        a = an.prover.simplify(then)
    with an.prover.assuming(logical_not(condition)):
        b = an.prover.simplify(otherwise)
    if an.prover.poly(a) == an.prover.poly(b):
        return a
    return None if a is then and b is otherwise else _choose(e.op, condition, a, b)


def _logic(e: Expr, an: Analyzer) -> Expr:
    """In `a and b`, b matters only where a holds; in `a or b`, only where a does not."""
    x, y = e.args
    for mine, other in ((x, y), (y, x)):
        with an.prover.assuming(mine if e.op == "and" else logical_not(mine)):
            found = _decided(other, an)
        if found.op == "const":
            return (logical_and if e.op == "and" else logical_or)(mine, found)
    return e


def _decided(condition: Expr, an: Analyzer) -> Expr:
    """The condition simplified; of an equality, both of its inequalities are tried."""
    found = an.prover.simplify(condition)
    if found.op in ("eq", "ne") and all(map(is_integer_index, found.args)):
        p = an.prover.poly(found.args[0]) - an.prover.poly(found.args[1])
        if an.prover.prove_nonneg(p) and an.prover.prove_nonneg(-p):
            return const(found.op == "eq")
    return found


def _comparison(e: Expr, an: Analyzer) -> Expr:
    """Terms to the side where they are positive, their common factor divided out, one kind of order."""
    a, b = map(an.prover.poly, e.args)
    match e.op:
        case "eq" | "ne":
            return _equality(e.op, a - b, an)
        case "lt":
            return _nonneg(b - a - 1, an)
        case "le":
            return _nonneg(b - a, an)
        case "gt":
            return _nonneg(a - b - 1, an)
    return _nonneg(a - b, an)


def _reduced(p: Poly) -> tuple[dict[Monomial, int], int, int]:
    """`(terms, g, constant)`: `p == g*terms + constant`, and the terms have no common factor."""
    terms = {m: c for m, c in p.terms.items() if m}
    g = gcd(*terms.values()) or 1
    return {m: c // g for m, c in terms.items()}, g, p.terms.get((), 0)


def _equality(op: str, p: Poly, an: Analyzer) -> Expr:
    if p.constant is not None:
        return const((p.constant == 0) == (op == "eq"))
    terms, g, k = _reduced(p)
    if k % g or 0 not in an.congruence_of(an.prover.expr(p)):  # 2*x == 1 holds nowhere
        return const(op == "ne")
    left, right = _sides(terms)
    k //= g
    return _compare(op, left + max(k, 0), right + max(-k, 0), an)


def _sides(terms: dict[Monomial, int]) -> tuple[Poly, Poly]:
    """The positive terms, and the negative ones turned around; the first of all is on the left of an equality."""
    return Poly({m: c for m, c in terms.items() if c > 0}), Poly({m: -c for m, c in terms.items() if c < 0})


def _nonneg(p: Poly, an: Analyzer) -> Expr:
    """The condition `p >= 0`."""
    if p.constant is not None:
        return const(p.constant >= 0)
    for atom, c in _single_atoms(p, ("min", "max")):
        found = _by_cases(atom, c, p, an)
        if found is not None:
            return found
    terms, g, k = _reduced(p)
    least = -(k // g)  # g*t + k >= 0  <=>  t >= ceil(-k/g)
    if len(terms) == 1:
        ((m, c),) = terms.items()
        atom = m[0]
        if len(m) == 1 and atom.op == "floordiv" and _constant_divisor(atom) > 0:
            d, x = _constant_divisor(atom), an.prover.poly(atom.args[0])
            # x//d >= n  <=>  x >= n*d, and x//d <= n  <=>  x <= n*d + d - 1
            return _nonneg(x - least * d if c > 0 else Poly.of(-least * d + d - 1) - x, an)
    left, right = _sides(terms)
    if not right.terms:
        return _compare("ge", left, Poly.of(least), an)
    if not left.terms:
        return _compare("le" if least == 0 else "lt", right, Poly.of(1 - least if least else 0), an)
    if least > 0:
        return _compare("lt", right + (least - 1), left, an)
    return _compare("le", right, left, an) if least == 0 else _compare("lt", right, left + (1 - least), an)


def _by_cases(atom: Expr, c: int, p: Poly, an: Analyzer) -> Expr | None:
    """min(x, y) >= z  <=>  x >= z and y >= z, where one of them is decided already."""
    rest = _without(p, atom)
    both = (atom.op == "min") == (c > 0)
    parts = [rest + an.prover.poly(a) * c for a in atom.args]
    verdicts = [an.prover._decide("ge", q, Poly({})) for q in parts]
    for verdict, other in ((verdicts[0], parts[1]), (verdicts[1], parts[0])):
        if verdict is not None:
            return _nonneg(other, an) if verdict == both else const(verdict)
    return None


def _compare(op: str, a: Poly, b: Poly, an: Analyzer) -> Expr:
    return make(op, BOOL, common_type(an.prover.expr(a), an.prover.expr(b)))


_RULES: dict[str, Callable[[Expr, Analyzer], Poly | Expr | None]] = {
    "min": _extremum,
    "max": _extremum,
    "select": _select,
    "if_then_else": _select,
    "floormod": _floormod,
    "floordiv": _floordiv,
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
}
