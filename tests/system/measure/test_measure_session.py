from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.workers import (
    SessionFolder,
    available_memory,
    memory_limit,
    remove_stale,
    worker_command,
    worker_environment,
)
from autosched.target import Target

ROOT = Path(__file__).resolve().parents[3]


def make_old(path: Path) -> None:
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))


def test_folder_lives_as_long_as_the_session(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    assert [p.parent for p in tmp_path.glob("*/lock")] == [session.path]
    assert session.path.stat().st_mode & 0o077 == 0
    assert session.new_artifact() != session.new_artifact()
    session.close()
    session.close()
    assert list(tmp_path.iterdir()) == []


def test_files(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    arrays = [np.arange(6).reshape(2, 3).T, np.zeros((0, 2)), np.array(3.0)]
    for path, array in zip(session.save_arrays("input", arrays), arrays, strict=True):
        loaded = np.load(path, allow_pickle=False)
        assert loaded.dtype == array.dtype and loaded.flags.c_contiguous
        np.testing.assert_array_equal(loaded, array)
    assert Path(session.save_json("a.json", {"ü": 1})).read_text() == '{"\\u00fc": 1}'
    session.close()


def test_no_room_in_the_temporary_folder(tmp_path: Path) -> None:
    """Each file may have 4 kB, and NumPy says no reason why it writes no more."""
    script = (
        "import resource, signal, sys; from pathlib import Path; import numpy as np;"
        "from autosched.measure.workers import SessionFolder; s = SessionFolder(Path(sys.argv[1]));"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "s.save_arrays('input', [np.zeros(100), np.zeros(10_000)])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=env, capture_output=True, text=True)
    said = done.stderr.split("MeasureError: ")[1]
    assert said.startswith(f"write to the temporary folder: {tmp_path}: 80,000 bytes are needed, ")
    assert said.endswith("are left\n  free some space there, or name another folder: TMPDIR=FOLDER\n")


def test_what_a_killed_session_left_is_removed(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from autosched.measure.workers import SessionFolder;"
        "s = SessionFolder(Path(sys.argv[1])); (s.path / 'tmp' / 'big').write_text('x'); os.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=env, check=False)
    (left,) = tmp_path.iterdir()
    assert remove_stale(tmp_path) == []  # too young to be sure
    make_old(left)
    session = SessionFolder(tmp_path)
    assert list(tmp_path.iterdir()) == [session.path]
    session.close()


def test_living_sessions_and_other_files_are_left_alone(tmp_path: Path) -> None:
    alive = SessionFolder(tmp_path)
    other, link, empty = (tmp_path / name for name in ("other", "autosched-measure-link", "autosched-measure-x"))
    other.mkdir()
    link.symlink_to(other)
    empty.mkdir()  # its lock was never made
    for path in (alive.path, other, empty):
        make_old(path)
    assert remove_stale(tmp_path) == [empty]
    assert alive.path.is_dir() and other.is_dir() and link.is_symlink()
    alive.close()


def test_worker_environment(tmp_path: Path) -> None:
    base = {"HOME": "/h", "PYTHONPATH": "lib", "OMP_PROC_BIND": "spread", "POCL_SIGFPE_HANDLER": "1"}
    runner = worker_environment(tmp_path, Target.parse("llvm -threads=3"), "runner", base)
    assert runner["HOME"] == "/h"
    assert runner["OMP_NUM_THREADS"] == "3"
    assert runner["OMP_PROC_BIND"] == "spread"  # the user's own wish
    assert runner["POCL_SIGFPE_HANDLER"] == "0"
    assert runner["PYOPENCL_NO_CACHE"] == "1"
    assert runner["POCL_CACHE_DIR"].startswith(str(tmp_path))
    assert runner["TMPDIR"].startswith(str(tmp_path))
    path = runner["PYTHONPATH"].split(os.pathsep)
    assert path[0] == os.path.abspath("lib")  # the worker has another working folder
    assert worker_environment(tmp_path, Target.parse("llvm"), "builder", {})["OMP_NUM_THREADS"] == "1"
    # nobody waits for a thread that has no core, unless the user wants other threads
    assert runner["AUTOSCHED_THREADS"] == "team"
    asked = worker_environment(tmp_path, Target.parse("llvm"), "runner", {"AUTOSCHED_THREADS": "openmp"})
    assert asked["AUTOSCHED_THREADS"] == "openmp"


def test_the_worker_module_is_found_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    env = worker_environment(tmp_path, Target.parse("llvm"), "builder", {"PATH": os.environ["PATH"]})
    command = [*worker_command(0), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "autosched.measure.worker" in done.stdout and done.stderr == ""


def test_available_memory_is_what_the_system_and_the_container_leave(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  64000000 kB\nMemAvailable:  8000000 kB\n")
    assert available_memory(tmp_path, tmp_path) == 8_000_000 << 10
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert available_memory(tmp_path, tmp_path) == 8_000_000 << 10
    (tmp_path / "memory.max").write_text(str((4 << 30) + 1000))
    assert available_memory(tmp_path, tmp_path) == 4 << 30
    nothing = available_memory(tmp_path / "none", tmp_path / "none")
    assert nothing == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_candidate_gets_a_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.measure.workers.available_memory", lambda: 100 << 30)
    assert memory_limit(Target.parse("llvm"), 0) == 75 << 30
    monkeypatch.setattr("autosched.measure.workers.available_memory", lambda: 1 << 30)
    assert memory_limit(Target.parse("llvm"), 0) == 4 << 30  # the libraries' address space alone takes some


def test_memory_limits() -> None:
    cpu, device = Target.parse("llvm"), Target.parse("opencl")
    assert memory_limit(cpu, 0) >= 4 << 30
    assert memory_limit(device, 0) == 0
    assert memory_limit(device, 100) == memory_limit(cpu, 100) == 100 << 20
    assert worker_command(5)[-2:] == ["--memory-limit", "5"]
    assert "--memory-limit" not in worker_command(0)
