"""`Schedule.auto`: a start for a schedule by hand."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, create_schedule, predicting, te
from autosched.errors import ScheduleError, UsageError
from autosched.runtime.device import resolve_target, with_machine
from autosched.schedule.schedule import replay
from autosched.space.default import default_schedule


@pytest.fixture(autouse=True)
def predictions(tmp_path, monkeypatch):
    """A cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(predicting, "answers", {})


def filtered():
    """B[y, x, c] = the sum of a window of A, halved."""
    a = te.placeholder((66, 98, 3), name="A")
    v, u = te.reduce_axis((0, 3), "v"), te.reduce_axis((0, 3), "u")
    total = te.compute((64, 96, 3), lambda y, x, c: te.sum(a[y + v, x + u, c], axis=[v, u]), name="total")
    return a, te.compute((64, 96, 3), lambda y, x, c: total[y, x, c] / 2, name="B")


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_it_is_right_and_can_be_gone_on_with(target):
    a, b = filtered()
    s = create_schedule(b).auto(target)
    assert not s.knobs and len(s.trace) > 3
    last = s[b].loops[0]
    if target != "opencl":
        assert any(loop.kind in ("parallel", "vectorize") for loop in s[b].loops)
        s[b].pragma(last, "loop_partition_hint")
    x = np.arange(66 * 98 * 3, dtype="float32").reshape(66, 98, 3) % 7
    want = sum(x[v : v + 64, u : u + 96] for v in range(3) for u in range(3)) / 2
    np.testing.assert_array_equal(build(s, target, args=[a, b])(x), want)
    again = replay(s.trace.to_json(), [b])
    assert again.trace.to_json() == s.trace.to_json()


def test_it_comes_first():
    _, b = filtered()
    s = create_schedule(b)
    s["B"].parallel("y")
    with pytest.raises(ScheduleError, match="1 primitives were called already"):
        s.auto("llvm")


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_without_effort_it_is_the_default_schedule_at_once(target, monkeypatch):
    monkeypatch.setattr(predicting, "foreseen", lambda *_: pytest.fail("a model was asked"))
    a, b = filtered()
    s = create_schedule(b).auto(target, effort="none")
    assert s.trace == default_schedule([a, b], with_machine(resolve_target(target))).trace
    if target != "opencl":
        before = s[b].describe()
        s[b].pragma(s[b].loops[0], "loop_partition_hint")
        assert "(vectorize)" in before
    x = np.arange(66 * 98 * 3, dtype="float32").reshape(66, 98, 3) % 7
    want = sum(x[v : v + 64, u : u + 96] for v in range(3) for u in range(3)) / 2
    np.testing.assert_array_equal(build(s, target, args=[a, b])(x), want)


def test_it_does_not_search():
    _, b = filtered()
    with pytest.raises(UsageError) as error:
        create_schedule(b).auto("llvm", effort="full")
    assert error.value.why == "there is no effort 'full' of it"
    assert error.value.legal == "none or quick; autosched.tune searches"
    assert error.value.asked.startswith("s.auto(effort='full')  at ")


def test_without_a_choice_it_is_the_default_schedule(monkeypatch):
    monkeypatch.setattr(predicting, "choices_by_model", lambda *_: [(None, "there is no model of this device")])
    a, b = filtered()
    s = create_schedule(b).auto("llvm")
    assert build(s, "llvm", args=[a, b])(np.ones((66, 98, 3), "float32")).sum() == 64 * 96 * 3 * 4.5


@pytest.mark.parametrize("step", [["pragma", "B", "y", "debug_skip_region"], ["split", "B", "nowhere", {"factor": 2}]])
def test_a_remembered_choice_may_not_change_results(step, monkeypatch):
    """The cache is a file: what it says is refused where a record of it would be."""
    said = predicting.Foreseen("s", [step], {}, 1.0)
    monkeypatch.setattr(predicting, "foreseen", lambda *_: (said, ""))
    a, b = filtered()
    with pytest.warns(RuntimeWarning, match="passed over"):
        s = create_schedule(b).auto("llvm")
    assert build(s, "llvm", args=[a, b])(np.ones((66, 98, 3), "float32")).sum() == 64 * 96 * 3 * 4.5
