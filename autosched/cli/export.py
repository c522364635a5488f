"""`autosched export`: a kernel as a folder for builds without Python."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosched.cli import options
from autosched.cli.show import provenance_line
from autosched.cli.workloads import choose_workload, sizes_of
from autosched.exporting.exports import export
from autosched.runtime.device import resolve_target


def run(args: argparse.Namespace) -> int:
    workload = choose_workload(args)
    sizes = sizes_of(args, workload) or None
    folder = Path(args.output).expanduser()
    target, records = resolve_target(args.target), options.records_folder(args)
    given = {"records": records, "name": args.name, "effort": args.effort, "force": args.force}
    written = export(workload, folder, target, sizes=sizes, **given)
    if args.json:
        about = {"workload": repr(workload), "target": str(target), "signature": written.signature}
        options.emit(about | {"provenance": written.provenance, "output": str(folder), "files": written.files})
        return 0
    print(provenance_line(repr(workload), str(target), dict(written.provenance)))
    print(f"signature {written.signature}")
    print(f"{folder}: {written}; README.md has the commands that build with them")
    return 0
