"""Proofs of `p >= 0` from known ranges of variables, and bounds of polynomials.

`Prover` knows, for each variable in scope, a smallest and a largest value (polynomials, so they
may mention sizes, knobs and outer loops), and facts that hold for a while. A proof eliminates one
atom after the other, each by its extreme value. "No proof" never means "false". Proofs and bounds
give up after a number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autosched.ir.conclusions import Conclusions, Memory
from autosched.ir.expr import Expr, is_index, variables
from autosched.ir.node import order
from autosched.ir.poly import Poly, has, join, without
from autosched.ir.visit import conjuncts
from autosched.ir.witness import Range, declared_range, witnesses

#: comparison -> the polynomial that is `>= 0` exactly where it holds, so that its negation is `-p - 1 >= 0`
DIFFERENCES: dict[str, Callable[[Poly, Poly], Poly]] = {
    "lt": lambda a, b: b - a - 1,
    "le": lambda a, b: b - a,
    "gt": lambda a, b: a - b - 1,
    "ge": lambda a, b: a - b,
}


class Prover:
    """Ranges of variables and facts, and what follows from them. `simplify.Analyzer` adds the normal forms."""

    #: How many splits and substitutions one proof may take; beyond it the answer is "no proof".
    PROOF_STEPS = 60
    #: And the proof that something follows from one fact.
    FEW_STEPS = 8
    #: Proofs may need the normal form of what they find, which may need proofs: this deep.
    PROOF_DEPTH = 3
    #: How many steps one question from outside may take, with all the proofs inside its proof.
    EFFORT = 1200
    #: Steps take as long as polynomials are: so many terms count as a step of all that questions may take together.
    TERMS_A_STEP = 4
    #: A product larger than this (see `Poly.size`) is not multiplied out, nor reasoned about.
    LARGEST = 600

    def __init__(self, memory: Memory | None = None) -> None:
        """`memory` holds what other provers found; what this one finds is added to it."""
        self.memory = Memory() if memory is None else memory
        self._ranges: dict[Expr, Range] = {}
        self._declared: dict[Expr, Range] = {}  # of those that are not bound: what they were made with
        self._known = Conclusions()
        self._facts: list[Poly] = []
        self._depth = 0
        self._in_extreme = False
        self._effort = self.EFFORT
        self._terms = 0  # of the polynomials that the present question has looked at

    if TYPE_CHECKING:

        def poly(self, e: Expr) -> Poly: ...
        def plain_poly(self, e: Expr) -> Poly: ...
        def expr(self, p: Poly) -> Expr: ...
        def floordiv(self, a: Poly, b: Poly) -> Poly: ...

    # -- scope --------------------------------------------------------------------------------
    def bind(self, var: Expr, low: Poly | Expr | int | None, high: Poly | Expr | int | None) -> None:
        """Let `var` lie in [low, high]; a later call for the same variable replaces the range."""
        if var in self._ranges:
            self.forget()
        else:
            self._known.surroundings.clear()
            self._known.least.pop(var, None)
            self._known.named.pop(var, None)
            self._known.witnesses = None
        self._ranges[var] = (self._as_poly(low), self._as_poly(high))

    def forget(self) -> None:
        """Drop what was concluded so far; it is concluded again when it is asked for."""
        self._known = Conclusions()

    @contextmanager
    def tightened(self, ranges: dict[Expr, Range]) -> Iterator[None]:
        """Other ranges for a while."""
        saved = dict(self._ranges), self._known
        self.forget()
        self._ranges.update(ranges)
        try:
            yield
        finally:
            self._ranges, self._known = saved

    @contextmanager
    def assuming(self, condition: Expr) -> Iterator[None]:
        """The condition holds for a while: inside the `if` that tests it."""
        facts = [p for c in conjuncts(condition) for p in self.inequalities(c)]
        saved = self._facts, dict(self._ranges), self._known
        if facts:
            self.forget()
            self._facts = [*self._facts, *facts]
            for p in facts:
                self.assume_nonneg(p)
        try:
            yield
        finally:
            self._facts, self._ranges, self._known = saved

    def inequalities(self, condition: Expr) -> list[Poly]:
        """Polynomials that are `>= 0` exactly where an index comparison holds; empty if it is none."""
        if condition.op == "likely":
            condition = condition.args[0]
        if condition.op not in (*DIFFERENCES, "eq") or not all(map(is_integer_index, condition.args)):
            return []
        a, b = map(self.poly, condition.args)
        return [a - b, b - a] if condition.op == "eq" else [DIFFERENCES[condition.op](a, b)]

    def assume_nonneg(self, p: Poly) -> None:
        """Use the fact `p >= 0` for bounds: `3*W - 1 >= 0` gives `W >= 1`, `n//8 - 1 - i >= 0` gives `i < n//8`."""
        for v in p.variables:
            self._lower(v, p)
        if len(p.terms) == 1 and () not in p.terms:
            return
        rest = [(m, c) for m, c in p.terms.items() if m]
        slack = -p.terms.get((), 0)
        if len(rest) != 1 or slack <= 0 or rest[0][1] <= 0:
            return
        monomial, coefficient = rest[0]
        least = -(-slack // coefficient)  # monomial >= least >= 1
        if len(monomial) == 1:
            self._assume_least(monomial[0], least)
        elif all(self.prove_nonneg(Poly.of(atom)) for atom in monomial):  # two negative factors make a positive product
            for atom in dict.fromkeys(monomial):
                self._assume_least(atom, 1)

    def _assume_least(self, atom: Expr, least: int) -> None:
        """Use the fact that an atom is a positive number or more."""
        if atom.op == "floordiv":
            a, d = (self.poly(x) for x in atom.args)
            if self.prove_nonneg(d):
                self.assume_nonneg(a - d * least)
        elif atom.op in ("min", "max"):
            sides = [self.poly(x) - least for x in atom.args]
            for side, other in zip(sides, sides[::-1], strict=True):
                if atom.op == "min" or (other.constant or 0) < 0:
                    self.assume_nonneg(side)
        elif atom.op == "var":
            low, high = self.range(atom)
            if low is not None and low.constant is not None and low.constant < least:
                self.bind(atom, least, high)

    def _lower(self, v: Expr, p: Poly) -> None:
        """Use the fact `p >= 0` of a variable whose upper bound it lowers."""
        low, high = self.range(v)
        slope, rest = p.affine_in(v) or (0, p)
        most = rest.floordiv(-slope) if slope < 0 else None
        if high is None or most is None or most == high:
            return
        if not any(self._leads_to(u, v) for u in rest.variables) and self.prove_nonneg(high - most):
            self.bind(v, low, most)

    def _leads_to(self, u: Expr, v: Expr) -> bool:
        """Whether a variable is v, or v is mentioned in its bounds, or in those of what they mention."""
        return u is v or any(self._leads_to(x, v) for x in self._named(u))

    def _as_poly(self, value: Poly | Expr | int | None) -> Poly | None:
        if value is None or isinstance(value, Poly):
            return value
        return Poly.of(value) if isinstance(value, int) else self.poly(value)

    def range(self, var: Expr) -> Range:
        found = self._ranges.get(var)
        if found is None:
            found = self._declared.get(var)
            if found is None:
                found = self._declared[var] = declared_range(var)
        return found

    def _surroundings(self, mentioned: frozenset[Expr]) -> int:
        """The number of all that is known of some variables, and of those that it mentions in turn."""
        found = self._known.surroundings.get(mentioned)
        if found is None:
            reached: set[Expr] = set()
            self._reach(mentioned, reached)
            ranges = frozenset((v, self._ranges[v]) for v in reached if v in self._ranges)
            facts = tuple(f for f in self._facts if not reached.isdisjoint(f.variables))
            number = next(self.memory.tables.new_number)  # taken or not: other threads may be asking
            found = self.memory.numbers.setdefault((ranges, facts), number)
            self._known.surroundings[mentioned] = found
        return found

    def _reach(self, mentioned: Iterable[Expr], reached: set[Expr]) -> None:
        todo = list(mentioned)
        facts = [f.variables for f in self._facts]
        while todo:
            v = todo.pop()
            if v in reached:
                continue
            reached.add(v)
            todo.extend(self._named(v) - reached)
            apart = []
            for connected in facts:
                if v in connected:
                    todo.extend(connected - reached)
                else:
                    apart.append(connected)
            facts = apart

    def _named(self, v: Expr) -> frozenset[Expr]:
        """The variables that the bounds of a variable mention."""
        found = self._known.named.get(v)
        if found is None:
            bounds = [b.variables for b in self._ranges.get(v, ()) if b is not None]
            found = self._known.named[v] = frozenset().union(*bounds)
        return found

    # -- proof --------------------------------------------------------------------------------
    def prove_nonneg(self, p: Poly) -> bool:
        """Whether `p >= 0` for every value of the variables within their ranges."""
        value = p.constant
        if value is not None:
            return value >= 0
        if p in self._known.proven:
            return True
        if self._depth >= self.PROOF_DEPTH:
            return self._obviously_nonneg(p)
        if self._known.witnesses is None:  # here, because inside proofs facts are put aside
            self._known.witnesses = witnesses(self.range, self._facts)
        attempt = p, bool(self._facts)
        if self._known.unproven.get(attempt, self.PROOF_DEPTH) <= self._depth:
            return False
        if self._depth or self._in_extreme:
            return self._prove(p, attempt)
        question = p, self._surroundings(p.variables)
        found = self.memory.proofs.get(question)
        if found is None:
            left = self.memory.left
            self._begin()
            found = self.memory.proofs[question] = self._prove(p, attempt)
            self._end()
            self.memory.found(question, left)
        else:
            self.memory.recalled(question)
        return found

    def _begin(self) -> None:
        """A question from outside: it gets its share of the steps that are left for all of them."""
        self._effort, self._terms = self.memory.allowed(self.EFFORT), 0

    def _end(self) -> None:
        self.memory.left -= self._terms // self.TERMS_A_STEP

    def _prove(self, p: Poly, attempt: tuple[Poly, bool]) -> bool:
        outermost = self._depth == 0 and not self._in_extreme
        if outermost:
            self._known.tried.clear()
            self._known.ends.clear()
        self._depth += 1
        try:
            found = self._nonneg(p, [self.PROOF_STEPS])
            if not found and outermost and self._facts:
                found = self._follows(p)
                if not found:  # facts open many ways that lead nowhere
                    self._end()
                    self._begin()
                    with self._without_facts():
                        found = self._nonneg(p, [self.PROOF_STEPS])
        except RecursionError:  # atoms nested beyond any use
            found = False
        finally:
            self._depth -= 1
        if found:
            self._known.proven.add(p)
        elif outermost or self._effort > 0:
            self._known.unproven[attempt] = self._depth
        return found

    def _follows(self, p: Poly) -> bool:
        """Whether this was assumed, or is more than what was by plain variables: before its quotients are looked at."""
        mentioned = p.variables
        with self._without_facts() as facts:
            apart = (p - f for f in facts if f.variables & mentioned)
            plain = (d for d in apart if all(a.op == "var" for a in d.atoms()) and d.variables < mentioned)
            return any(self._nonneg(d, [self.FEW_STEPS]) for d in plain)

    @contextmanager
    def _without_facts(self) -> Iterator[list[Poly]]:
        facts, self._facts = self._facts, []
        try:
            yield facts
        finally:
            self._facts = facts

    def _by_a_fact(self, p: Poly, steps: list[int]) -> bool:
        """`p >= 0` because `p` is a known non-negative polynomial plus something non-negative."""
        mentioned = p.variables
        with self._without_facts() as facts:
            return any(f.variables & mentioned and self._nonneg(p - f, steps) for f in facts)

    def _nonneg(self, p: Poly, steps: list[int]) -> bool:
        value = p.constant
        if value is not None:
            return value >= 0
        question = p, bool(self._facts), self._depth
        known = self._known.tried.get(question)
        if known is not None and known[1] <= steps[0] and known[2] <= self._effort:
            steps[0] -= known[1]  # as if it were tried again, so that what can be proven does not depend on it
            self._effort -= known[2]
            return known[0]
        left, effort = steps[0], self._effort
        found = self._tried(p, steps)
        if steps[0] >= 0 and self._effort >= 0:
            self._known.tried[question] = found, left - steps[0], effort - self._effort
        return found

    def _tried(self, p: Poly, steps: list[int]) -> bool:
        """`_nonneg` where nobody has asked within this proof."""
        steps[0] -= 1
        self._effort -= 1
        self._terms += len(p.terms)
        if steps[0] < 0 or self._effort < 0 or len(p.terms) > self.LARGEST:
            return False
        if self._obviously_nonneg(p):
            return True
        for w in self._known.witnesses or ():
            if w.of(p) < 0:  # within the ranges, and all facts hold
                return False
        atom = self._next_atom(p)
        if (atom is None or atom.op == "var") and self._facts and self._by_a_fact(p, steps):
            return True
        return atom is not None and self._eliminate(p, atom, steps)

    def _obviously_nonneg(self, p: Poly) -> bool:
        """All coefficients non-negative over atoms that are themselves non-negative."""
        for m, c in p.terms.items():
            if c < 0:
                return False
            for atom in m:
                if self._low_constant(atom) < 0:
                    return False
        return True

    def _low_constant(self, atom: Expr) -> int:
        found = self._known.least.get(atom)
        if found is None:
            low = self.range(atom)[0]
            value = None if low is None else low.constant
            found = self._known.least[atom] = -1 if value is None else value
        return found

    def _next_atom(self, p: Poly) -> Expr | None:
        """Opaque nodes first, then the innermost variable that has a usable range: the latest, but for
        those that the bounds of another one mention."""
        atoms = p.atoms()
        opaque = [a for a in atoms if a.op != "var"]
        if opaque and len(atoms) == 1:
            return opaque[0]
        if opaque:
            bounded = self._bounded_by(opaque, p)
            if bounded is not None:
                return bounded
            # an atom that occurs inside another one must wait until that one is gone; and what
            # must hold in both cases comes before what need hold in one only
            return max(opaque, key=lambda a: (_both_cases(p, a), a.depth, order(a)))
        ranged = [a for a in atoms if any(b is not None for b in self.range(a))]
        bound_here = [a for a in ranged if a in self._ranges]
        atom = next(reversed(bound_here or ranged), None)  # the last by `order`
        for _ in bound_here:
            inner = next((a for a in bound_here if a is not atom and atom in self._named(a)), None)
            if inner is None:
                break
            atom = inner
        return atom

    def _bounded_by(self, opaque: list[Expr], p: Poly) -> Expr | None:
        """A variable whose own bounds mention what an opaque atom is about, as in `x < n - 8*(y//8)`:
        the two may cancel, so the variable goes first."""
        inside = frozenset().union(*(variables(a) for a in opaque))

        def is_bounded(v: Expr) -> bool:
            bounds = (b for b in self._ranges.get(v, ()) if b is not None)
            return any(a.op != "var" and variables(a) & inside for b in bounds for a in b.atoms())

        found = [v for v in p.atoms() if v.op == "var" and v not in inside and is_bounded(v)]
        return max(found, key=order, default=None)

    def _eliminate(self, p: Poly, atom: Expr, steps: list[int]) -> bool:
        linear = p.linear_in(atom)
        if linear is None:
            return False
        slope, rest = linear
        if atom.op == "var":
            return self._eliminate_variable(atom, slope, rest, steps)
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
                needed = all if (atom.op == "min") == (k > 0) else any
                return needed(self._nonneg(slope * self.plain_poly(a) + rest, steps) for a in atom.args)
            case "select" | "if_then_else":
                return all(self._nonneg(slope * self.plain_poly(a) + rest, steps) for a in atom.args[1:])
            case "floordiv":
                return self._eliminate_floordiv(atom, slope, rest, k, steps)
            case "floormod":  # of a divisor that may be 0 for all that was known when it was written
                a, d = self.plain_poly(atom.args[0]), self.plain_poly(atom.args[1])
                if self._nonneg(d - 1, steps) and self._nonneg(slope * (a - d * self.floordiv(a, d)) + rest, steps):
                    return True
                return self._nonneg(d, steps) and self._nonneg(rest if k > 0 else slope * d + rest, steps)
        return self._eliminate_value(atom, slope, rest, k, steps)

    def _eliminate_variable(self, v: Expr, slope: Poly, rest: Poly, steps: list[int]) -> bool:
        low, high = self.range(v)
        if low is not None and self._nonneg(slope, steps):
            return self._nonneg(slope * low + rest, steps)
        if high is not None and self._nonneg(-slope, steps):
            return self._nonneg(slope * high + rest, steps)
        if low is not None and high is not None:  # linear: the minimum is at one of the ends
            return self._nonneg(slope * low + rest, steps) and self._nonneg(slope * high + rest, steps)
        return False

    def _eliminate_floordiv(self, atom: Expr, slope: Poly, rest: Poly, k: int, steps: list[int]) -> bool:
        a, d = self.plain_poly(atom.args[0]), self.plain_poly(atom.args[1])
        if not self._nonneg(d, steps):  # everything below is turned around by a negative divisor
            return False
        if self._by_another_quotient(atom, slope, rest, k, steps):
            return True
        if self._nonneg(d - 1, steps) and self._by_the_quotient(a, d, slope, rest, k, steps):
            return True
        if k > 0 and self._nonneg(a, steps) and self._nonneg(rest, steps):
            return True  # a//d >= 0
        if k < 0 and (d.constant is None or slope.constant != -1):
            # a//d <= max(a)//d
            ranged = sorted(a.variables & self._ranges.keys(), key=order)
            top = self.extreme(a, tuple(ranged), True)
            if top is not None and top != a:
                return self._nonneg(slope * self.floordiv(top, d) + rest, steps)
        return False

    def _by_another_quotient(self, atom: Expr, slope: Poly, rest: Poly, k: int, steps: list[int]) -> bool:
        """`slope*(a//d) + rest >= 0` by `a//(d*m) == (a//d)//m`, where another quotient of `a` is in the rest:
        the middle digit of a fused loop, `(f//28) % 2`, is `f//28 - 2*(f//56)`."""
        d = _divisor(atom)
        for other in rest.atoms() if d else ():
            by = _divisor(other) if other.op == "floordiv" and other.args[0] is atom.args[0] else 0
            if by > d and by % d == 0:  # m*(a//(d*m)) <= a//d <= m*(a//(d*m)) + m - 1
                m = by // d
                found = self._nonneg(slope * (Poly.of(other) * m + (0 if k > 0 else m - 1)) + rest, steps)
            else:
                finer = 0 < by < d and d % by == 0
                found = finer and self._by_the_quotient(Poly.of(other), Poly.of(d // by), slope, rest, k, steps)
            if found:
                return True
        return False

    def _by_the_quotient(self, a: Poly, d: Poly, slope: Poly, rest: Poly, k: int, steps: list[int]) -> bool:
        """`slope*(a//d) + rest >= 0` by what `a//d` is, for a divisor that is positive."""
        if slope.constant == 1:  # a//d >= -rest  <=>  a >= -rest*d
            return self._nonneg(a + rest * d, steps)
        if slope.constant == -1:  # a//d <= rest  <=>  a <= rest*d + d - 1
            return self._nonneg(rest * d + d - 1 - a, steps)
        n = abs(slope.constant or 1)
        whole = rest.floordiv(n) if n > 1 else None
        if whole is not None and self._by_the_quotient(a, d, Poly.of(1 if k > 0 else -1), whole, k, steps):
            return True  # n*(a//d) <= n*r + c  <=>  a//d <= r, where c < n
        end = a - d + 1 if k > 0 else a  # d*(a//d) lies in [a - d + 1, a]
        multiple, left = slope.divide(d)
        if not left.terms:
            return self._nonneg(multiple * end + rest, steps)
        return d.constant is not None and self._nonneg(slope * end + rest * d, steps)

    def _eliminate_value(self, atom: Expr, slope: Poly, rest: Poly, k: int, steps: list[int]) -> bool:
        """A condition counts as 0 or 1; all that is known of a load is its type."""
        of = atom.dtype
        if atom.op == "cast" and not atom.args[0].dtype.is_float:
            source = atom.args[0].dtype
            of = source if of.min <= source.min and source.max <= of.max else of
        if of.bits > 32 or (is_index(atom) and not of.is_bool):  # an index is not bound by its type
            return False
        return self._nonneg(slope * int(of.min if k > 0 else of.max) + rest, steps)

    # -- extremes -----------------------------------------------------------------------------
    def extreme(self, p: Poly, over: Iterable[Expr], largest: bool) -> Poly | None:
        """The largest (smallest) value of `p` as the variables `over` run through their ranges.

        None if a sign or a range is unknown. The result may be an over-estimate where two
        terms depend on one variable inside opaque nodes, never an under-estimate.
        """
        outermost = self._depth == 0 and not self._in_extreme
        if outermost:
            self._begin()
            self._in_extreme = True
            self._known.tried.clear()
            self._known.ends.clear()
        try:
            for v in sorted(over, key=order, reverse=True):
                if v not in p.variables:
                    continue
                result = self._extreme_in(p, v, largest)
                if result is None:
                    return None
                p = result
            return p
        except RecursionError:  # atoms nested beyond any use
            return None
        finally:
            if outermost:
                self._in_extreme = False
                self._end()

    def _extreme_in(self, p: Poly, v: Expr, largest: bool) -> Poly | None:
        self._terms += len(p.terms)
        low, high = self.range(v)
        if low is None or high is None:
            return None
        total = Poly({})
        alone = [m for m in p.terms if has(m, v) and not any(v in variables(a) for a in m if a is not v)]
        direct = Poly({m: p.terms[m] for m in alone})
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
        question = atom, v, largest, self._depth
        if question in self._known.ends:
            return self._known.ends[question]
        found = self._new_extreme_atom(atom, v, largest)
        if self._effort >= 0:
            self._known.ends[question] = found
        return found

    def _new_extreme_atom(self, atom: Expr, v: Expr, largest: bool) -> Poly | None:
        self._effort -= 1
        if self._effort < 0:
            return None
        if atom.op == "floordiv" and v not in variables(atom.args[1]):
            end, d = self._extreme_in(self.poly(atom.args[0]), v, largest), self.poly(atom.args[1])
            return None if end is None or not self.prove_nonneg(d) else self.floordiv(end, d)
        if atom.op in ("min", "max"):
            ends = [
                self._extreme_in(self.poly(a), v, largest) if v in variables(a) else self.poly(a) for a in atom.args
            ]
            if ends[0] is None or ends[1] is None:
                return None
            return self.poly(join(atom.op, self.expr(ends[0]), self.expr(ends[1])))
        return None

    def _sign(self, p: Poly) -> bool | None:
        """True if `p >= 0`, False if `p <= 0`, None if unknown."""
        if self.prove_nonneg(p):
            return True
        return False if self.prove_nonneg(-p) else None


def _divisor(atom: Expr) -> int:
    """The divisor of a quotient, if it is a positive number, else 0."""
    d = atom.args[1]
    return max(0, int(d.value)) if d.op == "const" else 0


def _both_cases(p: Poly, atom: Expr) -> bool:
    positive = any(c > 0 for m, c in p.terms.items() if has(m, atom))
    return atom.op == ("min" if positive else "max")


def is_integer_index(e: Expr) -> bool:
    return e.index and e.dtype.lanes == 1 and e.dtype.is_integer
