"""The records that come with autosched are of the workloads that come with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosched.space.loading import find_workload

FILES = sorted((Path(__file__).resolve().parents[3] / "records").glob("*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_keys(path: Path) -> None:
    """A key that changes would leave every record of the workload behind."""
    recorded = {}
    for line in path.read_text().splitlines():
        workload = json.loads(line)["workload"]
        recorded[workload["key"]] = workload
    assert recorded
    for key, workload in recorded.items():
        assert find_workload(workload["name"])(**workload["params"]).key == key
