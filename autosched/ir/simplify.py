"""Simplification and proof for index arithmetic, under known ranges of the variables.

`Analyzer` knows, for each variable in scope, a smallest and a largest value (polynomials, so they
may mention sizes, knobs and outer loops). It brings integer expressions into the normal form of
`poly`, resolves divisions, comparisons, `min`, `max` and `select` that the ranges decide, and
answers `prove(condition)`. "No proof" never means "false".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from autosched.ir.dtype import BOOL, INT32, INT64
from autosched.ir.expr import (
    Expr,
    cast,
    const,
    is_index,
    likely,
    logical_not,
    make,
    rebuild,
    variables,
)
from autosched.ir.poly import Poly, common_type, has, join, without

__all__ = ["Analyzer", "conjuncts", "simplify", "to_poly", "variables_of"]

ONE_POLY = Poly.of(1)
Range = tuple[Poly | None, Poly | None]
_COMPARE = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


class Analyzer:
    """Ranges of variables, and what follows from them."""

    #: How many splits and substitutions one proof may take; beyond it the answer is "no proof".
    PROOF_STEPS = 60
    #: Proofs may need the normal form of what they find, which may need proofs: this deep.
    PROOF_DEPTH = 3

    def __init__(self) -> None:
        self._ranges: dict[Expr, Range] = {}
        self._polys: dict[Expr, Poly] = {}
        self._simple: dict[Expr, Expr] = {}
        self._proofs: dict[Poly, bool] = {}
        self._facts: list[Poly] = []
        self._depth = 0

    # -- scope --------------------------------------------------------------------------------
    def bind(self, var: Expr, low: Poly | Expr | int | None, high: Poly | Expr | int | None) -> None:
        """Let `var` lie in [low, high]; a later call for the same variable replaces the range."""
        if var in self._ranges:
            self._polys.clear()
            self._simple.clear()
            self._proofs.clear()
        self._ranges[var] = (self._as_poly(low), self._as_poly(high))

    @contextmanager
    def tightened(self, ranges: dict[Expr, Range]) -> Iterator[None]:
        """Other ranges for a while."""
        saved = dict(self._ranges), self._polys, self._simple, self._proofs
        self._polys, self._simple, self._proofs = {}, {}, {}
        self._ranges.update(ranges)
        try:
            yield
        finally:
            self._ranges, self._polys, self._simple, self._proofs = saved

    @contextmanager
    def assuming(self, condition: Expr) -> Iterator[None]:
        """The condition holds for a while: inside the `if` that tests it."""
        facts = [p for c in conjuncts(condition) for p in self.inequalities(c)]
        saved = self._facts, self._polys, self._simple, self._proofs
        if facts:
            self._polys, self._simple, self._proofs = {}, {}, {}
            self._facts = [*self._facts, *facts]
        try:
            yield
        finally:
            self._facts, self._polys, self._simple, self._proofs = saved

    def inequalities(self, condition: Expr) -> list[Poly]:
        """Polynomials that are `>= 0` exactly where an index comparison holds; empty if it is none."""
        if condition.op == "likely":
            condition = condition.args[0]
        if condition.op not in _COMPARE or condition.op == "ne":
            return []
        if not all(is_index(a) and a.dtype.is_integer and a.dtype.lanes == 1 for a in condition.args):
            return []
        a, b = map(self.poly, condition.args)
        match condition.op:
            case "lt":
                return [b - a - 1]
            case "le":
                return [b - a]
            case "gt":
                return [a - b - 1]
            case "ge":
                return [a - b]
        return [a - b, b - a]

    def assume_nonneg(self, p: Poly) -> None:
        """Use the fact `p >= 0` to raise the lower bounds of sizes: `3*W - 1 >= 0` gives `W >= 1`."""
        if len(p.terms) == 1 and () not in p.terms:
            return
        rest = [(m, c) for m, c in p.terms.items() if m]
        slack = -p.terms.get((), 0)
        if len(rest) != 1 or slack <= 0 or rest[0][1] <= 0:
            return
        monomial, coefficient = rest[0]
        least = -(-slack // coefficient)  # monomial >= least >= 1
        if len(monomial) == 1 and monomial[0].op == "floordiv":
            a, d = (self.poly(x) for x in monomial[0].args)
            if self.prove_nonneg(d):
                self.assume_nonneg(a - d * least)
            return
        if len(monomial) > 1 and any(self._low_constant(atom) < 0 for atom in monomial):
            return  # two negative factors make a positive product
        for atom in set(monomial):
            low, high = self.range(atom)
            floor = least if len(monomial) == 1 else 1
            if atom.op == "var" and low is not None and low.constant is not None and low.constant < floor:
                self.bind(atom, floor, high)

    def _as_poly(self, value: Poly | Expr | int | None) -> Poly | None:
        if value is None or isinstance(value, Poly):
            return value
        return Poly.of(value) if isinstance(value, int) else self.poly(value)

    def range(self, var: Expr) -> Range:
        found = self._ranges.get(var)
        if found is not None:
            return found
        if var.op != "var":
            return None, None
        info = var.value
        low = info.lower if info.lower is not None else 0 if info.role in ("size", "thread") else None
        if low is None and var.dtype.kind == "uint":
            low = 0
        high = info.upper
        return (
            None if low is None else Poly.of(low),
            None if high is None else Poly.of(high),
        )

    # -- normal form --------------------------------------------------------------------------
    def poly(self, e: Expr) -> Poly:
        """The normal form of an integer expression; value arithmetic in it, which wraps, is opaque."""
        found = self._polys.get(e)
        if found is None:
            found = self._polys[e] = self._poly(e)
        return found

    def _poly(self, e: Expr) -> Poly:
        if not is_index(e):
            return self._atom(e)
        match e.op:
            case "const":
                return Poly.of(int(e.value))
            case "var":
                low, high = self._ranges.get(e, (None, None))
                if low is not None and low == high:
                    return low
                return Poly.of(e)
            case "add":
                return self.poly(e.args[0]) + self.poly(e.args[1])
            case "sub":
                return self.poly(e.args[0]) - self.poly(e.args[1])
            case "mul":
                return self.poly(e.args[0]) * self.poly(e.args[1])
            case "neg":
                return -self.poly(e.args[0])
            case "floordiv":
                return self.floordiv(self.poly(e.args[0]), self.poly(e.args[1]))
            case "floormod":
                a, b = self.poly(e.args[0]), self.poly(e.args[1])
                return a - b * self.floordiv(a, b) if b.terms else b
            case "truncdiv" | "truncmod":
                a, b = self.poly(e.args[0]), self.poly(e.args[1])
                if self.prove_nonneg(a) and self.prove_nonneg(b - 1):
                    q = self.floordiv(a, b)
                    return q if e.op == "truncdiv" else a - b * q
                return Poly.of(join(e.op, a.expr(), b.expr()))
            case "min":
                return self._extremum("min", e)
            case "max":
                return self._extremum("max", e)
            case "cast":
                return self._cast(e)
            case "select" | "if_then_else":
                return self._select(e)
        return self._atom(e)

    def _atom(self, e: Expr) -> Poly:
        simple = self._value(e)
        return Poly.of(simple if simple.op != "const" else int(simple.value))

    def _extremum(self, op: str, e: Expr) -> Poly:
        a, b = self.poly(e.args[0]), self.poly(e.args[1])
        if self.prove_nonneg(b - a):
            return a if op == "min" else b
        if self.prove_nonneg(a - b):
            return b if op == "min" else a
        return Poly.of(join(op, a.expr(), b.expr()))

    def _cast(self, e: Expr) -> Poly:
        """An index under a wider type is that index; a condition counts as 0 or 1."""
        if not e.args[0].dtype.is_bool:
            return self.poly(e.args[0])
        condition = self.simplify(e.args[0])
        return Poly.of(cast(INT32, condition) if condition.op != "const" else int(condition.value))

    def _select(self, e: Expr) -> Poly:
        condition = self.simplify(e.args[0])
        if condition.op == "const":
            return self.poly(e.args[1] if condition.value else e.args[2])
        a, b = self.poly(e.args[1]), self.poly(e.args[2])
        if a == b:
            return a
        x, y = common_type(a.expr(), b.expr())
        return Poly.of(make(e.op, x.dtype, (condition, x, y)))

    def floordiv(self, a: Poly, b: Poly) -> Poly:
        """`a // b` for a divisor that is not 0 wherever it is used (extents, tile sizes); 0 for `a // 0`."""
        if b.constant == 1:
            return a
        if b.constant is not None and b.constant <= 0:
            return self.floordiv(-a, -b) if b.terms else b
        if a.constant is not None and b.constant is not None:
            return Poly.of(a.constant // b.constant)
        quotient, rest = a.divide(b)
        if not rest.terms:
            return quotient
        if self.prove_nonneg(rest):
            if self.prove_nonneg(b - rest - 1):
                return quotient
        elif self.prove_nonneg(-rest - 1) and self.prove_nonneg(b + rest):
            return quotient - 1
        return quotient + self._opaque_floordiv(rest, b)

    def _opaque_floordiv(self, a: Poly, b: Poly) -> Poly:
        d = b.constant
        if d is not None and d > 1:
            coefficients = [c for m, c in a.terms.items() if m]
            g = _gcd([d, *coefficients])
            if g > 1:  # (g*p + c) // (g*d) == (p + c//g) // d
                reduced = Poly({m: (c // g) for m, c in a.terms.items()})
                return self.floordiv(Poly({m: c for m, c in reduced.terms.items() if c}), Poly.of(d // g))
            inner = [m for m in a.terms if m]
            if len(inner) == 1 and len(inner[0]) == 1 and a.terms[inner[0]] == 1:
                atom = inner[0][0]
                if atom.op == "floordiv" and atom.args[1].op == "const" and atom.args[1].value > 0:
                    # (x//p + k) // d == (x + k*p) // (p*d)
                    p = atom.args[1].value
                    k = a.terms.get((), 0)
                    return self.floordiv(self.poly(atom.args[0]) + k * p, Poly.of(p * d))
        x, y = a.expr(), b.expr()
        return Poly.of(make("floordiv", x.dtype, (x, y)))

    # -- simplification -----------------------------------------------------------------------
    def simplify(self, e: Expr) -> Expr:
        """An equal expression of the same type, as simple as the ranges allow."""
        found = self._simple.get(e)
        if found is None:
            found = self._simple[e] = self._simplify(e)
        return found

    def _simplify(self, e: Expr) -> Expr:
        if e.op in ("const", "var") and e not in self._ranges:
            return e
        if e.dtype.lanes == 1 and e.dtype.is_integer and is_index(e):
            return self._typed(self.poly(e).expr(), e)
        return self._value(e)

    def _typed(self, result: Expr, e: Expr) -> Expr:
        """`result`, the normal form of the index `e`, in the type of `e` and exact as ever."""
        to = e.dtype
        if result.op == "const" and to.min <= result.value <= to.max:
            return const(result.value, to)
        if result.dtype is to:
            return result
        if to in (INT32, INT64):  # index arithmetic does not wrap, so neither does this cast
            return make("cast", to, (result,))
        return self._value(e)

    def _value(self, e: Expr) -> Expr:
        args = tuple([self.simplify(a) for a in e.args])
        if e.op in _COMPARE and all(a.dtype.lanes == 1 and a.dtype.is_integer and is_index(a) for a in args):
            return self._comparison(e.op, args[0], args[1])
        if e.op == "likely":
            return likely(args[0])
        return rebuild(e, args)

    def _comparison(self, op: str, x: Expr, y: Expr) -> Expr:
        a, b = self.poly(x), self.poly(y)
        verdict = self._decide(op, a, b)
        if verdict is not None:
            return const(verdict)
        g = _gcd([*a.terms.values(), *b.terms.values()])
        if g > 1:
            a, b = (Poly({m: c // g for m, c in p.terms.items()}) for p in (a, b))
        return make(op, BOOL, common_type(a.expr(), b.expr()))

    def _decide(self, op: str, a: Poly, b: Poly) -> bool | None:
        match op:
            case "lt":
                return self._either(b - a - 1, a - b)
            case "le":
                return self._either(b - a, a - b - 1)
            case "gt":
                return self._either(a - b - 1, b - a)
            case "ge":
                return self._either(a - b, b - a - 1)
            case _:
                if a == b:
                    return op == "eq"
                if self.prove_nonneg(a - b - 1) or self.prove_nonneg(b - a - 1):
                    return op == "ne"
                return None

    def _either(self, holds: Poly, fails: Poly) -> bool | None:
        if self.prove_nonneg(holds):
            return True
        return False if self.prove_nonneg(fails) else None

    # -- proof --------------------------------------------------------------------------------
    def prove(self, condition: Expr) -> bool:
        """Whether the ranges alone imply the condition."""
        result = self.simplify(condition)
        return result.op == "const" and bool(result.value)

    def refute(self, condition: Expr) -> bool:
        return self.prove(logical_not(condition))

    def prove_nonneg(self, p: Poly) -> bool:
        """Whether `p >= 0` for every value of the variables within their ranges."""
        found = self._proofs.get(p)
        if found is None:
            value = p.constant
            if value is not None:
                return value >= 0
            if self._depth >= self.PROOF_DEPTH:
                return self._obviously_nonneg(p)
            self._depth += 1
            try:
                found = self._prove(p)
            finally:
                self._depth -= 1
            if self._depth == 0 or found:  # a proof cut short by its depth may succeed another time
                self._proofs[p] = found
        return found

    def _prove(self, p: Poly) -> bool:
        return self._nonneg(p, [self.PROOF_STEPS])

    def _by_a_fact(self, p: Poly, steps: list[int]) -> bool:
        """`p >= 0` because `p` is a known non-negative polynomial plus something non-negative."""
        mentioned = variables_of(p)
        facts, self._facts = self._facts, []
        try:
            return any(variables_of(f) & mentioned and self._nonneg(p - f, steps) for f in facts)
        finally:
            self._facts = facts

    def _nonneg(self, p: Poly, steps: list[int]) -> bool:
        value = p.constant
        if value is not None:
            return value >= 0
        steps[0] -= 1
        if steps[0] < 0:
            return False
        if self._obviously_nonneg(p):
            return True
        atom = self._next_atom(p)
        if (atom is None or atom.op == "var") and self._facts and self._by_a_fact(p, steps):
            return True
        return atom is not None and self._eliminate(p, atom, steps)

    def _obviously_nonneg(self, p: Poly) -> bool:
        """All coefficients non-negative over atoms that are themselves non-negative."""
        for m, c in p.terms.items():
            if c < 0 or not all(self._low_constant(a) >= 0 for a in m):
                return False
        return True

    def _low_constant(self, atom: Expr) -> int:
        low = self.range(atom)[0]
        if low is not None and low.constant is not None:
            return low.constant
        return -1

    def _next_atom(self, p: Poly) -> Expr | None:
        """Opaque nodes first, then the innermost (latest) variable that has a usable range."""
        opaque = [a for a in p.atoms() if a.op != "var"]
        if opaque:
            # an atom that occurs inside another one must wait until that one is gone; and what
            # must hold in both cases comes before what need hold in one only
            return max(opaque, key=lambda a: (_both_cases(p, a), a.serial))
        ranged = [a for a in p.atoms() if self.range(a) != (None, None)]
        bound_here = [a for a in ranged if a in self._ranges]
        return max(bound_here or ranged, key=lambda a: a.serial, default=None)

    def _eliminate(self, p: Poly, atom: Expr, steps: list[int]) -> bool:
        linear = p.linear_in(atom)
        if linear is None:
            return False
        slope, rest = linear
        if atom.op == "var":
            return self._eliminate_variable(p, atom, slope, rest, steps)
        k = slope.constant
        if k is None:
            if self._nonneg(slope, steps):
                k = 1
            elif self._nonneg(-slope, steps):
                k = -1
            else:
                return False
        match atom.op:
            case "min" | "max":
                a, b = to_poly(atom.args[0]), to_poly(atom.args[1])
                cases = (slope * a + rest, slope * b + rest)
                if (atom.op == "min") == (k > 0):
                    return all(self._nonneg(c, steps) for c in cases)
                return any(self._nonneg(c, steps) for c in cases)
            case "select" | "if_then_else":
                return all(self._nonneg(slope * to_poly(a) + rest, steps) for a in atom.args[1:])
            case "floordiv":
                return self._eliminate_floordiv(atom, slope, rest, k, steps)
        return self._eliminate_value(atom, slope, rest, k, steps)

    def _eliminate_variable(self, p: Poly, v: Expr, slope: Poly, rest: Poly, steps: list[int]) -> bool:
        low, high = self.range(v)
        if low is not None and self._nonneg(slope, steps):
            return self._nonneg(slope * low + rest, steps)
        if high is not None and self._nonneg(-slope, steps):
            return self._nonneg(slope * high + rest, steps)
        if low is not None and high is not None:  # linear: the minimum is at one of the ends
            return self._nonneg(slope * low + rest, steps) and self._nonneg(slope * high + rest, steps)
        return False

    def _eliminate_floordiv(self, atom: Expr, slope: Poly, rest: Poly, k: int, steps: list[int]) -> bool:
        a, d = to_poly(atom.args[0]), to_poly(atom.args[1])
        divisor = d.constant
        if not self._nonneg(d, steps):  # everything below is turned around by a negative divisor
            return False
        if divisor is not None and divisor > 0:
            if slope.constant == 1:  # a//d >= -rest  <=>  a >= -rest*d
                return self._nonneg(a + rest * divisor, steps)
            if slope.constant == -1:  # a//d <= rest  <=>  a <= rest*d + d - 1
                return self._nonneg(rest * divisor + (divisor - 1) - a, steps)
            # a//d lies in [(a - d + 1)/d, a/d]; multiply through by d
            end = a - (divisor - 1) if k > 0 else a
            if self._nonneg(slope * end + rest * divisor, steps):
                return True
        if k > 0 and self._nonneg(a, steps) and self._nonneg(rest, steps):
            return True  # a//d >= 0
        if k < 0 and divisor is None:
            # a//d <= max(a)//d
            top = self.extreme(a, tuple(v for v in variables(a.expr()) if v in self._ranges), True)
            if top is not None and top != a:
                return self._nonneg(slope * self.floordiv(top, d) + rest, steps)
        return False

    def _eliminate_value(self, atom: Expr, slope: Poly, rest: Poly, k: int, steps: list[int]) -> bool:
        """A load or another opaque integer: all that is known is its type."""
        if atom.dtype.bits > 32 or not (atom.dtype.is_integer or atom.dtype.is_bool):
            return False
        end = Poly.of(int(atom.dtype.min if k > 0 else atom.dtype.max))
        return self._nonneg(slope * end + rest, steps)

    # -- extremes -----------------------------------------------------------------------------
    def extreme(self, p: Poly, over: Iterable[Expr], largest: bool) -> Poly | None:
        """The largest (smallest) value of `p` as the variables `over` run through their ranges.

        None if a sign or a range is unknown. The result may be an over-estimate where two
        terms depend on one variable inside opaque nodes, never an under-estimate.
        """
        for v in sorted(over, key=lambda v: -v.serial):
            if v not in variables_of(p):
                continue
            result = self._extreme_in(p, v, largest)
            if result is None:
                return None
            p = result
        return p

    def _extreme_in(self, p: Poly, v: Expr, largest: bool) -> Poly | None:
        low, high = self.range(v)
        if low is None or high is None:
            return None
        total = Poly({})
        direct = Poly({m: c for m, c in p.terms.items() if has(m, v) and all(a is v or v not in variables(a) for a in m)})
        for m, c in p.terms.items():
            if m in direct.terms:
                continue
            holders = [a for a in m if v in variables(a)]
            if not holders:
                total = total + Poly({m: c})
                continue
            if len(holders) > 1:
                return None
            factor = Poly({without(m, holders[0]): c})
            up = self._sign(factor)
            if up is None:
                return None
            end = self._extreme_atom(holders[0], v, largest == up)
            if end is None:
                return None
            total = total + factor * end
        if direct.terms:
            linear = direct.linear_in(v)
            if linear is None:
                return None
            up = self._sign(linear[0])
            if up is None:
                return None
            total = total + linear[0] * (high if largest == up else low)
        return total

    def _extreme_atom(self, atom: Expr, v: Expr, largest: bool) -> Poly | None:
        if atom.op == "floordiv" and v not in variables(atom.args[1]):
            end, d = self._extreme_in(self.poly(atom.args[0]), v, largest), self.poly(atom.args[1])
            return None if end is None or not self.prove_nonneg(d) else self.floordiv(end, d)
        if atom.op in ("min", "max"):
            ends = [
                self._extreme_in(self.poly(a), v, largest) if v in variables(a) else self.poly(a) for a in atom.args
            ]
            if ends[0] is None or ends[1] is None:
                return None
            return self.poly(make(atom.op, atom.dtype, (ends[0].expr(), ends[1].expr())))
        return None

    def _sign(self, p: Poly) -> bool | None:
        """True if `p >= 0`, False if `p <= 0`, None if unknown."""
        if self.prove_nonneg(p):
            return True
        return False if self.prove_nonneg(-p) else None


def _both_cases(p: Poly, atom: Expr) -> bool:
    positive = any(c > 0 for m, c in p.terms.items() if has(m, atom))
    return atom.op == ("min" if positive else "max")


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction, `likely` taken off."""
    if condition.op == "likely":
        return conjuncts(condition.args[0])
    if condition.op == "and":
        return [c for a in condition.args for c in conjuncts(a)]
    return [condition]


def variables_of(p: Poly) -> frozenset[Expr]:
    """The variables of a polynomial, those inside opaque nodes included."""
    return frozenset().union(*(variables(a) for m in p.terms for a in m)) if p.terms else frozenset()


def _gcd(values: list[int]) -> int:
    from math import gcd

    g = 0
    for v in values:
        g = gcd(g, abs(v))
    return g


_FREE = Analyzer()


def to_poly(e: Expr) -> Poly:
    """The normal form of an integer expression when nothing is known of its variables."""
    return _FREE.poly(e)


def simplify(e: Expr) -> Expr:
    """An equal expression, simplified without any knowledge of the variables' ranges."""
    return _FREE.simplify(e)


