"""Maps of indices that are made of splits, fusions and permutations: taken apart, judged, inverted.

    i, j  ->  (i*16 + j) // 8, j % 8

Such a map is taken apart into digits: `j // 8` and `j % 8` are those of j in a mixed-radix system, and
`i*M + j` has i and j as its own. A map can be inverted when the digits of every variable are all there.
This is what TVM calls iterator maps (`arith/iter_affine_map.cc`), without predicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.errors import UsageError
from autosched.ir.arith.sets import Range
from autosched.ir.expr import (
    Expr,
    as_expr,
    ceildiv,
    compare,
    const,
    floordiv,
    floormod,
    is_const,
    minimum,
    var,
    variables,
)
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, simplify, to_poly
from autosched.ir.visit import substitute

__all__ = [
    "Digit",
    "Inversion",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "NoIterMap",
    "detect_iter_map",
    "inverse_affine_iter_map",
    "normalize_iter_map_to_expr",
]


class NoIterMap(ValueError):
    """Why indices are no such map, in one sentence."""


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
        return total if exact else minimum(total, self.extents[source] - 1)

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


# -- by TVM's names -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IterMark:
    """What is taken apart: a variable (less its smallest value), or a sum that is divided; in `[0, extent)`."""

    source: Expr | IterSumExpr
    extent: Expr


@dataclass(frozen=True, eq=False)
class IterSplitExpr:
    """`(source // lower_factor % extent) * scale`."""

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr


@dataclass(frozen=True, eq=False)
class IterSumExpr:
    """The sum of splits, those that count most first, and of `base`."""

    args: tuple[IterSplitExpr, ...]
    base: Expr


@dataclass(frozen=True)
class IterMapResult:
    """`indices` is empty where the map could not be taken apart; `errors` says why."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...]


def detect_iter_map(
    indices: Sequence[Expr],
    input_iters: Mapping[Expr, Range],
    predicate: object = True,
    check_level: str = "surjective",
) -> IterMapResult:
    """Each index as a sum of parts of the variables, if it runs through all integers of an interval
    and the indices do so independently of one another.

    check_level: `surjective`; `bijective` if every value of the variables must lead elsewhere; `nocheck`

    >>> detect_iter_map([i*4 + j // 2], {i: Range(8), j: Range(8)}).indices[0].args[0].scale
    4

    Conditions are not taken into account: `predicate` must be true. Raises UsageError for a level that
    does not exist.
    """
    if check_level not in ("surjective", "bijective", "nocheck"):
        raise UsageError(
            f"no such level: {check_level!r}", asked="detect_iter_map", legal="surjective, bijective, nocheck"
        )
    if not is_const(as_expr(predicate), True):
        return IterMapResult((), (f"a predicate is not taken into account: {predicate!r}",))
    detection = _Detection(input_iters)
    try:
        found = tuple(detection.index(e) for e in indices)
        if check_level != "nocheck":
            detection.check(bijective=check_level == "bijective")
    except NoIterMap as why:
        return IterMapResult((), (str(why),))
    return IterMapResult(found, ())


