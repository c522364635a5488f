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
from autosched.measure.protocol import MeasureOptions
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
    monkeypatch.setattr("autosched.tuning.run.REFERENCE_SHARE", 0.01)
    return begun


def run(folder: Path, function: WorkloadFunction[...] = doubled, progress: Any = False) -> Any:
    return tune(function(), "llvm", trials=2, budget_s=30.0, records=folder, measure=QUICK, progress=progress)


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


def test_where_the_plain_loops_fail_the_reference_is_waited_for(late: list[float]) -> None:
    compared: list[Any] = []

    class Failing:
        def outputs_of(self, *args: Any) -> tuple[list[np.ndarray], str]:
            return [], "it ran for too long"

        def compare_with(self, *args: Any) -> None:
            compared.append(args)

    work = doubled()
    inputs = work.sample_inputs()
    found = Expected(work, Target.parse("llvm"), inputs, 0.1)
    assert found.is_unknown and [x.shape for x in found.initial if x is not None] == [(300,)]
    told = found.by_plain_loops(Failing())  # type: ignore[arg-type]
    assert told.endswith("and was waited for, as the plain loops fail: it ran for too long")
    assert not found.is_late and found.verdict("full") == "full"
    ((outputs, initial, _),) = compared
    assert np.array_equal(outputs[0], inputs[0] * 2 + 1) and initial == [None]


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
