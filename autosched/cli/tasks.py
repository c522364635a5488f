"""Tune several workloads under one budget, the next round always for the one that it helps most.

A task is a workload, with parameters and a weight where it has any: `softmax`, `matmul(m=512, n=512)`,
`conv2d_nchw(cin=128)*4`. What is minimised is the time of all of them, each taken as often as its
weight says.
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import sys
from typing import TYPE_CHECKING, Any

from autosched.cli import options, searching
from autosched.cli.failures import interrupted_status
from autosched.errors import MeasureError, UsageError
from autosched.report.text import duration, plural, ratio, seconds, table

if TYPE_CHECKING:
    from autosched.space.workload import Workload
    from autosched.tuning import TasksResult

EXAMPLES = """\
examples:
  %(prog)s matmul softmax layer_norm --budget 3m
  %(prog)s "matmul(m=512, n=512, k=512)*8" "softmax(rows=512)*8" --space auto --trials 500
"""

#: Trials for each task when neither --trials nor --budget says how many.
TRIALS = 100
_TASK = re.compile(r"(?P<name>[^()*]+?)\s*(?:\((?P<params>.*)\))?\s*(?:\*\s*(?P<weight>[^()*]+))?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", nargs="+", help="a workload, as in `matmul(m=512)*4`")
    options.add_target(parser)
    options.add_count(parser, "--trials", f"trials for all tasks together; default {TRIALS} for each")
    parser.add_argument(
        "--budget", metavar="TIME", type=options.duration("--budget"), help="time for all tasks, such as 5m"
    )
    parser.add_argument(
        "--policy",
        choices=("gradient", "round-robin"),
        default="gradient",
        help="which task comes next: the one that promises most for each second, or each in turn; default %(default)s",
    )
    options.add_count(parser, "--round", "trials in a round; default %(default)s", default=32)
    searching.add_search(parser)
    options.add_records(parser, "-o", "--output", help="folder to resume from and record to; default ./records")
    searching.add_progress(parser)
    options.add_json(parser)
    searching.add_measuring(parser)


def run(args: argparse.Namespace) -> int:
    from autosched.report.progress import make_display
    from autosched.tuning import tune_tasks

    found = [parse_task(text) for text in args.task]
    limited = args.trials is not None or args.budget is not None
    with make_display(args.progress, sys.stderr) as display:
        result = tune_tasks(
            [w for w, _ in found],
            args.target,
            weights=[x for _, x in found],
            policy=args.policy,
            trials=args.trials if limited else TRIALS * len(found),
            round_trials=args.round,
            **searching.arguments(args),
            progress=display,
        )
    if args.json:
        options.emit(result.to_json())
    else:
        print("\n".join(_lines(result)))
    if result.interrupted:
        return interrupted_status()
    failed = result.results and all(r.trials and sum(r.failures.values()) == r.trials for r in result.results)
    return MeasureError.exit_status if failed else 0


def parse_task(text: str) -> tuple[Workload, float]:
    """The workload and the weight that a word of the command line stands for."""
    from autosched.space.loading import find_workload

    parts = _TASK.fullmatch(text.strip())
    if parts is None:
        raise UsageError(
            "this is not a task", asked=f"task {text!r}", legal="NAME, NAME(parameter=value, ..), and *WEIGHT"
        )
    try:
        weight = float(parts["weight"] or 1)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise UsageError("the weight is not a number above 0", asked=f"task {text!r}", legal="such as matmul*4")
    return find_workload(parts["name"])(**_parameters(parts["params"] or "", text)), weight


def _parameters(listed: str, text: str) -> dict[str, Any]:
    """`m=512, dtype="int8"` as a dictionary; no code is run."""
    refused = UsageError(
        "the parameters cannot be read", asked=f"task {text!r}", legal='such as matmul(m=512, dtype="int8")'
    )
    try:
        call = ast.parse(f"f({listed})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
            raise refused
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise refused from None


def _lines(result: TasksResult) -> list[str]:
    """What was found, a line each, and the sum."""
    rows = [
        [r.workload, f"{w:g}", str(r.trials), seconds(r.default_seconds), seconds(r.seconds), ratio(r.speedup)]
        for r, w in zip(result.results, result.weights, strict=True)
    ]
    lines = table(rows, ["task", "weight", "trials", "default", "best", "speed-up"], right=(1, 2, 3, 4, 5))
    total = f"total: {seconds(result.default_objective)} -> {seconds(result.objective)}"
    return [*lines, f"{total}; {plural(result.trials, 'trial')} in {duration(result.elapsed_s)}"]
