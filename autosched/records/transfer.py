"""Transfer learning: trials of other shapes, operators and devices for a cost model.

Their times are not comparable with each other's, so each computation on each device is a group. Only
records of the same kind of target are taken, with features of the same version: the columns of another
version mean something else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import RecordError
from autosched.records.best import latest
from autosched.records.folders import find_folders
from autosched.records.log import RecordLog, default_path
from autosched.records.record import PREDICTED, Record, decode

#: Trials that a model is primed with at most: it learns from them again with every fit.
MAX_TRIALS = 2000
#: Bytes of a line that has features at all.
_FEATURES = b'"features":{'


@dataclass(frozen=True)
class Task:
    """A tuning task: one computation, at one set of sizes, for one target on one device."""

    workload: str
    key: str
    sizes: tuple[tuple[str, int], ...]
    target: str
    device: str

    @staticmethod
    def of(r: Record) -> Task:
        """The task of a record."""
        return Task(str(r.workload["name"]), r.key, tuple(sorted(r.sizes.items())), r.target, r.device_name)


@dataclass(frozen=True)
class Transfer:
    """Trials for `CostModel.prime`: float64 [n, F], seconds [n] (`inf` = failed) and groups int64 [n].

    `origins` are the tasks that they are from, by group. `passed_over` records have no features of this version.
    """

    features: NDArray[np.float64]
    seconds: NDArray[np.float64]
    groups: NDArray[np.int64]
    origins: tuple[Task, ...]
    passed_over: int

    def describe(self, task: Task) -> str:
        """`312 trials of 2 other shapes, 1 other operator`: what is other about them than `task`."""
        own = [t for t in self.origins if t.workload == task.workload]
        counts = {
            "shape": len({(t.key, t.sizes) for t in own} - {(task.key, task.sizes)}),
            "operator": len({t.workload for t in self.origins} - {task.workload}),
            "device": len({t.device for t in self.origins} - {task.device}),
            "target": len({t.target for t in self.origins} - {task.target}),
        }
        origins = ", ".join(f"{n} other {noun}{'s' * (n != 1)}" for noun, n in counts.items() if n)
        return f"{len(self.seconds)} trial{'s' * (len(self.seconds) != 1)} of {origins}"


def read_transfer(
    task: Task,
    target_kind: str,
    *,
    version: str,
    width: int,
    folder: str | os.PathLike[str] | None = None,
    alike: bool = False,
) -> Transfer:
    """Trials of other tasks than this one, from the folders that `find_folders` names.

    Reads the logs of all workloads for this kind of target, or with `alike` those of the same workload. Features are
    those of this `version`, of `width` columns. Of more than 2000 trials, those of the same workload are kept, and the
    latest.
    """
    wanted = f'"version":"{version}"'.encode()
    with_them: list[bytes] = []
    passed_over = 0
    for line in _lines(task.workload, target_kind, folder, alike):
        if wanted in line:
            with_them.append(line)
        else:
            passed_over += _FEATURES in line
    pairs = ((record, record.features(version)) for record in _of_others(with_them, task))
    found = [(record, values) for record, values in pairs if values is not None and len(values) == width]
    found.sort(key=lambda pair: (pair[0].workload["name"] != task.workload, -pair[0].moment, pair[0].id))
    found = found[:MAX_TRIALS]
    origins = sorted({Task.of(record) for record, _ in found}, key=repr)
    return Transfer(
        np.array([values for _, values in found], dtype=np.float64).reshape(len(found), width),
        np.array([record.seconds for record, _ in found], dtype=np.float64),
        np.array([origins.index(Task.of(record)) for record, _ in found], dtype=np.int64),
        tuple(origins),
        passed_over,
    )


def _of_others(lines: Iterable[bytes], task: Task) -> list[Record]:
    """The records in these lines that are of another task and say something about their candidate."""
    records = []
    for line in lines:
        with suppress(RecordError):  # whoever builds with it will be told
            records.append(decode(line))
    return [r for r in latest(records) if r.status not in ("lost", PREDICTED) and Task.of(r) != task]


def _lines(workload: str, target_kind: str, folder: str | os.PathLike[str] | None, alike: bool) -> Iterator[bytes]:
    """All lines of the logs for a kind of target, those of this workload first, or with `alike` alone, the last of a
    log first. A log that cannot be read has none."""
    own = default_path(workload, target_kind, "").name
    paths = [p for place in find_folders(folder) for p in sorted(place.glob(f"*.{target_kind}.jsonl"))]
    for path in sorted((p for p in paths if p.name == own or not alike), key=lambda p: p.name != own):
        with suppress(RecordError):
            yield from reversed([line for _, line in RecordLog(path).lines()])
