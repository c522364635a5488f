from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.errors import Malformed
from autosched.measure.batch import BuildQueue, QueuedJob
from autosched.measure.pool import Slot
from autosched.measure.process import WorkerProcess
from autosched.measure.protocol import UNLOADED, Job, MeasureOptions, read_build, read_run, read_time

RUN = {"status": "ok", "error": "", "samples": [1e-3, 2e-3], "verified": "full", "run_s": 0.5, "number": 3}
BUILD = {"status": "ok", "error": "", "digest": "ab", "build_s": 0.1}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def test_good_answers() -> None:
    answer = read_run(RUN)
    assert (answer.status, answer.samples, answer.verified, answer.number) == ("ok", (1e-3, 2e-3), "full", 3)
    assert not answer.recycle and not answer.device_error
    assert read_build(BUILD).digest == "ab"
    failed = read_run({"status": "runtime", "error": "no", "run_s": 0, "recycle": True, "device_error": True})
    assert (failed.samples, failed.verified, failed.recycle, failed.device_error) == ((), "no", True, True)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"status": UNLOADED},
        {"status": 1},
        {"error": None},
        {"error": "x" * 10_000},
        {"samples": []},
        {"samples": None},
        {"samples": [0.0]},
        {"samples": [-1.0]},
        {"samples": [float("nan")]},
        {"samples": [float("inf")]},
        {"samples": [10**400]},
        {"samples": [True]},
        {"samples": ["1"]},
        {"verified": "yes"},
        {"run_s": -1},
        {"run_s": "1"},
        {"run_s": 10**400},
        {"number": -1},
        {"number": 1.5},
    ],
)
def test_nonsense(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read_run({**RUN, **change})


def test_only_a_timed_kernel_can_be_unloaded() -> None:
    assert read_time({"status": UNLOADED, "error": "", "run_s": 0.0}).status == UNLOADED


def test_a_build_needs_a_digest() -> None:
    for digest in ("", None, 7):
        with pytest.raises(Malformed):
            read_build({**BUILD, "digest": digest})


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from([*RUN, *BUILD]), JSON))
def test_any_json_is_an_answer_or_an_answer_error(reply: dict[str, Any]) -> None:
    for read in (read_run, read_time, read_build):
        with contextlib.suppress(Malformed):
            read(reply)


class Builders:
    """A pool of two builders, which note the jobs that they get."""

    def __init__(self) -> None:
        self.slots = [Slot("builder", WorkerProcess("b", [], {}, Path())) for _ in range(2)]
        self.jobs: list[list[int]] = [[], []]
        self.idle: list[Slot] = []

    def ensure(self, role: str, count: int) -> None: ...

    def free(self, role: str) -> Slot | None:
        return self.idle.pop(0) if self.idle else None

    def submit(self, slot: Slot, request: dict[str, Any], limits: Any, task: QueuedJob) -> bool:
        self.jobs[self.slots.index(slot)].append(task.job.id)
        return True


def test_a_builder_keeps_to_the_sketches_that_it_has_lowered(tmp_path: Path) -> None:
    pool = Builders()
    session = SimpleNamespace(known=tmp_path, new_artifact=lambda: tmp_path)
    context: Any = SimpleNamespace(pool=pool, session=session, options=MeasureOptions(builders=2))
    queue = BuildQueue(context, [Job(i, name) for i, name in enumerate("aabbaac")], reuse=True)
    for _ in range(4):
        pool.idle = list(pool.slots)
        queue.dispatch(100)
    assert pool.jobs == [[0, 1, 4, 5], [2, 3, 6]]
