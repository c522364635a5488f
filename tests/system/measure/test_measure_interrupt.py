"""Ctrl-C and sudden death of the parent, at any moment: nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from measuring import HERE, is_alive

from autosched.measure import Job, Measurer

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
import fake_backend
from autosched.measure import Job, Measurer, MeasureOptions
from autosched.target import Target

options = MeasureOptions(timeout_s=60, build_timeout_s=60, builders=2, min_repeat_ms=0.01, overlap=True)
with Measurer(
    {}, Target.parse("llvm"), {}, fake_backend.inputs(), fake_backend.expected(), options, backend="fake_backend:make"
) as measurer:
    list(measurer.measure([Job(0, "honest"), Job(1, "honest")]))
    print(*(slot.worker.pid for slot in measurer.context.pool.slots), flush=True)
    list(measurer.measure([Job(2, sys.argv[2]), Job(3, "build_hang"), Job(4, "honest")]))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], list[int]]]]:
    """`start(sketch)`: a program whose runner is at that candidate; (the program, its workers)."""
    programs = []
    root = Path(__file__).resolve().parents[3]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(HERE)])}

    def start(sketch: str) -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), sketch]
        program = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        programs.append(program)
        assert program.stdout is not None
        pids = [int(pid) for pid in program.stdout.readline().split()]
        time.sleep(0.3)  # now its workers hang
        return program, pids

    yield start
    for program in programs:
        program.kill()
        program.communicate()


def assert_gone(pids: list[int]) -> None:
    assert len(pids) == 3
    end = time.monotonic() + 20
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.01)


@pytest.mark.parametrize("sketch", ["hang_with_gil", "deaf"])
def test_ctrl_c(start: Callable, tmp_path: Path, sketch: str) -> None:
    program, pids = start(sketch)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert program.returncode == -signal.SIGINT
    assert_gone(pids)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sketch", ["hang_with_gil", "deaf"])
def test_workers_do_not_outlive_a_killed_parent(start: Callable, sketch: str) -> None:
    program, pids = start(sketch)
    program.kill()
    assert_gone(pids)


def test_interrupted_at_any_moment_it_can_be_used_again(make_measurer: Callable[..., Measurer]) -> None:
    rng = random.Random(5)
    measurer = make_measurer(timeout_s=20.0, build_timeout_s=20.0, builders=2)
    jobs = [Job(i, ("honest", "segv", "honest", "hang")[i % 4]) for i in range(12)]
    interruptions = 0
    for _ in range(5):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.6))
        try:
            for _ in measurer.measure(jobs):
                pass
        except KeyboardInterrupt:
            interruptions += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert interruptions == 5
    assert [m.status for m in measurer.measure([Job(50, "honest"), Job(51, "honest")])] == ["ok", "ok"]
