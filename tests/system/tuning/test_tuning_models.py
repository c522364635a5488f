"""A model's kernels tuned under one budget: what is verified, timed, reported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autosched.cli import main
from autosched.errors import VerificationError
from autosched.graph import CompiledModel, load
from autosched.measure.protocol import MeasureOptions
from autosched.tuning import Note

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory) -> Path:
    """Two layers, the first of which has most of the work, and a soft-max."""
    rng = np.random.default_rng(0)
    h, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = {"a": rng.standard_normal((48, 96)), "b": rng.standard_normal((96, 4))}
    tensors = [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()]
    nodes = [
        h.make_node("MatMul", ["x", "a"], ["p"], name="first"),
        h.make_node("Relu", ["p"], ["q"], name="relu"),
        h.make_node("MatMul", ["q", "b"], ["r"], name="second"),
        h.make_node("Softmax", ["r"], ["y"], name="softmax"),
    ]
    info = h.make_tensor_value_info
    x, y = info("x", onnx.TensorProto.FLOAT, [16, 48]), info("y", onnx.TensorProto.FLOAT, [16, 4])
    model = h.make_model(h.make_graph(nodes, "perceptron", [x], [y], tensors), opset_imports=[h.make_opsetid("", 18)])
    path = tmp_path_factory.mktemp("model") / "perceptron.onnx"
    onnx.save(model, str(path))
    return path


def test_the_command_says_where_each_schedule_comes_from_and_what_a_run_takes(perceptron, tmp_path, capsys) -> None:
    words = ["tune", str(perceptron), "--target", "llvm", "--records", str(tmp_path), "--progress", "plain"]
    assert main([*words, "--trials", "3"]) == 0
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert rows["kernel"][-1] == "schedule"
    assert rows["matmul_relu"][-1] == "record"
    assert "tensors of the untuned model agree" in out
    assert "a whole run: " in out.splitlines()[-1]
    assert "untuned, a run of perceptron takes" in err
    assert main([*words, "--budget", "0.1s", "--json", "--unverified"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verified"] == 0
    assert report["seconds_before"] > 0 < report["seconds"]
    assert len(report["schedules"]) == 3


def test_a_budget_of_nothing_tunes_the_kernel_with_most_work(perceptron, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("autosched.tuning.tasks.GRACE_S", 300.0)  # a busy machine takes more than a second
    told: list[object] = []
    tuned = load(perceptron).tune(
        "llvm",
        inputs={"x": np.ones((16, 48), np.float32)},
        budget_s=0.05,
        records=str(tmp_path),
        measure=MeasureOptions(min_repeat_ms=0.2),
        progress=told.append,
    )
    assert [tuned.cut.kernels[i].workload.name for i in tuned.kernels] == ["matmul_relu"]
    assert tuned.compiled is not None
    assert tuned.compiled.modules[tuned.kernels[0]].provenance["kind"] == "record"
    assert not any("belong to another version" in e.text for e in told if isinstance(e, Note))


def test_nothing_is_measured_of_a_model_that_is_wrong(perceptron, tmp_path, monkeypatch) -> None:
    right = CompiledModel.intermediates

    def wrong(self, inputs, wanted):
        found = right(self, inputs, wanted)
        return {t: x + 1 for t, x in found.items()}

    monkeypatch.setattr(CompiledModel, "intermediates", wrong)
    with pytest.raises(VerificationError, match="differs by") as caught:
        load(perceptron).tune("llvm", inputs={"x": np.ones((16, 48), np.float32)}, trials=3, records=str(tmp_path))
    assert "node" in (caught.value.asked or "")
    assert not list(tmp_path.glob("*.jsonl"))
