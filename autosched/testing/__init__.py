"""Test suites for anyone's plug-ins: inherit them in pytest, or call `check_...` without it."""

from autosched.testing.cost_model_contract import CostModelContract, check_cost_model, rank_correlation
from autosched.testing.strategy_contract import StrategyContract, check_strategy
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