class _Detection:
    """Marks and digits of the indices seen so far."""

    def __init__(self, input_iters: Mapping[Expr, Range]) -> None:
        self.starts = {v: r.min for v, r in input_iters.items()}
        self.inversion = Inversion({v: r.extent for v, r in input_iters.items()})
        self.marks: dict[Expr, IterMark] = {}
        self.used: dict[Expr, list[Digit]] = {}

    def index(self, e: Expr) -> IterSumExpr:
        own = self.inversion.extents.keys()
        moved = to_poly(substitute(e, {v: v + start for v, start in self.starts.items() if not is_const(start, 0)}))
        base = Poly({m: c for m, c in moved.terms.items() if not any(variables(a) & own for a in m)})
        inversion = self.inversion
        parts = [(c, inversion.digit(x)) for c, x in inversion.terms((moved - base).expr())]
        placed, _ = inversion.ordered(parts, e)
        for _, d in placed:
            self.used.setdefault(d.source, []).append(d)
        return self.sum(placed, base.expr())

    def sum(self, placed: Sequence[tuple[Expr, Digit]], base: Expr) -> IterSumExpr:
        splits = [IterSplitExpr(self.mark(d.source), d.lower, d.count, weight) for weight, d in placed]
        return IterSumExpr(tuple(splits[::-1]), base)

    def mark(self, source: Expr) -> IterMark:
        if source not in self.marks:
            placed = self.inversion.sums.get(source)
            if placed is None:
                inside: Expr | IterSumExpr = simplify(source - self.starts[source])
            else:
                inside = self.sum(placed, const(0))
            self.marks[source] = IterMark(inside, self.inversion.extents[source])
        return self.marks[source]

    def check(self, bijective: bool) -> None:
        """The digits of a variable do not overlap; for a bijection they are all there, and no more."""
        inversion = self.inversion
        for source, placed in reversed(inversion.sums.items()):
            if source in self.used:
                self._follow(source, bijective)
                for _, d in placed:
                    self.used.setdefault(d.source, []).append(d)
        for source in self.starts:
            if source in self.used or bijective:
                self._follow(source, bijective)

    def _follow(self, source: Expr, bijective: bool) -> None:
        """Go through the digits of a source from the lowest up."""
        inversion, name = self.inversion, source.value.name
        left, weight = list(self.used.get(source, [])), const(1)
        while left:
            found = next((d for d in left if inversion.same(d.lower, weight)), None)
            if found is None and bijective:
                raise NoIterMap(f"a part of {name} is used twice, or none")
            if found is None:  # the next higher one, if all the rest lies above what is used already
                found = min(left, key=lambda d: (d.lower.op != "const", d.lower.value or 0))
                if not inversion.an.prove(compare("ge", found.lower, weight)) or not is_const(
                    simplify(floormod(found.lower, weight)), 0
                ):
                    raise NoIterMap(f"two indices use one part of {name}")
            left = [x for x in left if x is not found]
            weight = simplify(found.lower * found.count)
        exact = inversion.same(weight, inversion.extents[source])
        if bijective and not exact:
            raise NoIterMap(f"not all of {name} is used, or it does not divide")
        if not exact and not is_const(simplify(floormod(inversion.extents[source], weight)), 0):
            raise NoIterMap(f"a part of {name} does not divide its extent")


def normalize_iter_map_to_expr(expr: IterSumExpr) -> Expr:
    """The sum as an expression of the variables again."""
    total = expr.base
    for s in expr.args:
        inside = s.source.source
        value = normalize_iter_map_to_expr(inside) if isinstance(inside, IterSumExpr) else inside
        part = value if is_const(s.lower_factor, 1) else floordiv(value, s.lower_factor)
        is_top = simplify(s.lower_factor * s.extent) is simplify(s.source.extent)
        total = total + (part if is_top else floormod(part, s.extent)) * s.scale
    return simplify(total)


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Expr]) -> dict[Expr, Expr]:
    """Each variable, given the values of the indices: the inverse of a map that is a bijection.

    >>> inverse_affine_iter_map(detect_iter_map([i*8 + j], {i: Range(4), j: Range(8)}).indices, [x])
    {i: x // 8, j: x % 8}

    Raises UsageError for a map that has none, or a mark that is not one variable and its start.
    """
    inversion = Inversion({})
    sources: dict[IterMark, Expr] = {}

    def source_of(mark: IterMark) -> Expr:
        if mark not in sources:
            name = var("mark", role="axis")
            sources[mark] = name
            inversion.extents[name] = mark.extent
            if isinstance(mark.source, IterSumExpr):
                inversion.sums[name] = placed(mark.source)
        return sources[mark]

    def placed(total: IterSumExpr) -> list[tuple[Expr, Digit]]:
        return [(s.scale, Digit(source_of(s.source), s.lower_factor, s.extent, False)) for s in reversed(total.args)]

    try:
        for total, output in zip(iter_map, outputs, strict=True):
            inversion.record(placed(total), simplify(output - total.base))
        inversion.record_sums()
        return {
            v: simplify(inversion.value(name) + start)
            for mark, name in sources.items()
            if not isinstance(mark.source, IterSumExpr)
            for v, start in (_variable(mark.source),)
        }
    except NoIterMap as why:
        raise UsageError(str(why), asked="inverse_affine_iter_map", legal="a bijection") from None


def _variable(source: Expr) -> tuple[Expr, Expr]:
    """`v - start` as the variable and its start."""
    p = to_poly(source)
    for v in p.atoms():
        linear = p.linear_in(v)
        if v.op == "var" and linear is not None and linear[0].constant == 1:
            return v, (-linear[1]).expr()
    raise NoIterMap(f"{source!r} is not a variable and its start")
