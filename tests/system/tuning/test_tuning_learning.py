"""What a run learns from: code that was measured before, sketches that cannot be lowered, a strategy that fails."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

import autosched
from autosched import te, template, workload
from autosched.measure.protocol import MeasureOptions
from autosched.records import Record, RecordLog, default_path
from autosched.space.features import FEATURE_VERSION

FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)


@workload
def shift(n=256):
    a = te.placeholder((n,), "int32", name="a")
    return a, te.compute((n,), lambda i: a[i] + 1, name="b")


@template(shift, target="llvm")
def tiles(s):
    """Whatever `label` is, the code is the same."""
    b = s["b"]
    s.define_knob("label", [1, 2])
    outer, _ = b.split(b.op.axis[0], factor=s.define_knob("tile", [8, 32]))
    b.parallel(outer)


def tuned(folder, trials, **options):
    result = autosched.tune(shift(), "llvm", trials=trials, records=folder, measure=FAST, strategy="grid", **options)
    return result, RecordLog(default_path("shift", "llvm", folder)).read().records


def of_trials(records: list[Record]) -> list[Record]:
    return [r for r in records if r.sketch != "default" and r.playoff is None]


def test_code_that_was_measured_in_an_earlier_run_is_not_measured_again(tmp_path):
    _, records = tuned(tmp_path, 2)
    first = of_trials(records)
    assert {r.knobs["label"] for r in first} == {1} and not any(r.error for r in first)
    assert len({r.code for r in first}) == 2 and all(len(r.code) == 64 for r in first)
    result, records = tuned(tmp_path, 4)
    twins = of_trials(records)[2:]
    assert [r.trial for r in twins] == [3, 4]
    assert [(r.status, r.error, r.code) for r in twins] == [
        ("ok", f"same code as record {r.id}", r.code) for r in first
    ]
    assert "2 trials have the same code as an earlier one, and share its time" in result.notes


def test_times_of_other_software_are_not_taken_over(tmp_path):
    _, records = tuned(tmp_path, 2)
    path = default_path("shift", "llvm", tmp_path)
    path.unlink()
    for r in records:
        if r.playoff is None:
            RecordLog(path).append(replace(r, versions={**r.versions, "llvmlite": "0.1"}))
    _, records = tuned(tmp_path, 4)
    assert [r.error for r in of_trials(records)] == [""] * 4


def test_a_sketch_that_cannot_be_lowered_is_told_of(tmp_path):
    @workload
    def broken(n=256):
        a = te.placeholder((n,), "int32", name="a")
        return a, te.compute((n,), lambda i: a[i] + 1, name="b")

    @template(broken, target="llvm")
    def forks(s):
        b = s["b"]
        if s.choose("detached", [False, True]):  # legal call by call: lowering finds that the loop is gone
            s[s.cache_write("b", "local")].compute_at(b, "i")
        b.split("i", factor=s.define_knob("tile", [4, 8]))

    result = autosched.tune(broken(), "llvm", trials=4, records=tmp_path, measure=FAST, strategy="random")
    told = [note for note in result.notes if "leaves it out" in note]
    assert len(told) == 1
    assert told[0].startswith("sketch forks[detached=True] cannot be built, so the search leaves it out: ")
    assert result.trials == 2 and not result.failures  # its points were never tried
    assert "every candidate of the search space has been measured" in result.notes


PLUGIN = """
class Fails:
    def __init__(self, space, *, seed=0, model=None):
        self.asked = 0

    def propose(self, n):
        self.asked += 1
        if self.asked == 2:
            raise RuntimeError("out of ideas")
        from autosched.search import Candidate
        return [Candidate(0, (0, 0)), Candidate(0, (0, 0)), Candidate(0, (9, 9))]

    def observe(self, trials):
        pass
"""


def test_a_strategy_that_fails_does_not_end_the_run(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    name = f"{file}:Fails"
    result = autosched.tune(shift(), "llvm", trials=4, records=tmp_path / "records", measure=FAST, strategy=name)
    assert result.trials == 4 and not result.failures and not result.interrupted
    assert all(r.strategy == name for r in RecordLog(result.log).read().records)
    told = [note for note in result.notes if note.startswith("strategy ")]
    assert any("proposed or observed before; such proposals are dropped" in note for note in told)
    assert any("not a point of the space; such proposals are dropped" in note for note in told)
    raised = [note for note in told if "propose raised RuntimeError: out of ideas" in note]
    assert len(raised) == 1 and f"{file}:9" in raised[0] and "the rest of the run is random" in raised[0]
    assert told[-1] == (
        f"strategy {name!r}: 2 proposals were dropped: 1 proposed or observed before, 1 not a point of the space"
    )


@workload
def scaled(n=256):
    a = te.placeholder((n,), "int32", name="a")
    return a, te.compute((n,), lambda i: a[i] * 3, name="b")


@template(scaled, target="llvm")
def rows(s):
    b = s["b"]
    outer, inner = b.split(b.op.axis[0], factor=s.define_knob("tile", [4, 8, 16, 32]))
    b.vectorize(inner)
    b.parallel(outer)


def logged(folder, records, change):
    """A log of other records: what `change` makes of each."""
    path = default_path("scaled", "llvm", folder)
    for r in records:
        RecordLog(path).append(change(r))
    return folder


def without_features(r: Record) -> Record:
    return replace(r, extra={k: v for k, v in r.extra.items() if k != "features"})


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Four trials of a shape, with their features."""
    folder = tmp_path_factory.mktemp("measured")
    autosched.tune(scaled(512), "llvm", trials=4, records=folder, measure=FAST, strategy="grid")
    return of_trials(RecordLog(default_path("scaled", "llvm", folder)).read().records)


def primed_by(folder, **options):
    result = autosched.tune(scaled(), "llvm", trials=1, records=folder, measure=FAST, **options)
    return [note for note in result.notes if "primed" in note or "passed over" in note]


def record_features() -> ModuleType:
    path = Path(__file__).parents[3] / "experiments" / "record_features.py"
    spec = importlib.util.spec_from_file_location("record_features", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_features_that_records_lack_can_be_computed_from_their_trace(measured):
    found = list(record_features().replayed(scaled, [without_features(r) for r in measured]))
    assert len(found) == 4
    for record, values in found:
        (kept,) = [r.features(FEATURE_VERSION) for r in measured if r.id == record.id]
        assert values == pytest.approx(kept, rel=1e-5)  # what was recorded when it was measured


def test_a_run_does_not_compute_features_that_records_lack(measured, tmp_path):
    assert primed_by(logged(tmp_path / "bare", measured, without_features)) == []
    (said,) = primed_by(logged(tmp_path / "with", measured, lambda r: r))
    assert said == "the cost model is primed with 4 trials of 1 other shape"


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: replace(r, trace=[["no_such_primitive", "b"], *r.trace]),
        lambda r: replace(r, workload={**r.workload, "name": "nobody_knows_it"}),
        lambda r: replace(r, workload={**r.workload, "params": {"n": "many"}}),
        lambda r: replace(r, workload={**r.workload, "key": "another"}),
        lambda r: replace(r, knobs={"other": 1}),
        lambda r: replace(r, target="no such target"),
    ],
)
def test_a_record_that_does_not_replay_primes_nothing(measured, damage):
    bare = [damage(without_features(r)) for r in measured]
    assert list(record_features().replayed(scaled, bare)) == []


def test_records_of_another_version_are_passed_over_and_counted(measured, tmp_path):
    (said,) = primed_by(logged(tmp_path, measured, lambda r: r.with_features("of old", [1.0])))
    assert said == "records passed over, because they have no features of this version: 4"
