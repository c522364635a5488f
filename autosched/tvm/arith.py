"""`tvm.arith`: what can be proven of index arithmetic."""

from __future__ import annotations

from autosched.ir.arith import *  # noqa: F403
from autosched.tvm._missing import missing

__all__: list[str] = []

_INSTEAD = dict.fromkeys(
    ("solve_linear_equations", "solve_linear_inequalities", "detect_iter_map", "iter_map_simplify"),
    "Analyzer, detect_linear_equation, detect_clip_bound and deduce_bound",
)
_INSTEAD |= {
    "domain_touched": "te.schedule.InferBound(s), or IntervalSet and Analyzer.int_set of the indices",
    "normalize_to_iter_sum": "detect_iter_map([index], ranges).indices[0]",
}
__getattr__ = missing("arith", globals(), _INSTEAD)
