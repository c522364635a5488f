"""Put the features of today into the records that come with autosched, so that they prime cost models at no cost.

    python experiments/record_features.py            # rewrites records/*.jsonl

To be run after a change of what features are. A record is complete: its trace is applied to its workload again, and the
features are read off the sketch that this gives. A record that does not replay stays as it is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from autosched.records import Record, RecordLog, encode
from autosched.runtime.device import with_machine
from autosched.schedule import replay
from autosched.space.features import FEATURE_VERSION
from autosched.space.loading import find_workload
from autosched.space.space import make_sketch
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target

RECORDS = Path(__file__).resolve().parents[1] / "records"


def replayed(function: WorkloadFunction[...], records: Sequence[Record]) -> Iterator[tuple[Record, Sequence[float]]]:
    """Records of a workload function with their features, which this machine's caches decide, too.

    Records of one sketch are evaluated together, so that it is lowered once. What does not replay is left out:
    workloads, templates and primitives may have changed.
    """
    sketches: dict[str, list[Record]] = defaultdict(list)
    for r in records:
        if r.knobs:
            sketches[json.dumps([r.workload["params"], r.key, r.sizes, r.target, r.trace], sort_keys=True)].append(r)
    for mine in sketches.values():
        try:
            yield from _features(function(**mine[0].workload["params"]), mine)
        except Exception as error:  # a file of somebody's search space, a primitive that is no more
            print(f"{mine[0].id} and {len(mine) - 1} others are left out: {error}")


def _features(workload: Workload, records: Sequence[Record]) -> list[tuple[Record, Sequence[float]]]:
    """Of records of one sketch of this workload; none where that is another computation by now."""
    first = records[0]
    if not isinstance(workload, Workload) or (workload.name, workload.key) != (first.workload["name"], first.key):
        return []
    target = with_machine(Target.parse(first.target))
    sketch = make_sketch(first.sketch, workload, replay(first.trace, list(workload.args)), target, first.sizes)
    known = [(r, indices) for r in records if (indices := sketch.indices_of(r.knobs)) is not None]
    rows = np.array([indices for _, indices in known], dtype=np.int64).reshape(len(known), len(sketch.knobs))
    sound = sketch.mask(rows)
    fine = [r for (r, _), is_sound in zip(known, sound, strict=True) if is_sound]
    return list(zip(fine, sketch.features(rows[sound]).tolist(), strict=True))


def main() -> None:
    for file in sorted(RECORDS.glob("*.jsonl")):
        contents = RecordLog(file).read()
        if contents.problems:
            raise SystemExit(f"{contents.problems[0]}")
        lacking = [r for r in contents.records if r.features(FEATURE_VERSION) is None]
        found = {r.id: values for r, values in replayed(find_workload(file.name.split(".")[0]), lacking)}
        lines = [
            encode(r.with_features(FEATURE_VERSION, found[r.id]) if r.id in found else r) for r in contents.records
        ]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{file.name}: {len(found)} of {len(lacking)} records that had none")


if __name__ == "__main__":
    main()
