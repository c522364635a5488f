"""Where records are: which folders are read, and which one is written.

Order: the argument, `AUTOSCHED_RECORDS`, `records/` in each folder of `AUTOSCHED_PATH`, `records/` in
the working directory, and the records that come with autosched.
"""

from __future__ import annotations

import os
from pathlib import Path

from autosched.records.log import LogContents, default_path, read_files

__all__ = ["find_files", "find_folder", "find_folders", "read_workload"]


def find_folder(explicit: str | os.PathLike[str] | None = None) -> Path:
    """The folder new records go to: the first of the order that is named, else `./records`.

    It need not exist. The records that come with autosched are never written to from elsewhere.
    """
    return Path(explicit).expanduser() if explicit is not None else _named()[0]


def find_folders(explicit: str | os.PathLike[str] | None = None) -> list[Path]:
    """The existing folders to read, in order, each once.

    An explicit folder is the only one read: who names it wants to see those records and no others.
    """
    candidates = [Path(explicit).expanduser()] if explicit is not None else [*_named(), _packaged()]
    found: dict[Path, Path] = {}
    for folder in candidates:
        if folder.is_dir():
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def find_files(
    workload: str, target_kind: str | None = None, explicit: str | os.PathLike[str] | None = None
) -> list[Path]:
    """The existing logs of a workload, for one kind of target or for all, in reading order."""
    files = []
    for folder in find_folders(explicit):
        if target_kind is None:
            prefix = default_path(workload, "any", folder).name.removesuffix("any.jsonl")
            logs = sorted(p for p in folder.glob("*.jsonl") if p.name.startswith(prefix))
            # A kind has no dot: `blur.v2.llvm` is no log of `blur`.
            files += [p for p in logs if "." not in p.name.removeprefix(prefix).removesuffix(".jsonl")]
        else:
            path = default_path(workload, target_kind, folder)
            files += [path] if path.is_file() else []
    return files


def read_workload(workload: str, target_kind: str, explicit: str | os.PathLike[str] | None = None) -> LogContents:
    """All records of a workload and kind of target, merged. Empty when there are none.

    Raises RecordError when a file exists but cannot be read.
    """
    return read_files(find_files(workload, target_kind, explicit))


def _named() -> list[Path]:
    """The folders that the environment names, and the working directory's: never empty."""
    folders = []
    if own := os.environ.get("AUTOSCHED_RECORDS"):
        folders.append(Path(own).expanduser())
    roots = os.environ.get("AUTOSCHED_PATH", "").split(os.pathsep)
    folders += [Path(root).expanduser() / "records" for root in roots if root]
    return [*folders, Path("records")]


def _packaged() -> Path:
    """The records that come with autosched: in its wheel, or at the top of its checkout."""
    package = Path(__file__).resolve().parent.parent
    # The wheel's first: beside an installed package, `records` may belong to somebody else.
    in_wheel = package / "_packaged" / "records"
    return in_wheel if in_wheel.is_dir() else package.parent / "records"
