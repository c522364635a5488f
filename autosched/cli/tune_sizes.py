"""`tune --at`: one workload for several sizes at once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from autosched.cli import options
from autosched.cli.signals import interrupted_status
from autosched.cli.workloads import choose_workload, command, parse_sizes
from autosched.errors import MeasureError, UsageError

if TYPE_CHECKING:
    from autosched.tuning import SizesResult

__all__ = ["add_arguments", "run"]

#: Options of `tune` that say what else to tune on.
_OTHERS = ("size", "input")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that make `tune` look at several sizes."""
    parser.add_argument(
        "--at",
        metavar="NAME=N,..",
        action="append",
        default=[],
        help="representative sizes, such as height=480,width=640. Repeat it to find one kernel, or a few, that run "
        "nearly as fast as possible at all of them",
    )
    parser.add_argument(
        "--kernels", metavar="N", type=options.count("--kernels"), help="with --at: use at most N kernels; default 4"
    )
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        type=options.positive("--tolerance", "percent"),
        help="with --at: add a kernel while some size runs more than this slower than its best, in percent; default 5",
    )


def run(args: argparse.Namespace, common: dict[str, Any]) -> int:
    """Tune and print; `common` are the arguments that `tune` has, too."""
    from autosched.report.progress import make_display
    from autosched.tuning import tune_sizes

    for name in _OTHERS:
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
        result = tune_sizes(workload, sizes, args.target, **common, **chosen, trials=args.trials, progress=display)
    if args.json:
        options.emit(result.to_json())
    else:
        print("\n".join([*_lines(result), "", f"build with it: {command('build', args)}"]))
    if result.interrupted:
        return interrupted_status()
    failed = all(r.trials and sum(r.failures.values()) == r.trials for r in result.results)
    return MeasureError.exit_status if failed else 0


def _lines(result: SizesResult) -> list[str]:
    """A table of sizes, one of kernels, and what fewer of them would lose."""
    from autosched.report.text import duration, knobs, plural, ratio, seconds, table

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
