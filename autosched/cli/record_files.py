"""`autosched records repair`, `merge`, `prune`, `split` and `diff`: files of records as wholes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.cli import options
from autosched.cli.records import files_of, problem_rows
from autosched.errors import RecordError, UsageError
from autosched.records import (
    Change,
    Moved,
    Slimmer,
    difference,
    find_folders,
    merge,
    prune,
    read_files,
    repair,
    split,
    task_text,
)
from autosched.report.text import plural, seconds, table


def run(args: argparse.Namespace) -> int:
    action = {"repair": _repair, "merge": _merge, "prune": _prune, "split": _split, "diff": _diff}
    return action[args.verb.split()[1]](args)


def _files(args: argparse.Namespace) -> list[Path]:
    """The files to change or copy: those that come with autosched only where they are named."""
    return files_of(args.sources, options.records_folder(args), packaged=False)


def _repair(args: argparse.Namespace) -> int:
    found = [repair(file, dry_run=args.dry_run) for file in _files(args)]
    if args.json:
        rows = [
            {"file": str(r.path), "kept": r.kept, "rescued": r.rescued, "damaged": problem_rows(r.problems)}
            | {"aside": None if r.aside is None else str(r.aside)}
            for r in found
        ]
        options.emit({"files": rows, "dry_run": args.dry_run})
        return 0
    for r in found:
        for problem in r.problems:
            print(problem)
        if r.problems:
            rescued = f", {plural(r.rescued, 'record')} inside of them kept" if r.rescued else ""
            where = f" moved to {r.aside}" if r.aside is not None else " would be moved"
            print(f"{r.path}: {plural(len(r.problems), 'damaged line')}{where}{rescued}; {r.kept} good")
    if not any(r.problems for r in found):
        print(f"nothing to repair in {plural(len(found), 'file')}")
    return 0


def _merge(args: argparse.Namespace) -> int:
    return _tell_moved(args, merge(_files(args), Path(args.output).expanduser(), dry_run=args.dry_run))


def _split(args: argparse.Namespace) -> int:
    into, by = Path(args.output).expanduser(), args.by or ["workload"]
    return _tell_moved(args, split(_files(args), into, by, dry_run=args.dry_run))


def _tell_moved(args: argparse.Namespace, found: Moved) -> int:
    if args.json:
        options.emit(
            {"lines": found.lines, "written": {str(p): n for p, n in found.written.items()}}
            | {"duplicates": found.duplicates, "damaged": problem_rows(found.problems)}
            | {"aside": list(map(str, found.aside)), "dry_run": args.dry_run}
        )
        return 0
    for problem in found.problems:
        print(f"warning: {problem}", file=sys.stderr)
    would = "would be " if args.dry_run else ""
    for file, count in found.written.items():
        if count:
            print(f"{file}: {plural(count, 'line')} {would}added")
    notes = [f"{plural(found.lines, 'line')} read"]
    notes += [f"{plural(found.duplicates, 'duplicate')} dropped"] if found.duplicates else []
    if found.aside:
        notes.append(f"{len(found.problems)} damaged, {would}kept in {', '.join(map(str, found.aside))}")
    print("; ".join(notes))
    return 0


def _prune(args: argparse.Namespace) -> int:
    if args.keep is None and args.older is None and not args.failures:
        raise UsageError(
            "nothing says what to drop", asked="records prune", legal="--keep N, --older TIME or --failures"
        )
    before = None if args.older is None else time.time() - args.older
    more: dict[str, Any] = {"keep": args.keep, "before": before, "failures": args.failures, "dry_run": args.dry_run}
    found = prune(_files(args), **more)
    if args.json:
        rows = [{"file": str(p), "kept": found.kept[p], "dropped": found.dropped[p]} for p in found.kept]
        options.emit(
            {"files": rows, "reasons": found.reasons, "damaged": problem_rows(found.problems), "dry_run": args.dry_run}
        )
        return 0
    for problem in found.problems:
        print(f"warning: {problem}; it stays where it is", file=sys.stderr)
    would = "would drop" if args.dry_run else "dropped"
    for file, gone in found.dropped.items():
        if gone:
            print(f"{file}: {would} {gone} of {plural(gone + found.kept[file], 'line')}")
    why = ", ".join(f"{reason} {count}" for reason, count in found.reasons.most_common())
    print(f"{would} {plural(sum(found.dropped.values()), 'line')}{f': {why}' if why else ''}")
    return 0


def _diff(args: argparse.Namespace) -> int:
    sides = [read_files(_side(word), keep=Slimmer()) for word in (args.before, args.after)]
    for word, side in zip((args.before, args.after), sides, strict=True):
        if side.problems and not side.records:
            raise RecordError(f"no line is a record: {side.problems[0]}", asked=f"records diff {word}", legal="records")
    changes = difference(*(side.records for side in sides))
    for problem in (p for side in sides for p in side.problems):
        print(f"warning: {problem}", file=sys.stderr)
    if args.json:
        options.emit({"before": args.before, "after": args.after, "tasks": [c.to_json() for c in changes]})
        return 0
    for verdict in ("gone", "new"):
        for c in changes:
            if c.verdict == verdict:
                print(f"{verdict}: {task_text(c.any)}, {seconds(c.any.seconds)}")
    both = [c for c in changes if c.before is not None and c.after is not None and c.verdict != "same"]
    if both:
        rows = [_change_row(c) for c in sorted(both, key=lambda c: -c.ratio)]
        print("\n".join(table(rows, ("A", "B", "B over A", "chance", "", "task"), right=(0, 1, 2, 3))))
    same = sum(c.verdict == "same" for c in changes)
    counts = [f"{sum(c.verdict == v for c in changes)} {v}" for v in ("slower", "faster", "not clear", "new", "gone")]
    print("; ".join([f"{plural(len(changes), 'task')}: {', '.join(counts)}", f"{same} the same measurement"]))
    return 0


def _change_row(c: Change) -> Sequence[str]:
    assert c.before is not None and c.after is not None
    times = seconds(c.before.seconds), seconds(c.after.seconds)
    return (*times, f"{c.ratio:.2f}x", f"{c.chance:.2g}", c.verdict, task_text(c.after))


def _side(word: str) -> list[Path]:
    """The files of one side of a difference: a folder's, or one."""
    path = Path(word).expanduser()
    if os.path.isdir(path):
        return sorted(path.glob("*.jsonl"))
    if not path.exists():
        where = ", ".join(map(str, find_folders()))
        legal = f"a folder or a .jsonl file; records are found in {where or 'no folder'}"
        raise RecordError("there is no such folder or file", asked=f"records diff {word}", legal=legal)
    return [path]
