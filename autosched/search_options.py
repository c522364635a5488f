"""`SearchOptions`: the options that `tune`, `tune_tasks`, `tune_sizes`, `ask_and_tell` and the command line share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar

from autosched.errors import check_positive, check_seed, expect
from autosched.measure.protocol import MeasureOptions as MeasureOptions
from autosched.options import option
from autosched.space import SPACES

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search: `tune`, `tune_tasks` and `tune_sizes` take each of them by its name.

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

    @classmethod
    def of(cls, function: str, given: SearchKeywords) -> SearchOptions:
        """Those given to the function of this name. Raises TypeError for other names, UsageError as `check` does."""
        for name in given.keys() - {f.name for f in fields(cls)}:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        options = cls(**given)
        options.check(function)
        return options

    def check(self, function: str) -> None:
        """Raise UsageError for values that the function of this name cannot take."""
        check_seed(self.seed)
        check_positive(function, patience=self.patience)
        chosen, measure = self.strategy_options, self.measure
        is_options = chosen is None or (isinstance(chosen, Mapping) and all(isinstance(name, str) for name in chosen))
        expect(chosen, "a dictionary of options", is_options, f"{function}(strategy_options=..)")
        expect(self.rules, "a list of rules", isinstance(self.rules, (list, tuple)), f"{function}(rules=..)")
        is_measure = measure is None or isinstance(measure, MeasureOptions)
        expect(measure, "MeasureOptions", is_measure, f"{function}(measure=..)")


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` for the signature of a function that takes all of them, `**search`."""

    strategy: str
    strategy_options: Mapping[str, Any] | None
    model: str
    space: str
    rules: Sequence[Any]
    transfer: bool
    seed: int
    patience: int | None
    records: str | Path | None
    measure: MeasureOptions | None


def spelled_out(function: Callable[P, R]) -> Callable[P, R]:
    """The function, of which `help` and `inspect.signature` show the options in place of `**search`."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(SearchOptions)
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function
