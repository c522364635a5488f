"""`tune(trials=0)`: a model's choice, verified, compared with the default schedule, and recorded."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import autosched
from autosched import te, template, workload
from autosched.cli.app import main
from autosched.measure.protocol import MeasureOptions
from autosched.records import PREDICTED, RecordLog, default_path, predicted, ranked, read_transfer
from autosched.runtime.device import resolve_target
from autosched.search import make_strategy
from autosched.search.predicted import outlooks
from autosched.search_options import SearchOptions
from autosched.tuning.events import Preflight
from autosched.tuning.run import Run, Task

FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)


@workload
def dense(n=32):
    """The columns come in reverse, of which the default schedule makes no vectors, and it is too little for threads."""
    a, b = (te.placeholder((n, n), "float32", name=x) for x in "ab")
    k = te.reduce_axis((0, n), name="k")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, n - 1 - j], axis=k), name="c")


@template(dense, target="llvm")
def tiles(s):
    c = s["c"]
    i, j = c.op.axis
    (k,) = c.op.reduce_axis
    row, inner = c.split(i, factor=s.define_knob("rows", [1, 2, 4]))
    column, lane = c.split(j, factor=s.define_knob("lanes", [1, 4, 16]))
    c.reorder(row, column, k, inner, lane)
    c.unroll(inner)
    if s.choose("vectors", [False, True]):
        c.vectorize(lane)


@pytest.fixture
def chosen(tmp_path):
    result = autosched.tune(dense(), "llvm", trials=0, records=tmp_path, measure=FAST)
    return tmp_path, result, RecordLog(default_path("dense", "llvm", tmp_path)).read().records


def test_the_choice_is_recorded(chosen):
    _, result, (record,) = chosen
    assert result.best is None and result.predicted == record
    assert (record.status, record.samples, record.verified) == (PREDICTED, (), "full")
    assert 0 < record.predicted_s < 1
    assert result.trials == 0 and 0 < result.seconds <= result.default_seconds
    assert result.speedup == result.default_seconds / result.seconds
    assert record.knobs["lanes"] == 16 and "vectors=True" in record.sketch
    assert ".vectorize(" in result.schedule_python and "there was no search" in " ".join(result.notes)
    data = result.to_json()
    assert json.loads(json.dumps(data, allow_nan=False))["predicted"] == record.id
    assert (data["best"], data["interval"], data["knobs"]) == (None, [0.0, None], record.knobs)


def test_build_uses_it_until_something_was_measured(chosen):
    folder, _, (record,) = chosen
    module = autosched.build(dense(), "llvm", records=str(folder))
    assert module.provenance["kind"] == PREDICTED and module.provenance["record"] == record.id
    assert module.provenance["seconds"] == record.predicted_s
    assert module.provenance["note"] == "chosen by a model, not measured"
    a, b = dense().sample_inputs()
    assert np.allclose(module(a, b), a @ b[:, ::-1])
    measured = autosched.tune(dense(), "llvm", trials=1, records=folder, measure=FAST)
    assert measured.resumed == 0, "a prediction is no trial"
    provenance = autosched.build(dense(), "llvm", records=str(folder)).provenance
    assert provenance["kind"] == "record" and provenance["record"] != record.id
    again = autosched.tune(dense(), "llvm", trials=0, records=folder, measure=FAST)
    assert any("`build` prefers those" in note for note in again.notes)


def test_predictions_are_never_taken_for_measurements(chosen):
    folder, _, (record,) = chosen
    asked = {"key": record.key, "target": "llvm"}
    assert ranked([record], **asked) == []
    (choice,) = predicted([record], device=record.device_name, **asked)
    assert choice.exact and choice.record == record
    (far,) = predicted([record], device="another", **asked)
    assert not far.exact and "predicted on" in far.note
    wrong = replace(record, id="0" * 16, status="correctness", verified="no", extra={})
    assert predicted([record, wrong], **asked) == []
    assert predicted([replace(record, verified="no")], **asked) == []
    later = replace(record, id="1" * 16, at="2999-01-01T00:00:00+00:00")
    assert [c.record for c in predicted([record, later], **asked)] == [later, record]
    task = Task("other", "key", (), "llvm", record.device_name)
    assert not len(read_transfer(task, "llvm", version="none", width=1, folder=folder).seconds)


def test_a_choice_that_does_not_work_is_passed_over(tmp_path, monkeypatch):
    from autosched.measure import measurer

    real = measurer.Measurer.measure

    def broken(self, jobs, quiet=None):
        for m in real(self, jobs, quiet):
            if "True" in m.job.sketch:
                m = replace(m, status="correctness", error="wrong", samples=())
            yield replace(m, samples=(1.0,), raced=True) if m.job.sketch == "default" else m

    monkeypatch.setattr(measurer.Measurer, "measure", broken)
    result = autosched.tune(dense(), "llvm", trials=0, records=tmp_path, measure=FAST)
    assert result.predicted is not None and "vectors=False" in result.predicted.sketch
    assert any("fails (correctness): wrong" in note for note in result.notes)
    statuses = [r.status for r in RecordLog(default_path("dense", "llvm", tmp_path)).read().records]
    assert statuses == ["correctness", PREDICTED]


@pytest.fixture
def timed(monkeypatch):
    """`timed(default=.., others=..)`: seconds that measurements and play-offs report from then on."""
    from autosched.measure import measurer

    real = measurer.Measurer.measure

    def set_times(default, others):
        def seconds(job):
            return default if job.sketch == "default" else others

        def measure(self, jobs, quiet=None):
            for m in real(self, jobs, quiet):
                yield replace(m, samples=(seconds(m.job),) * 3, raced=False)

        def playoff(self, jobs, rounds=15):
            return [(job, [seconds(job)] * rounds) for job in jobs]

        monkeypatch.setattr(measurer.Measurer, "measure", measure)
        monkeypatch.setattr(measurer.Measurer, "playoff", playoff)

    return set_times


def test_a_choice_that_is_slower_than_the_default_schedule_is_not_taken(tmp_path, timed):
    timed(default=1.0e-3, others=2.06e-3)
    result = autosched.tune(dense(), "llvm", trials=0, records=tmp_path, measure=FAST)
    assert result.predicted is None and result.best is None
    assert result.default_seconds == result.seconds == 1.0e-3
    assert any("takes 2.06 ms, longer than the default schedule" in note for note in result.notes)
    assert RecordLog(default_path("dense", "llvm", tmp_path)).read().records == ()
    assert autosched.build(dense(), "llvm", records=str(tmp_path)).provenance["kind"] == "default"


def test_a_choice_that_is_faster_than_the_default_schedule_is_taken(tmp_path, timed):
    timed(default=2.06e-3, others=1.0e-3)
    result = autosched.tune(dense(), "llvm", trials=0, records=tmp_path, measure=FAST)
    assert result.predicted is not None and result.speedup == pytest.approx(2.06)


def test_on_the_command_line(tmp_path, capsys, timed):
    timed(default=2.06e-3, others=1.0e-3)
    file = tmp_path / "op.py"
    file.write_text(
        "from autosched import te, workload\n"
        "@workload\ndef twice(n=1024):\n"
        "    a = te.placeholder((n, n), name='a')\n"
        "    return a, te.compute((n, n), lambda i, j: a[i, j] * 2.0, name='b')\n"
    )
    words = [f"{file}:twice", "--records", str(tmp_path)]
    assert main(["tune", *words, "--trials", "0", "--progress", "none"]) == 0
    out = capsys.readouterr().out
    assert "a model chose the schedule, and both were timed once; its output is correct" in out
    assert "there was no search" in out and "schedule " in out and 's["b"].vectorize(' in out, out
    assert main(["show", *words]) == 0
    assert "expected; chosen by a model, not measured" in capsys.readouterr().err
    assert main(["records", str(default_path("twice", "llvm", tmp_path))]) == 0
    assert "1 prediction by a model" in capsys.readouterr().out


def test_of_kernels_too(tmp_path):
    """The device is a CPU here (PoCL): vectors, and far better than a work-item for each element."""
    result = autosched.tune(dense(256), "opencl", trials=0, records=tmp_path, measure=FAST)
    record = result.predicted
    assert record is not None and record.status == PREDICTED and record.verified == "full"
    assert any("an analytical model chose from" in note for note in result.notes)
    module = autosched.build(dense(256), "opencl", records=str(tmp_path))
    assert module.provenance["kind"] == PREDICTED
    a, b = dense(256).sample_inputs()
    assert np.allclose(module(a, b), a @ b[:, ::-1])


def test_a_search_begins_with_the_best_point_of_the_first_sketch(tmp_path):
    """Of the others nothing was looked at before: on a pipeline that takes seconds."""
    looked_at = []

    def follow(event):
        if isinstance(event, Preflight):
            looked_at.append([s.__dict__.get("_features") is not None for s in run.space.sketches])

    search = SearchOptions(records=tmp_path, measure=FAST, space="templates")
    run = Run(dense(), resolve_target("llvm"), search, trials=3, say=follow)
    run.choose_strategy()
    run.go()
    assert looked_at == [[True, False]]
    one, *others = run.measured
    sketch = run.space.sketches[0]
    best = next(outlooks(run.space, run.prior.seconds, sketches=1)).choices[0].candidate
    assert one.sketch == sketch.name and one.knobs == sketch.values(best.indices)
    assert len({(r.sketch, *r.knobs.values()) for r in (one, *others)}) == 3


def test_other_strategies_make_the_first_proposal_themselves(tmp_path):
    search = SearchOptions(records=tmp_path, measure=FAST, strategy="random")
    run = Run(dense(), resolve_target("llvm"), search, trials=1, say=lambda event: None)
    run.choose_strategy()
    strategy = make_strategy("random", run.space, seed=0)
    run.go()
    (proposed,) = strategy.propose(1)
    assert run.measured[0].knobs == run.space.sketches[proposed.sketch].values(proposed.indices)
