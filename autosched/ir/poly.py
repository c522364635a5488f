"""Integer polynomials over atoms: the normal form of index arithmetic.

An atom is a variable, or an opaque node (`floordiv`, `min`, `max`, `select`, a load) whose
arguments are themselves in normal form. A polynomial is a sum of integer multiples of monomials:

    (f//3 + 1)*3 + f%3   ->   3*(f//3) + 3 + f - 3*(f//3)   ->   f + 3

`x % d` is not an atom: it is `x - d*(x//d)`, which is why the sum above cancels. Division of
polynomials by polynomials is exact division with remainder, so that `(y*(W*3) + x*3 + c) // (W*3)`
splits into `y` plus a remainder whose bounds decide the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import gcd

from autosched.ir.dtype import INT32, INT64, DType, promote
from autosched.ir.expr import Expr, cast, const, floormod, make, variables
from autosched.ir.node import order

Monomial = tuple[Expr, ...]  # atoms by `order`, repeated for powers; () is the constant


def has(m: Monomial, atom: Expr) -> bool:
    """`atom in m`, by identity: `==` on expressions builds an expression."""
    for a in m:  # noqa: SIM110  (half the time of `any`)
        if a is atom:
            return True
    return False


def without(m: Monomial, atom: Expr) -> Monomial:
    """`m` with one occurrence of `atom` taken out."""
    if len(m) == 1:
        return ()
    position = next(i for i, a in enumerate(m) if a is atom)
    return m[:position] + m[position + 1 :]


def common_type(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Two integers in one type in which index arithmetic stays index arithmetic (see `is_index`)."""
    exact = a.index and b.index
    if a.dtype is b.dtype and not (exact and (a.dtype.bits < 32 or a.dtype.kind == "uint")):
        return a, b
    to = promote(a.dtype, b.dtype)
    if to.bits < 32 or (to.kind == "uint" and exact):
        to = INT32  # narrow and unsigned numbers wrap around
    return cast(to, a), cast(to, b)


def join(op: str, a: Expr, b: Expr) -> Expr:
    """An operator on two integers, brought to a common type. Nothing is folded."""
    x, y = common_type(a, b)
    return make(op, x.dtype, (x, y))


