"""The options of the verbs that search: what is searched, how candidates are measured, and what is shown meanwhile."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from autosched.cli import options
from autosched.report import PROGRESS_MODES
from autosched.space.kinds import SPACES

if TYPE_CHECKING:
    from autosched.measure import MeasureOptions

__all__ = ["add_measuring", "add_progress", "add_search", "arguments", "measuring"]


def add_search(parser: argparse.ArgumentParser) -> None:
    """What is searched, and how."""
    parser.add_argument(
        "--strategy",
        "--tuner",
        metavar="NAME",
        default="bandit",  # autosched.search.DEFAULT, without its import
        help="what chooses candidates: a name that `list` shows, or file.py:Class; default %(default)s",
    )
    parser.add_argument(
        "--strategy-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=options.literal("--strategy-option"),
        help="an option of the strategy, as in docs/search.md; may be repeated",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        default="xgb",
        help="the cost model that guides it: a name that `list` shows, or file.py:Class; default %(default)s",
    )
    parser.add_argument(
        "--space",
        choices=SPACES,
        default="",
        help="where schedules come from: hand-written templates, rules that generate them (auto), or both (all); "
        "default templates, or rules where the target has no templates",
    )
    parser.add_argument(
        "--rule",
        metavar="NAME",
        action="append",
        default=[],
        help="a sketch rule to try before the built-in ones: from a plug-in, or file.py:name; may be repeated",
    )
    parser.add_argument(
        "--no-transfer",
        action="store_true",
        help="keep the cost model from learning from records of other shapes, operators and devices",
    )
    parser.add_argument(
        "--seed", metavar="N", type=options.count("--seed", 0), default=0, help="random seed; default %(default)s"
    )
    parser.add_argument(
        "--patience",
        metavar="N",
        type=options.count("--patience"),
        help="stop after N trials in a row without a new best",
    )


def add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        choices=PROGRESS_MODES,
        default="auto",
        help="how to show progress on standard error; auto is live on a terminal, else plain",
    )


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """How candidates are built and timed."""
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--timeout",
        metavar="TIME",
        type=options.duration("--timeout"),
        help="longest that one candidate may run; default 10s",
    )
    group.add_argument(
        "--repeat", metavar="N", type=options.count("--repeat"), help="samples for each candidate; default 3"
    )
    group.add_argument(
        "--no-race",
        action="store_true",
        help="take the same number of samples of every candidate, even of one that has clearly lost",
    )
    group.add_argument(
        "--min-repeat-ms",
        metavar="MS",
        type=options.positive("--min-repeat-ms", "milliseconds"),
        help="shortest sample: calls are repeated until it lasts this long; default 20",
    )
    group.add_argument(
        "--builders", metavar="N", type=options.count("--builders"), help="compile in N processes; default one per CPU"
    )
    group.add_argument(
        "--memory-limit",
        metavar="MIB",
        type=options.count("--memory-limit"),
        help="memory that one candidate may use, in MiB; default three quarters of what is available, 4096 at least",
    )


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say, as arguments of `tune`, `tune_sizes` and `tune_tasks`."""
    return {
        "space": args.space,
        "rules": args.rule,
        "budget_s": args.budget,
        "strategy": args.strategy,
        "strategy_options": dict(args.strategy_option),
        "model": args.model,
        "transfer": not args.no_transfer,
        "seed": args.seed,
        "patience": args.patience,
        "records": args.records,
        "measure": measuring(args),
    }


def measuring(args: argparse.Namespace) -> MeasureOptions:
    """What was given of `MeasureOptions`; the rest keeps its defaults."""
    from autosched.measure import MeasureOptions

    given = {
        "timeout_s": args.timeout,
        "repeat": args.repeat,
        "min_repeat_ms": args.min_repeat_ms,
        "builders": args.builders,
        "memory_limit_mb": args.memory_limit,
        "race": False if args.no_race else None,
    }
    return MeasureOptions(**{name: value for name, value in given.items() if value is not None})
