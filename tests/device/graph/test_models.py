"""Whole models: compiled, compared, cut into few kernels, written as C."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

sys.path.append(str(Path(__file__).resolve().parents[3] / "experiments"))
import networks  # noqa: E402

from autosched.cli import main  # noqa: E402
from autosched.cli.images import write_image  # noqa: E402
from autosched.errors import ModelError, VerificationError  # noqa: E402
from autosched.graph import load  # noqa: E402
from autosched.graph.tuning import check  # noqa: E402
from autosched.graph.verifying import verify  # noqa: E402


def small_bert() -> Any:
    return networks.bert(layers=1, width=32, heads=2, length=8)


@pytest.mark.parametrize("network", [networks.small_cnn, networks.mlp, small_bert])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_every_intermediate_agrees_with_the_reference(network: Any, target: str) -> None:
    proto = network()
    compiled = load(proto).compile(target, effort="none")
    rows = verify(compiled, proto, networks.random_input(proto))
    check(rows, "it")
    assert len(rows) >= len(compiled.cut.calls)  # each call ends in a tensor that the model names


def test_a_wrong_kernel_is_found_and_named() -> None:
    proto = networks.mlp()
    compiled = load(proto).compile("llvm", effort="none")
    weights = [w + 1 if k == 2 else w for k, w in enumerate(compiled.program.weights)]  # of the second product
    compiled.program = replace(compiled.program, weights=tuple(weights))
    rows = verify(compiled, proto, networks.random_input(proto))
    with pytest.raises(VerificationError, match="'matmul_3'|'add_4'|'relu_5'"):
        check(rows, "it")


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_what_scatters_keeps_its_layout_beside_convolutions(reduction: str) -> None:
    """Found by random graphs: channels went last, and the places of a scatter did not."""
    b = networks.Builder("scattered")
    x = b.conv("data", 3, 4, 3)
    rows, updates = b.weight(value=np.array([[1], [0]])), b.weight(2, 4, 5, 6, scale=1.0)
    x = b.node("ScatterND", x, rows, updates, reduction=reduction)
    proto = b.model([3, 3, 5, 6], b.conv(x, 4, 4, 1), [3, 4, 5, 6])
    compiled = load(proto).compile("llvm", effort="none")
    check(verify(compiled, proto, networks.random_input(proto)), "it")


def test_norms_and_activations_cost_no_kernel() -> None:
    b = networks.Builder("block")
    x = b.node("Relu", b.norm(b.conv("data", 8, 16, 3), 16))
    y = b.norm(b.conv(x, 16, 16, 1), 16)
    out = b.node("Relu", b.node("Add", x, y))
    compiled = load(b.model([1, 8, 6, 6], out, [1, 16, 6, 6])).compile("llvm", effort="none")
    assert len(compiled.cut.calls) == 2
    assert compiled.memory.alive <= compiled.memory.arena <= compiled.memory.apart


def test_soft_max_and_layer_norm_are_one_kernel_each() -> None:
    compiled = load(small_bert()).compile("llvm", effort="none")
    kinds = [set(k.kinds) for k in compiled.cut.kernels]
    assert sum("Softmax" in k for k in kinds) == 1
    assert sum("LayerNormalization" in k for k in kinds) == 1
    assert not any("Reshape" in k or "Transpose" in k for k in kinds)


def test_alike_kernels_are_compiled_once() -> None:
    cut = load(small_bert()).compile("llvm", effort="none").cut
    assert len(cut.calls) > len(cut.kernels)
    assert sum(k.count for k in cut.kernels) == len(cut.calls)


def test_a_model_runs_at_several_batches() -> None:
    proto = networks.mlp(batch="batch")
    model = load(proto)
    x = np.random.default_rng(0).standard_normal((3, 784), np.float32)
    (whole,) = model.run({"data": x}).values()
    (one,) = model.run({"data": x[1:2]}).values()
    np.testing.assert_allclose(whole[1:2], one, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="has the shape"):
        model.compile()


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("make") is None, reason="needs cc and make")
def test_c_is_built_alone_and_says_the_same(tmp_path: Path) -> None:
    proto = networks.small_cnn()
    compiled = load(proto, name="cnn").compile("c", effort="none")
    x = networks.random_input(proto)
    compiled.export(tmp_path / "out")
    x["data"].tofile(tmp_path / "x.bin")
    (y,) = compiled.run(x).values()
    y.tofile(tmp_path / "y.bin")
    flags = "CFLAGS=-std=c99 -O1 -Wall -Werror"
    subprocess.run(["make", "-s", "-C", str(tmp_path / "out"), flags], check=True, capture_output=True)
    files = [str(tmp_path / "x.bin"), str(tmp_path / "y.bin")]
    done = subprocess.run(["./main", *files], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(networks.mlp(), path)
    assert main(["run", str(path), "--verify", "--profile", "-o", str(tmp_path / "out.npz")]) == 0
    said = capsys.readouterr().out
    assert "4 tensors agree with onnx.reference" in said
    assert "matmul_add_relu" in said
    assert np.load(tmp_path / "out.npz")["add_10"].shape == (1, 10)
    page = tmp_path / "mlp.html"
    assert main(["report", str(path), "-o", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["reads"] for c in found["profile"]] == [[-1], *([k] for k in range(len(found["profile"]) - 1))]
    assert page.read_text().count('class="cell"') == len(found["profile"])
    assert main(["report", str(path), "-o", str(page)]) == 2
    assert "the file is there already" in capsys.readouterr().err
    assert main(["run", str(path), "--profile", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["profile"]) == len(found["profile"])
    assert main(["compile", str(path), "-o", str(tmp_path / "mlp")]) == 0
    assert (tmp_path / "mlp" / "mlp.h").exists()


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["compile", "-o", "ein modell ü"], "ein modell ü/README.md"),
        (["compile", "-o", "ein modell ü"], "ein modell ü/Makefile"),
        (["compile", "-o", "ü 1.tar"], "ü 1.tar"),
        (["run", "-o", "ü 1.npz"], "ü 1.npz"),
        (["run", "-o", "ü 1"], "ü 1.npz"),
        (["report", "-o", "ü 1.html"], "ü 1.html"),
    ],
)
def test_files_are_not_replaced_unasked(
    words: list[str], file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(networks.mlp(), "das modell ü.onnx")
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("mine")
    words = [words[0], "das modell ü.onnx", *words[1:], "--effort", "none"]
    assert main(words) == 2
    assert "is there already\n  --force, or another " in capsys.readouterr().err
    assert Path(file).read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert Path(file).read_bytes() != b"mine"


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_a_profile_has_a_time_for_each_call(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a device, too, where a kernel may be several launches; and outputs that lie there are told as arrays."""
    path = tmp_path / "cnn.onnx"
    onnx.save(networks.small_cnn(), path)
    words = [str(path), "--target", target, "--effort", "none"]
    assert main(["report", *words, "-o", str(tmp_path / "cnn.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["profile"]) > 3 and all(0 < c["seconds"] < 10 for c in found["profile"])
    assert (tmp_path / "cnn.html").read_text().count('class="cell"') == len(found["profile"])
    assert main(["run", *words, "--profile"]) == 0
    said = capsys.readouterr().out
    assert re.search(r": float32\[1, \d+\], ", said) and "all kernels" in said


def test_a_library_and_images_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = networks.Builder("sums")
    out = b.node("ReduceSum", "data", b.weight(value=np.array([2, 3])), keepdims=0)
    onnx.save(b.model([1, 3, 4, 6], out, [1, 3]), tmp_path / "sums.onnx")
    library, image = str(tmp_path / "sums of planes.so"), tmp_path / "red.png"
    red = np.zeros((8, 20, 3), np.uint8)
    red[..., 0] = 255
    write_image(image, red)
    assert main(["compile", str(tmp_path / "sums.onnx"), "-o", library]) == 0
    for source, pixels, sums in [
        (library, "unit", [24, 0, 0]),
        (library, "centred", [24, -24, -24]),
        (str(tmp_path / "sums.onnx"), "raw", [24 * 255, 0, 0]),
    ]:
        words = [
            "run",
            source,
            "--inputs",
            f"data={image}",
            "--pixels",
            pixels,
            "-o",
            str(tmp_path / "out.npz"),
            "--force",
        ]
        assert main(words) == 0
        assert "scaled to cover 6x4" in capsys.readouterr().err
        np.testing.assert_allclose(np.load(tmp_path / "out.npz")[out], [sums], rtol=1e-5)
    assert main(["run", library, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "sums"
    for words, said in [
        ([library, "--verify"], "no kernels apart"),
        ([library, "--inputs", f"image={image}"], "there is no input 'image'"),
        ([library, "--inputs", f"{tmp_path / 'sums.onnx'}"], "not an image"),
        ([str(tmp_path / "nothing.so")], "no such file"),
    ]:
        assert main(["run", *words]) != 0
        assert re.search(said, capsys.readouterr().err)
    assert main(["compile", str(tmp_path / "sums.onnx"), "-o", library, "--arrays"]) == 2
    assert main(["report", library]) == 2
    assert "no kernels apart" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shape", "data:3x784"], "dimension 0 is 1, not 3"),
        (["--shape", "data"], "it is no shape"),
        (
            ["--shape", "x:3"],
            "'x']: the model has no input and no symbolic dimension of this name\n  inputs: data; symb",
        ),
        (["--shape", "dat:1x784"], "did you mean 'data'?"),
        (["--inputs", "nowhere.npz"], "No such file"),
    ],
)
def test_wrong_words_are_errors(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(networks.mlp(), path)
    assert main(["run", str(path), *words]) == 2
    assert said in capsys.readouterr().err


def test_shapes_are_of_inputs_and_symbolic_dimensions() -> None:
    """Also of those without a name, and of one dimension as one number."""
    h = onnx.helper
    data = h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", None])
    more = h.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["m"])
    out = [h.make_tensor_value_info(k, onnx.TensorProto.FLOAT, [None] * d) for k, d in (("y", 2), ("w", 1))]
    nodes = [h.make_node("Relu", ["x"], ["y"]), h.make_node("Relu", ["z"], ["w"])]
    proto = h.make_model(h.make_graph(nodes, "g", [data, more], out), opset_imports=[h.make_opsetid("", 17)])
    found = load(proto, shapes={"n": 3, "x_1": 4, "z": 5}).graph().inputs
    assert [[d.value for d in t.shape] for t in found.values()] == [[3, 4], [5]]
    with pytest.raises(
        ModelError, match=r"no input and no symbolic dimension.*\n  did you mean 'n'\?|dimensions: m, n"
    ):
        load(proto, shapes={"nn": 3})
    with pytest.raises(ModelError, match=r"\[3, 4\] is no size of a dimension\n  one number"):
        load(proto, shapes={"n": [3, 4]})


def test_what_has_no_elements_is_not_computed() -> None:
    """What is made of it is."""
    h, of = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        h.make_node("Relu", ["x"], ["u"]),
        h.make_node("ReduceSum", ["u", "rows"], ["s"], keepdims=0),
        h.make_node("Add", ["s", "c"], ["y"]),
    ]
    given = [h.make_tensor_value_info("x", of, [0, 4]), h.make_tensor_value_info("c", of, [4])]
    made = [h.make_tensor_value_info("u", of, [0, 4]), h.make_tensor_value_info("y", of, [4])]
    rows = onnx.numpy_helper.from_array(np.int64([0]), "rows")
    graph = h.make_graph(nodes, "nothing", given, made, [rows])
    compiled = load(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)])).compile("llvm", effort="none")
    assert [call.name for call in compiled.program.calls] and len(compiled.cut.kernels) == 1
    found = compiled.run({"x": np.zeros((0, 4), np.float32), "c": np.ones(4, np.float32)})
    assert found["u"].shape == (0, 4) and found["y"].tolist() == [1, 1, 1, 1]
