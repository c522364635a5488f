"""`SearchOptions`: the options that `tune`, `tune_tasks`, `tune_sizes`, `ask_and_tell` and the command line share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.errors import check_seed, expect
from autosched.measure.protocol import MeasureOptions as MeasureOptions
from autosched.options import option
from autosched.space import SPACES


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, which `tune` explains.

    `strategy_options` and `measure` are None for none, and for the defaults.
    """

    strategy: str = option(
        "bandit",  # as autosched.search.DEFAULT, without its import
        flags=("--strategy", "--tuner"),
        metavar="NAME",
        help="what chooses candidates: a name that `list` shows, or file.py:Class; default %(default)s",
    )
    strategy_options: Mapping[str, Any] | None = option(
        None,
        flags=("--strategy-option",),
        metavar="NAME=VALUE",
        help="an option of the strategy, as in docs/search.md; may be repeated",
    )
    model: str = option(
        "xgb",
        metavar="NAME",
        help="the cost model that guides it: a name that `list` shows, or file.py:Class; default %(default)s",
    )
    space: str = option(
        "",
        legal=SPACES,
        help="where schedules come from: hand-written templates, rules that generate them (auto), or both (all); "
        "default templates, or rules where the target has no templates",
    )
    rules: Sequence[Any] = option(
        (),
        flags=("--rule",),
        metavar="NAME",
        help="a sketch rule to try before the built-in ones: from a plug-in, or file.py:name; may be repeated",
    )
    transfer: bool = option(
        True, help="keep the cost model from learning from records of other shapes, operators and devices"
    )
    seed: int = option(0, least=0, metavar="N", help="random seed; default %(default)s")
    patience: int | None = option(None, least=1, metavar="N", help="stop after N trials in a row without a new best")
    records: str | Path | None = None
    measure: MeasureOptions | None = None

    def check(self, function: str) -> None:
        """Raise UsageError for values that the function of this name cannot take."""
        check_seed(self.seed)
        chosen, measure = self.strategy_options, self.measure
        is_options = chosen is None or (isinstance(chosen, Mapping) and all(isinstance(name, str) for name in chosen))
        expect(chosen, "a dictionary of options", is_options, f"{function}(strategy_options=..)")
        expect(self.rules, "a list of rules", isinstance(self.rules, (list, tuple)), f"{function}(rules=..)")
        is_measure = measure is None or isinstance(measure, MeasureOptions)
        expect(measure, "MeasureOptions", is_measure, f"{function}(measure=..)")
