"""Priming the cost model with records of other shapes, operators and devices.

Records keep the features of their candidate, those that come with autosched as well, and a run learns from these alone:
computing the features of 500 records took 4 to 5 s before the first trial, and no later trial was better for it. A
record is complete, though: its trace can be applied to its workload again, and features read off the sketch that this
gives (`Replays`). Whoever changes what features are does that once for the records that come with autosched
(`experiments/record_features.py`).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autosched.model import PrimedCostModel
from autosched.records import Record, Task, read_transfer
from autosched.runtime.device import with_machine
from autosched.schedule import replay
from autosched.space.loading import find_workload
from autosched.space.space import Sketch, make_sketch
from autosched.space.tunable import Tunable
from autosched.space.workload import Workload
from autosched.target import Target

__all__ = ["Replays", "prime"]


def prime(model: PrimedCostModel, task: Task, space: Any, *, records: str | None) -> str:
    """Let the model learn from records of other tasks. Returns what to tell about it; empty if there are none.

    records: the folder they are read from, alone, if it is given
    """
    kind = task.target.partition(" ")[0]
    version, width = space.feature_version, len(space.feature_names)
    found = read_transfer(task, kind, version=version, width=width, folder=records)
    said = []
    if len(found.seconds):
        model.prime(found.features, found.seconds, found.groups)
        said.append(f"the cost model is primed with {found.describe(task)}")
    if found.passed_over:
        said.append(f"records passed over, because they have no features of this version: {found.passed_over}")
    return "; ".join(said)


class Replays:
    """Features of records that have none, until the deadline (of `time.monotonic`).

    Records of one sketch are evaluated together, so that it is lowered once; those of this workload come first,
    then sketches with many records. The machine's caches are this one's, as in the search that is to come. What
    does not replay is left out: workloads, templates and primitives may have changed.
    """

    def __init__(self, workload: Tunable, deadline: float) -> None:
        self._workload, self._deadline = workload, deadline
        self._workloads: dict[str, Workload | None] = {}

    def __call__(self, records: Sequence[Record]) -> Iterator[tuple[Record, Sequence[float]]]:
        """Records with their features. Nothing about a record makes this raise."""
        if not isinstance(self._workload, Workload):  # a kernel of its user's: its records have no trace to follow
            return
        sketches: dict[str, list[Record]] = defaultdict(list)
        for r in records:
            if r.knobs:
                sketches[json.dumps([r.workload["name"], r.key, r.sizes, r.target, r.trace], sort_keys=True)].append(r)
        own = self._workload.name
        for mine in sorted(sketches.values(), key=lambda rs: (rs[0].workload["name"] != own, -len(rs))):
            if time.monotonic() > self._deadline:
                return
            try:
                found = self._features(mine)
            except Exception:  # a file of somebody's search space, a primitive that is no more
                continue
            yield from found

    def _features(self, records: Sequence[Record]) -> list[tuple[Record, Sequence[float]]]:
        """Of records of one sketch."""
        first = records[0]
        workload = self._workload_of(first)
        if workload is None:
            return []
        sketch = _sketch(first, workload)
        points = [(r, sketch.indices_of(r.knobs)) for r in records]
        known = [(r, indices) for r, indices in points if indices is not None]
        rows = np.array([indices for _, indices in known], dtype=np.int64).reshape(len(known), len(sketch.knobs))
        sound = sketch.mask(rows)
        values = sketch.features(rows[sound])
        return list(zip([r for (r, _), fine in zip(known, sound, strict=True) if fine], values.tolist(), strict=True))

    def _workload_of(self, record: Record) -> Workload | None:
        """The computation that was measured; None if it is not there any more, or is another one by now."""
        name, params = record.workload["name"], record.workload["params"]
        key = json.dumps([name, params], sort_keys=True)
        if key not in self._workloads:
            assert isinstance(self._workload, Workload)
            mine = self._workload.function if name == self._workload.name else None
            made = (mine or find_workload(name))(**params)
            self._workloads[key] = made if made.key == record.key else None
        return self._workloads[key]


def _sketch(record: Record, workload: Workload) -> Sketch:
    """What the record's trace does with the workload."""
    target = with_machine(Target.parse(record.target))
    return make_sketch(record.sketch, workload, replay(record.trace, list(workload.args)), target, record.sizes)
