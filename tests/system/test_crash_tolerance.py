"""A run of pytest in which tests crash: it ends, and every other test has its verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash_tolerance import RAN_TOO_LONG, RunLimit

HELPERS = Path(__file__).resolve().parents[1] / "helpers"

CRASHES = """
import os, pytest

@pytest.mark.parametrize("n", range({count}))
def test_numbers(n):
    if n in {crashing}:
        os.kill(os.getpid(), 11)
"""

CONFTEST = """
from crash_tolerance import CrashStacks, CrashTolerantScheduling

def pytest_configure(config):
    config.pluginmanager.register(CrashStacks())

def pytest_xdist_make_scheduler(config, log):
    return CrashTolerantScheduling(config, log)
"""


def run_pytest(folder: Path, *options: str) -> str:
    """The output of pytest on two workers in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(HELPERS), "PYTEST_ADDOPTS": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    return done.stdout + done.stderr


@pytest.mark.parametrize("crashing", [(1, 2), (0, 4)])
def test_a_crash_costs_one_test(tmp_path: Path, crashing: tuple[int, ...]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, crashes in (("a", ()), ("b", crashing), ("c", ())):
        (tmp_path / f"test_{name}.py").write_text(CRASHES.format(count=5, crashing=crashes))
    output = run_pytest(tmp_path)
    assert f"{len(crashing)} failed, {15 - len(crashing)} passed" in output, output
    for n in crashing:
        assert f"test_b.py::test_numbers[{n}]" in output


def test_a_run_that_takes_too_long_names_what_hangs(capsys: pytest.CaptureFixture[str]) -> None:
    statuses: list[int] = []
    limit = RunLimit(3600, statuses.append)
    for name in ("a.py::slow", "a.py::quick"):
        limit.pytest_runtest_logstart(name)
    limit.pytest_runtest_logfinish("a.py::quick")
    limit.expire()
    told = capsys.readouterr().err
    assert statuses == [RAN_TOO_LONG]
    assert "after 3600 s" in told and "a.py::slow" in told and "quick" not in told


def test_a_crash_leaves_a_stack_whoever_has_taken_the_signal(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text(
        "import os, signal\n"
        "def test_driver(): signal.signal(6, signal.SIG_DFL)\n"
        "def test_crash(): os.abort()\n"
        "def test_after(): pass\n"
    )
    output = run_pytest(tmp_path)
    assert "1 failed, 2 passed" in output
    assert 'test_a.py", line 3 in test_crash' in output
