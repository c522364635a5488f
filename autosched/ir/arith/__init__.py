"""Analysis of integer expressions, by the names of TVM's `arith`.

`Analyzer` simplifies, bounds and proves; `IntervalSet`, `Range` and `ModularSet` are what it speaks of.
`detect_linear_equation`, `detect_clip_bound` and `deduce_bound` solve for variables;
`detect_iter_map` takes maps of indices apart, and `IndexMap` applies and inverts them.
"""

from autosched.ir.arith.analyzer import Analyzer, ConstIntBound
from autosched.ir.arith.index_map import IndexMap
from autosched.ir.arith.iter_map import (
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    normalize_iter_map_to_expr,
)
from autosched.ir.arith.linear import deduce_bound, detect_clip_bound, detect_linear_equation
from autosched.ir.arith.modular import ModularSet
from autosched.ir.arith.region import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from autosched.ir.arith.sets import NEG_INF, POS_INF, IntervalSet, IntSet, Range

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
