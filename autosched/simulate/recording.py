"""From ordinary records to a recorded space: the samples of each point, and its features.

Features are computed from the traces in the records and the workload's graph, so a space outlives
changes to the template it came from. When the features of cost models change, `renewed` computes
them again; nothing is measured.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, RecordError
from autosched.places import write_whole
from autosched.records import Record
from autosched.schedule.schedule import replay
from autosched.search.baselines import lexicographic
from autosched.simulate.recorded import FORMAT, RecordedSketch, RecordedSpace, decode
from autosched.space.features import FEATURE_NAMES, FEATURE_VERSION
from autosched.space.loading import find_workload
from autosched.space.space import Sketch, make_sketch
from autosched.space.workload import Workload
from autosched.target import Target

#: A sample that took so many times the fastest of its point is of a moment when the machine did something
#: else as well. It is left out: what replays is the noise of a machine that measures.
DISTURBED = 1.3
#: Significant digits that are kept of samples (they scatter by more) and of features.
SAMPLE_DIGITS, FEATURE_DIGITS = 4, 7


def check_features(space: RecordedSpace) -> None:
    """Raise RecordError unless the space's features are those that this version computes."""
    if space.facts["features"] != FEATURE_VERSION:
        raise RecordError(
            f"its features are of version {space.facts['features']}, those of today of {FEATURE_VERSION}",
            asked=f"recorded space {space.name!r}",
            legal=f"autosched simulate {space.name} --renew   computes them again, without measuring",
        )


def from_records(
    name: str, records: Sequence[Record], note: str = "", limits: Mapping[str, int] | None = None
) -> RecordedSpace:
    """The space of all points that these records measured; the samples of a point's records are put together.

    `limits` are those of the target on the machine that measured (`runtime.device.with_machine` tells the
    caches of a CPU), which features are relative to. The records must be of one workload, one set of sizes,
    one target and one device. A point that both failed and ran counts as failed only if it failed more
    often. Raises RecordError for records that do not belong together, or whose workload is not found or is
    another one by now.
    """
    if not records:
        raise RecordError("there are no records", asked=f"recorded space {name!r}", legal="measure the space first")
    kinds = {(r.key, json.dumps(r.sizes, sort_keys=True), r.target, r.device_name) for r in records}
    if len(kinds) > 1:
        raise RecordError(
            f"the records are of {len(kinds)} workloads, sizes, targets or devices",
            asked=f"recorded space {name!r}",
            legal="records of one",
        )
    first = records[0]
    workload = _workload(name, first.workload)
    target = _target(first.target, first.device, limits or {})
    sketches, whole = [], True
    for sketch_name in dict.fromkeys(r.sketch for r in records):
        of = [r for r in records if r.sketch == sketch_name]
        sketch = _sketch(name, workload, sketch_name, of[0].trace, target, first.sizes)
        part = _part(sketch, of)
        sketches.append(part)
        whole = whole and _is_whole(sketch, part)
    return decode(
        {
            "format": FORMAT,
            "name": name,
            "workload": first.workload,
            "target": first.target,
            "limits": dict(limits or {}),
            "device": first.device,
            "versions": first.versions,
            "recorded": max(r.at for r in records)[:10],
            "whole": whole,
            "note": note,
            "features": _today(),
            "sketches": sketches,
        }
    )


def renewed(space: RecordedSpace) -> RecordedSpace:
    """The same points with the features of today. Raises RecordError when the workload is not found."""
    workload = _workload(space.name, space.facts["workload"])
    target = _target(space.facts["target"], space.facts["device"], space.facts["limits"])
    sizes = space.facts["workload"]["sizes"]
    parts = []
    for recorded in space.sketches:
        sketch = _sketch(space.name, workload, recorded.name, recorded.trace, target, sizes)
        values = [
            {knob.name: knob.values[i] for knob, i in zip(recorded.knobs, row, strict=True)}
            for row in recorded.points.tolist()
        ]
        parts.append({**_encoded(recorded), "features": _columns(_features(sketch, values))})
    return decode({**_facts(space), "features": _today(), "sketches": parts})


def write(space: RecordedSpace, path: str | os.PathLike[str]) -> None:
    """Write the file; the same space gives the same bytes. Raises RecordError when it cannot be written."""
    version = {"version": space.facts["features"], "names": list(space.feature_names)}
    data = {**_facts(space), "features": version, "sketches": [_encoded(sketch) for sketch in space.sketches]}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False)
    try:
        write_whole(Path(path), lambda out: out.write(gzip.compress(text.encode(), mtime=0)))
    except OSError as error:
        legal = "a file in a folder that is there"
        raise RecordError(
            f"it cannot be written: {error.strerror}", asked=f"recorded space {path}", legal=legal
        ) from None


