"""Simplification of index arithmetic, under known ranges of the variables.

`Analyzer` brings integer expressions into the normal form of `poly`, resolves divisions,
comparisons, `min`, `max` and `select` that the ranges decide, and answers `prove(condition)`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import product
from math import gcd

from autosched.ir.conclusions import UNLIMITED, Memory
from autosched.ir.dtype import BOOL, INT32, INT64
from autosched.ir.expr import Expr, cast, const, is_const, is_index, likely, make, variables
from autosched.ir.ops import COMPARISONS
from autosched.ir.poly import Poly, common_type, join
from autosched.ir.powers import known_power
from autosched.ir.prove import DIFFERENCES, Prover, is_integer_index
from autosched.ir.visit import conjuncts, post_order, rebuild


class Analyzer(Prover):
    """Ranges of variables, and the simplest forms that they allow."""

    #: An expression deeper than this is simplified a band of levels at a time, from below.
    BAND = 50
    #: Variables of two values each, of which all cases are looked at together.
    MOST_OF_TWO = 4

    def __init__(self, memory: Memory | None = None) -> None:
        super().__init__(memory)
        self._in_bands = False

    # -- normal form --------------------------------------------------------------------------
    def poly(self, e: Expr) -> Poly:
        """The normal form of an integer expression; value arithmetic in it, which wraps, is opaque."""
        found = self._known.polys.get(e)
        if found is not None:
            return found
        # inside a proof, less can be proven: what is found there is no answer to the same question outside
        if self._depth:
            found = self._known.polys_in_proofs.get(e)
            if found is None:
                found = self._known.polys_in_proofs[e] = self._new_poly(e)
            return found
        if self._in_extreme or not e.args:
            found = self._new_poly(e)
        else:
            question = e, self._surroundings(variables(e))
            found = self.memory.polys.get(question)
            if found is None:
                left = self.memory.left
                found = self.memory.polys[question] = self._new_poly(e)
                self.memory.found(question, left)
            else:
                self.memory.recalled(question)
        self._known.polys[e] = found
        return found

    def _new_poly(self, e: Expr) -> Poly:
        if e.depth > self.BAND and not self._in_bands:
            self._from_below(e)
        return self._poly(e)

    def extremum(self, op: str, a: Poly, b: Poly) -> Poly:
        """The `min` or `max` of two."""
        x, y = a.expr(), b.expr()
        return self.poly(make(op, x.dtype, (x, y)))

    def expr(self, p: Poly) -> Expr:
        """The simplest expression of the polynomial."""
        return p.expr(self._is_positive)

    def _is_positive(self, e: Expr) -> bool:
        return self.prove_nonneg(self.poly(e) - 1)

    def plain_poly(self, e: Expr) -> Poly:
        return to_poly(e)

    def _from_below(self, root: Expr) -> None:
        """Simplify what lies a band of levels below its user, so that no recursion runs deeper."""
        self._in_bands = True
        try:
            for e in post_order(root):
                for a in e.args:
                    if a.depth // self.BAND < e.depth // self.BAND:
                        self.poly(a) if is_integer_index(a) else self.simplify(a)
        except RecursionError:  # normal forms of great depth: the rest stays as it is
            pass
        finally:
            self._in_bands = False

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
                a, b = self.poly(e.args[0]), self.poly(e.args[1])
                return a * b if a.size * b.size <= self.LARGEST else Poly.of(join("mul", self.expr(a), self.expr(b)))
            case "neg":
                return -self.poly(e.args[0])
            case "floordiv":
                return self.floordiv(self.poly(e.args[0]), self.poly(e.args[1]))
            case "floormod":
                return self._floormod(self.poly(e.args[0]), self.poly(e.args[1]))
            case "truncdiv" | "truncmod":
                a, b = self.poly(e.args[0]), self.poly(e.args[1])
                if self.prove_nonneg(a) and self.prove_nonneg(b - 1):
                    q = self.floordiv(a, b)
                    return q if e.op == "truncdiv" else a - b * q
                return Poly.of(join(e.op, self.expr(a), self.expr(b)))
            case "min" | "max":
                return self._extremum(e.op, e)
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
        return Poly.of(join(op, self.expr(a), self.expr(b)))

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
        x, y = common_type(self.expr(a), self.expr(b))
        return Poly.of(make(e.op, x.dtype, (condition, x, y)))

    def floordiv(self, a: Poly, b: Poly) -> Poly:
        """`a // b`, which is 0 for `b == 0`: only where that is ruled out does anything cancel."""
        if b.constant == 1:
            return a
        if b.constant is not None and b.constant <= 0:
            return self.floordiv(-a, -b) if b.terms else b
        if a.constant is not None and b.constant is not None:
            return Poly.of(a.constant // b.constant)
        if b.constant is None and not self.prove_nonneg(b - 1):
            return self._opaque_floordiv(a, b)
        quotient, rest = a.divide(b)
        if not rest.terms:
            return quotient
        if self.prove_nonneg(rest):
            if self.prove_nonneg(b - rest - 1):
                return quotient
        elif self.prove_nonneg(-rest - 1) and self.prove_nonneg(b + rest):
            return quotient - 1
        of_two = self._of_two_values(rest, b)
        return quotient + (self._opaque_floordiv(rest, b) if of_two is None else of_two)

    def _of_two_values(self, a: Poly, b: Poly) -> Poly | None:
        """`a // b` for a number b and an `a` of few variables of two values each, such as digits of an index: the plane
        through all quotients, where there is one.

        (1 - 2*x - y)//4, with x and y from 0 to 1, is -x.
        """
        d, atoms = b.constant, a.atoms()
        if d is None or len(atoms) > self.MOST_OF_TWO or any(len(m) > 1 for m in a.terms):
            return None
        lows = []
        for v in atoms:
            low, high = (x if x is None else x.constant for x in self.range(v))
            if low is None or high != low + 1:
                return None
            lows.append(low)
        slopes = [a.terms[v,] for v in atoms]
        base = a.terms.get((), 0) + sum(k * low for k, low in zip(slopes, lows, strict=True))
        rises = [(base + k) // d - base // d for k in slopes]
        for corner in product((0, 1), repeat=len(atoms)):
            found = (base + sum(k for k, up in zip(slopes, corner, strict=True) if up)) // d
            if found != base // d + sum(r for r, up in zip(rises, corner, strict=True) if up):
                return None
        plane = Poly.of(base // d)
        for v, low, rise in zip(atoms, lows, rises, strict=True):
            plane = plane + (Poly.of(v) - low) * rise
        return plane

    def _floormod(self, a: Poly, b: Poly) -> Poly:
        """`a - b*(a//b)`, but 0 for `b == 0`."""
        if b.constant == 0 or a.constant == 0:
            return Poly({})
        if b.constant is None and not self.prove_nonneg(b - 1):
            return Poly.of(join("floormod", self.expr(a), self.expr(b)))
        return a - b * self.floordiv(a, b)

    def _opaque_floordiv(self, a: Poly, b: Poly) -> Poly:
        d = b.constant
        if d is not None and d > 1:
            coefficients = [c for m, c in a.terms.items() if m]
            g = gcd(d, *coefficients)
            if g > 1:  # (g*p + c) // (g*d) == (p + c//g) // d
                reduced = Poly({m: (c // g) for m, c in a.terms.items()})
                return self.floordiv(Poly({m: c for m, c in reduced.terms.items() if c}), Poly.of(d // g))
            for g in sorted({gcd(d, c) for c in coefficients} - {1}, reverse=True):
                small = Poly({m: c % g for m, c in a.terms.items() if c % g})
                if self.prove_nonneg(small) and self.prove_nonneg(-small + (g - 1)):  # (g*p + r) // (g*d) == p // d
                    return self.floordiv(Poly({m: c // g for m, c in a.terms.items() if c // g}), Poly.of(d // g))
            inner = [m for m in a.terms if m]
            if len(inner) == 1 and len(inner[0]) == 1 and a.terms[inner[0]] == 1:
                atom = inner[0][0]
                if atom.op == "floordiv" and atom.args[1].op == "const" and atom.args[1].value > 0:
                    # (x//p + k) // d == (x + k*p) // (p*d)
                    p = atom.args[1].value
                    k = a.terms.get((), 0)
                    return self.floordiv(self.poly(atom.args[0]) + k * p, Poly.of(p * d))
        return Poly.of(join("floordiv", self.expr(a), self.expr(b)))

    # -- simplification -----------------------------------------------------------------------
    def simplify(self, e: Expr) -> Expr:
        """An equal expression of the same type, as simple as the ranges allow."""
        found = self._known.simple.get(e)
        if found is not None:
            return found
        if self._depth:  # see `poly`
            return self._new_simple(e)
        if self._in_extreme or not e.args:
            found = self._new_simple(e)
        else:
            question = e, self._surroundings(variables(e))
            found = self.memory.simple.get(question)
            if found is None:
                left = self.memory.left
                found = self.memory.simple[question] = self._new_simple(e)
                self.memory.found(question, left)
            else:
                self.memory.recalled(question)
        self._known.simple[e] = found
        return found

    def _new_simple(self, e: Expr) -> Expr:
        if e.depth > self.BAND and not self._in_bands:
            self._from_below(e)
            try:
                return self._simplify(e)
            except RecursionError:
                return e
        return self._simplify(e)

    def _simplify(self, e: Expr) -> Expr:
        if e.op in ("const", "var") and e not in self._ranges:
            return e
        return self._typed(self.expr(self.poly(e)), e) if is_integer_index(e) else self._value(e)

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
        if e.op in COMPARISONS and all(map(is_integer_index, args)):
            return self._comparison(e.op, args[0], args[1])
        if e.op == "likely":
            return likely(args[0])
        simple = rebuild(e, args)
        return known_power(simple) if e.op == "pow" else simple

    def _comparison(self, op: str, x: Expr, y: Expr) -> Expr:
        a, b = self.poly(x), self.poly(y)
        verdict = self._decide(op, a, b)
        if verdict is not None:
            return const(verdict)
        if op in DIFFERENCES and (block := self._of_blocks(DIFFERENCES[op](a, b))) is not None:
            known = block.terms.get((), 0)
            right = Poly({m: c for m, c in block.terms.items() if m and c > 0})
            if any(atom.op == "floordiv" for atom in block.atoms()):  # parts of a remainder stay together
                right = Poly({}) if known >= 0 else block - known
            left = right - block + known
            if known < 0:
                return make("le", BOOL, common_type(self.expr(left - known), self.expr(right)))
            return make("lt", BOOL, common_type(self.expr(left), self.expr(right + (known + 1))))
        g = gcd(*a.terms.values(), *b.terms.values())
        if g > 1:
            a, b = (Poly({m: c // g for m, c in p.terms.items()}) for p in (a, b))
        return make(op, BOOL, common_type(self.expr(a), self.expr(b)))

    def _of_blocks(self, p: Poly) -> Poly | None:
        """A polynomial that is no less than 0 where `p` is, for `p` of blocks and places in a block that do not matter:
        8*a + b - 8, with b from 0 to 7, is no less than 0 where a - 1 is. None if there is none."""
        sizes = {abs(c) for m, c in p.terms.items() if m}
        for g in sorted(sizes - {1}, reverse=True):
            place = Poly({m: c if m else c % g for m, c in p.terms.items() if c % g})
            if place.variables and self.prove_nonneg(place) and self.prove_nonneg(-place + (g - 1)):
                return Poly({m: c // g for m, c in p.terms.items() if c // g and (c % g == 0 or not m)})
        return None

    def _decide(self, op: str, a: Poly, b: Poly) -> bool | None:
        if op in DIFFERENCES:
            p = DIFFERENCES[op](a, b)
            return True if self.prove_nonneg(p) else False if self.prove_nonneg(-p - 1) else None
        if a == b:
            return op == "eq"
        return op == "ne" if self.prove_nonneg(a - b - 1) or self.prove_nonneg(b - a - 1) else None

    def prove(self, condition: Expr) -> bool:
        """Whether the ranges alone imply the condition."""
        result = self.simplify(condition)
        return result.op == "const" and bool(result.value)

    def is_within(self, index: Expr, extent: Expr, last: Expr | None = None) -> bool:
        """Whether the ranges alone imply `0 <= index < extent`, or `0 <= index` and `last < extent`."""
        p = self.poly(index)
        q = p if last is None else self.poly(last)
        return self.prove_nonneg(p) and self.prove_nonneg(self.poly(extent) - q - 1)


class _Free(threading.local):
    """An analyzer for each thread: while it answers, it knows how deep in a proof it is."""

    def __init__(self) -> None:
        self.analyzer = Analyzer(Memory(UNLIMITED))


_FREE = _Free()
_FREE_KEEPS = 100_000


def to_poly(e: Expr) -> Poly:
    """The normal form of an integer expression when nothing is known of its variables."""
    free = _FREE.analyzer
    if len(free._known.polys) > _FREE_KEEPS:  # a tuner runs for days
        free.forget()
        free.memory.clear()
    return free.poly(e)


def always_equal(a: Expr, b: Expr) -> bool:
    """Whether two integer expressions are certainly equal, whatever their variables are."""
    return a is b or not to_poly(a - b).terms


def simplify(e: Expr) -> Expr:
    """An equal expression, simplified without any knowledge of the variables' ranges."""
    return _FREE.analyzer.simplify(e)


def known_multiples(condition: Expr) -> Iterator[tuple[Expr, int]]:
    """Variables and numbers that divide them where the condition holds: n and 8 for `n % 8 == 0`."""
    for c in conjuncts(condition):
        left, right = c.args if c.op == "eq" else (c, c)
        if left.op == "floormod" and is_const(right, 0):
            size, step = left.args
            if size.op == "var" and step.op == "const" and step.value > 0:
                yield size, int(step.value)
