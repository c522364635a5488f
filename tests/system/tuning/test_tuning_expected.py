"""A reference that takes longer than the budget: outputs are compared with those of the plain loops."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import build, te, tune
from autosched.errors import MeasureError
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, MeasureOptions
from autosched.records import PLAIN, RecordLog, is_own
from autosched.space.workload import Workload, WorkloadFunction, workload
from autosched.target import Target
from autosched.tuning import expected as tuning_expected
from autosched.tuning.events import Preflight
from autosched.tuning.expected import Expected

QUICK = MeasureOptions(min_repeat_ms=1.0, builders=1)


@workload
def doubled(n: int = 300) -> tuple[te.Tensor, te.Tensor]:
    a = te.placeholder((n,), "float32", name="a")
    return a, te.compute((n,), lambda i: a[i] * 2 + 1, name="b")


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The reference takes a minute where nobody stops it; the moments at which it began."""
    begun: list[float] = []
    real = Workload.reference

    def reference(self: Workload, inputs: Sequence[np.ndarray]) -> Any:
        begun.append(time.monotonic())
        while len(begun) == 1 and time.monotonic() < begun[0] + 60.0:
            time.sleep(0.005)
        return real(self, inputs)

    monkeypatch.setattr(Workload, "reference", reference)
    monkeypatch.setattr(tuning_expected, "REFERENCE_SHARE", 0.01)
    monkeypatch.setattr(tuning_expected, "LEAST_REFERENCE_S", 0.0)
    return begun


def run(folder: Path, function: WorkloadFunction[...] = doubled, progress: Any = False) -> Any:
    return tune(function(), "llvm", trials=2, budget_s=30.0, records=folder, measure=QUICK, progress=progress)


def test_the_reference_has_as_long_as_a_stand_in_takes() -> None:
    limits = [tuning_expected.reference_limit_s(b) for b in (None, 1.0, 3.0, 6.0, 40.0)]
    assert limits == [None, 0.5, 1.5, 1.5, 10.0]


def test_trials_are_made_and_records_say_what_they_were_compared_with(late: list[float], tmp_path: Path) -> None:
    events: list[Any] = []
    found = run(tmp_path, progress=events.append)
    assert [e.reference_s for e in events if isinstance(e, Preflight)] == [None]
    assert found.trials >= 1 and not found.failures and found.elapsed_s < 30.0 and len(late) == 1
    (told,) = [n for n in found.notes if "reference" in n]
    assert told == (
        "the NumPy reference takes more than 0.3 s, its part of the budget, so outputs are compared with those of the "
        "plain loops, which share the compiler with them"
    )
    records = RecordLog(found.log).read().records
    assert {r.verified for r in records} == {PLAIN} and all(is_own(r) for r in records)
    module = build(doubled(), "llvm", records=tmp_path)
    assert (module.provenance["kind"], module.provenance["verified"]) == ("record", "by a run on this machine")
    a = np.arange(300, dtype="float32")
    assert np.array_equal(module(a), a * 2 + 1)


