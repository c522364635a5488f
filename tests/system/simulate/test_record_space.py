"""The script that measures a space: in pieces, again near the best, and into a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from autosched.records import RecordLog
from autosched.simulate.recorded import load

SCRIPT = Path(__file__).resolve().parents[3] / "experiments" / "record_space.py"


def record(folder: Path, *words: str) -> str:
    small = ("softmax", "--param", "rows=16", "--param", "columns=64", "--where", "task=8", "--log", str(folder))
    command = [sys.executable, str(SCRIPT), *small, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_a_space_is_measured_once_and_again_and_written(tmp_path):
    assert "3 points, 3 to measure" in record(tmp_path, "--points", "3")
    (log,) = tmp_path.glob("*.jsonl")
    assert "0 to measure" in record(tmp_path, "--points", "3")
    assert "3 measured" in record(tmp_path, "--points", "3", "--again", "1e9", "--repeat", "2")
    assert [r.knobs["task"] for r in RecordLog(log).read().records] == [8] * 6
    assert "a part" in record(tmp_path, "--write", str(tmp_path / "simulated"))
    (path,) = (tmp_path / "simulated").iterdir()
    space = load(path)
    assert space.size == 3 and not space.facts["whole"]
    assert all(trial.ok for trial in space.measure(space.points()))
