"""What part of a tensor is touched while loops run: exactly, at least, at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.ir.expr import Expr, as_expr, is_const, variables
from autosched.ir.visit import substitute
from autosched.tvm.arith.analyzer import Analyzer
from autosched.tvm.arith.iter_map import detect_iter_map
from autosched.tvm.arith.sets import IntervalSet, Range

__all__ = ["estimate_region_lower_bound", "estimate_region_strict_bound", "estimate_region_upper_bound"]


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Expr, Range], predicate: object = True
) -> list[IntervalSet]:
    """For each dimension an interval with all that is touched, whatever the predicate leaves out."""
    an = Analyzer()
    return [_around(r, var_dom, an) for r in region]


def _around(r: Range, var_dom: Mapping[Expr, Range], an: Analyzer) -> IntervalSet:
    first = an.int_set(r.min, var_dom)
    last = an.int_set(an.simplify(r.min + (r.extent - 1)), var_dom)
    return IntervalSet(first.min_value, last.max_value)


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Expr, Range], predicate: object = True
) -> list[IntervalSet] | None:
    """The region, if it is a box of which every element is touched and that can be seen; else None.

    >>> estimate_region_strict_bound([Range.from_min_extent(i*8 + j, 1)], {i: Range(4), j: Range(8)})
    [IntervalSet[0, 31]]
    """
    if not is_const(as_expr(predicate), True):
        return None
    an = Analyzer()
    if any(variables(r.extent) & var_dom.keys() for r in region):
        return None
    starts = [an.simplify(r.min) for r in region]
    extents = [r.extent for r in region]
    together = _without_overlap(starts, extents, var_dom, an)
    if together is None or detect_iter_map(together, var_dom).errors:
        return None
    return [_around(r, var_dom, an) for r in region]


def _without_overlap(
    starts: Sequence[Expr], extents: Sequence[Expr], var_dom: Mapping[Expr, Range], an: Analyzer
) -> list[Expr] | None:
    """Starts whose steps are 1, for boxes that lie side by side: `i*4` for boxes of 4 counts as i."""
    found = []
    for start, extent in zip(starts, extents, strict=True):
        mentioned = [v for v in var_dom if v in variables(start)]
        step = an.modular_set(start - an.simplify(_at_start(start, var_dom))).coeff if mentioned else 1
        if step > 1 and not an.can_prove(extent >= step):
            return None
        found.append(an.simplify((start - _at_start(start, var_dom)) // step) if step > 1 else start)
    return found


def _at_start(e: Expr, var_dom: Mapping[Expr, Range]) -> Expr:
    return substitute(e, {v: r.min for v, r in var_dom.items()})


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Expr, Range], predicate: object = True
) -> list[IntervalSet] | None:
    """A box that is touched for certain; None where no such box can be seen. It is the strict one."""
    return estimate_region_strict_bound(region, var_dom, predicate)
