"""Measurers whose candidates come from `fake_backend`, and a watch on what they leave behind."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fake_backend
import pytest

from autosched.measure import MeasureOptions, Measurer
from autosched.target import Target

HERE = Path(__file__).parent
QUICK: dict[str, Any] = {"builders": 1, "min_repeat_ms": 0.01, "timeout_s": 0.4, "build_timeout_s": 0.4}


def children() -> set[int]:
    """Process ids of this process's children, zombies included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def no_traces(folder: Path) -> Iterator[Callable[..., Measurer]]:
    """`make(target, **options)` gives measurers of `fake_backend`, their sessions in `folder`.

    They are closed at the end, and then no process, descriptor or file may be left.
    """
    made: list[Measurer] = []

    def make(target: str = "llvm", **options: Any) -> Measurer:
        measurer = Measurer(
            {},
            Target.parse(target),
            {},
            fake_backend.inputs(),
            fake_backend.expected(),
            MeasureOptions(**{**QUICK, **options}),
            backend="fake_backend:make",
        )
        made.append(measurer)
        return measurer

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
        patch.setattr(tempfile, "tempdir", str(folder))
        gc.collect()  # what earlier tests left behind goes now, and not while this one counts
        before = children(), open_fds()
        yield make
        for measurer in made:
            measurer.close()
        assert (children(), open_fds()) == before
        assert list(folder.iterdir()) == []


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
