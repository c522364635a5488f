"""What a deadline leaves behind in the interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import cProfile
from contextlib import suppress
from autosched.deadline import TooLate, within

def work():
    return sum(map(abs, range(1000)))

with suppress(TooLate), within({seconds}):
    for _ in range(1_000_000 if {seconds} < 1 else 1):
        work()
cProfile.runctx("for _ in range(100): work()", globals(), {{}})
"""


@pytest.mark.parametrize("seconds", [300.0, 0.05], ids=["in time", "too late"])
def test_a_program_may_be_profiled_after_it(seconds):
    """Python 3.11 hangs under a profiler where a request to stop was taken back."""
    run = [sys.executable, "-c", PROGRAM.format(seconds=seconds)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "work" in done.stdout
