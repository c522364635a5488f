"""What works where packages or parts of POSIX are missing: the compiler alone, and Windows as far as it can be tried here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosched import places
from autosched.errors import MeasureError
from autosched.measure.workers import SessionFolder

#: what only the tuner, records as tables, images, displays and devices use
PACKAGES = ["xgboost", "sklearn", "scipy", "optuna", "cmaes", "pandas", "PIL", "rich", "pyopencl", "onnx", "pytest"]
#: modules of Python's that Windows has not
POSIX = ["fcntl", "resource", "termios", "pwd", "grp"]

PROGRAM = """
import sys, os
sys.modules.update(dict.fromkeys(sys.argv[2:]))
if "fcntl" in sys.argv:  # which portalocker would take msvcrt for
    del os.O_NONBLOCK, os.O_CLOEXEC, os.O_DIRECTORY
import numpy as np
import autosched
from autosched import records, te
a = te.placeholder((1000,), "float32", name="a")
b = te.compute((1000,), lambda i: a[i] + 1, name="b")
x = np.ones(1000, "float32")
s = autosched.create_schedule(b)
s[b].vectorize(s[b].split("i", factor=8)[1])
assert (autosched.build(s, "llvm")(x) == 2).all()
assert (autosched.jit(lambda x: np.sqrt(x) * 2)(x) == 2).all()
print(autosched.build("box_blur", "llvm", records=sys.argv[1]).provenance["kind"])
print(len(records.RecordLog(sys.argv[1] + "/box_blur.llvm.jsonl").read().records))
"""


@pytest.mark.parametrize("missing", [PACKAGES, POSIX], ids=["the compiler alone", "no POSIX"])
def test_compiling_and_reading_records(missing: list[str]) -> None:
    folder = str(Path(__file__).parents[2] / "records")
    words = [sys.executable, "-c", PROGRAM, folder, *missing]
    if missing is POSIX:
        words[2] = PROGRAM.replace("sys.modules.update", "import portalocker\nsys.modules.update", 1)
    ended = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"AUTOSCHED_PREDICT": "0"})
    assert ended.returncode == 0, ended.stderr
    kind, count = ended.stdout.split()
    assert kind in ("record", "default") and int(count) > 0


def test_measuring_needs_posix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(MeasureError) as error:
        SessionFolder(tmp_path.parent)
    monkeypatch.undo()
    assert str(error.value) == (
        "measure candidates: candidates run in process groups of POSIX, which linux does not have\n"
        "  Linux or macOS; what was tuned there is built here with records=FOLDER"
    )


def test_files_are_locked_without_flock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "fcntl", None)
    one, two = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert places.try_lock(one) and not places.try_lock(two) and not places.try_lock(two, shared=True)
    places.unlock(one)
    assert places.try_lock(one, shared=True) and places.try_lock(two, shared=True) and not places.try_lock(one)
    os.close(one)
    os.close(two)
