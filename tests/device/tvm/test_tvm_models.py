"""Models by TVM's names: `relay.build`, `graph_executor`, `tvmc`, in the spelling of programs that people have."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

sys.path.append(str(Path(__file__).resolve().parents[3] / "experiments"))
import networks  # noqa: E402

from autosched import tvm  # noqa: E402
from autosched.errors import AutoschedError, ModelError, UsageError  # noqa: E402
from autosched.graph import load  # noqa: E402
from autosched.tvm import relay  # noqa: E402
from autosched.tvm.contrib import graph_executor  # noqa: E402
from autosched.tvm.driver import tvmc  # noqa: E402

IMAGE = np.random.default_rng(0).random((1, 3, 8, 8), np.float32)


def small_net() -> Any:
    """Two convolutions and a product: image [1, 3, 8, 8] -> [1, 5]."""
    b = networks.Builder("net")
    x = b.node("Relu", b.conv("data", 3, 4, 3))
    x = b.node("Flatten", b.node("GlobalAveragePool", b.conv(x, 4, 6, 1)))
    return b.model([1, 3, 8, 8], b.dense(x, 6, 5), [1, 5])


def expected() -> np.ndarray:
    (found,) = load(small_net()).reference({"data": IMAGE}).values()
    return found


def quick(target: str = "llvm", **more: Any) -> Any:
    mod, params = relay.frontend.from_onnx(small_net(), **more)
    with tvm.transform.PassContext(opt_level=0):
        return relay.build(mod, target=target, params=params)


def test_the_lines_of_an_introduction_print_c() -> None:
    """Notes on TVM: `from_onnx`, `relay.build(target="c")` in three parts, `lib.get_source()`."""
    mod, params = relay.frontend.from_onnx(small_net(), freeze_params=True, dtype="float32")
    with tvm.transform.PassContext(opt_level=0):
        graph, lib, params = relay.build(mod["main"], target="c", params=params)
    source = lib.get_source()
    assert "#include <math.h>" in source and source.count("static inline") and "void *" in source
    nodes = json.loads(graph)["nodes"]
    assert nodes[0] == {"op": "null", "name": "data", "inputs": []} and lib.type_key == "c"
    assert all(n["attrs"]["func_name"] in source for n in nodes[1:])
    module = graph_executor.create(graph, lib, tvm.cpu())
    module.set_input("data", tvm.nd.array(IMAGE), **params)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(), rtol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_module_is_called_in_steps(frozen: bool) -> None:
    lib = quick(freeze_params=frozen)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    assert module.get_input_info() == ({"data": (1, 3, 8, 8)}, {"data": "float32"})
    assert (module.get_num_inputs(), module.get_num_outputs(), module.get_input_index("data")) == (1, 1, 0)
    module["set_input"]("data", IMAGE.astype("float64"))  # converted, as TVM copies
    module["run"]()
    out = tvm.nd.empty((1, 5))
    module.get_output(0, out)
    np.testing.assert_allclose(out.numpy(), expected(), rtol=1e-5)
    assert np.array_equal(module.get_input("data").numpy(), IMAGE)
    assert len(module.benchmark(tvm.cpu(), repeat=3, number=1, data=IMAGE).results) == 3
    assert len(module.benchmark(tvm.cpu(), repeat=2, number=2, end_to_end=True).results) == 2
    assert module.module.time_evaluator("run", tvm.cpu(), number=1, repeat=4, min_repeat_ms=1)().mean > 0


def test_weights_are_replaced() -> None:
    mod, params = relay.frontend.from_onnx(small_net(), freeze_params=False)
    assert all(isinstance(x, tvm.nd.NDArray) for x in params.values()) and len(params) == 4
    assert "Conv" in str(mod) and mod.get_global_vars() == ["main"]
    name = next(n for n, x in params.items() if x.shape == (5,))
    changed = {**params, name: params[name].numpy() + 1}
    evaluate = relay.create_executor("graph", mod, tvm.cpu(), "llvm", changed).evaluate
    np.testing.assert_allclose(evaluate()(IMAGE).numpy(), expected() + 1, rtol=1e-4)
    np.testing.assert_allclose(evaluate()(data=IMAGE).numpy(), expected() + 1, rtol=1e-4)
    blob = relay.save_param_dict(changed)
    assert relay.load_param_dict(blob).keys() == changed.keys()


@pytest.mark.parametrize("end", ["so", "tar"])
def test_a_library_has_the_weights_inside(tmp_path: Path, end: str) -> None:
    path = str(tmp_path / f"net with blanks.{end}")
    quick().export_library(path)
    lib = tvm.runtime.load_module(path)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(data=IMAGE)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(), rtol=1e-5)


def test_tvmc_loads_tunes_compiles_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Notes on TVM: the four steps of tvmc."""
    onnx.save(small_net(), tmp_path / "net.onnx")
    model = tvmc.load(str(tmp_path / "net.onnx"), shape_dict={"data": [1, 3, 8, 8]})
    model.summary()
    assert "Conv" in capsys.readouterr().out
    records = tvmc.tune(model, target="llvm", tuning_records=str(tmp_path / "records.json"), trials=1, tuner="random")
    assert all(json.loads(line) for line in Path(records).read_text().splitlines())
    package = tvmc.compile(
        model, target="llvm", tuning_records=records, package_path=str(tmp_path / "net.tar"), opt_level=0
    )
    result = tvmc.run(package, device="cpu", inputs={"data": IMAGE}, repeat=2, number=1)
    np.testing.assert_allclose(result.get_output("output_0"), expected(), rtol=1e-4)
    assert "mean (ms)" in str(result) and "output_0" in str(result)
    result.save(str(tmp_path / "out.npz"))
    assert np.load(tmp_path / "out.npz")["output_0"].shape == (1, 5)
    ones = tvmc.run(tvmc.TVMCPackage(str(tmp_path / "net.tar")), "cpu", fill_mode="ones", benchmark=False)
    assert ones.times is None and not np.array_equal(ones.outputs["output_0"], result.outputs["output_0"])
    model.save(str(tmp_path / "again.onnx"))
    assert tvmc.load(tmp_path / "again.onnx").mod.model.input_names == ["data"]