class Poly:
    """An immutable polynomial with integer coefficients. Zero has no terms."""

    __slots__ = ("_atoms", "_hash", "_variables", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None
        self._variables: frozenset[Expr] | None = None
        self._atoms: tuple[Expr, ...] | None = None

    @staticmethod
    def of(value: int | Expr) -> Poly:
        """A constant, or an atom standing for itself."""
        if isinstance(value, int):
            return Poly({(): value} if value else {})
        return Poly({(value,): 1})

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __repr__(self) -> str:
        return f"Poly({self.expr()!r})"

    # -- arithmetic ---------------------------------------------------------------------------
    def __add__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            other = Poly.of(other)
        return self._plus(other, 1)

    def _plus(self, other: Poly, factor: int) -> Poly:
        """`self + factor*other`."""
        terms = dict(self.terms)
        for m, c in other.terms.items():
            total = terms.get(m, 0) + c * factor
            if total:
                terms[m] = total
            else:
                terms.pop(m, None)
        return Poly(terms)

    def __neg__(self) -> Poly:
        return Poly({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Poly | int) -> Poly:
        return self + -other if isinstance(other, int) else self._plus(other, -1)

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return Poly({m: c * other for m, c in self.terms.items()}) if other else Poly({})
        if len(other.terms) == 1 and () in other.terms:
            return self * other.terms[()]
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms.items():
            for m2, c2 in other.terms.items():
                m = tuple(sorted(m1 + m2, key=order)) if m1 and m2 else m1 or m2
                total = terms.get(m, 0) + c1 * c2
                if total:
                    terms[m] = total
                else:
                    terms.pop(m, None)
        return Poly(terms)

    # -- questions ----------------------------------------------------------------------------
    @property
    def constant(self) -> int | None:
        """The value, if there are no atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def size(self) -> int:
        """A measure of the work it is: terms, each with its factors."""
        return sum(map(len, self.terms)) + len(self.terms)

    @property
    def variables(self) -> frozenset[Expr]:
        """The variables, those inside opaque atoms included."""
        if self._variables is None:
            self._variables = frozenset().union(*[variables(a) for m in self.terms for a in m])
        return self._variables

    def atoms(self) -> tuple[Expr, ...]:
        """Each atom once, by `order`."""
        if self._atoms is None:
            self._atoms = tuple(sorted({a for m in self.terms for a in m}, key=order))
        return self._atoms

    def linear_in(self, atom: Expr) -> tuple[Poly, Poly] | None:
        """`(a, b)` with `self == a*atom + b`, neither mentioning the atom; None for higher powers."""
        slope: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            if not has(m, atom):
                rest[m] = c
                continue
            factor = without(m, atom)
            if has(factor, atom):
                return None
            slope[factor] = c
        return Poly(slope), Poly(rest)

    def affine_in(self, v: Expr) -> tuple[int, Poly] | None:
        """`(k, b)` with `self == k*v + b` for a number k, and the variable nowhere in b; None if there are none."""
        found = self.linear_in(v)
        k = None if found is None else found[0].constant
        return None if found is None or k is None or v in found[1].variables else (k, found[1])

    def floordiv(self, n: int) -> Poly | None:
        """The quotient by a positive number that divides all but the constant, which is rounded down; else None."""
        if any(c % n for m, c in self.terms.items() if m):
            return None
        return Poly({m: c // n for m, c in self.terms.items() if c // n})

    def replace(self, atom: Expr, value: Poly) -> Poly:
        """`value` in place of every occurrence of the atom."""
        result = Poly({m: c for m, c in self.terms.items() if not has(m, atom)})
        for m, c in self.terms.items():
            if has(m, atom):
                product = Poly({tuple(a for a in m if a is not atom): c})
                for _ in range(sum(a is atom for a in m)):
                    product = product * value
                result = result + product
        return result

    def divide(self, divisor: Poly) -> tuple[Poly, Poly]:
        """`(q, r)` with `self == q*divisor + r`, `q` as large as exact division of terms allows.

        For a constant divisor the constant term is split too, with a remainder in [0, divisor).
        """
        lead, lead_coefficient = max(divisor.terms.items(), key=lambda item: (len(item[0]), tuple(map(order, item[0]))))
        quotient, remainder = Poly({}), self
        for _ in range(16):  # each round removes the terms that the leading term divides
            step: dict[Monomial, int] = {}
            for m, c in remainder.terms.items():
                rest = _over(m, lead)
                if rest is None:
                    continue
                if not lead:  # constant divisor: keep the remainder of each term minimal
                    if c // lead_coefficient and (c % lead_coefficient == 0 or not m):
                        step[rest] = c // lead_coefficient
                elif c % lead_coefficient == 0:
                    step[rest] = c // lead_coefficient
            if not step:
                break
            part = Poly(step)
            quotient, remainder = quotient + part, remainder - part * divisor
            if not lead:
                break
        return quotient, remainder

    # -- back to an expression ----------------------------------------------------------------
    def expr(self, is_positive: Callable[[Expr], bool] | None = None) -> Expr:
        """The expression to print and to compile: factored, `%` restored, positive terms first.

        `x - d*(x//d)` is `x % d` unless `d` is 0: `is_positive` says of a divisor that it never is.
        """
        terms, mods = _restore_mods(self.terms, is_positive or _has_positive_bound)
        return _sum(terms, mods)


def _over(m: Monomial, factor: Monomial) -> Monomial | None:
    """`m / factor`, or None if that is not a monomial."""
    for atom in factor:
        if not has(m, atom):
            return None
        m = without(m, atom)
    return m


def _has_positive_bound(d: Expr) -> bool:
    return d.op == "var" and d.value.lower is not None and d.value.lower > 0


def _restore_mods(
    terms: dict[Monomial, int], is_positive: Callable[[Expr], bool]
) -> tuple[dict[Monomial, int], list[tuple[Expr, int]]]:
    """Find `k*x - k*d*(x//d)` and give it back as `k*(x % d)`, `d` a constant or an atom."""
    mods: list[tuple[Expr, int]] = []
    terms = dict(terms)
    for m in list(terms):
        if m not in terms or not m:
            continue
        for atom in m:
            if atom.op != "floordiv":
                continue
            numerator, divisor = atom.args
            rest = without(m, atom)
            if divisor.op == "const" and not rest and terms[m] % divisor.value == 0:
                k = -terms[m] // divisor.value
            elif len(rest) == 1 and rest[0] is divisor:
                k = -terms[m]
            else:
                continue
            from autosched.ir.simplify import to_poly  # it stands on this module

            wanted = to_poly(numerator) * k
            found = all(terms.get(w, 0) == c for w, c in wanted.terms.items() if w)
            if found and (divisor.op == "const" or is_positive(divisor)):
                left = (Poly(terms) - wanted).terms
                left.pop(m)
                terms = left
                mods.append((floormod(numerator, divisor), k))
                break
    return terms, mods


def _sum(terms: dict[Monomial, int], mods: list[tuple[Expr, int]]) -> Expr:
    """Horner-like: the atom shared by most terms is factored out, so `a*W*3 + b*3 + c` nests."""
    parts: list[tuple[Expr, int]] = []
    rest = dict(terms)
    constant = rest.pop((), 0)
    while len(rest) > 1:
        counts: dict[Expr, int] = {}
        for m in rest:
            for atom in dict.fromkeys(m):
                counts[atom] = counts.get(atom, 0) + 1
        best = min(counts, key=lambda a: (-counts[a], a.op != "var", order(a)))
        if counts[best] < 2:
            break
        inside = {without(m, best): c for m, c in rest.items() if has(m, best)}
        rest = {m: c for m, c in rest.items() if not has(m, best)}
        scale = gcd(*inside.values())
        scale = -scale if all(c < 0 for c in inside.values()) else scale
        inner = _sum({m: c // scale for m, c in inside.items()}, [])
        parts.append((join("mul", inner, best), scale))
    parts += [(reduce(lambda a, b: join("mul", a, b), m), c) for m, c in rest.items()]
    return _linear(parts + mods, constant)


def _linear(parts: list[tuple[Expr, int]], constant: int) -> Expr:
    """`sum(c * e) + constant`, larger coefficients first, subtractions after additions."""
    dt = parts[0][0].dtype if parts else INT32
    result: Expr | None = None
    ordered = sorted(parts, key=lambda p: (p[1] < 0, -abs(p[1])))
    if ordered and ordered[0][1] < 0 and constant > 0:
        result, constant = _number(constant, dt), 0
    for e, c in ordered:
        term = e if abs(c) == 1 else join("mul", e, _number(abs(c), e.dtype))
        if result is None:
            result = term if c > 0 else join("sub", const(0, dt), term)
        else:
            result = join("add" if c > 0 else "sub", result, term)
    if result is None:
        return _number(constant, dt)
    if constant:
        result = join("add" if constant > 0 else "sub", result, _number(abs(constant), result.dtype))
    return result


def _number(value: int, like: DType) -> Expr:
    """A literal of the given type, of int64 if that cannot hold it: index arithmetic does not wrap."""
    return const(value, like if like.min <= value <= like.max else INT64)
