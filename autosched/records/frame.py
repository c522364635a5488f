"""Records as a table: `load("box_blur")` is a `pandas.DataFrame`, one row per line of the log."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.errors import RecordError, did_you_mean, expect
from autosched.records.folders import find_files, find_folders
from autosched.records.log import LogContents, Place, Problem, read_files
from autosched.records.record import Record, of_records

if TYPE_CHECKING:
    import pandas as pd


class Slimmer:
    """Makes records slim; one for all that are read together, because they share parts."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, r: Record) -> Record:
        text = json.dumps(r.trace, sort_keys=True)
        digest = self._known.setdefault(text, hashlib.sha256(text.encode()).hexdigest()[:24]) if r.trace else ""
        return replace(
            r,
            workload=self._shared(r.workload),
            device=self._shared(r.device),
            versions=self._shared(r.versions),
            trace=self._shared([digest] if digest else []),
            extra=self._shared({name: value for name, value in r.extra.items() if name not in ("features", "code")}),
            knobs={sys.intern(name): value for name, value in r.knobs.items()},
            target=sys.intern(r.target),
            sketch=sys.intern(r.sketch),
            status=sys.intern(r.status),
            verified=sys.intern(r.verified),
            strategy=sys.intern(r.strategy),
            run=sys.intern(r.run),
        )

    def _shared(self, value: Any) -> Any:
        """The first of equal values."""
        return self._known.setdefault(json.dumps(value, sort_keys=True), value)


Source = str | os.PathLike[str]

#: Records that are made into a table at a time.
_CHUNK = 10_000
#: Problems of one file that a warning spells out.
_SPELLED = 3


class RecordWarning(UserWarning):
    """Lines of a record file that could not be used."""


def load(source: Source | Iterable[Source] | None = None) -> pd.DataFrame:
    """Read records into a table; `docs/records.md` lists its columns.

    `source` is a file, a folder (its `*.jsonl`), the name of a workload, several of these, or None
    for all records that autosched can find. Unusable lines are skipped with a `RecordWarning`.
    Raises RecordError for a file that cannot be read and for a workload without records.
    """
    contents = read_files(files_of_sources(source), keep=Slimmer())
    _warn(contents.problems)
    return to_frame(contents)


def files_of_sources(source: Source | Iterable[Source] | None) -> list[Path]:
    """The files that `load` reads, each once. Raises RecordError and UsageTypeError as it does."""
    if source is None:
        return [file for folder in find_folders() for file in _logs_in(folder)]
    if isinstance(source, (str, os.PathLike)):
        return _files_of(source)
    what = "a path, the name of a workload, or a list of them"
    expect(source, what, isinstance(source, Iterable), "records.load")
    return list(dict.fromkeys(file for one in source for file in _files_of(one)))


def to_frame(contents: LogContents | Sequence[Record]) -> pd.DataFrame:
    """The table of records that are already in memory."""
    import pandas as pd

    if not isinstance(contents, LogContents):
        contents = LogContents(tuple(of_records(contents, "to_frame")))
    pairs = list(zip_longest(contents.records, contents.places))
    parts = [_part(pairs[at : at + _CHUNK]) for at in range(0, max(len(pairs), 1), _CHUNK)]
    table = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    for kind in ("size.", "knob."):  # columns that come up late go to their own kind
        own = [name for name in table.columns if name.startswith(kind)]
        table = table[[name for name in table.columns if name not in own] + own]
    return table


def _part(pairs: Sequence[tuple[Record, Place | None]]) -> pd.DataFrame:
    """A table of some records: rows are dicts for as long as it takes."""
    import pandas as pd

    rows = [_row(r, place) for r, place in pairs]
    names = dict.fromkeys(name for row in rows for name in row if name not in _FIXED)
    kinds = _FIXED | dict.fromkeys(sorted(names, key=lambda name: name.startswith("knob.")), "Int64")
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=kind) for name, kind in kinds.items()}
    columns["at"] = pd.to_datetime(columns["at"], utc=True, format="ISO8601")
    return pd.DataFrame(columns)


#: The columns of every table, in order, with their pandas types.
_FIXED = {
    "workload": "str",
    "key": "str",
    "target": "str",
    "device": "str",
    "sketch": "str",
    "status": "str",
    "seconds": "float64",
    "samples": "object",
    "verified": "str",
    "playoff": "boolean",
    "error": "str",
    "build_s": "float64",
    "strategy": "str",
    "seed": "Int64",
    "trial": "Int64",
    "run": "str",
    "id": "str",
    "at": "str",
    "file": "str",
    "line": "Int64",
}


def _row(record: Record, place: Place | None) -> dict[str, Any]:
    playoff = record.playoff
    row: dict[str, Any] = {name: getattr(record, name, None) for name in _FIXED} | {
        "workload": record.workload["name"],
        "device": record.device_name,
        # Missing rather than infinite, so that mean() and plots of a column make sense.
        "seconds": record.seconds if record.ok else None,
        "playoff": None if playoff is None else playoff.get("winner") is True,
        "file": "" if place is None else str(place.path),
        "line": None if place is None else place.line,
    }
    row |= {f"size.{name}": value for name, value in record.sizes.items()}
    row |= {f"knob.{name}": value for name, value in record.knobs.items()}
    return row


def _logs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _files_of(source: Source) -> list[Path]:
    expect(source, "a path, or the name of a workload", isinstance(source, (str, os.PathLike)), "records.load")
    path = Path(source).expanduser()
    if os.path.isdir(path):
        return _logs_in(path)
    name = os.fspath(source)
    if os.path.exists(path) or path.suffix == ".jsonl" or os.sep in name:
        return [path]
    files = find_files(name)
    if not files:
        folders = find_folders()
        names = sorted({file.name.rsplit(".", 2)[0] for folder in folders for file in _logs_in(folder)})
        hint = did_you_mean(name, names)
        where = ", ".join(map(str, folders)) or "no folder"
        raise RecordError(
            "no records of this workload, and no such file",
            asked=f"load({name!r})",
            legal=f"{hint}looked in {where}; found {', '.join(names) or 'nothing'}",
        )
    return files


def _warn(problems: Iterable[Problem]) -> None:
    by_file: dict[Path, list[Problem]] = {}
    for problem in problems:
        by_file.setdefault(problem.place.path, []).append(problem)
    for path, found in by_file.items():
        spelled = "; ".join(f"line {p.line}: {p.reason}" for p in found[:_SPELLED])
        more = f"; and {len(found) - _SPELLED} more" if len(found) > _SPELLED else ""
        warnings.warn(f"{path}: {len(found)} unusable: {spelled}{more}", RecordWarning, stacklevel=3)
