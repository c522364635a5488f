"""A program whose tensors and axes were renamed: what was learnt of it is applied all the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import autosched
from autosched import predicting, te
from autosched.errors import AutoschedError
from autosched.explaining.subject import best_of
from autosched.measure.protocol import MeasureOptions
from autosched.records import RecordLog
from autosched.space.loading import find_workload
from autosched.space.workload import Workload, template, workload

FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOSCHED_PREDICT", "1")
    monkeypatch.setattr(predicting, "answers", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def product(n=48, left="a", right="b", result="c", axes="ijk"):
    x, y = te.placeholder((n, n), name=left), te.placeholder((n, n), name=right)
    i, j, k = axes
    step = te.reduce_axis((0, n), name=k)
    of = eval(
        f"lambda {i}, {j}: te.sum(LEFT[{i}, step] * RIGHT[step, {j}], axis=step)",
        {"te": te, "LEFT": x, "RIGHT": y, "step": step},
    )
    return Workload("product", (x, y, te.compute((n, n), of, name=result)))


def check(module, n=48):
    x, y = np.random.default_rng(0).random((2, n, n), np.float32)
    out = np.empty((n, n), np.float32)
    module(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4)


def test_its_record_is_applied(data):
    result = autosched.tune(product(), "llvm", trials=6, measure=FAST, space="auto", records=str(data / "r"))
    renamed = product(left="A", right="B", result="out", axes="pqs")
    assert renamed.key == product().key
    module = autosched.build(renamed, records=str(data / "r"))
    first = autosched.build(product(), records=str(data / "r"))
    assert module.provenance == first.provenance and module.provenance["record"] == result.best.id
    assert "A: float32[48, 48]" in repr(module) and "out" in repr(module)
    check(module)
    assert best_of(renamed, "llvm", str(data / "r"), None).record.id == result.best.id


def test_records_that_come_with_autosched_are_applied(data):
    """Under the names that most people give, and those of the workload that was tuned."""
    shipped = find_workload("matmul")(n=512, m=512, k=512)
    renamed = product(512, "A", "B", "C", "xyz")
    assert renamed.key == shipped.key
    module = autosched.build(Workload("matmul", renamed.args))
    assert module.provenance["kind"] in ("record", "predicted")
    check(module, 512)


def test_predictions_are_of_names(data):
    """Remembered answers hold traces, which go by name."""
    one, other = autosched.build(product()), autosched.build(product(result="d", axes="xyz"))
    assert one.provenance["kind"] == other.provenance["kind"] == "predicted"
    assert one.provenance["knobs"].values() or one.provenance["sketch"] == other.provenance["sketch"]
    for w in (product(), product(result="d", axes="xyz")):
        s = autosched.create_schedule(list(w.args)).auto("llvm")
        assert len(s.trace) > 0


def test_records_without_names_of_another_program_are_passed_over(data):
    autosched.tune(product(), "llvm", trials=2, measure=FAST, space="auto", records=str(data / "r"))
    (log,) = (data / "r").iterdir()
    lines = RecordLog(log).read().records
    log.unlink()
    for r in lines:
        del r.workload["names"]
        RecordLog(log).append(r)
    check(autosched.build(product(), records=str(data / "r")))
    with pytest.raises((AutoschedError, RuntimeWarning), match="has no stage|no stage 'c'"):
        autosched.build(product(result="d"), records=str(data / "r"))


def test_a_search_goes_on_from_its_records(data):
    """Rules call knobs and choices after stages; a search under other names finds all its trials done."""
    options = {"measure": FAST, "space": "auto", "records": str(data / "r"), "progress": False}
    first = autosched.tune(product(), "llvm", trials=6, **options)
    renamed = product(left="A", right="B", result="out", axes="pqs")
    second = autosched.tune(renamed, "llvm", trials=8, **options)
    assert (first.trials, second.trials, second.resumed) == (6, 2, 6)
    assert all(name.startswith("out_") for name in second.knobs)
    third = autosched.tune(product(), "llvm", trials=8, **options)
    assert (third.trials, third.resumed) == (0, 8) and all(name.startswith("c_") for name in third.knobs)
    study = autosched.ask_and_tell(
        product(result="z"), "llvm", space="auto", warm_start=RecordLog(next((data / "r").iterdir()))
    )
    asked = study.ask(1)
    assert asked and len(study.trials) >= 8


def test_a_template_goes_on_from_its_records(data):
    def blocks(s):
        outer, _ = s.stages[-1].split(s.stages[-1].op.axis[0], factor=s.define_knob("rows", [2, 4, 8, 16]))
        s.stages[-1].parallel(outer)

    found = []
    for names in ({}, {"result": "out", "axes": "pqs"}, {"left": "x"}):

        @workload
        def renamed(names=names):
            return product(**names).args

        template(renamed, target="cpu")(blocks)
        r = autosched.tune(renamed, "llvm", trials=4, measure=FAST, records=str(data / "r"), progress=False)
        found.append((r.trials, r.resumed))
    assert found == [(4, 0), (0, 4), (0, 4)]
