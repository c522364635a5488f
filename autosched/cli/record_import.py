"""`autosched records import`: logs of AutoTVM, auto_scheduler and TenSet as records."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from autosched.cli import options
from autosched.errors import AutoschedError, RecordError, UsageError
from autosched.explaining import measured_here
from autosched.records import Record, RecordLog, by_task, default_path, encode, task_text
from autosched.records.editing import add_missing
from autosched.report.text import plural, ratio, seconds
from autosched.space.loading import load_file
from autosched.tvm.importing import Imported, import_logs

#: Reasons that are listed.
_LISTED = 20


def run(args: argparse.Namespace) -> int:
    if args.output is None and not args.dry_run:
        raise UsageError("nothing says where to", asked="records import", legal="-o DIR, or --dry-run")
    if args.measure is not None and args.dry_run:
        raise UsageError(
            "nothing is measured in a dry run", asked="records import --measure", legal="without --dry-run"
        )
    for file in args.define:
        path = Path(file).expanduser()
        if not path.is_file():
            raise UsageError("no such file", asked=f"--define {file}", legal="a Python file")
        load_file(path)
    found = import_logs(*args.files, tell=lambda text: print(text, file=sys.stderr))
    written = {} if args.dry_run else _write(found, Path(args.output).expanduser())
    measured = _measure(found, args) if args.measure is not None else []
    if args.json:
        options.emit(
            {"records": len(found.records), "passed_over": found.passed_over, "dry_run": args.dry_run}
            | {"written": {str(p): n for p, n in written.items()}}
            | {"tasks": [_task_row(rs) for rs in by_task(found.records).values()], "measured": measured}
        )
    else:
        _tell(found, written)
    if not found.records:
        raise RecordError(
            "no line became a record", asked=f"records import {' '.join(args.files):.200}",
            legal="--define FILE.py that registers what it is about; see docs/records.md",
        )  # fmt: skip
    return 0


def _write(found: Imported, folder: Path) -> dict[Path, int]:
    lines: dict[Path, list[bytes]] = {}
    for r in found.records:
        lines.setdefault(default_path(r.workload["name"], r.target_kind, folder), []).append(encode(r).encode())
    return {file: add_missing(file, of) for file, of in lines.items()}


def _measure(found: Imported, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the fastest of each task here; returns a row for each, with the reason for one that did not work."""
    rows, folder = [], Path(args.output).expanduser()
    for records in by_task(found.records).values():
        fastest = sorted((r for r in records if r.ok), key=lambda r: (r.seconds, r.id))[: args.measure]
        for r in fastest:
            row: dict[str, Any] = {"record": r.id, "task": task_text(r), "logged": r.seconds}
            try:
                made, speedup = measured_here(r, found.workloads[r.key])
                RecordLog(default_path(r.workload["name"], made.target_kind, folder)).append(made)
                row |= {"measured": made.id, "seconds": made.seconds, "speedup": speedup, "why": ""}
                said = f"{seconds(made.seconds)} here, {ratio(speedup)} over the default; record {made.id}"
            except AutoschedError as error:
                row |= {"measured": None, "seconds": None, "speedup": None, "why": error.why}
                said = error.why
            rows.append(row)
            print(f"{r.workload['name']}, {seconds(r.seconds)} in the log: {said}", file=sys.stderr)
    return rows


def _task_row(records: list[Record]) -> dict[str, Any]:
    best = min(records, key=lambda r: r.seconds)
    return {"task": task_text(best), "records": len(records), "ok": sum(r.ok for r in records), "best": best.seconds}


def _tell(found: Imported, written: dict[Path, int]) -> None:
    for records in by_task(found.records).values():
        row = _task_row(records)
        fastest = f", fastest {seconds(row['best'])}" if row["ok"] else ""
        print(f"{row['task']}: {plural(row['records'], 'record')}, {row['ok']} ok{fastest}")
    for file, count in written.items():
        print(f"{file}: {plural(count, 'line')} added")
    for reason, count in found.passed_over.most_common(_LISTED):
        print(f"{plural(count, 'line')} passed over: {reason}", file=sys.stderr)
    if len(found.passed_over) > _LISTED:
        print(f"and {len(found.passed_over) - _LISTED} more reasons", file=sys.stderr)
