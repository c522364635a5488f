"""The options of the verbs that search: what is searched, how candidates are measured, and what is shown meanwhile."""

from __future__ import annotations

import argparse
from typing import Any

from autosched.cli import options
from autosched.measure.protocol import MeasureOptions
from autosched.report import PROGRESS_MODES
from autosched.search_options import SearchOptions


def add_search(parser: argparse.ArgumentParser) -> None:
    """What is searched, and how."""
    options.add_fields(parser, SearchOptions)


def add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress",
        choices=PROGRESS_MODES,
        default="auto",
        help="how to show progress on standard error; auto is live on a terminal, else plain",
    )


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """How candidates are built and timed."""
    options.add_fields(parser.add_argument_group("measuring"), MeasureOptions)


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say, as arguments of `tune`, `tune_sizes` and `tune_tasks`."""
    common = {"budget_s": args.budget, "records": args.records, "measure": measuring(args)}
    return {**options.field_values(args, SearchOptions), **common}


def measuring(args: argparse.Namespace) -> MeasureOptions:
    return MeasureOptions(**options.field_values(args, MeasureOptions))
