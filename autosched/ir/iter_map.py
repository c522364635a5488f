"""Maps of indices that are made of splits, fusions and permutations: taken apart, judged, inverted.

    i, j  ->  (i*16 + j) // 8, j % 8

Such a map is taken apart into digits: `j // 8` and `j % 8` are those of j in a mixed-radix system, and
`i*M + j` has i and j as its own. A map can be inverted when the digits of every variable are all there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autosched.ir.expr import Expr, ceildiv, compare, const, floordiv, floormod, is_const, minimum, var, variables
from autosched.ir.simplify import Analyzer, simplify


class NoIterMap(ValueError):
    """The reason why indices are no such map, in one sentence."""


@dataclass(frozen=True, slots=True)
class Digit:
    """`source // lower % count`, and how to compute it from the new indices once that is known.

    `is_top` says that nothing is cut off by `% count`: there are no digits above this one.
    """

    source: Expr
    lower: Expr
    count: Expr
    is_top: bool
    value: Expr | None = None


@dataclass
class Inversion:
    """Digits found so far, by what they are digits of: axes, or sums like `i*M + j`."""

    extents: dict[Expr, Expr]
    an: Analyzer = field(default_factory=Analyzer)
    digits: dict[Expr, list[Digit]] = field(default_factory=dict)
    sums: dict[Expr, list[tuple[Expr, Digit]]] = field(default_factory=dict)
    sum_of: dict[Expr, Expr] = field(default_factory=dict)
    #: conditions on the new indices that tell elements from padding, of all sources whose `value` was asked for
    inside: list[Expr] = field(default_factory=list)

    # -- taking apart ---------------------------------------------------------------------------
    def terms(self, e: Expr) -> list[tuple[Expr, Expr]]:
        """A sum as (coefficient, digit) pairs."""
        if not variables(e) & self.extents.keys():
            if is_const(simplify(e), 0):
                return []
            raise NoIterMap(f"{e!r} moves the layout away from its beginning")
        if e.op == "add":
            return [t for a in e.args for t in self.terms(a)]
        if e.op == "cast":
            return self.terms(e.args[0])
        if e.op == "mul":
            a, b = e.args
            if variables(b) & self.extents.keys():
                a, b = b, a
            if not variables(b) & self.extents.keys():
                return [(simplify(c * b), x) for c, x in self.terms(a)]
        if e.op in ("var", "floordiv", "floormod"):
            return [(const(1), e)]
        raise NoIterMap(f"{e!r} is no split, fusion or permutation of indices")

    def digit(self, e: Expr) -> Digit:
        if e.op == "var":
            return Digit(e, const(1), self.extents[e], True)
        inner, by = e.args
        if variables(by) & self.extents.keys():
            raise NoIterMap(f"{e!r} divides by an index")
        parts = self.terms(inner)
        if len(parts) == 1 and is_const(parts[0][0], 1):
            whole = self.digit(parts[0][1])
        else:
            whole = self.sum(inner, parts)
        if e.op == "floormod":
            return Digit(whole.source, whole.lower, by, False)
        count = simplify(ceildiv(whole.count, by))
        return Digit(whole.source, simplify(whole.lower * by), count, whole.is_top)

    def sum(self, e: Expr, parts: list[tuple[Expr, Expr]]) -> Digit:
        """A sum that is divided: a source of its own."""
        if e not in self.sum_of:
            placed, extent = self.ordered([(c, self.digit(x)) for c, x in parts], e)
            source = self.sum_of[e] = var("sum", role="axis")
            self.extents[source], self.sums[source] = extent, placed
        return Digit(self.sum_of[e], const(1), self.extents[self.sum_of[e]], True)

    def ordered(self, parts: list[tuple[Expr, Digit]], what: Expr) -> tuple[list[tuple[Expr, Digit]], Expr]:
        """Digits from the lowest up, where each counts as much as all below it, and how many values
        there are."""
        left, placed, weight = list(parts), [], const(1)
        while left:
            found = next((p for p in left if self.same(p[0], weight)), None)
            if found is None:
                raise NoIterMap(f"the parts of {what!r} overlap, or leave gaps")
            left = [x for x in left if x is not found]
            placed.append(found)
            weight = simplify(weight * found[1].count)
        return placed, weight

    def same(self, a: Expr, b: Expr) -> bool:
        return simplify(a) is simplify(b) or is_const(simplify(a - b), 0)

    # -- putting together -----------------------------------------------------------------------
    def record(self, placed: list[tuple[Expr, Digit]], value: Expr) -> None:
        """The digits of something whose value is known."""
        for at, (weight, d) in enumerate(placed):
            part = value if is_const(weight, 1) else floordiv(value, weight)
            if at < len(placed) - 1:
                part = floormod(part, d.count)
            self.digits.setdefault(d.source, []).append(replace(d, value=part))

    def value(self, source: Expr) -> Expr:
        """A source from its digits. Beyond its end, its last value."""
        total, exact = self.total(source)
        if exact:
            return total
        self.inside.append(compare("lt", total, self.extents[source]))
        return minimum(total, self.extents[source] - 1)

    def total(self, source: Expr) -> tuple[Expr, bool]:
        """A source from its digits, and whether these stop where it ends; padding has values beyond."""
        left, total, weight, is_whole = list(self.digits.get(source, [])), const(0), const(1), False
        while left:
            found = next((d for d in left if self.same(d.lower, weight)), None)
            if found is None:
                break
            assert found.value is not None
            left = [x for x in left if x is not found]
            total = total + found.value * found.lower
            weight, is_whole = simplify(weight * found.count), is_whole or found.is_top
        extent = self.extents[source]
        if left or not (is_whole or self.an.prove(compare("ge", weight, extent))):
            what = source.value.name if source not in self.sums else "a sum of indices"
            raise NoIterMap(f"{what} cannot be found again from the new indices")
        return total, self.same(weight, extent)

    def record_sums(self) -> None:
        """Give the digits inside sums their values, once those of all indices are recorded."""
        for source, placed in reversed(self.sums.items()):
            self.record(placed, self.value(source))
