"""Compiled modules kept in the user's cache folder, so that another process need not compile them again.

A module is kept under a digest of all that decides it: the program, the target, the device, this package and those that
generate code, the records that `build` would look at. Files are replaced whole, so that processes may share them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from autosched import predicting
from autosched.codegen.artifact import Artifact
from autosched.errors import AutoschedError
from autosched.places import cache_folder, package_digest, write_whole
from autosched.records import find_files
from autosched.runtime.device import describe_device, versions
from autosched.runtime.module import Module
from autosched.target import Target

_VERSION = 1
#: `AUTOSCHED_CACHE=0` keeps nothing, and reads nothing
VARIABLE = "AUTOSCHED_CACHE"


def is_on() -> bool:
    return os.environ.get(VARIABLE, "1") != "0"


def digest(program: Any, target: Target, effort: str, records: str | None = None) -> str:
    """The name under which the module of a program is kept; `program` is data that JSON can hold.

    Raises DeviceError for a target that this machine does not have.
    """
    found = filter(os.path.isfile, find_files(None, target.kind, records))
    logs = [(os.path.realpath(p), s.st_size, s.st_mtime_ns) for p in found for s in [p.stat()]]
    compilers = [os.environ.get(name, "") for name in ("CC", "CFLAGS", "LDFLAGS")] if target.kind == "c" else []
    what = [
        _VERSION, program, str(target), describe_device(target), versions(), package_digest(), effort,
        predicting.is_on(), logs, compilers,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:32]


def folder() -> Path | None:
    """The user's cache folder, which need not exist; None where there is no home folder."""
    with suppress(RuntimeError):
        return cache_folder()
    return None


def _file(key: str) -> Path | None:
    root = folder() if is_on() else None
    return None if root is None else root / "builds" / f"{key}.artifact"


def get(key: str) -> Module | None:
    """The module that is kept under a digest; None where there is none, or it cannot be used."""
    file = _file(key)
    if file is None:
        return None
    try:
        module = Module.of(Artifact.from_bytes(file.read_bytes(), str(file)))
    except (OSError, AutoschedError, ValueError):
        return None
    with suppress(OSError):
        os.utime(file)  # `autosched cache prune` goes by the last use
    return module


def put(key: str, module: Module) -> None:
    """Keep a module; where that cannot be done, the next process compiles anew."""
    file = _file(key)
    if file is not None:
        with suppress(OSError):
            write_whole(file, lambda out: out.write(b"".join(a.to_bytes() for a in module.artifacts())))


# -- what is kept --------------------------------------------------------------------------------------
def kinds() -> dict[str, list[Path]]:
    """The files of the cache folder by kind: `builds`, `predictions` and the like; those in no folder are `machine`."""
    root, children = folder(), list[Path]()
    if root is not None:
        with suppress(OSError):  # there is none yet
            children = sorted(root.iterdir())
    found: dict[str, list[Path]] = {}
    for child in children:
        if child.is_dir():
            found[child.name] = sorted(p for p in child.rglob("*") if p.is_file())
        else:
            found.setdefault("machine", []).append(child)
    return found


def remove(files: Sequence[Path]) -> int:
    """Remove files of the cache; the number of bytes that this freed. Another process may have been faster."""
    freed = 0
    for file in files:
        with suppress(OSError):
            size = file.stat().st_size
            file.unlink()
            freed += size
    return freed
