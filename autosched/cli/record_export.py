"""`autosched records export`: records for other programs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from autosched.cli import options
from autosched.cli.records import files_of
from autosched.errors import RecordError, UsageError, named_file, new_file
from autosched.places import write_whole
from autosched.records import (
    LogContents,
    Record,
    Slimmer,
    Task,
    by_task,
    one_task,
    read_files,
    to_frame,
    to_study,
    to_t4,
)
from autosched.records.exporting import DATABASES, studies_in, study_name
from autosched.report.text import plural

#: ends of names -> what is written where nobody says; those of a database are Optuna's
_ENDS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "t4",
    ".journal": "optuna",
    **dict.fromkeys(DATABASES, "optuna"),
}


def run(args: argparse.Namespace) -> int:
    kind = args.format or _kind_of(args.output)
    _check(args, kind)
    files = files_of(args.sources, options.records_folder(args))
    contents = read_files(files, keep=None if kind == "optuna" else Slimmer())  # a study needs the values of knobs
    for problem in contents.problems:  # these are no rows, so they are told apart
        print(f"warning: {problem}", file=sys.stderr)
    write = {"csv": _csv, "parquet": _parquet, "t4": _t4, "optuna": _optuna}[kind]
    written = write(args, contents)
    if args.json:
        options.emit({"format": kind, "lines": len(contents.records), "written": written})
    elif written:
        where = written[0] if len(written) == 1 else f"{len(written)} files in {args.output}"
        print(f"{plural(len(contents.records), 'line')} written to {where}", file=sys.stderr)
    return 0


def _kind_of(output: str | None) -> str:
    if output is None:
        return "csv"
    if "://" in output:
        return "optuna"
    suffix = Path(output).suffix
    if suffix not in _ENDS:
        legal = f"--format csv, parquet, t4 or optuna, or a name that ends in {', '.join(_ENDS)}"
        raise UsageError("its name does not say which format it has", asked=f"records export -o {output}", legal=legal)
    return _ENDS[suffix]


def _check(args: argparse.Namespace, kind: str) -> None:
    """Raise UsageError for what cannot be written, before anything is read."""
    asked = f"records export --format {kind}"
    if args.output is None and (kind in ("parquet", "optuna") or args.json):
        why = "it goes to a file" if not args.json else "standard output is for JSON"
        raise UsageError(why, asked=asked, legal=f"-o FILE{'.db' if kind == 'optuna' else ''}")
    if kind == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("the package pyarrow, which writes it, is not installed", asked=asked,
                         legal="pip install pyarrow, or --format csv")  # fmt: skip
    if kind in ("csv", "parquet") and args.output is not None:
        _refuse_to_replace(args, Path(args.output).expanduser())


def _refuse_to_replace(args: argparse.Namespace, file: Path) -> None:
    new_file(file, f"records export -o {file}", args.force)


def _csv(args: argparse.Namespace, contents: LogContents) -> list[str]:
    frame = to_frame(contents)
    if args.output is None:
        frame.to_csv(sys.stdout, index=False)
        return []
    return [_written(Path(args.output).expanduser(), lambda out: frame.to_csv(out, index=False))]


def _parquet(args: argparse.Namespace, contents: LogContents) -> list[str]:
    frame = to_frame(contents)
    return [_written(Path(args.output).expanduser(), lambda out: frame.to_parquet(out, index=False, engine="pyarrow"))]


def _t4(args: argparse.Namespace, contents: LogContents) -> list[str]:
    groups = by_task(contents.records)
    output = None if args.output is None else Path(args.output).expanduser()
    if output is None or output.suffix == ".json":
        try:
            one_task(contents.records, "records export --format t4")
        except RecordError as error:
            raise RecordError(error.why, asked=error.asked, legal=f"-o FOLDER, or {error.legal}") from None
        text = _json(contents.records)
        if output is None:
            sys.stdout.buffer.write(text)
            return []
        _refuse_to_replace(args, output)
        return [_written(output, lambda out: out.write(text))]
    names = {output / f"{_file_name(rs[0])}.json": rs for rs in groups.values()}
    for file in names:
        _refuse_to_replace(args, file)
    return [_written(file, lambda out, rs=rs: out.write(_json(rs))) for file, rs in names.items()]  # type: ignore[misc]


def _file_name(r: Record) -> str:
    return f"{r.workload['name']}.{r.target_kind}.{zlib.crc32(repr(Task.of(r)).encode()):08x}"


def _json(records: Any) -> bytes:
    return (json.dumps(to_t4(records), indent=1, allow_nan=False) + "\n").encode()


def _optuna(args: argparse.Namespace, contents: LogContents) -> list[str]:
    if not contents.records:
        raise RecordError("there are no records", asked="records export --format optuna", legal="records of some task")
    tasks = {study_name(records[0]): records for records in by_task(contents.records).values()}
    there = [] if args.force else [name for name in studies_in(args.output) if name in tasks]
    if there:  # before the first is written
        legal = "--force, or another file"
        raise UsageError("it has a study of this name", asked=f"{args.output}: {there[0]}", legal=legal)
    for records in tasks.values():
        study = to_study(records, args.output, replace=args.force)
        print(f"{study.study_name}: {plural(len(study.trials), 'trial')}", file=sys.stderr)
    return [args.output]


def _written(file: Path, write: Callable[[IO[bytes]], object]) -> str:
    with named_file(f"records export -o {file}"):
        write_whole(file, write)
    return str(file)
