"""The roofline: what it says of a program, what is kept of it, and the kernels that measure it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from autosched.cli import main
from autosched.codegen.llvm import assembled, host
from autosched.errors import MeasureError
from autosched.measure import bandwidth, roofline
from autosched.measure.bandwidth import CHAINS, UNROLLED, kernels, plan_levels
from autosched.measure.roofline import Level, Roofline
from autosched.runtime.cpu import LoadedCode
from autosched.runtime.device import Cache, data_caches
from autosched.te.work import Work

KIB, MIB, GB = 1 << 10, 1 << 20, 1e9
ROOF = Roofline(
    cpu="a CPU",
    cores=4,
    measured="2026-01-01",
    levels=(
        Level("L2", 1 * MIB, True, MIB // 2, {1: 100 * GB, 4: 400 * GB}, {1: 80 * GB, 4: 320 * GB}),
        Level("memory", None, False, 256 * MIB, {1: 10 * GB, 4: 40 * GB}, {1: 10 * GB, 4: 20 * GB}),
    ),
    fma={"float32": {1: 100 * GB, 4: 400 * GB}, "float64": {1: 50 * GB, 4: 200 * GB}},
)


#: two threads, while something else ran
DISTURBED = Roofline(
    cpu="a CPU",
    cores=2,
    measured="2026-01-01",
    levels=(
        Level("L1", 16 * KIB, True, KIB, {1: 100 * GB, 2: 1 * GB}, {1: 100 * GB, 2: 1 * GB}),
        Level("L2", 1 * MIB, True, MIB // 2, {1: 40 * GB, 2: 1 * GB}, {1: 20 * GB, 2: 1 * GB}),
        Level("memory", None, False, 256 * MIB, {1: 10 * GB, 2: 60 * GB}, {1: 10 * GB, 2: 30 * GB}),
    ),
    fma={"float32": {1: 100 * GB, 2: 7 * GB}, "float64": {1: 50 * GB, 2: 100 * GB}},
)


# -- bounds -----------------------------------------------------------------------------------------
def test_reading_takes_what_reading_takes():
    bound = ROOF.bound(Work(0, False, loaded=100 * MIB, stored=0), threads=1)
    assert bound.limit == "memory"
    assert bound.seconds == pytest.approx(100 * MIB / (10 * GB))


def test_a_copy_takes_what_a_copy_takes():
    for threads, rate in ((1, 10 * GB), (4, 20 * GB)):
        bound = ROOF.bound(Work(0, False, loaded=50 * MIB, stored=50 * MIB), threads)
        assert bound.seconds == pytest.approx(100 * MIB / rate)


def test_arithmetic_limits_what_moves_little():
    work = Work(10**9, False, loaded=1000, stored=1000)
    assert ROOF.bound(work, 1).limit == "FMA"
    assert ROOF.bound(work, 1).seconds == pytest.approx(0.01)
    assert ROOF.bound(work, 4).seconds == pytest.approx(0.0025)
    assert ROOF.bound(Work(10**9, True, 1000, 1000), 1).seconds == pytest.approx(0.02)


def test_the_level_is_the_smallest_that_holds_the_data():
    three = Work(0, False, loaded=3 * MIB, stored=0)
    assert ROOF.bound(three, threads=4).limit == "L2", "each thread has its own"
    assert ROOF.bound(three, threads=1).limit == "memory"
    assert ROOF.bound(three, threads=2).limit == "memory"


@pytest.mark.parametrize(("size", "rate"), [(KIB, 100), (MIB, 60), (8 * MIB, 60)])
def test_near_levels_and_more_threads_are_no_slower_than_far_and_fewer(size: int, rate: int):
    """What is measured on a machine at work would else have programs far above the roofline."""
    bound = DISTURBED.bound(Work(0, False, loaded=size, stored=0), threads=2)
    assert bound.seconds == pytest.approx(size / (rate * GB))
    assert DISTURBED.bound(Work(10**12, False, 8, 8), 2).seconds == pytest.approx(10)


def test_between_measured_numbers_of_threads():
    work = Work(10**9, False, 0, 0)
    assert ROOF.bound(work, 2).seconds == pytest.approx(10**9 / (200 * GB))
    assert ROOF.bound(work, 64).seconds == ROOF.bound(work, 4).seconds


# -- the cache ----------------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "autosched"


def test_kept_and_found_again(folder: Path):
    assert roofline.cached() is None
    file = roofline.store(ROOF)
    assert file.parent == folder
    assert roofline.cached() == ROOF
    assert Roofline.from_json(json.loads(json.dumps(ROOF.to_json()))) == ROOF


def test_another_machine_has_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch):
    here = roofline.cache_file()
    monkeypatch.setattr(roofline, "host_cpu", lambda: "another CPU")
    assert roofline.cache_file() != here


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{}", '{"v": 99}', json.dumps({**ROOF.to_json(), "levels": []})]
    + [json.dumps({**ROOF.to_json(), "fma": {"float32": {"1": 0}, "float64": {"1": 1}}})]
    + [json.dumps({**ROOF.to_json(), "fma": {"float32": {"1": 1}, "float64": {"1": 1}}})]
    + [json.dumps(DISTURBED.to_json())],
)
def test_a_damaged_file_counts_as_none(folder: Path, text: str):
    file = roofline.cache_file()
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    assert roofline.cached() is None


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert roofline.cache_file().is_absolute()


# -- what is measured -------------------------------------------------------------------------------
LAPTOP = [Cache(1, 48 * KIB, 1), Cache(2, 1280 * KIB, 2), Cache(3, 12 * MIB, 8)]
SERVER = [Cache(1, 48 * KIB, 1), Cache(2, 2 * MIB, 1), Cache(3, 300 * MIB, 2)]
PHONE = [Cache(1, 64 * KIB, 1), Cache(2, 4 * MIB, 4)]


@pytest.mark.parametrize(("caches", "cores"), [(LAPTOP, 8), (SERVER, 2), (SERVER, 64), (PHONE, 4), ([], 1)])
def test_levels_grow_and_end_in_memory(caches: list[Cache], cores: int):
    plans = plan_levels(caches, cores, available=16 << 30)
    in_all = [p.working_set * (cores if p.private else 1) for p in plans]
    assert all(0 < a < b for a, b in pairwise(in_all))
    assert all(p.capacity is None or p.working_set <= p.capacity for p in plans)
    assert (plans[-1].name, plans[-1].capacity) == ("memory", None)
    assert in_all[-1] <= 1 << 30


def test_a_huge_shared_cache_is_measured_near_and_far():
    assert [p.name for p in plan_levels(SERVER, 2, 16 << 30)] == ["L1", "L2", "L3", "far L3", "memory"]
    assert [p.name for p in plan_levels(LAPTOP, 8, 16 << 30)] == ["L1", "L2", "L3", "memory"]


def test_little_memory_is_not_used_up():
    assert plan_levels(LAPTOP, 8, available=400 * MIB)[-1].working_set <= 100 * MIB


def test_the_system_s_caches():
    caches = data_caches()
    assert [c.level for c in caches] == sorted(c.level for c in caches)
    assert all(c.size >= 4 * KIB and c.shared_by >= 1 for c in caches)


# -- the kernels --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def loaded() -> LoadedCode:
    return LoadedCode(
        "roofline_test", [assembled(kernels(16, 16), *host())], ("read", "copy", "stream", "float64"), needs_openmp=True
    )


def run(address: int, words: list[int], threads: int) -> None:
    arguments = np.array(words, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(address)(arguments.ctypes.data, threads)


@pytest.mark.parametrize("position", [1, 2], ids=["copy", "stream"])
@pytest.mark.parametrize("threads", [1, 2])
def test_copies_copy_what_they_are_said_to(loaded: LoadedCode, position: int, threads: int):
    part, apart = 4 * UNROLLED * 16, 4096
    memory = np.zeros(4 * apart, np.uint8)
    start = -memory.ctypes.data % 64
    source, target = memory[start : start + 2 * apart], memory[start + 2 * apart :]
    source[:] = np.random.default_rng(0).integers(1, 255, source.size)
    run(loaded.addresses[position], [source.ctypes.data, target.ctypes.data, part, apart, 3], threads)
    for thread in range(2):
        at = slice(thread * apart, thread * apart + part)
        assert (target[at] == (source[at] if thread < threads else 0)).all()
        assert not target[at.stop : (thread + 1) * apart - 64].any()


def test_the_chains_multiply_and_add(loaded: LoadedCode):
    memory = np.zeros(4096, np.float64)
    start = -memory.ctypes.data % 64 // 8
    memory = memory[start:]
    memory[:2], memory[8:10] = 0.5, 1.0
    steps = 3
    run(loaded.addresses[3], [memory.ctypes.data, memory.ctypes.data + 8192, steps, 0, 1], 1)
    expected = 1.0
    for _ in range(steps):
        expected = expected * 0.5 + 1.0
    assert memory[1024] == memory[1025] == expected


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("registers", sorted(CHAINS))
def test_the_text_is_legal_for_every_width(width: int, registers: int):
    llvm.parse_assembly(kernels(width, registers), llvm.create_context()).verify()


def test_a_small_machine_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bandwidth, "_SAMPLES", 1)
    monkeypatch.setattr(bandwidth, "_SAMPLE_S", 1e-5)  # so short that what else runs decides
    monkeypatch.setattr(Roofline, "impossible", lambda self: [])
    monkeypatch.setattr(bandwidth, "data_caches", lambda: [Cache(1, 32 * KIB, 1), Cache(2, 256 * KIB, 2)])
    monkeypatch.setattr(bandwidth, "available_memory", lambda: 128 * MIB)
    monkeypatch.setattr(bandwidth, "cpu_count", lambda: 2)
    heard: list[str] = []
    found = bandwidth.measure_roofline(heard.append)
    assert heard == ["1 thread", "2 threads"]
    assert [x.name for x in found.levels] == ["L1", "L2", "memory"]
    assert all(rate > 0 for x in found.levels for rates in (x.read, x.copy) for rate in rates.values())
    assert Roofline.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_threads_that_nobody_gives_are_left_out(tmp_path: Path):
    """With a limit in the environment, rates of two threads would be twice what they are."""
    code = "from autosched.measure.bandwidth import _Machine; m = _Machine(1 << 20); print(m.runs(1), m.runs(2))"
    for limit, expected in (("1", "True False"), ("8", "True True")):
        environment = {**os.environ, "OMP_THREAD_LIMIT": limit, "PYTHONPATH": str(Path(__file__).parents[3])}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == expected, done.stderr


# -- a machine at work ------------------------------------------------------------------------------
class Clock:
    """A clock for a program of 1 us a round, 100 us a call, which waits for a core in some calls."""

    def __init__(self, *waits: float) -> None:
        self.now, self.work, self.waits = 0.0, 0.0, list(waits)

    def __call__(self) -> float:
        return self.now

    def run(self, rounds: int) -> None:
        self.now += 1e-4 + 1e-6 * rounds + (self.waits.pop(0) if self.waits else 0.0)
        self.work += 2 * (1e-4 + 1e-6 * rounds)


@pytest.mark.parametrize("waits", [(), (0.02,), (0.02,) * 5, (0.0, 0.004, 0.5, 0.0, 0.02), (0.0, 0.0, 0.02)])
def test_a_call_that_waited_for_a_core_does_not_decide_on_the_rounds(waits: tuple[float, ...]):
    """It had been enough that one call lasted long: the others, of one round, were little but their beginning."""
    clock = Clock(*waits)
    found = bandwidth.fastest_round(clock.run, 2, clock, lambda: clock.work)
    assert found == pytest.approx(1e-6, rel=0.05)


def test_a_clock_that_stands_ends():
    assert bandwidth.fastest_round(lambda rounds: None, 1, lambda: 1.0, lambda: 1.0) == float("inf")


class Busy:
    """A machine of which the first answers are wrong, as while other programs run."""

    wrong = 0
    rates = (0.0, 0.0)

    def __init__(self, largest: int) -> None:
        pass

    def runs(self, threads: int) -> bool:
        return True

    def peak(self, name: str, threads: int) -> float:
        return 50 * GB * threads

    def bandwidth(self, plan: bandwidth._LevelPlan, threads: int) -> tuple[float, float]:
        if plan.name == "L1" and threads == 1 and Busy.wrong > 0:
            Busy.wrong -= 1
            return Busy.rates
        return 20 * GB * threads, 10 * GB * threads


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> type[Busy]:
    monkeypatch.setattr(bandwidth, "_Machine", Busy)
    monkeypatch.setattr(bandwidth, "data_caches", lambda: SERVER)
    monkeypatch.setattr(bandwidth, "cpu_count", lambda: 2)
    monkeypatch.setattr(bandwidth.time, "sleep", lambda s: None)
    return Busy


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.03 * GB, 10 * GB), (1 * GB, 1 * GB), (20 * GB, 1e15)])
def test_what_cannot_be_is_measured_again(
    busy: type[Busy], monkeypatch: pytest.MonkeyPatch, folder: Path, rates: tuple[float, float]
):
    monkeypatch.setattr(busy, "wrong", 3)
    monkeypatch.setattr(busy, "rates", rates)
    told: list[str] = []
    found = bandwidth.measure_roofline(told.append)
    assert found.impossible() == []
    assert (found.levels[0].read, found.levels[0].copy) == ({1: 20 * GB, 2: 40 * GB}, {1: 10 * GB, 2: 20 * GB})
    assert any("L1" in line and "cannot be, so again" in line for line in told)


def test_what_stays_so_is_refused_and_not_kept(
    busy: type[Busy], monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(busy, "wrong", 10**6)
    assert main(["roofline"]) == MeasureError.exit_status
    out, err = capsys.readouterr()
    assert out == "" and not folder.exists()
    assert err.endswith(
        "error: roofline: 1 thread, L1, read: 0 GB/s, which cannot be: other programs had the cores\n"
        "  close other programs and try again; nothing was kept\n"
    )
