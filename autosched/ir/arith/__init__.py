"""Analysis of integer expressions, by the names of TVM's `arith`.

`Analyzer` simplifies, bounds and proves; `IntervalSet`, `Range` and `ModularSet` are what it speaks of;
`detect_linear_equation`, `detect_clip_bound` and `deduce_bound` solve for variables.
"""

from autosched.ir.arith.analyzer import Analyzer, ConstIntBound
from autosched.ir.arith.linear import deduce_bound, detect_clip_bound, detect_linear_equation
from autosched.ir.arith.modular import ModularSet
from autosched.ir.arith.sets import NEG_INF, POS_INF, IntervalSet, IntSet, Range

__all__ = [
    "NEG_INF",
    "POS_INF",
    "Analyzer",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "ModularSet",
    "Range",
    "deduce_bound",
    "detect_clip_bound",
    "detect_linear_equation",
]
