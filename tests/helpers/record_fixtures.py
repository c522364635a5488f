"""Fixtures of tests of records: `make_record(trial=3, status="timeout", ...)`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.records import Record


def _make_record(trial: int = 0, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "workload": {
            "name": "box_blur",
            "key": "9f2c44d1",
            "params": {"channels": 3},
            "args": [{"name": "image", "shape": [["size", "height"], 1920, 3], "dtype": "uint8"}],
            "sizes": {"height": 1280},
        },
        "target": "llvm -mcpu=znver3",
        "device": {"name": "AMD EPYC 7R13"},
        "versions": {"autosched": "0.1.0", "llvm": "22.1"},
        "sketch": "rows",
        "trace": [["split", "blur", "y", [None, "ty"]], ["vectorize", "blur", "x.1"]],
        "knobs": {"ty": 16 + trial, "tx": 64},
        "status": "ok",
        "samples": (2e-3, 1e-3, 4e-3),
        "build_s": 0.25,
        "verified": "full",
        "strategy": "evolutionary",
        "seed": 7,
        "trial": trial,
        "run": "run-1",
        "id": f"{trial:016x}",
        "at": f"2026-11-21T08:{trial // 60:02}:{trial % 60:02}.000000+00:00",
    }
    name = changes.pop("name", None)
    sizes = changes.pop("sizes", None)
    key = changes.pop("key", None)
    if changes.get("status", "ok") != "ok":
        changes = {"samples": (), "verified": "no", "error": "it broke", **changes}
    record = Record(**{**fields, **changes})
    for field, value in (("name", name), ("sizes", sizes), ("key", key)):
        if value is not None:
            record.workload[field] = value
    return record


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    return _make_record


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "records" / "box_blur.llvm.jsonl"
