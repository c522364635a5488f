"""Files that are damaged, or made to harm: an error that says what is wrong, and memory that stays bounded."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from autosched.errors import AutoschedError, ModelError  # noqa: E402
from autosched.graph import load  # noqa: E402


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """6 GB of addresses more than now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def model(nodes: list[Any], shape: list[Any] | None = None, weights: tuple[Any, ...] = (), out: str = "y") -> Any:
    """Nodes from `x` to `out`, unchecked."""
    shape = [2, 3] if shape is None else shape
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(out, TensorProto.FLOAT, [None] * 2)]
    graph = helper.make_graph(nodes, "hostile", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, name=f"the_{kind.lower()}", **attributes)


def weight(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.asarray(value), name)


def whole() -> bytes:
    made = model(
        [node("MatMul", ["x", "w"], ["t"]), node("Relu", ["t"], ["y"])],
        weights=(weight("w", np.ones((3, 4), np.float32)),),
    )
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("part", range(5))
def test_damaged_bytes_are_errors_of_ours_or_another_model(part: int) -> None:
    """Every truncation, and single bits that are flipped: whatever can be read is compiled nowhere, only read."""
    data = whole()
    rng = np.random.default_rng(part)
    damaged = [data[:n] for n in range(part, len(data), 5)]
    for at in rng.integers(0, 8 * len(data), 60):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << (at % 8)
        damaged.append(bytes(flipped))
    refused = 0
    for one in damaged:
        try:
            load(one).graph()
        except AutoschedError:
            refused += 1
    assert refused > len(damaged) // 3


HOSTILE: dict[str, tuple[Any, str]] = {
    "a cycle": (model([node("Add", ["x", "b"], ["a"]), node("Add", ["a", "x"], ["b"]), node("Relu", ["b"], ["y"])]), "sort"),
    "a tensor of nowhere": (model([node("Add", ["x", "nothing"], ["y"])]), "nothing"),
    "two results of one name": (model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])]), "y"),
    "an unknown operator": (model([node("Frobnicate", ["x"], ["y"])]), "Frobnicate"),
    "a huge dimension": (model([node("Relu", ["x"], ["y"])], [(1 << 63) - 1, 4]), "the_relu"),
    "a tensor of 2**62 elements": (model([node("Add", ["x", "x"], ["y"])], [1 << 31, 1 << 31]), "x|y"),
    "a constant of a petabyte": (
        model([node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])],
              weights=(weight("s", np.array([1 << 20, 1 << 28], np.int64)),)), "constants|large|GB"),
    "a constant that expands": (
        model([node("Expand", ["w", "s"], ["c"]), node("Add", ["x", "c"], ["y"])],
              weights=(weight("s", np.array([1 << 20, 1 << 28], np.int64)), weight("w", np.ones((1, 1), np.float32)))),
        "constants|large|GB"),
    "tiles of tiles": (
        model([node("Tile", ["w", "s"], ["c"]), node("Tile", ["c", "s"], ["d"]), node("Tile", ["d", "s"], ["e"]),
               node("Add", ["x", "e"], ["y"])],
              weights=(weight("s", np.array([4096, 4096], np.int64)), weight("w", np.ones((1, 1), np.float32)))),
        "constants|large|GB"),
    "a range without an end": (
        model([node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])],
              weights=(weight("a", np.float32(0)), weight("b", np.float32(1e30)), weight("c", np.float32(1)))), "."),
    "a convolution of another rank": (
        model([node("Conv", ["x", "w"], ["y"])], weights=(weight("w", np.ones((2, 3, 3), np.float32)),)), "."),
    "a negative stride": (
        model([node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[-1])], [1, 2, 5]), "."),
    "axes outside": (model([node("Transpose", ["x"], ["y"], perm=[0, 7])]), "."),
    "shapes that do not broadcast": (
        model([node("Add", ["x", "w"], ["y"])], weights=(weight("w", np.ones(5, np.float32)),)), "."),
    "NaN in weights": (
        model([node("Add", ["x", "w"], ["y"])], weights=(weight("w", np.full(3, np.nan, np.float32)),)), "'w'.*NaN|NaN"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_model_is_refused(case: str) -> None:
    proto, message = HOSTILE[case]
    with pytest.raises(ModelError, match=message):
        compiled = load(proto).compile("llvm", effort="none")
        compiled.run({"x": np.ones(compiled.program.inputs[0].shape_for({}), np.float32)})


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret"])
def test_weights_outside_of_the_folder_are_not_read(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    w = weight("w", np.ones((3, 4), np.float32))
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value=location)
    made = model([node("MatMul", ["x", "w"], ["y"])], weights=(w,))
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match="external|outside|directory|location|valid model"):
        load(folder / "m.onnx")


def test_a_loop_that_does_not_end_is_refused() -> None:
    body = helper.make_graph(
        [node("Add", ["v", "v"], ["w"]), node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3])],
    )  # fmt: skip
    for trips in (1 << 62, 1 << 40):
        weights = (weight("n", np.array(trips, np.int64)), weight("yes", np.array(True)))
        made = model([node("Loop", ["n", "yes", "x"], ["y"], body=body)], weights=weights)
        with pytest.raises(ModelError, match="trip|loop|Loop"):
            load(made).graph()


def test_operator_sets_that_are_not_there_yet_are_refused() -> None:
    made = model([node("Relu", ["x"], ["y"])])
    made.opset_import[0].version = 999
    with pytest.raises(ModelError, match="it is written in operator set 999"):
        load(made).graph()


@pytest.mark.parametrize("attributes", [{}, {"broadcast": 1}, {"broadcast": 1, "axis": 0}])
def test_operands_along_an_axis_are_refused(attributes: dict[str, int]) -> None:
    """Before operator set 7; without an axis they broadcast as in NumPy."""
    number = np.arange(3, dtype=np.float32) if "axis" not in attributes else np.arange(2, dtype=np.float32)
    made = model([node("Add", ["x", "w"], ["y"], **attributes)], weights=(weight("w", number),))
    made.opset_import[0].version = 6
    if "axis" in attributes:
        with pytest.raises(ModelError, match="lays its second operand along an axis"):
            load(made).graph()
        return
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(load(made).run({"x": x})["y"], x + number)


def test_an_output_of_another_type_than_declared() -> None:
    made = model([node("Cast", ["x"], ["y"], to=TensorProto.INT64)])
    with pytest.raises(ModelError, match="declared as float32, and its node computes int64") as caught:
        load(made).reference({"x": np.zeros((2, 3), np.float32)})
    assert caught.value.asked == "output 'y' of hostile"
