"""What `autosched.tune` shows by itself, and workloads by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import front
from autosched.errors import UsageError, WorkloadError
from autosched.measure.protocol import MeasureOptions
from autosched.target import Target

ROOT = Path(__file__).resolve().parents[2]
FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)
SIZES = {"height": 16, "width": 24}


def told(**options: Any) -> None:
    """A function that tells one thing, shown as `tune` is."""

    @front.with_progress
    def talk(progress: Any = None) -> None:
        if progress is not None:
            progress(autosched.tuning.Note("a word"))

    talk(**options)


def test_progress_is_shown_unless_it_is_not_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(front.PROGRESS_VARIABLE)
    told()
    assert capsys.readouterr().err == "note: a word\n"
    told(progress=False)
    monkeypatch.setenv(front.PROGRESS_VARIABLE, "none")
    told()
    assert capsys.readouterr().err == ""
    told(progress=True)
    assert capsys.readouterr().err == "note: a word\n"
    events: list[Any] = []
    told(progress=events.append)
    assert [e.text for e in events] == ["a word"] and capsys.readouterr().err == ""


def test_a_terminal_gets_the_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []

    def make_display(mode: str, stream: Any) -> Any:
        from autosched.report.progress import Display

        modes.append(mode)
        return Display(stream)

    monkeypatch.delenv(front.PROGRESS_VARIABLE)
    monkeypatch.setattr("autosched.front.make_display", make_display)
    told()
    assert modes == ["auto"]  # which is live on a terminal, and plain elsewhere


def test_processes_of_a_pool_and_programs_without_a_console_show_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(front.PROGRESS_VARIABLE)
    parent = SimpleNamespace(parent_process=lambda: object())
    monkeypatch.setitem(sys.modules, "multiprocessing.process", parent)
    told()
    monkeypatch.delitem(sys.modules, "multiprocessing.process")
    monkeypatch.setattr(sys, "stderr", None)
    told()
    monkeypatch.undo()
    assert capsys.readouterr().err == ""


def test_workers_show_nothing(tmp_path: Path) -> None:
    from autosched.measure.workers import worker_environment

    assert worker_environment(tmp_path, Target.parse("llvm"), "runner", {})[front.PROGRESS_VARIABLE] == "none"
    assert os.environ[front.PROGRESS_VARIABLE] == "none"  # and so do tests


@pytest.mark.parametrize("what", [None, 3])
def test_what_cannot_be_tuned(what: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be tuned"):
        autosched.tune(what, trials=1, records=tmp_path)


def test_workloads_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = autosched.tune("box_blur", "llvm", trials=1, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST)
    assert found.workload.startswith("box_blur(") and found.trials == 1
    module = autosched.build("box_blur", "llvm", records=str(tmp_path))
    image = np.zeros((16, 24, 3), dtype="uint8")
    assert module(image).shape == image.shape
    with pytest.raises(WorkloadError, match="did you mean 'box_blur'"):
        autosched.tune("boxblur", trials=1, records=tmp_path)
    with pytest.raises(WorkloadError, match="did you mean 'box_blur'"):
        autosched.build("boxblur")
