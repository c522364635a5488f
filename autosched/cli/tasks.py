"""`autosched tasks`: several workloads tuned under one budget."""

from __future__ import annotations

import argparse
import ast
import math
import re
import sys
from typing import Any

from autosched.cli import options
from autosched.cli.failures import interrupted_status
from autosched.cli.model_arguments import TASK_TRIALS
from autosched.cli.tune import search_arguments
from autosched.errors import MeasureError, UsageError
from autosched.report.progress import make_display
from autosched.report.text import duration, plural, ratio, seconds, table
from autosched.space.loading import find_workload
from autosched.space.workload import Workload
from autosched.tuning import TasksResult, tune_tasks

_TASK = re.compile(r"(?P<name>[^()*]+?)\s*(?:\((?P<params>.*)\))?\s*(?:\*\s*(?P<weight>[^()*]+))?")


def run(args: argparse.Namespace) -> int:
    found = [parse_task(text) for text in args.task]
    limited = args.trials is not None or args.budget is not None
    with make_display(args.progress, sys.stderr) as display:
        result = tune_tasks(
            [w for w, _ in found],
            args.target,
            weights=[x for _, x in found],
            policy=args.policy,
            trials=args.trials if limited else TASK_TRIALS * len(found),
            round_trials=args.round,
            **search_arguments(args),
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
    """The workload and the weight that a word of the command line names."""
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
    """The table of tasks, and their sum."""
    rows = [
        [r.workload, f"{w:g}", str(r.trials), seconds(r.default_seconds), seconds(r.seconds), ratio(r.speedup)]
        for r, w in zip(result.results, result.weights, strict=True)
    ]
    lines = table(rows, ["task", "weight", "trials", "default", "best", "speed-up"], right=(1, 2, 3, 4, 5))
    total = f"total: {seconds(result.default_objective)} -> {seconds(result.objective)}"
    if not math.isfinite(result.objective):  # a sum of all, of which some have no time
        total = "no total, as not all tasks were reached"
    return [*lines, f"{total}; {plural(result.trials, 'trial')} in {duration(result.elapsed_s)}"]
