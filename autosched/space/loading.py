"""Finding workloads: by name in the search-space folders, or as `file.py:function`.

A search-space file is the user's own Python code and is run; records never are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from autosched.errors import WorkloadError, did_you_mean, expect, raised_in
from autosched.plugins import run_file
from autosched.space.workload import WorkloadFunction

_PACKAGE = Path(__file__).resolve().parent.parent


def search_space_folders(explicit: str | Path | None = None) -> list[Path]:
    """Folders that are searched, the first match wins: the argument, those of `AUTOSCHED_PATH`,
    the working directory, and those that come with autosched."""
    roots = [Path(p) for p in os.environ.get("AUTOSCHED_PATH", "").split(os.pathsep) if p]
    candidates = [
        *([Path(explicit)] if explicit else []),
        *(root / "search_spaces" for root in roots),
        *_here(),
        _PACKAGE / "_packaged" / "search_spaces",
        _PACKAGE.parent / "search_spaces",
    ]
    found: list[Path] = []
    for folder in candidates:
        if os.path.isdir(folder) and folder.resolve() not in [f.resolve() for f in found]:
            found.append(folder)
    return found


def _here() -> list[Path]:
    """The folder in the working directory; none where that was removed."""
    try:
        return [Path.cwd() / "search_spaces"]
    except FileNotFoundError:
        return []


def load_file(path: Path) -> ModuleType:
    """Execute a Python file. Raises WorkloadError with the line where it fails."""
    try:
        return run_file(path, f"autosched_search_spaces.{path.stem}")
    except WorkloadError:
        raise
    except Exception as error:
        raise raised_in(f"loading {path}", error) from error


def _workloads_in(path: Path) -> dict[str, WorkloadFunction[...]]:
    return _workloads_of(load_file(path))


def _workloads_of(module: ModuleType) -> dict[str, WorkloadFunction[...]]:
    return {w.name: w for w in vars(module).values() if isinstance(w, WorkloadFunction)}


def list_workloads(explicit: str | Path | None = None) -> dict[str, Path]:
    """Name of each workload that can be found, and its file. Files that fail to load are left out."""
    return {name: path for name, (path, _) in all_workloads(explicit).items()}


def all_workloads(explicit: str | Path | None = None) -> dict[str, tuple[Path, WorkloadFunction[...]]]:
    """Name of each workload that can be found, its file, and the workload. Files that fail to load are left out."""
    found: dict[str, tuple[Path, WorkloadFunction[...]]] = {}
    for folder in search_space_folders(explicit):
        for path in sorted(folder.glob("*.py")):
            try:
                workloads = _workloads_in(path)
            except WorkloadError:
                continue
            for name, workload in workloads.items():
                found.setdefault(name, (path, workload))
    return found


def find_workload(spec: str, explicit: str | Path | None = None) -> WorkloadFunction[...]:
    """The workload called `spec`, or `file.py:function` (`file.py` if there is only one in it).

    Raises WorkloadError with near names when there is none.
    """
    expect(spec, "the name of a workload", isinstance(spec, str), "find_workload")
    file, _, function = spec.partition(":")
    if file.endswith(".py"):
        return _from_file(Path(file), function, spec)
    folders = search_space_folders(explicit)
    for folder in folders:
        path = folder / f"{spec}.py"
        if os.path.isfile(path):
            found = _workloads_in(path)
            if spec in found:
                return found[spec]
    known = all_workloads(explicit)
    if spec in known:
        return known[spec][1]
    hint = did_you_mean(spec, known, 2)
    where = ", ".join(str(f) for f in folders) or "no folder search_spaces"
    raise WorkloadError(
        "no such workload",
        asked=f"workload {spec!r}",
        legal=f"{hint}workloads: {', '.join(known) or 'none'} (in {where}); or file.py:function",
    )


def function_in(path: Path, name: str) -> Callable[..., Any]:
    """A function of a Python file, which is executed. Raises WorkloadError where there is none."""
    if not os.path.isfile(path):
        raise WorkloadError("no such file", asked=str(path), legal=f"a Python file with a function {name}")
    found = getattr(load_file(path), name, None)
    if not callable(found):
        raise WorkloadError(f"it has no function {name}", asked=str(path), legal=f"def {name}(..)")
    return found


def _from_file(path: Path, function: str, asked: str) -> WorkloadFunction[...]:
    if not os.path.isfile(path):
        raise WorkloadError("no such file", asked=str(path), legal="file.py:function, or the name of a workload")
    module = load_file(path)
    found = _workloads_of(module)
    if function in found or (not function and len(found) == 1):
        return found[function or next(iter(found))]
    legal = f"workloads in it: {', '.join(found)}" if found else "decorate a function with @autosched.workload"
    if not function:
        raise WorkloadError(f"it has {len(found)} workloads", asked=asked, legal=legal)
    if hasattr(module, function):
        legal = f"decorate it with @autosched.workload{f'; {legal}' if found else ''}"
        raise WorkloadError(f"{function!r} is not a workload", asked=asked, legal=legal)
    raise WorkloadError(f"it has no workload {function!r}", asked=asked, legal=legal)
