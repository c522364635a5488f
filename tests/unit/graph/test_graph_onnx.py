"""Operators in cases that the official suite has not, by the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

from autosched.errors import ModelError  # noqa: E402
from autosched.graph import load  # noqa: E402
from autosched.graph.onnx.reading import operators  # noqa: E402

Arrays = dict[str, Any]
FLOAT, INT32, INT64, BOOL = (getattr(onnx.TensorProto, t) for t in ("FLOAT", "INT32", "INT64", "BOOL"))


def info(name: str, of: int, rank: int) -> Any:
    return helper.make_tensor_value_info(name, of, [None] * rank)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: Arrays | None = None) -> Any:
    stored = [onnx.numpy_helper.from_array(v, k) for k, v in (constants or {}).items()]
    return helper.make_graph(nodes, "case", inputs, outputs, stored)


def computed(nodes: list[Any], given: Arrays, outputs: list[Any], constants: Arrays | None = None) -> Arrays:
    """What a model of these nodes computes, in operator set 24."""
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in given.items()
    ]
    made = graph(nodes, inputs, outputs, constants)
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    return load(proto).reference(given)


def bytes_of(kind: str, *shape: int) -> np.ndarray:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return np.random.default_rng(0).integers(low, high, shape, endpoint=True).astype(kind)


# -- quantised ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("a", "b", "p", "q"),
    [((3, 4), (4, 5), (3,), (5,)), ((2, 3, 4), (4, 5), (2, 3, 1), ()), ((2, 1, 3, 4), (3, 4, 5), (1,), (3, 1, 5)),
     ((4,), (4, 5), (), (5,)), ((3, 4), (4,), (3,), ())],
)  # fmt: skip
def test_zero_points_of_products(a: Any, b: Any, p: Any, q: Any, is_known: bool) -> None:
    values = {
        "a": bytes_of("uint8", *a),
        "b": bytes_of("int8", *b),
        "p": bytes_of("uint8", *p),
        "q": bytes_of("int8", *q),
    }
    wide = {k: v.astype("int32") for k, v in values.items()}
    rows = wide["p"][:, None] if len(p) == 1 and p != (1,) else wide["p"]
    expected = (wide["a"] - (rows if len(a) > 1 else wide["p"])) @ (wide["b"] - wide["q"])
    node = helper.make_node("MatMulInteger", list(values), ["y"])
    points = {k: values.pop(k) for k in "pq"} if is_known else {}
    found = computed([node], values, [info("y", INT32, expected.ndim)], points)["y"]
    np.testing.assert_array_equal(found, expected)


def test_zero_points_of_convolutions() -> None:
    x, w, q = bytes_of("uint8", 2, 4, 5, 5), bytes_of("int8", 6, 2, 3, 3), bytes_of("int8", 6)
    node = helper.make_node("ConvInteger", ["x", "w", "p", "q"], ["y"], group=2, pads=[1, 0, 1, 1], strides=[2, 1])
    found = computed([node], {"x": x, "w": w, "p": np.uint8(7), "q": q}, [info("y", INT32, 4)])["y"]
    moved = np.pad(x.astype("int64") - 7, [(0, 0), (0, 0), (1, 1), (0, 1)])
    factors = w.astype("int64") - q[:, None, None, None]
    windows = np.lib.stride_tricks.sliding_window_view(moved, (3, 3), (2, 3))[:, :, ::2]
    halves = [np.einsum("nchwij,ocij->nohw", windows[:, k : k + 2], factors[k * 3 // 2 :][:3]) for k in (0, 2)]
    np.testing.assert_array_equal(found, np.concatenate(halves, 1))


def test_a_small_type_is_known_behind_movements() -> None:
    x = np.array([[0.3, 500.0, -3.2]], "float32")
    nodes = [
        helper.make_node("Cast", ["x"], ["small"], to=onnx.TensorProto.FLOAT8E4M3FN),
        helper.make_node("Transpose", ["small"], ["turned"]),
        helper.make_node("CastLike", ["z", "turned"], ["y"]),
        helper.make_node("Cast", ["y"], ["back"], to=FLOAT),
    ]
    outputs = [info("y", onnx.TensorProto.FLOAT8E4M3FN, 1), info("back", FLOAT, 1)]
    found = computed(nodes, {"x": x, "z": np.array([0.3, 1e4], "float32")}, outputs)
    assert found["y"].dtype.name == "float8_e4m3fn"
    np.testing.assert_array_equal(found["back"], np.array([0.3125, 448], "float32"))


# -- recurrent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_each_sequence_of_a_batch_ends_by_itself(kind: str, gates: int) -> None:
    rng = np.random.default_rng(1)
    shapes = {"x": (4, 3, 2), "w": (2, gates * 3, 2), "r": (2, gates * 3, 3), "b": (2, 2 * gates * 3)}
    values: Arrays = {k: rng.standard_normal(s).astype("float32") for k, s in shapes.items()}
    outs = ["y", "h", "c"] if kind == "LSTM" else ["y", "h"]

    def run(x: np.ndarray, lengths: np.ndarray) -> Arrays:
        node = helper.make_node(kind, ["x", "w", "r", "b", "n"], outs, direction="bidirectional", hidden_size=3)
        return computed([node], {**values, "x": x, "n": lengths}, [info(o, FLOAT, 4 if o == "y" else 3) for o in outs])

    lengths = np.array([4, 1, 3], "int32")
    together = run(values["x"], lengths)
    for k, n in enumerate(lengths):
        alone = run(values["x"][:n, k : k + 1], lengths[k : k + 1])
        np.testing.assert_allclose(together["y"][:n, :, k : k + 1], alone["y"], rtol=1e-5)
        assert not together["y"][n:, :, k].any()
        for name in outs[1:]:
            np.testing.assert_allclose(together[name][:, k : k + 1], alone[name], rtol=1e-5)


# -- control flow ---------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_of_a_run_chooses_between_results(condition: bool) -> None:
    sides = {
        f"{side}_branch": graph([helper.make_node(op, ["x", "x"], [side])], [], [info(side, FLOAT, 1)])
        for side, op in (("then", "Add"), ("else", "Mul"))
    }
    x = np.array([1.0, 3.0], "float32")
    node = helper.make_node("If", ["c"], ["y"], **sides)
    found = computed([node], {"c": np.array(condition), "x": x}, [info("y", FLOAT, 1)])["y"]
    np.testing.assert_array_equal(found, x + x if condition else x * x)


def loop(trips: int, stop: int) -> Arrays:
    """How often a body runs, and its numbers: it goes on while they are less than `stop`."""
    body = graph(
        [
            helper.make_node("Add", ["count", "one"], ["more"]),
            helper.make_node("Less", ["more", "most"], ["goes_on"]),
            helper.make_node("Identity", ["more"], ["row"]),
        ],
        [info("i", INT64, 0), info("c", BOOL, 0), info("count", INT64, 0)],
        [info("goes_on", BOOL, 0), info("more", INT64, 0), info("row", INT64, 0)],
    )
    constants = {"one": np.int64(1), "most": np.int64(stop), "start": np.int64(0), "trips": np.int64(trips)}
    node = helper.make_node("Loop", ["trips", "", "start"], ["last", "rows"], body=body)
    return computed([node], {}, [info("last", INT64, 0), info("rows", INT64, 1)], constants)


@pytest.mark.parametrize(("trips", "stop", "steps"), [(3, 100, 3), (10, 4, 4), (0, 5, 0)])
def test_a_loop_ends_by_count_or_condition(trips: int, stop: int, steps: int) -> None:
    found = loop(trips, stop)
    assert found["last"] == steps
    np.testing.assert_array_equal(found["rows"], np.arange(1, steps + 1))


def test_a_loop_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    operators()
    monkeypatch.setattr("autosched.graph.onnx.ops.control.MOST_STEPS", 8)
    with pytest.raises(ModelError, match="more than .* steps"):
        loop(1 << 62, 1 << 62)


def test_scans_run_along_any_axis_either_way() -> None:
    body = graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["row"])],
        [info("s", FLOAT, 1), info("e", FLOAT, 1)],
        [info("t", FLOAT, 1), info("row", FLOAT, 1)],
    )
    attributes = {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [-1]}
    node = helper.make_node(
        "Scan", ["s", "x"], ["last", "rows"], body=body, num_scan_inputs=1, scan_output_directions=[1], **attributes
    )
    x, s = np.arange(6, dtype="float32").reshape(2, 3), np.zeros(2, "float32")
    found = computed([node], {"s": s, "x": x}, [info("last", FLOAT, 1), info("rows", FLOAT, 2)])
    np.testing.assert_array_equal(found["last"], x.sum(1))
    np.testing.assert_array_equal(found["rows"], np.cumsum(x[:, ::-1], 1)[:, ::-1])


# -- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [None, 1, 5, 8, 12])
@pytest.mark.parametrize("rule", ["fft", "ifft", "rfft", "irfft"])
def test_fourier_transforms(rule: str, length: int | None) -> None:
    x = np.random.default_rng(0).standard_normal((3, 6, 1 if rule == "rfft" else 2)).astype("float32")
    numbers = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    expected = getattr(np.fft, rule)(numbers, n=length, axis=1)
    parts = [expected] if rule == "irfft" else [expected.real, expected.imag]
    node = helper.make_node(
        "DFT", ["x", "" if length is None else "n", "axis"], ["y"], inverse=int("i" in rule), onesided=int("r" in rule)
    )
    constants = {"n": np.int64(length or 0), "axis": np.int64(1)}
    found = computed([node], {"x": x}, [info("y", FLOAT, 3)], constants)["y"]
    np.testing.assert_allclose(found, np.stack(parts, -1), rtol=1e-5, atol=1e-5)


def test_outputs_may_leave_their_shapes_open() -> None:
    """Shapes follow from the nodes; the model that was handed over stays as it was."""
    x = np.arange(6, dtype="float32").reshape(2, 3)
    y = helper.make_tensor_value_info("y", FLOAT, None)
    made = graph([helper.make_node("Transpose", ["x"], ["y"])], [info("x", FLOAT, 2)], [y])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    np.testing.assert_array_equal(load(model).reference({"x": x})["y"], x.T)
    assert not model.graph.output[0].type.tensor_type.HasField("shape")