def test_what_differs_from_the_plain_loops_is_wrong(
    late: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Measurer.outputs_of

    def others(self: Measurer, *args: Any) -> Any:
        outputs, why = real(self, *args)
        assert not why and outputs[0][7] == 2 * np.asarray(doubled().sample_inputs()[0])[7] + 1
        outputs[0][7] += 1
        return outputs, why

    monkeypatch.setattr(Measurer, "outputs_of", others)
    with pytest.raises(MeasureError, match=r"correctness.*1 of 300 elements differ, first at \[7\]"):
        run(tmp_path)


class StandIns:
    """A measurer whose jobs end as a test says: with outputs that are all 7, or for a reason without them."""

    def __init__(self, **ends: str) -> None:
        self.ends, self.asked, self.compared = ends, list[str](), list[Any]()
        self.options = QUICK

    def outputs_of(self, job: Job, like: Any, limit_s: float, until: float | None) -> tuple[list[np.ndarray], str]:
        self.asked.append(job.sketch)
        why = self.ends[job.sketch.partition(" ")[0]]
        return ([], why) if why else ([x + 7 for x in like], "")

    def compare_with(self, *args: Any) -> None:
        self.compared.append(args)


DEFAULT = Job(-2, "default")


def test_where_the_plain_loops_fail_it_is_the_default_schedule(late: list[float]) -> None:
    """And not the reference, which may take minutes: it is not begun again."""
    found = Expected(doubled(), Target.parse("llvm"), doubled().sample_inputs(), 0.1)
    assert found.is_unknown and [x.shape for x in found.initial if x is not None] == [(300,)]
    measurer = StandIns(plain="it ran for too long", default="")
    told = found.by_stand_in(measurer, DEFAULT, None)  # type: ignore[arg-type]
    assert told.endswith("those of the default schedule, as the plain loops fail: it ran for too long")
    assert measurer.asked == ["plain loops", "default"] and len(late) == 1
    ((outputs, initial, _),) = measurer.compared
    assert np.array_equal(outputs[0], np.full(300, 7, "float32")) and initial == [None]
    assert not found.is_unknown and not found.hopeless and found.verdict("full") == PLAIN


def test_where_nothing_ends_in_time_there_is_nothing_to_compare_with(late: list[float]) -> None:
    found = Expected(doubled(), Target.parse("llvm"), doubled().sample_inputs(), 0.1)
    measurer = StandIns(plain="it ran for too long", default="the time was over")
    assert found.by_stand_in(measurer, DEFAULT, None) == ""  # type: ignore[arg-type]
    assert measurer.compared == [] and len(late) == 1 and found.verdict("full") == "no"
    assert found.hopeless == (
        "the NumPy reference takes more than 0.1 s, its part of the budget, and nothing could stand in for it "
        "(plain loops: it ran for too long; default schedule: the time was over)"
    )


def test_a_device_has_the_plain_loops_of_this_cpu(late: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own would be one work-item's."""
    made: list[Target] = []
    real = Measurer.__init__

    def init(self: Measurer, graph: Any, target: Target, *args: Any, **more: Any) -> None:
        made.append(target)
        real(self, graph, target, *args, **more)

    monkeypatch.setattr(Measurer, "__init__", init)
    inputs = doubled().sample_inputs()
    found = Expected(doubled(), Target.parse("opencl"), inputs, 0.1)
    assert found.is_unknown
    measurer = StandIns()
    assert "plain loops" in found.by_stand_in(measurer, DEFAULT, None)  # type: ignore[arg-type]
    assert [t.kind for t in made] == ["llvm"] and measurer.asked == []
    ((outputs, _, _),) = measurer.compared
    assert np.array_equal(outputs[0], inputs[0] * 2 + 1)


@workload
def split_at(n: int = 300) -> tuple[te.Tensor, te.Tensor]:
    """Its floats hang on the last bits of others."""
    a = te.placeholder((n,), "float32", name="a")
    return a, te.compute((n,), lambda i: te.select(a[i] * 0.3 + 0.1 > 0.5, a[i], -a[i]), name="b")


def test_floats_that_hang_on_last_bits_need_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone says how far they move, so more of the budget is left to it."""
    limits: list[float] = []

    def within(seconds: float) -> Any:
        limits.append(seconds)
        return nullcontext()

    monkeypatch.setattr(tuning_expected, "within", within)
    for function in (doubled, split_at):
        work = function()
        assert not Expected(work, Target.parse("llvm"), work.sample_inputs(), 0.1).is_late
    assert limits == [0.1, tuning_expected.PATIENCE * 0.1]


def test_where_it_takes_too_long_for_those_nothing_is_searched(late: list[float], tmp_path: Path) -> None:
    found = run(tmp_path, split_at)
    assert found.trials == 0 and len(late) == 1
    assert any("results hang on the last bits" in n and "give a larger budget" in n for n in found.notes)
    assert [r.verified for r in RecordLog(found.log).read().records] == ["no"]


@workload
def roots_of_negatives(n: int = 300) -> tuple[te.Tensor, te.Tensor]:
    a = te.placeholder((n,), "float32", name="a")
    return a, te.compute((n,), lambda i: te.sqrt(-1 - te.abs(a[i])), name="b")


@pytest.mark.parametrize(("function", "said"), [(roots_of_negatives, 1), (doubled, 0)], ids=["nan", "numbers"])
def test_outputs_that_are_no_numbers_are_told(function: WorkloadFunction[...], said: int, tmp_path: Path) -> None:
    """NaN meets NaN: whatever a candidate did to its inputs would do."""
    notes = [n for n in run(tmp_path, function).notes if "no element of b is a finite number" in n]
    assert len(notes) == said
