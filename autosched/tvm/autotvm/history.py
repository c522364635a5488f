"""Logs as first data of a cost model: their configurations, looked up in the spaces of their own tasks.

There they have the features that candidates have here. A log does not name the device, so times are compared task by
task only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from os import PathLike

import numpy as np

from autosched.errors import AutoschedError
from autosched.records import Record, RecordLog, default_path
from autosched.runtime.device import with_machine
from autosched.space.space import SearchSpace
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult
from autosched.tvm.autotvm.task.task import Task, create
from autosched.tvm.autotvm.tracing import TracedTask
from autosched.tvm.tuning_common import ERROR_NUMBERS, MeasureErrorNo

_logger = logging.getLogger("autotvm")

#: measurements of a log
Pairs = list[tuple[MeasureInput, MeasureResult]]

#: number of a failure -> its status
STATUS = {number: status for status, number in reversed(ERROR_NUMBERS.items())}
_DEVICE = {"name": "the device of an AutoTVM log"}


def of_template(task: Task, pairs: Iterable[tuple[MeasureInput, MeasureResult]]) -> Pairs:
    """Return the measurements of the task's template for its kind of target, of any arguments."""
    assert task.target is not None
    return [(i, r) for i, r in pairs if i.task.name == task.name and i.target.kind == task.target.kind]


def write_history(task: Task, pairs: Pairs, folder: str | PathLike[str]) -> int:
    """Write the measurements to `folder` as records with features. Return how many they are."""
    written = 0
    for traced, _, records in by_task(task, pairs):
        log = RecordLog(default_path(traced.workload.name, traced.target.kind, folder))
        for record in records:
            log.append(record)
        written += len(records)
    return written


def by_task(task: Task, pairs: Iterable[tuple[MeasureInput, MeasureResult]]) -> Iterator[Looked]:
    """Yield each task of the measurements, with its space and its records.

    Tasks and configurations that the template no longer has are passed over with a warning.
    """
    groups: dict[tuple[object, ...], Pairs] = {}
    for inp, result in pairs:
        groups.setdefault(inp.task.args, []).append((inp, result))
    for args, group in groups.items():
        try:
            traced = TracedTask(create(task.name, args, task.target))
            space: SearchSpace = traced.workload.search_space(with_machine(traced.target), {})
            records = records_of(traced, space, group)
        except AutoschedError as error:
            _logger.warning("%d measurements of %s%r teach nothing: %s", len(group), task.name, args, error)
            continue
        if len(records) < len(group):
            lost = len(group) - len(records)
            _logger.warning("%d of %d configurations of %s%r are not in its space", lost, len(group), task.name, args)
        yield traced, space, records


#: a task, its space and records
Looked = tuple[TracedTask, SearchSpace, list[Record]]


def records_of(traced: TracedTask, space: SearchSpace, pairs: Pairs) -> list[Record]:
    """Return measurements as records with features, less configurations that are not in the space."""
    w = traced.workload
    about = w.about()
    found = []
    for inp, result in pairs:
        point = traced.point_of(inp.config, space)
        if point is None:
            continue
        sketch = space.sketches[point[0]]
        rows = np.array([point[1]], dtype=np.int64).reshape(1, -1)
        if not sketch.mask(rows)[0]:
            continue
        ok = result.error_no == MeasureErrorNo.NO_ERROR
        record = Record(
            workload=about,
            target=str(traced.target),
            device=_DEVICE,
            sketch=sketch.name,
            trace=sketch.trace,
            knobs=sketch.values(point[1]),
            status=STATUS.get(MeasureErrorNo(result.error_no), "runtime"),
            samples=tuple(result.costs) if ok else (),
        )
        found.append(record.with_features(space.feature_version, sketch.features(rows)[0]))
    return found