BAD = {
    "another format": (lambda m: tvmc.load("x.h5", model_format="keras"), ModelError, "tf2onnx"),
    "an unknown option": (lambda m: tvmc.load("x.onnx", shapes={}), ModelError, "shape_dict"),
    "no model": (lambda m: relay.build(3), ModelError, "from_onnx"),
    "another function": (lambda m: relay.frontend.from_onnx(small_net())[0]["conv"], ModelError, "main"),
    "an unknown weight": (lambda m: relay.build(m, params={"nothing": IMAGE}), ModelError, "no weight 'nothing'"),
    "two targets": (lambda m: relay.build(m, {"cpu": "llvm", "cl": "opencl"}), ModelError, "one target"),
    "another set of operators": (lambda m: relay.frontend.from_onnx(small_net(), opset=3), ModelError, "converter"),
    "a tuner": (lambda m: tvmc.tune(tvmc.TVMCModel(m), "llvm", tuner="magic"), UsageError, "gridsearch"),
    "another machine": (lambda m: tvmc.tune(tvmc.TVMCModel(m), "llvm", hostname="farm"), UsageError, "this machine"),
    "a cross compiler": (lambda m: tvmc.compile(tvmc.TVMCModel(m), "llvm", cross="gcc"), UsageError, "mtriple"),
    "a format of packages": (
        lambda m: tvmc.compile(tvmc.TVMCModel(m), "llvm", output_format="mlf"), UsageError, "--target c"),
    "bytes of parameters": (lambda m: relay.load_param_dict(b"nothing"), UsageError, "save_param_dict"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_is_told(case: str) -> None:
    action, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        action(relay.frontend.from_onnx(small_net())[0])


def test_what_cannot_be_called_is_told(tmp_path: Path) -> None:
    lib = quick()
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    with pytest.raises(ModelError, match="run\\(\\) first"):
        module.get_output(0)
    for call, message in [
        (lambda: module.get_output(1), "0 to 0"),
        (lambda: module.set_input("image", IMAGE), "no such input"),
        (lambda: module.set_input("data", IMAGE[:, :2]), r"float32\[1, 3, 8, 8\]"),
        (lambda: lib["default"](tvm.opencl()), "tvm.cpu"),
        (lambda: lib["other"], "default"),
        (lambda: module["fly"], "set_input"),
        (lambda: graph_executor.GraphModule(lib), "lib"),
        (lambda: graph_executor.create("{}", 3, tvm.cpu()), "relay.build"),
        (lambda: lib.export_library(str(tmp_path / "x.so"), cc="gcc"), "cannot be chosen"),
        (lambda: tvmc.run(tvmc.TVMCPackage(str(tmp_path / "nothing.so")), "cpu"), "no such file"),
    ]:
        with pytest.raises(AutoschedError, match=message):
            call()
    lib.export_library(str(tmp_path / "x.so"))
    package = tvmc.TVMCPackage(str(tmp_path / "x.so"))
    for options, message in [
        ({"fill_mode": "twos"}, "zeros"),
        ({"profile": True}, "--profile"),
        ({"inputs": {"y": 1}}, "no such"),
    ]:
        with pytest.raises(AutoschedError, match=message):
            tvmc.run(package, "cpu", **options)


def test_a_library_without_a_model_is_told(tmp_path: Path) -> None:
    from autosched.graph.running import Executable

    module = quick().compiled.executable.module
    module.export_library(tmp_path / "code.so")
    with pytest.raises(ModelError, match="without a model"):
        Executable.load(tmp_path / "code.so")
    for header in (b'{"format": "autosched-model"}\n', b"[[[[\n", b"no line", json.dumps(
        {"format": "autosched-model", "outputs": [], "weights": [["float32", [1 << 40]]]}).encode() + b"\n"):  # fmt: skip
        module.export_library(tmp_path / "bad.tar", attached=[header])
        with pytest.raises(ModelError, match="without a model"):
            Executable.load(tmp_path / "bad.tar")
    with pytest.raises(UsageError, match=r"x\.so or x\.tar"):
        module.export_library(tmp_path / "x.a", attached=[b"data"])
    assert io.BytesIO(bytes(module.attached)).getvalue() == b""


def test_kernels_are_timed_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from autosched.tvm.contrib.debugger import debug_executor

    lib = quick()
    nodes = [n["name"] for n in json.loads(lib.get_graph_json())["nodes"]]
    module = debug_executor.GraphModuleDebug(
        lib["debug_create"]("default", tvm.cpu()), [tvm.cpu()], lib.get_graph_json(), "."
    )
    module.run(data=IMAGE)
    shown = capsys.readouterr().out
    assert all(name in shown for name in nodes[1:]) and "Sum" in shown and "Percent" in shown
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(), rtol=1e-5)
    report = module.profile(data=IMAGE)
    assert [row["Name"] for row in report.calls] == nodes[1:]
    assert abs(sum(row["Percent"] for row in report.calls) - 100) < 1e-6
    assert len(report.csv().splitlines()) == len(nodes) and json.loads(report.json())["calls"] == report.calls
    each = module.run_individual(number=2, repeat=3)
    assert each[0] == [0.0] * 3 and len(each) == len(nodes) and all(t > 0 for times in each[1:] for t in times)
    last = module.debug_get_output(nodes[-1])
    np.testing.assert_array_equal(last.numpy(), module.debug_get_output(len(nodes) - 1).numpy())
    np.testing.assert_allclose(last.numpy(), expected(), rtol=1e-5)
    with pytest.raises(ModelError, match="there is no such kernel"):
        module.debug_get_output(0)
    lib.export_library(str(tmp_path / "net.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "net.so"))
    with pytest.raises(UsageError, match="cannot be called one by one"):
        debug_executor.create(lib.get_graph_json(), loaded, tvm.cpu())
