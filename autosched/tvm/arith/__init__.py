"""`tvm.arith`: simplification, bounds and proofs of index arithmetic.

`Analyzer` simplifies, bounds and proves, in terms of `IntervalSet`, `Range` and `ModularSet`.
`detect_linear_equation`, `detect_clip_bound` and `deduce_bound` solve for variables;
`detect_iter_map` takes maps of indices apart, and `IndexMap` applies and inverts them.
"""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.arith.analyzer import Analyzer as Analyzer
from autosched.tvm.arith.analyzer import ConstIntBound as ConstIntBound
from autosched.tvm.arith.index_map import IndexMap as IndexMap
from autosched.tvm.arith.iter_map import IterMapResult as IterMapResult
from autosched.tvm.arith.iter_map import IterMark as IterMark
from autosched.tvm.arith.iter_map import IterSplitExpr as IterSplitExpr
from autosched.tvm.arith.iter_map import IterSumExpr as IterSumExpr
from autosched.tvm.arith.iter_map import detect_iter_map as detect_iter_map
from autosched.tvm.arith.iter_map import estimate_region_lower_bound as estimate_region_lower_bound
from autosched.tvm.arith.iter_map import estimate_region_strict_bound as estimate_region_strict_bound
from autosched.tvm.arith.iter_map import estimate_region_upper_bound as estimate_region_upper_bound
from autosched.tvm.arith.iter_map import inverse_affine_iter_map as inverse_affine_iter_map
from autosched.tvm.arith.iter_map import normalize_iter_map_to_expr as normalize_iter_map_to_expr
from autosched.tvm.arith.linear import deduce_bound as deduce_bound
from autosched.tvm.arith.linear import detect_clip_bound as detect_clip_bound
from autosched.tvm.arith.linear import detect_linear_equation as detect_linear_equation
from autosched.tvm.arith.modular import ModularSet as ModularSet
from autosched.tvm.arith.sets import NEG_INF as NEG_INF
from autosched.tvm.arith.sets import POS_INF as POS_INF
from autosched.tvm.arith.sets import IntervalSet as IntervalSet
from autosched.tvm.arith.sets import IntSet as IntSet
from autosched.tvm.arith.sets import Range as Range

_INSTEAD = dict.fromkeys(
    ("solve_linear_equations", "solve_linear_inequalities", "detect_iter_map", "iter_map_simplify"),
    "Analyzer, detect_linear_equation, detect_clip_bound and deduce_bound",
)
_INSTEAD |= {
    "domain_touched": "te.schedule.InferBound(s), or IntervalSet and Analyzer.int_set of the indices",
    "normalize_to_iter_sum": "detect_iter_map([index], ranges).indices[0]",
}
__getattr__ = missing("arith", globals(), _INSTEAD)
