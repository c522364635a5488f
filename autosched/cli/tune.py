"""Find the fastest schedule of a workload on this machine.

Candidates are built, compared with the NumPy reference, timed and recorded, until the trials or the
time are used up. The same command goes on where an earlier one stopped. Ctrl-C ends it with the best
so far.

With --at, several times, the same schedule has to serve several sizes, or a few schedules share them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from autosched.cli import options, tune_sizes
from autosched.cli.signals import interrupted_status
from autosched.cli.workloads import check_image, choose_tunable, choose_workload, command, sizes_of
from autosched.errors import MeasureError, UsageError
from autosched.report import PROGRESS_MODES
from autosched.space.kinds import SPACES

if TYPE_CHECKING:
    from autosched.tuning import TuneResult

EXAMPLES = """\
examples:
  %(prog)s box_blur --budget 60s
  %(prog)s box_blur --target opencl --trials 500 --input holiday.jpg
  %(prog)s box_blur --param channels=1 --size height=1280 --size width=1920
  %(prog)s box_blur --at height=240,width=320 --at height=1280,width=1920 --budget 3m
"""

#: Trials when neither --trials nor --budget says how long.
TRIALS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_workload(parser)
    options.add_target(parser)
    tune_sizes.add_arguments(parser)
    parser.add_argument(
        "--trials",
        metavar="N",
        type=options.count("--trials", 0),
        help=f"stop at N trials, those of earlier runs included; 0 for a model's choice, with nothing timed; default "
        f"{TRIALS}, or no limit with --budget; with --at, of all sizes together, by default 100 for each",
    )
    parser.add_argument(
        "--budget", metavar="TIME", type=options.duration("--budget"), help="stop after this time, such as 60s or 5m"
    )
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
        "--input", metavar="IMAGE", help="tune on this image; it decides channels and dtype where --param does not"
    )
    options.add_records(parser, "-o", "--output", help="folder to resume from and record to; default ./records")
    parser.add_argument(
        "--progress",
        choices=PROGRESS_MODES,
        default="auto",
        help="how to show progress on standard error; auto is live on a terminal, else plain",
    )
    options.add_json(parser)
    _add_measuring(parser.add_argument_group("measuring"))


def _add_measuring(group: Any) -> None:
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


def run(args: argparse.Namespace) -> int:
    from autosched.cli.images import read_image
    from autosched.report.progress import make_display
    from autosched.report.standing import Standing, standing
    from autosched.report.summary import summary_lines
    from autosched.space.workload import Workload
    from autosched.target import Target
    from autosched.tuning import tune

    if args.input is not None and args.size:
        raise UsageError("the image decides on the sizes", asked="--input and --size", legal="leave one of them out")
    if not args.at and (args.kernels or args.tolerance):
        raise UsageError(
            "they are for several sizes, and none are given",
            asked="--kernels, --tolerance",
            legal="with --at NAME=N,.. once for each size",
        )
    if args.at:
        return tune_sizes.run(args, _common(args))
    image = read_image(args.input) if args.input is not None else None
    workload = choose_tunable(args, image) if image is None else choose_workload(args, image)
    target = Target.parse(args.target)
    if image is not None and isinstance(workload, Workload):
        check_image(workload, image, args.input)
    with make_display(args.progress, sys.stderr) as display:
        result = tune(
            workload,
            target,
            **_common(args),
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
    return _status(result)


def _common(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `tune` that `tune_sizes` has, too."""
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


def _resume(args: argparse.Namespace, result: TuneResult) -> str:
    """The command that goes on from here: the same one, with more trials where they are used up."""
    words = list(args.words)
    limit = _limit(args)
    if limit is not None and not result.interrupted and result.resumed + result.trials >= limit:
        at = next((i for i, w in enumerate(words) if w == "--trials" or w.startswith("--trials=")), None)
        if at is not None:
            del words[at : at + (2 if words[at] == "--trials" else 1)]
        words += ["--trials", str(limit + max(result.trials, TRIALS))]
    return f"{options.program()} {shlex.join(words)}"


def _limit(args: argparse.Namespace) -> int | None:
    trials: int | None = args.trials
    return TRIALS if trials is None and args.budget is None else trials


def _status(result: TuneResult) -> int:
    """130 or 143 when interrupted; 3 when trials were made and every one of them failed."""
    if result.interrupted:
        return interrupted_status()
    all_failed = result.best is None and 0 < result.trials <= sum(result.failures.values())
    return MeasureError.exit_status if all_failed else 0
