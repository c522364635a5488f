"""`autosched compare` and `autosched records verify`: schedules measured in turns."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from autosched.cli import options
from autosched.cli.records import files_of
from autosched.cli.workloads import choose_tunable, sizes_of
from autosched.errors import MeasureError, RecordError, UsageError, VerificationError
from autosched.explaining import compare, verify
from autosched.records import read_files
from autosched.report.text import plural

#: exit status where a record is slower than `--regress` lets it be
REGRESSED = 7


def run(args: argparse.Namespace) -> int:
    return _verify(args) if args.verb == "records verify" else _compare(args)


def _compare(args: argparse.Namespace) -> int:
    workload, sizes = None, None
    if args.workload is not None:
        workload = choose_tunable(args)
        sizes = sizes_of(args, workload) or None
    elif args.param or args.size:
        option = "--param" if args.param else "--size"
        raise UsageError("a record has its own", asked=f"{option} without --workload", legal="--workload NAME")
    found = compare(
        args.a,
        args.b,
        args.target,
        workload=workload,
        records=options.records_folder(args),
        sizes=sizes,
        rounds=args.rounds,
        progress=partial(print, file=sys.stderr, flush=True),
    )
    if args.json:
        options.emit(found.to_json())
    else:
        print(found)
    return 0


def _verify(args: argparse.Namespace) -> int:
    contents = read_files(files_of(args.sources, options.records_folder(args)))
    for problem in contents.problems:
        print(f"warning: {problem}", file=sys.stderr)
    tell = partial(print, file=sys.stderr, flush=True)
    found = verify(contents.records, regress=args.regress, rounds=args.rounds, progress=tell)
    counts = found.counts()
    if args.json:
        rows = [row.to_json() for row in found.rows]
        options.emit({"records": rows, "counts": counts, "elsewhere": found.elsewhere, "regress": args.regress})
    else:
        for row in found.rows:
            print(row)
        said = ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing to verify"
        more = f"; {plural(found.elsewhere, 'task')} of other devices or logs passed over" if found.elsewhere else ""
        print(f"{said}{more}")
    exits = {"wrong": VerificationError.exit_status, "slower": REGRESSED, "failed": RecordError.exit_status, "ok": 0}
    return exits[next(iter(counts))] if counts else MeasureError.exit_status
