"""Put the features of today into the records that come with autosched, so that they prime cost models at no cost.

    python experiments/record_features.py            # rewrites records/*.jsonl

To be run after a change of what features are. A record's trace is applied to its workload, and the features
are read off; a record that does not replay stays as it is.
"""

from __future__ import annotations

import math
from pathlib import Path

from autosched.records import RecordLog, encode
from autosched.space.features import FEATURE_VERSION
from autosched.space.loading import find_workload
from autosched.tuning.priming import Replays

RECORDS = Path(__file__).resolve().parents[1] / "records"


def main() -> None:
    for file in sorted(RECORDS.glob("*.jsonl")):
        contents = RecordLog(file).read()
        if contents.problems:
            raise SystemExit(f"{contents.problems[0]}")
        lacking = [r for r in contents.records if r.features(FEATURE_VERSION) is None]
        replays = Replays(find_workload(file.name.split(".")[0])(), math.inf)
        found = {r.id: values for r, values in replays(lacking)}
        lines = [
            encode(r.with_features(FEATURE_VERSION, found[r.id]) if r.id in found else r) for r in contents.records
        ]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{file.name}: {len(found)} of {len(lacking)} records that had none")


if __name__ == "__main__":
    main()