# -- the parts ----------------------------------------------------------------------------------------
def _target(text: str, device: Mapping[str, Any], limits: Mapping[str, int]) -> Target:
    """The target as it was where the records were made, wherever this is."""
    target = Target.parse(text)
    if not target.is_gpu_style and "threads" not in target.options and isinstance(device.get("threads"), int):
        target = Target.parse(f"{text} -threads={device['threads']}")
    return target.with_limits(**limits)


def _workload(name: str, of: dict[str, Any]) -> Workload:
    asked = f"recorded space {name!r}"
    try:
        workload = find_workload(of["name"])(**of["params"])
    except AutoschedError as error:
        why = f"its workload {of['name']!r} is not found: {error.why}"
        raise RecordError(why, asked=asked, legal=error.legal or "the folder that has it in AUTOSCHED_PATH") from None
    if workload.key != of["key"]:
        legal = "record the space again, or give its features up: --model none"
        raise RecordError(f"the workload {of['name']!r} computes something else by now", asked=asked, legal=legal)
    return workload


def _sketch(
    name: str, workload: Workload, sketch: str, trace: list[Any], target: Target, sizes: dict[str, int]
) -> Sketch:
    try:
        return make_sketch(sketch, workload, replay(trace, workload.args), target, sizes)
    except AutoschedError as error:
        why = f"the trace of its sketch {sketch!r} cannot be replayed: {error}"
        raise RecordError(why, asked=f"recorded space {name!r}", legal="record the space again") from None


def _part(sketch: Sketch, records: Sequence[Record]) -> dict[str, Any]:
    """The points of one sketch as they stand in the file."""
    by_point: dict[tuple[int, ...], list[Record]] = {}
    for r in records:
        by_point.setdefault(tuple(r.knobs[k.name] for k in sketch.knobs), []).append(r)
    measured = sorted(by_point)
    values = [[v for v in k.values if any(p[i] == v for p in measured)] for i, k in enumerate(sketch.knobs)]
    failures, samples = {}, []
    for number, point in enumerate(measured):
        status = Counter(r.status for r in by_point[point]).most_common(1)[0][0]
        if status != "ok":
            failures[str(number)] = status
        taken = [s for r in by_point[point] for s in r.samples if status == "ok"]
        samples.append([_rounded(s, SAMPLE_DIGITS) for s in taken if s <= DISTURBED * min(taken)])
    named = [{k.name: v for k, v in zip(sketch.knobs, point, strict=True)} for point in measured]
    return {
        "name": sketch.name,
        "knobs": [[k.name, some] for k, some in zip(sketch.knobs, values, strict=True)],
        "points": [[some.index(v) for some, v in zip(values, point, strict=True)] for point in measured],
        "failures": failures,
        "samples": samples,
        "features": _columns(_features(sketch, named)),
        "trace": sketch.trace,
    }


def _is_whole(sketch: Sketch, part: dict[str, Any]) -> bool:
    """Whether every feasible point of these knob values was measured."""
    wanted = [
        np.array([k.values.index(v) for v in some]) for k, (_, some) in zip(sketch.knobs, part["knobs"], strict=True)
    ]
    feasible = 0
    for rows in lexicographic([len(some) for some in wanted]):
        full = np.stack([some[rows[:, i]] for i, some in enumerate(wanted)], axis=1) if wanted else rows
        feasible += int(sketch.mask(full).sum())
    return feasible == len(part["points"])


def _features(sketch: Sketch, values: Sequence[dict[str, int]]) -> np.ndarray:
    rows = [sketch.indices_of(one) for one in values]
    if None in rows:
        why = f"the knobs of its sketch {sketch.name!r} have other values"
        raise RecordError(why, asked="recorded space", legal="record the space again")
    return np.asarray(sketch.features(np.array(rows, dtype=np.int64).reshape(len(rows), len(sketch.knobs))))


def _columns(table: np.ndarray) -> list[Any]:
    """One number for a feature that is the same everywhere, else one for each point."""
    columns: list[Any] = [[_rounded(v, FEATURE_DIGITS) for v in column] for column in table.T.tolist()]
    return [column[0] if len(set(column)) == 1 else column for column in columns]


def _encoded(sketch: RecordedSketch) -> dict[str, Any]:
    return {
        "name": sketch.name,
        "knobs": [[k.name, list(k.values)] for k in sketch.knobs],
        "points": sketch.points.tolist(),
        "failures": {str(i): status for i, status in enumerate(sketch.status) if status != "ok"},
        "samples": [list(s) for s in sketch.samples],
        "features": _columns(sketch.table),
        "trace": sketch.trace,
    }


def _facts(space: RecordedSpace) -> dict[str, Any]:
    return {**space.facts, "name": space.name}


def _today() -> dict[str, Any]:
    return {"version": FEATURE_VERSION, "names": list(FEATURE_NAMES)}


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
