"""Test suites for anyone's plug-ins: inherit them in pytest, or call `check_...` without it."""

from autosched.testing.contracts import (
    CostModelContract,
    StrategyContract,
    check_cost_model,
    check_strategy,
    rank_correlation,
)
from autosched.testing.synthetic import SyntheticKnob, SyntheticSketch, SyntheticSpace

__all__ = [
    "CostModelContract",
    "StrategyContract",
    "SyntheticKnob",
    "SyntheticSketch",
    "SyntheticSpace",
    "check_cost_model",
    "check_strategy",
    "rank_correlation",
]
