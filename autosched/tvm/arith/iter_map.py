"""Iterator maps by TVM's names (its `arith/iter_affine_map.cc`), without predicates: see `ir.iter_map`.

The regions of a tensor that loops touch (exactly, at least, at most) are estimated with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import UsageError
from autosched.ir.dims import Range
from autosched.ir.expr import Expr, as_expr, compare, const, floordiv, floormod, is_const, var, variables
from autosched.ir.iter_map import Digit, Inversion, NoIterMap
from autosched.ir.poly import Poly
from autosched.ir.simplify import simplify, to_poly
from autosched.ir.visit import substitute
from autosched.tvm.arith.analyzer import Analyzer
from autosched.tvm.arith.sets import IntervalSet


@dataclass(frozen=True, eq=False)
class IterMark:
    """The source of digits: a variable (less its smallest value), or a sum that is divided; in `[0, extent)`."""

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
    """The sum of splits, largest scale first, and of `base`."""

    args: tuple[IterSplitExpr, ...]
    base: Expr


@dataclass(frozen=True)
class IterMapResult:
    """The indices as sums; empty where the map could not be taken apart, for the reasons in `errors`."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...]


def detect_iter_map(
    indices: Sequence[Expr],
    input_iters: Mapping[Expr, Range],
    predicate: object = True,
    check_level: str = "surjective",
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Return each index as a sum of parts of the variables, if it runs through all integers of an interval
    and the indices do so independently of one another.

    predicate:   must be true: conditions are not taken into account
    check_level: `surjective`; `bijective` if different values of the variables must give different indices; `nocheck`
    simplify_trivial_iterators: changes nothing: variables with one value are their value

    >>> detect_iter_map([i*4 + j // 2], {i: Range(8), j: Range(8)}).indices[0].args[0].scale
    4

    Raises UsageError for a level that does not exist.
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
    """Return the sum as an expression of the variables again."""
    total = expr.base
    for s in expr.args:
        inside = s.source.source
        value = normalize_iter_map_to_expr(inside) if isinstance(inside, IterSumExpr) else inside
        part = value if is_const(s.lower_factor, 1) else floordiv(value, s.lower_factor)
        is_top = simplify(s.lower_factor * s.extent) is simplify(s.source.extent)
        total = total + (part if is_top else floormod(part, s.extent)) * s.scale
    return simplify(total)


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Expr]) -> dict[Expr, Expr]:
    """Return each variable, given the values of the indices: invert a map that is a bijection.

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


# -- regions ------------------------------------------------------------------------------------------


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Expr, Range], predicate: object = True
) -> list[IntervalSet]:
    """Return for each dimension an interval with all that is touched, whatever the predicate leaves out."""
    an = Analyzer()
    return [_around(r, var_dom, an) for r in region]


def _around(r: Range, var_dom: Mapping[Expr, Range], an: Analyzer) -> IntervalSet:
    first = an.int_set(r.min, var_dom)
    last = an.int_set(an.simplify(r.min + (r.extent - 1)), var_dom)
    return IntervalSet(first.min_value, last.max_value)


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Expr, Range], predicate: object = True
) -> list[IntervalSet] | None:
    """Return the region, if it is proven to be a box of which every element is touched; else None.

    >>> estimate_region_strict_bound([Range.from_min_extent(i*8 + j, 1)], {i: Range(4), j: Range(8)})
    [IntervalSet[0, 31]]
    """
    if not is_const(as_expr(predicate), True):
        return None
    an = Analyzer()
    if any(variables(r.extent) & var_dom.keys() for r in region):
        return None
    steps = []  # boxes that lie side by side: `i*4` for boxes of 4 counts as i
    for r in region:
        start = an.simplify(r.min)
        first = substitute(start, {v: d.min for v, d in var_dom.items()})
        step = an.modular_set(start - an.simplify(first)).coeff if variables(start) & var_dom.keys() else 1
        if step > 1 and not an.can_prove(r.extent >= step):
            return None
        steps.append(an.simplify((start - first) // step) if step > 1 else start)
    if detect_iter_map(steps, var_dom).errors:
        return None
    return [_around(r, var_dom, an) for r in region]


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Expr, Range], predicate: object = True
) -> list[IntervalSet] | None:
    """Return a box of which every element is touched, or None where none is proven to: the strict one."""
    return estimate_region_strict_bound(region, var_dom, predicate)
