"""The team: every thread has a number of its own, loops are complete, and nobody waits for a thread that does not come."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from autosched import te
from autosched.building import build
from autosched.ir.calls import call_packed
from autosched.ir.functions import register_func
from autosched.runtime import cpu, team
from autosched.runtime import jit as openmp
from autosched.runtime.module import Module
from autosched.schedule.schedule import create_schedule

pytestmark = pytest.mark.skipif(not team.is_available(), reason="no team for this system")


@pytest.fixture(autouse=True)
def _on_the_team(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("AUTOSCHED_THREADS", raising=False)
    cpu.runtime_of.cache_clear()
    yield
    cpu.runtime_of.cache_clear()


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Team:
    """The functions that generated code calls, callable from here."""

    def __init__(self) -> None:
        at = team.addresses()
        self._parallel = ctypes.CFUNCTYPE(None, _FUNCTION, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32)(
            at["GOMP_parallel"]
        )
        self.number = ctypes.CFUNCTYPE(ctypes.c_int32)(at["omp_get_thread_num"])

    def run(self, threads: int, function: Callable[[], None]) -> None:
        self._parallel(_FUNCTION(lambda _: function()), None, threads, 0)


def gather(seen: list[object], count: int) -> None:
    """Stay in a loop until so many have come: it is open to all while the caller is in it."""
    ends = time.monotonic() + 30
    while len(seen) < count and time.monotonic() < ends:
        time.sleep(0.001)


@pytest.mark.parametrize("threads", [1, 2, 3, 17])
def test_threads_have_numbers_of_their_own(threads: int) -> None:
    t = Team()
    for _ in range(5):
        seen: list[int] = []
        all_here = threading.Barrier(threads)  # however long the system takes to start them

        def stay(seen: list[int] = seen, all_here: threading.Barrier = all_here) -> None:
            seen.append(t.number())
            all_here.wait(60)

        t.run(threads, stay)
        assert sorted(seen) == list(range(threads))


def test_the_caller_waits_for_those_who_have_begun() -> None:
    t, ended = Team(), []
    both = threading.Barrier(2)

    def work() -> None:
        both.wait(10)
        if t.number():
            time.sleep(0.2)  # longer than the caller looks before it sleeps
            ended.append(t.number())

    for _ in range(3):
        ended.clear()
        t.run(2, work)
        assert ended == [1]


def test_a_thread_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    create = "call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)"
    text = team.assembly()
    assert create in text
    text = text.replace(create, "add i32 0, 0").replace("call i32 @pthread_detach(ptr %handle)", "add i32 0, 0")
    monkeypatch.setattr(team, "assembly", lambda: text)
    monkeypatch.setattr(team, "addresses", team.addresses.__wrapped__)
    t, seen = Team(), []
    t.run(4, lambda: seen.append(t.number()))
    assert seen == [0]


def test_a_thread_that_has_lost_its_core_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MIN_REST", "MAX_REST"):
        monkeypatch.setitem(team.NUMBERS, limit, 600 * 10**9)
    monkeypatch.setattr(team, "addresses", team.addresses.__wrapped__)
    t = Team()
    seen: list[int] = []

    def sleep() -> None:
        seen.append(t.number())
        gather(seen, 2)
        time.sleep(0.05)  # a thread without a core and one that sleeps look alike

    t.run(2, sleep)
    assert sorted(seen) == [0, 1]
    limit_s = time.monotonic() + 10
    while team.rests_until() < time.monotonic() + 60 and time.monotonic() < limit_s:
        time.sleep(0.001)  # the other thread looks at its clocks after the loop
    assert team.rests_until() > time.monotonic() + 60
    for _ in range(3):
        seen.clear()
        t.run(2, lambda: (seen.append(t.number()), time.sleep(0.05)))
        assert seen == [0]


def test_rests_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(team.NUMBERS, "MAX_REST", 16 * 10**6)
    monkeypatch.setattr(team, "addresses", team.addresses.__wrapped__)
    t = Team()
    for _ in range(4):
        seen: list[int] = []

        def sleep(seen: list[int] = seen) -> None:
            seen.append(t.number())
            gather(seen, 3)
            time.sleep(0.01)

        t.run(3, sleep)
        assert sorted(seen) == [0, 1, 2]


def test_a_loop_in_a_loop_runs_where_it_is_met() -> None:
    t = Team()
    outer: list[tuple[int, int]] = []
    inner: list[tuple[int, int]] = []

    def work() -> None:
        mine = t.number()
        t.run(2, lambda: inner.append((mine, t.number())))
        outer.append((mine, t.number()))
        gather(outer, 2)

    t.run(2, work)
    assert sorted(outer) == [(0, 0), (1, 1)]
    assert sorted(inner) == [(0, 0), (1, 0)]


def rows(threads: int, n: int = 64) -> Module:
    """x[n, 8] -> out: each row goes through memory of the thread that has it."""
    x = te.placeholder((n, 8), name="x")
    r = te.reduce_axis((0, 8), "r")
    total = te.compute((n, 8), lambda i, j: te.sum(x[i, r] * te.const(1.0) + j.astype("float32"), axis=r), name="total")
    out = te.compute((n, 8), lambda i, j: total[i, 7 - j] * 2.0, name="out")
    s = create_schedule(out)
    i, _ = s[out].op.axis
    s[total].compute_at(s[out], i)
    s[out].parallel(i)
    return build(s, f"llvm -threads={threads}", args=[x, out])


def expected(x: np.ndarray) -> np.ndarray:
    return 2 * (x.sum(axis=1)[:, None] + 8 * np.arange(8, dtype="float32")[::-1])


@pytest.mark.parametrize(("threads", "n"), [(2, 64), (16, 64), (3, 7), (11, 50)])
def test_more_threads_than_cores_compute_all_rows(threads: int, n: int) -> None:
    module = rows(threads, n)
    for k in range(100):
        x = np.full((n, 8), k, "float32") + np.arange(n, dtype="float32")[:, None]
        np.testing.assert_array_equal(module(x, np.full_like(x, -1)), expected(x))


def test_each_thread_begins_with_its_own_part_of_a_loop(own_registries: None) -> None:
    t = Team()
    begun: dict[int, int] = {}

    def note(place: float) -> float:
        begun.setdefault(t.number(), int(place))
        gather(begun, 3)  # type: ignore[arg-type]
        return place

    register_func("team.note", note)
    x = te.placeholder((48,), name="x")
    y = te.compute((48,), lambda i: call_packed("team.note", x[i], dtype="float32"), name="y")
    s = create_schedule(y)
    s[y].parallel(s[y].op.axis[0])
    module, values = build(s, "llvm -threads=3", args=[x, y]), np.arange(48, dtype="float32")
    for _ in range(3):
        begun.clear()
        np.testing.assert_array_equal(module(values, np.zeros_like(values)), values)
        assert begun == {0: 0, 1: 16, 2: 32}


def test_the_environment_says_whose_threads_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu.runtime_of(False)[0] == team.addresses()
    cpu.runtime_of.cache_clear()
    monkeypatch.setenv("AUTOSCHED_THREADS", "openmp")
    found = openmp.find()
    assert found is not None
    assert cpu.runtime_of(False)[0] == found.addresses
    cpu.runtime_of.cache_clear()
    monkeypatch.setenv("AUTOSCHED_THREADS", "")
    assert cpu.runtime_of(False)[0] == team.addresses()
    cpu.runtime_of.cache_clear()
    monkeypatch.setenv("AUTOSCHED_THREADS", "many")
    with pytest.warns(RuntimeWarning, match="legal: team, openmp"):
        assert cpu.runtime_of(False)[0] == team.addresses()


def test_python_threads_call_at_the_same_time() -> None:
    module, wrong = rows(2), []

    def work(seed: int) -> None:
        x = np.full((64, 8), seed, "float32")
        wanted = expected(x)
        for _ in range(300):
            if not np.array_equal(module(x, np.full_like(x, -1)), wanted):
                wrong.append(seed)

    callers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert not wrong


def test_a_call_back_in_a_loop_calls_a_module_with_loops(own_registries: None) -> None:
    inner = rows(2)

    def nested(value: float) -> float:
        x = np.full((64, 8), value, "float32")
        return float(inner(x, np.zeros_like(x))[0, 7])

    register_func("team.nested", nested)
    x = te.placeholder((6,), name="x")
    y = te.compute((6,), lambda i: call_packed("team.nested", x[i], dtype="float32"), name="y")
    s = create_schedule(y)
    s[y].parallel(s[y].op.axis[0])
    outer = build(s, "llvm -threads=2", args=[x, y])
    values = np.arange(6, dtype="float32")
    np.testing.assert_array_equal(outer(values, np.zeros_like(values)), 16 * values)


def _in_a_process(script: str) -> None:
    head = "import sys; sys.path[:] = %r; from tests.device.runtime.test_team import *\n" % [
        ".",
        *(p for p in sys.path if p),
    ]
    done = subprocess.run(
        [sys.executable, "-c", head + script], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


FORK = """
import os
module, x = rows(2), np.ones((64, 8), "float32")
module(x, np.zeros_like(x))
child = os.fork()
if child == 0:
    t, seen = Team(), []
    t.run(2, lambda: (seen.append(t.number()), gather(seen, 2)))
    right = np.array_equal(module(x, np.zeros_like(x)), expected(x))
    os._exit(0 if right and sorted(seen) == [0, 1] else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_has_threads_of_its_own() -> None:
    _in_a_process(FORK)


def test_a_process_may_end_while_threads_look_for_work() -> None:
    for _ in range(3):
        _in_a_process("module, x = rows(3), np.ones((64, 8), 'float32')\nmodule(x, np.zeros_like(x))\n")
