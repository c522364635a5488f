"""Folders of records: those that are read, and the one that is written.

Order: the argument, `AUTOSCHED_RECORDS`, `records/` in each folder of `AUTOSCHED_PATH`, `records/` in the working
directory, that in the user's data folder, and the records that come with autosched, which are only ever read.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import cast

from autosched.errors import expect
from autosched.places import data_folder
from autosched.records.log import LogContents, default_path, read_files


def find_folder(explicit: str | os.PathLike[str] | None = None) -> Path:
    """The folder new records go to: the argument, else what the environment names, else `./records` where that
    exists, else `records` in the user's data folder.

    It need not exist. The records that come with autosched are written to by nobody who does not name their folder:
    in a checkout, `./records` is passed over.
    """
    if explicit is not None:
        return _folder(explicit)
    return next(iter(_own()), Path("records"))


def find_folders(explicit: str | os.PathLike[str] | None = None, *, packaged: bool = True) -> list[Path]:
    """The existing folders to read, in order, each once; without those that come with autosched unless `packaged`.

    An explicit folder is the only one read: who names it wants to see those records and no others.
    """
    if explicit is not None:
        candidates = [_folder(explicit)]
    else:
        candidates = [*_own(), *([packaged_folder()] if packaged else [])]
    found: dict[Path, Path] = {}
    for folder in candidates:
        if os.path.isdir(folder):
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def find_files(
    workload: str | None,
    target_kind: str | None = None,
    explicit: str | os.PathLike[str] | None = None,
    *,
    packaged: bool = True,
) -> list[Path]:
    """The existing logs of a workload, or of all, for one kind of target or for all, in reading order."""
    files = []
    for folder in find_folders(explicit, packaged=packaged):
        if workload is None:
            files += sorted(folder.glob(f"*.{target_kind or '*'}.jsonl"))
        elif target_kind is None:
            prefix = default_path(workload, "any", folder).name.removesuffix("any.jsonl")
            logs = sorted(p for p in folder.glob("*.jsonl") if p.name.startswith(prefix))
            # A kind has no dot: `blur.v2.llvm` is no log of `blur`.
            files += [p for p in logs if "." not in p.name.removeprefix(prefix).removesuffix(".jsonl")]
        else:
            path = default_path(workload, target_kind, folder)
            files += [path] if os.path.isfile(path) else []
    return files


def read_workload(
    workload: str | None,
    target_kind: str,
    explicit: str | os.PathLike[str] | None = None,
    *,
    key: str | None = None,
    packaged: bool = True,
) -> LogContents:
    """The records of a workload and kind of target, merged: all of them, or those with this `key` alone, for which
    the other lines are not decoded. Empty when there are none.

    workload: None for that key whatever the workload is called
    packaged: whether those that come with autosched are among them

    Raises RecordError when a file exists but cannot be read.
    """
    return read_files(find_files(workload, target_kind, explicit, packaged=packaged), key=key)


def _folder(explicit: object) -> Path:
    """The folder that a caller names. Raises UsageTypeError for what is no path."""
    expect(explicit, "the path of a folder", isinstance(explicit, (str, os.PathLike)), "records=..")
    return Path(cast("str", explicit)).expanduser()


def _own() -> list[Path]:
    """The folders that are read and written, in order: what comes with autosched is one only if it is named itself."""
    named = os.environ.get("AUTOSCHED_RECORDS")
    roots = os.environ.get("AUTOSCHED_PATH", "").split(os.pathsep)
    others = [Path(root).expanduser() / "records" for root in roots if root]
    others += [Path("records")] if Path("records").is_dir() else []
    with suppress(RuntimeError):  # no home folder
        others.append(data_folder() / "records")
    return [*([Path(named).expanduser()] if named else []), *(x for x in others if not _is_packaged(x))]


def _is_packaged(folder: Path) -> bool:
    packaged = packaged_folder()
    return os.path.isdir(folder) and packaged.is_dir() and os.path.samefile(folder, packaged)


def packaged_folder() -> Path:
    """The records that come with autosched: in its wheel, or at the top of its checkout."""
    package = Path(__file__).resolve().parent.parent
    # The wheel's first: beside an installed package, `records` may belong to somebody else.
    in_wheel = package / "_packaged" / "records"
    return in_wheel if in_wheel.is_dir() else package.parent / "records"
