"""`effort`: how much is done for a schedule that no record has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import autosched
from autosched import effort, te
from autosched.errors import UsageError
from autosched.graph import load
from autosched.space.workload import Workload

MODEL = """<ir_version: 10, opset_import: ["": 20]> net (float[64, 96] x, float[96, 32] w) => (float[64, 32] y)
{ p = MatMul(x, w)  y = Relu(p) }"""


@pytest.fixture(autouse=True)
def quick_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(effort.EFFORTS, "full", 3.0)


def squares() -> Workload:
    a = te.placeholder((4096,), "float32", name="a")
    return Workload("squares", (a, te.compute((4096,), lambda i: a[i] * a[i], name="b")))


def test_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w, folder = squares(), str(tmp_path)
    monkeypatch.setenv("AUTOSCHED_PREDICT", "1")
    kinds = [autosched.build(w, "llvm", effort=e, records=folder).provenance["kind"] for e in effort.EFFORTS]
    assert kinds[0] == "default" and kinds[1] in ("predicted", "default") and kinds[2] == "record"  # a busy machine
    file = next(tmp_path.glob("*.jsonl"))
    lines = file.read_text()
    module = autosched.build({"one": w}, "llvm", effort="full", records=folder)
    assert file.read_text() == lines  # a search has found it already
    x = np.arange(4096, dtype="float32")
    np.testing.assert_array_equal(module["one"](x), x * x)
    assert autosched.build(w, "llvm", effort="none", records=folder).provenance["kind"] == "default"


def test_a_model(tmp_path: Path) -> None:
    model, folder = load(onnx.parser.parse_model(MODEL)), str(tmp_path)
    tuned = model.compile("llvm", effort="full", records=folder)
    assert [m.provenance["kind"] for m in tuned.modules] == ["record"]
    x, w = np.ones((64, 96), "float32"), np.ones((96, 32), "float32")
    np.testing.assert_allclose(tuned.run({"x": x, "w": w})["y"], x @ w)
    plain = model.compile("llvm", effort="none", records=folder)
    assert [m.provenance["note"] for m in plain.modules] == ["the default schedule, as asked for"]


def test_what_cannot_be_searched() -> None:
    s = autosched.create_schedule(squares().args[-1])
    with pytest.raises(UsageError) as error:
        autosched.build(s, effort="full")
    assert str(error.value) == (
        'build(.., effort="full"): there is nothing to search\n  a workload: a schedule is built as it is'
    )
    with pytest.raises(UsageError, match="there is no effort 'fast'\n  none, quick, full"):
        autosched.build(s, effort="fast")
