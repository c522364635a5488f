"""`tvm.arith`: what can be proven of index arithmetic.

`Analyzer` simplifies, bounds and proves; `IntervalSet`, `Range` and `ModularSet` are what it speaks of.
`detect_linear_equation`, `detect_clip_bound` and `deduce_bound` solve for variables;
`detect_iter_map` takes maps of indices apart, and `IndexMap` applies and inverts them.
"""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.arith.analyzer import Analyzer, ConstIntBound
from autosched.tvm.arith.index_map import IndexMap
from autosched.tvm.arith.iter_map import (
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    normalize_iter_map_to_expr,
)
from autosched.tvm.arith.linear import deduce_bound, detect_clip_bound, detect_linear_equation
from autosched.tvm.arith.modular import ModularSet
from autosched.tvm.arith.region import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from autosched.tvm.arith.sets import NEG_INF, POS_INF, IntervalSet, IntSet, Range

__all__ = [
    "NEG_INF",
    "POS_INF",
    "Analyzer",
    "ConstIntBound",
    "IndexMap",
    "IntSet",
    "IntervalSet",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "Range",
    "deduce_bound",
    "detect_clip_bound",
    "detect_iter_map",
    "detect_linear_equation",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "inverse_affine_iter_map",
    "normalize_iter_map_to_expr",
]

_INSTEAD = dict.fromkeys(
    ("solve_linear_equations", "solve_linear_inequalities", "detect_iter_map", "iter_map_simplify"),
    "Analyzer, detect_linear_equation, detect_clip_bound and deduce_bound",
)
_INSTEAD |= {
    "domain_touched": "te.schedule.InferBound(s), or IntervalSet and Analyzer.int_set of the indices",
    "normalize_to_iter_sum": "detect_iter_map([index], ranges).indices[0]",
}
__getattr__ = missing("arith", globals(), _INSTEAD)
