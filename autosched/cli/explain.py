"""Say what each call of a schedule is worth: undo it, measure again, interleaved with the schedule as it is.

RECORD is a workload, for its best record on the target; an id that `records` shows, or the beginning of one; or
FILE.jsonl:LINE, or FILE.jsonl for the best in it. A call that cannot be undone alone says why. See docs/explain.md.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from autosched.cli import options
from autosched.cli.workloads import choose_tunable, sizes_of
from autosched.errors import UsageError

if TYPE_CHECKING:
    from autosched.explaining.subject import Explainable

EXAMPLES = """\
examples:
  %(prog)s box_blur
  %(prog)s matmul --param dtype=int8
  %(prog)s 47068b8e
  %(prog)s records/conv2d_nchw.llvm.jsonl:14 --rounds 31
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_record(parser)
    options.add_json(parser)


def add_record(parser: argparse.ArgumentParser) -> None:
    """The options that `explain` and `simplify` share."""
    options.add_workload(
        parser,
        metavar="RECORD",
        help="a workload (its best record), the id of a record, FILE.jsonl:LINE, or FILE.jsonl (the best in it)",
    )
    parser.add_argument(
        "--target", metavar="TARGET", default=None, help="what to run on; default: what the record is for, or llvm"
    )
    options.add_records(parser, help="look for records in this folder only")
    about = "rounds of the play-offs, at least 6; default %(default)s, and more where they do not decide"
    options.add_count(parser, "--rounds", about, default=15, least=6)


def chosen(args: argparse.Namespace) -> tuple[Explainable, dict[str, Any]]:
    """What is meant, and the arguments of `explain` and `simplify`. Raises UsageError and WorkloadError."""
    from autosched.explaining.subject import means_record

    more: dict[str, Any] = {"records": options.records_folder(args), "rounds": args.rounds}
    more["progress"] = partial(print, file=sys.stderr, flush=True)
    if means_record(args.workload):
        for option in ("param", "size"):
            if getattr(args, option):
                raise UsageError(
                    "a record has its own", asked=f"--{option} with {args.workload}", legal="the name of a workload"
                )
        return args.workload, {**more, "target": args.target}
    found = choose_tunable(args)
    return found, {**more, "target": args.target, "sizes": sizes_of(args, found) or None}


def run(args: argparse.Namespace) -> int:
    from autosched.explaining import explain

    what, more = chosen(args)
    found = explain(what, **more)
    if args.json:
        options.emit(found.to_json())
    else:
        print(found)
    return 0
