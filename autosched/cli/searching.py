"""The options of the verbs that search: what is searched, how candidates are measured, and what is shown meanwhile."""

from __future__ import annotations

import argparse
from typing import Any

from autosched.cli import options
from autosched.report import PROGRESS_MODES
from autosched.space.kinds import SPACES

__all__ = ["add_measuring", "add_progress", "add_search", "arguments"]


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
        help="where schedules come from: templates that someone wrote, rules that generate them (auto), or both (all); "
        "default templates, and rules where there are none for the target",
    )
    parser.add_argument(
        "--rule",
        metavar="NAME",
        action="append",
        default=[],
        help="a sketch rule to ask before the built-in ones: of a plug-in, or file.py:name; may be repeated",
    )
    parser.add_argument(
        "--no-transfer",
        action="store_true",
        help="let the cost model learn nothing from records of other shapes, operators and devices",
    )
    parser.add_argument(
        "--seed", metavar="N", type=options.count("--seed", 0), default=0, help="random seed; default %(default)s"
    )
    parser.add_argument(
        "--patience",
        metavar="N",
        type=options.count("--patience"),
        help="end after N trials in a row of which none is faster than the best before",
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
        help="as many samples for candidates that have clearly lost, and for those near the best, as for all",
    )
    group.add_argument(
        "--min-repeat-ms",
        metavar="MS",
        type=options.positive("--min-repeat-ms", "milliseconds"),
        help="shortest sample: calls are repeated until it lasts as long; default 20",
    )
    group.add_argument(
        "--builders", metavar="N", type=options.count("--builders"), help="compile in N processes; default one per CPU"
    )


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say, as arguments of `tune`, `tune_sizes` and `tune_tasks`."""
    from autosched.measure import MeasureOptions

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
        "measure": MeasureOptions(**_measuring(args)),
    }


def _measuring(args: argparse.Namespace) -> dict[str, Any]:
    """What was given of `MeasureOptions`; the rest keeps its defaults."""
    given = {
        "timeout_s": args.timeout,
        "repeat": args.repeat,
        "min_repeat_ms": args.min_repeat_ms,
        "builders": args.builders,
        "race": False if args.no_race else None,
    }
    return {name: value for name, value in given.items() if value is not None}
