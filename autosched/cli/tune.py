"""`autosched tune`: search for the fastest schedule of a workload, at one size or at several."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from autosched.cli import options
from autosched.cli.arguments import TUNE_TRIALS
from autosched.cli.failures import interrupted_status
from autosched.cli.images import read_image
from autosched.cli.workloads import check_image, choose_tunable, choose_workload, command, parse_sizes, sizes_of
from autosched.errors import MeasureError, UsageError
from autosched.measure.protocol import MeasureOptions
from autosched.report.progress import make_display
from autosched.report.summary import Standing, standing, summary_lines
from autosched.report.text import duration, knobs, plural, ratio, seconds, table
from autosched.search_options import SearchOptions
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.tuning import SizesResult, TuneResult, tune, tune_sizes


def run(args: argparse.Namespace) -> int:
    if args.input is not None and args.size:
        raise UsageError("the image sets the sizes", asked="--input and --size", legal="leave one of them out")
    if not args.at and (args.kernels or args.tolerance):
        raise UsageError(
            "they choose kernels for several sizes, and no sizes are given",
            asked="--kernels, --tolerance",
            legal="add --at NAME=N,.. once for each set of sizes",
        )
    if args.at:
        return _run_sizes(args)
    image = read_image(args.input) if args.input is not None else None
    workload = choose_tunable(args, image) if image is None else choose_workload(args, image)
    target = Target.parse(args.target)
    if image is not None and isinstance(workload, Workload):
        image = check_image(workload, image, args.input)
    with make_display(args.progress, sys.stderr) as display:
        result = tune(
            workload,
            target,
            **search_arguments(args),
            trials=_limit(args),
            inputs=None if image is None else [image],
            sizes=sizes_of(args, workload) or None,
            progress=display,
        )
    near: Standing | str = ""
    if isinstance(workload, Workload):
        found = result.best or result.predicted
        near = standing(workload.args, target, result.sizes, result.seconds if found else result.default_seconds)
    if args.json:
        options.emit({**result.to_json(), "roofline": near.to_json() if isinstance(near, Standing) else None})
    else:
        resume = _resume(args, result)
        print("\n".join(summary_lines(result, build=command("build", args), resume=resume, standing=str(near))))
    return exit_status(result)


def search_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of `tune`, `tune_sizes` and `tune_tasks`."""
    measure = MeasureOptions(**options.field_values(args, MeasureOptions))
    common = {"budget_s": args.budget, "records": args.records, "measure": measure}
    return {**options.field_values(args, SearchOptions), **common}


def _resume(args: argparse.Namespace, result: TuneResult) -> str:
    """The command that goes on from here: the same one, with more trials where they are used up."""
    words = list(args.words)
    limit, done = _limit(args), result.resumed + result.trials
    if limit is not None and not result.interrupted and done >= limit:
        at = next((i for i, w in enumerate(words) if w == "--trials" or w.startswith("--trials=")), None)
        if at is not None:
            del words[at : at + (2 if words[at] == "--trials" else 1)]
        words += ["--trials", str(max(limit, done) + max(result.trials, TUNE_TRIALS))]
    return f"{options.program()} {shlex.join(words)}"


def _limit(args: argparse.Namespace) -> int | None:
    trials: int | None = args.trials
    return TUNE_TRIALS if trials is None and args.budget is None else trials


def exit_status(result: TuneResult) -> int:
    """130 or 143 when interrupted; 3 when every trial failed, or no sketch could be made, so that there was none."""
    if result.interrupted:
        return interrupted_status()
    all_failed = result.best is None and 0 < result.trials <= sum(result.failures.values())
    return MeasureError.exit_status if all_failed or result.unsearchable else 0


def _run_sizes(args: argparse.Namespace) -> int:
    """`tune --at`: one workload for several sizes at once."""
    for name in ("size", "input"):
        if getattr(args, name):
            raise UsageError("--at sets the sizes already", asked=f"--at and --{name}", legal="leave one of them out")
    if args.trials == 0:
        raise UsageError("kernels are chosen by measuring them", asked="--at with --trials 0", legal="1 trial or more")
    workload = choose_workload(args)
    assignment = options.assignment("--at", "height=480,width=640")
    sizes = [parse_sizes("--at", map(assignment, text.split(",")), workload) for text in args.at]
    chosen = {} if args.kernels is None else {"kernels": args.kernels}
    if args.tolerance is not None:
        chosen["tolerance"] = args.tolerance / 100
    with make_display(args.progress, sys.stderr) as display:
        result = tune_sizes(
            workload, sizes, args.target, **search_arguments(args), **chosen, trials=args.trials, progress=display
        )
    if args.json:
        options.emit(result.to_json())
    else:
        print("\n".join([*_sizes_lines(result), "", f"build with it: {command('build', args)}"]))
    if result.interrupted:
        return interrupted_status()
    failed = all(r.trials and sum(r.failures.values()) == r.trials for r in result.results)
    return MeasureError.exit_status if failed else 0


def _sizes_lines(result: SizesResult) -> list[str]:
    """A table of sizes, one of kernels, and what fewer of them would lose."""
    total = f"{plural(result.trials, 'trial')} in {duration(result.elapsed_s)}"
    if not result.kernels:
        return [f"the run ended before kernels were chosen; {total}"]
    rows = [
        [knobs(at), seconds(r.default_seconds), seconds(s), ratio(r.default_seconds / s), f"{regret:.1%}", str(k + 1)]
        for at, r, s, regret, k in zip(
            result.sizes, result.results, result.seconds, result.regrets, result.serves, strict=True
        )
    ]
    lines = table(rows, ["sizes", "default", "time", "speed-up", "slower than best", "kernel"], right=(1, 2, 3, 4, 5))
    lines.append("")
    for i, m in enumerate(result.kernels):
        values = knobs(m.record.knobs)
        lines.append(f"kernel {i + 1}, {result.guard(i)}: {m.record.sketch}{f' at {values}' if values else ''}")
    fewer = [f"with {plural(n, 'kernel')} {worst:.1%}" for n, worst in enumerate(result.worst, start=1)]
    return [*lines, "", f"how much slower than its best schedule the worst size runs: {', '.join(fewer)}", total]
