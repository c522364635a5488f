"""`autosched explain` and `autosched simplify`: what the calls of a schedule are worth."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from autosched.cli import options
from autosched.cli.workloads import choose_tunable, sizes_of
from autosched.errors import UsageError
from autosched.explaining import explain, simplify
from autosched.explaining.subject import Explainable, means_record


def _chosen(args: argparse.Namespace) -> tuple[Explainable, dict[str, Any]]:
    """The record or workload, and the arguments of `explain` and `simplify`. Raises UsageError or WorkloadError."""
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
    what, more = _chosen(args)
    if args.verb == "simplify":
        return _simplify(args, what, more)
    found = explain(what, **more)
    if args.json:
        options.emit(found.to_json())
    else:
        print(found)
    return 0


def _simplify(args: argparse.Namespace, what: Explainable, more: dict[str, Any]) -> int:
    found = simplify(what, **more, write=args.write)
    if args.json:
        options.emit(found.to_json())
        return 0
    print("\n".join(found.headline()), file=sys.stderr)
    for line in found.removed:
        print(f"  gone: {line}", file=sys.stderr)
    print(found.schedule_python.rstrip("\n"))
    if found.record is not None:
        print(f"record {found.record.id} written to {found.written}", file=sys.stderr)
    elif args.write:
        print("nothing can go: no record is written", file=sys.stderr)
    return 0
