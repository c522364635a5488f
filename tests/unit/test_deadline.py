"""Work that has to end: it does, whatever it does about exceptions, and nothing is raised after it."""

from __future__ import annotations

import importlib
import sys
import time

import pytest

from autosched.deadline import TooLate, within


def work_for(seconds: float, clock=time.monotonic) -> None:
    """Which does not let errors stop it."""
    end = clock() + seconds
    while clock() < end:
        try:
            sum(range(100))
        except Exception:
            continue


@pytest.mark.parametrize("cpu", [False, True])
def test_work_is_ended(cpu):
    with pytest.raises(TooLate), within(0.05, cpu=cpu):
        work_for(60)


def test_work_that_ends_in_time_is_left_alone():
    for _ in range(20):
        with within(300):
            work_for(0.001)
    work_for(0.05)


def test_time_that_is_slept_is_not_computed():
    with within(300, cpu=True):
        time.sleep(0.05)


def test_nothing_arrives_after_the_end():
    """The request may come while the block ends by itself: then it is late, but what follows runs undisturbed."""
    for _ in range(60):
        try:
            with within(0.001):
                work_for(0.001)
        except TooLate:
            pass
        work_for(0.002)


def test_errors_of_the_work_come_through():
    with pytest.raises(KeyError, match="mine"), within(300):
        raise KeyError("mine")
    work_for(0.01)


def test_a_request_inside_a_destructor_is_repeated_and_not_printed(capsys):
    class Slow:
        def __del__(self):
            work_for(0.2)

    before = sys.unraisablehook
    with pytest.raises(TooLate), within(0.05):
        Slow()
        work_for(60)
    assert sys.unraisablehook is before
    assert capsys.readouterr().err == ""


def test_a_module_that_is_being_loaded_is_loaded_whole(tmp_path, monkeypatch):
    """One that is left half done would fail wherever it is imported next: an extension is not loaded twice."""
    lines = ["import sys, time", "end = time.monotonic() + 0.2", "while time.monotonic() < end:", "    sum(range(100))"]
    (tmp_path / "slow_to_load.py").write_text("\n".join([*lines, "is_whole = True"]))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TooLate), within(0.02):
        importlib.import_module("slow_to_load")
        work_for(60)
    module = sys.modules.pop("slow_to_load")
    assert module.is_whole
