"""`autosched report`: what searches did, as a page."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from autosched.cli import options
from autosched.cli.records import files_of
from autosched.html.report import write_report
from autosched.target import Target

#: seconds between two looks at the records
EVERY_S = 3


def run(args: argparse.Namespace) -> int:
    files = files_of(args.sources, options.records_folder(args))
    target = None if args.target is None else Target.parse(args.target)
    title = ", ".join(Path(s).stem for s in args.sources[:3]) or "All searches"
    commands = [f"{options.program()} report {shlex.join([*args.sources, '-o', args.output])}"]
    commands[:0] = [f"{options.program()} tune {shlex.quote(s)}" for s in args.sources if Path(s).suffix != ".jsonl"]

    folder = files[0].parent if files else None
    explained, compared = folder if args.explain else None, folder if args.compare else None

    def write(replace: bool) -> Path:
        return write_report(
            files, args.output, replace=replace, chosen=lambda r: target is None or r.target_kind == target.kind,
            title=title, commands=commands, explained=explained, compared=compared,
            refresh_s=EVERY_S if args.watch else 0,
        )  # fmt: skip

    written = write(args.force)
    if args.json:
        options.emit({"report": str(written), "bytes": written.stat().st_size, "files": [str(f) for f in files]})
    else:
        print(f"{written}: {written.stat().st_size:,} bytes")
    seen = _state(files)
    while args.watch:
        time.sleep(EVERY_S)
        if (now := _state(files)) != seen:
            seen = now
            write(True)
            print(f"{time.strftime('%H:%M:%S')} written again", file=sys.stderr)
    return 0


def _state(files: list[Path]) -> list[tuple[int, int]]:
    return [(s.st_size, s.st_mtime_ns) for f in files if f.exists() for s in [f.stat()]]
