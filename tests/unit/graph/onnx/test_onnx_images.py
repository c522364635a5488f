"""Operators on images, and products: what the official suite has no cases of."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from autosched import te, topi
from autosched.errors import ModelError
from autosched.graph.loaded import Model, load

onnx = pytest.importorskip("onnx")
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def model(kind: str, inputs: list[Any], opset: int, constants: int = 0, shapes: Any = (), **attrs: Any) -> Model:
    """A model of one node; its last inputs are constants, its first ones of these symbolic shapes."""
    names = [f"x{k}" for k in range(len(inputs))]
    given = list(zip(names, inputs, strict=True))
    free, fixed = given[: len(given) - constants], given[len(given) - constants :]
    dims = [*shapes, *(x.shape for _, x in free[len(shapes) :])]
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), shape)
        for (name, x), shape in zip(free, dims, strict=True)
    ]
    weights = [onnx.numpy_helper.from_array(x, name) for name, x in fixed]
    of = onnx.TensorProto.INT64 if kind == "NonMaxSuppression" else onnx.TensorProto.FLOAT
    out = onnx.helper.make_tensor_value_info("y", of, ["?"])
    node = onnx.helper.make_node(kind, names, ["y"], **attrs)
    graph = onnx.helper.make_graph([node], "one", infos, [out], weights)
    return load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8))


def computed(of: Model, *inputs: np.ndarray) -> np.ndarray:
    return of.reference(dict(zip(of.input_names, inputs, strict=False)))["y"]


CASES: dict[str, tuple[list[Any], int, int, dict[str, Any]]] = {
    "Conv": ([floats(2, 4, 5, 5), floats(4, 2, 3, 3), floats(4)], 7, 2, {"group": 2, "auto_pad": "SAME_LOWER"}),
    "ConvTranspose": ([floats(2, 4, 3, 3), floats(4, 1, 3, 3)], 11, 1, {"group": 4, "strides": [2, 2]}),
    "MaxPool": ([floats(2, 4, 5, 5)], 7, 0, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "AveragePool": ([floats(2, 4, 5, 5)], 10, 0, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "BatchNormalization": ([floats(2, 4, 5, 5), *np.abs(floats(4, 4))], 7, 4, {"epsilon": 1e-3}),
    "Gemm": ([floats(2, 4), floats(3, 4), floats(3)], 9, 2, {"transB": 1, "alpha": 0.5}),
    "Upsample": ([floats(2, 4, 3, 3)], 7, 0, {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"}),
    "Resize": ([floats(2, 4, 3, 3), np.float32([1, 1, 2, 0.5])], 10, 1, {"mode": "nearest"}),
}


@pytest.mark.parametrize("kind", CASES)
def test_symbolic_and_empty_batches(kind: str) -> None:
    inputs, opset, constants, attrs = CASES[kind]
    x = inputs[0]
    expected = computed(model(kind, inputs, opset, constants, **attrs), x)
    symbolic = model(kind, inputs, opset, constants, [["n", *x.shape[1:]]], **attrs)
    np.testing.assert_allclose(computed(symbolic, x), expected, rtol=1e-6)
    (given,) = symbolic.graph().inputs.values()
    assert given.shape[0].op == "var"
    assert computed(symbolic, x[:0]).shape == (0, *expected.shape[1:])


def test_batch_normalization_is_a_multiply_and_an_add_of_constants() -> None:
    inputs, opset, constants, attrs = CASES["BatchNormalization"]
    graph = model("BatchNormalization", inputs, opset, constants, **attrs).graph()
    assert set(graph.outputs["y"].op.input_tensors) <= {*graph.inputs.values(), *graph.constants}
    scale, shift, mean, variance = (t.reshape(-1, 1, 1) for t in inputs[1:])
    expected = (inputs[0] - mean) / np.sqrt(variance + 1e-3) * scale + shift
    np.testing.assert_allclose(
        computed(model("BatchNormalization", inputs, 7, 4, **attrs), inputs[0]), expected, 1e-4, 1e-6
    )


def test_upsample_of_opset_7_repeats() -> None:
    x = floats(1, 1, 2, 3)
    made = model("Upsample", [x], 7, scales=[1.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(computed(made, x), x.repeat(2, 2).repeat(3, 3))


def test_resize_of_opset_10_rounds_up_where_it_makes_smaller() -> None:
    x = np.arange(1, 9, dtype="float32").reshape(1, 1, 2, 4)
    made = model("Resize", [x, np.float32([1, 1, 0.6, 0.6])], 10, 1, mode="nearest")
    np.testing.assert_array_equal(computed(made, x), [[[[1, 3]]]])


@pytest.mark.parametrize("shape", [[1, 1, 1, 7], [1, 1, 1, "w"]])
def test_resize_by_half_pixels_without_a_shift(shape: list[Any]) -> None:
    """x = (i + 0.5) / scale, which the standard has for opsets 11 and 12."""
    x, scales = np.arange(7, dtype="float32").reshape(1, 1, 1, 7), np.float32([1, 1, 1, 1.5])
    attrs = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    inputs = [x, np.float32([]), scales]
    made = computed(model("Resize", inputs, 11, 2, [shape], **attrs), x)
    np.testing.assert_array_equal(made.reshape(-1), np.minimum((np.arange(10) + 0.5) // 1.5, 6))
    with pytest.raises(ModelError, match="is 'tf_half_pixel_for_nn'"):
        model("Resize", inputs, 13, 2, [[1, 1, 1, 7]], **attrs).graph()


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("places", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_resize_of_symbolic_sizes(mode: str, places: str) -> None:
    x, scales = floats(1, 2, 3, 2), np.float32([1, 1, 1.5, 0.5])
    attrs = {"mode": mode, "coordinate_transformation_mode": places}
    inputs = [x, np.float32([]), scales]
    symbolic = model("Resize", inputs, 13, 2, [["n", 2, "h", "w"]], **attrs)
    np.testing.assert_allclose(computed(symbolic, x), computed(model("Resize", inputs, 13, 2, **attrs), x), 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("kind", "inputs", "opset", "attrs", "why"),
    [
        ("Conv", [floats(1, 1, 5), floats(1, 1, 3)], 11, {"strides": [-1]}, "strides is"),
        ("Conv", [floats(1, 1, 5), floats(1, 1, 3)], 11, {"pads": [-1, 2]}, "pads is"),
        ("Conv", [floats(1, 1, 5), floats(1, 1, 3)], 11, {"dilations": [0]}, "dilations is"),
        ("Conv", [floats(1, 1, 5), floats(1, 1, 3)], 11, {"dilations": [1 << 40]}, "do not fit"),
        ("Conv", [floats(1, 1, 5), floats(1, 1, 3)], 11, {"kernel_shape": [5]}, "kernel_shape is"),
        ("Conv", [floats(1, 4, 5), floats(4, 2, 3)], 11, {"group": 4}, "in 4 groups"),
        ("Conv", [floats(1, 4, 5), floats(4, 4, 3)], 11, {"group": 0}, "in 0 groups"),
        ("ConvTranspose", [floats(1, 1, 2), floats(1, 1, 3)], 11, {"pads": [4, 4]}, "leave nothing"),
        ("MaxPool", [floats(1, 1, 5)], 11, {"kernel_shape": [7]}, "do not fit"),
        ("MaxPool", [floats(1, 1, 5)], 11, {"kernel_shape": [2, 2]}, "kernel_shape is"),
        ("GroupNormalization", [floats(1, 4, 5), floats(4), floats(4)], 21, {"num_groups": 3}, "in 3 groups"),
        ("Upsample", [floats(1, 1, 5)], 7, {"scales": [1.0, 1.0, -2.0]}, "scales are"),
        ("Einsum", [floats(2, 2)], 12, {"equation": "ij,jk->ik"}, "for 1 operands"),
        ("Gemm", [floats(2, 3), floats(3, 2), floats(3)], 11, {}, "do not go together"),
    ],
)
def test_what_attributes_must_not_say(kind: str, inputs: list[Any], opset: int, attrs: Any, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        model(kind, inputs, opset, **attrs).graph()


def test_padding_that_exceeds_the_kernel() -> None:
    x = floats(1, 1, 3)
    made = model("MaxPool", [x], 11, kernel_shape=[1], pads=[2, 2])
    np.testing.assert_array_equal(computed(made, x), [[[-np.inf, -np.inf, *x[0, 0], -np.inf, -np.inf]]])


def test_the_number_of_boxes_comes_from_values() -> None:
    boxes, scores = np.float32([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]]]), np.float32([[[0.5, 0.9, 0.1]]])
    made = model("NonMaxSuppression", [boxes, scores, np.int64([9]), np.float32([0.5])], 11, 2)
    np.testing.assert_array_equal(computed(made, boxes, scores), [[0, 0, 1], [0, 0, 2]])
    np.testing.assert_array_equal(computed(made, boxes, scores[..., [1, 2, 0]]), [[0, 0, 0], [0, 0, 2]])


def test_transposed_convolutions_in_groups_with_dilation() -> None:
    x, w = floats(2, 4, 3, 2, 3), floats(4, 3, 2, 1, 2)
    X, W = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    Y = topi.nn.convolution_transpose(X, W, (2, 1, 3), 0, (1, 0, 0), (1, 1, 2), groups=2)
    expected = np.zeros((2, 6, 7, 2, 9), "float32")
    for c, d, h, v in itertools.product(range(4), range(3), range(2), range(3)):
        for a, b in itertools.product(range(2), range(2)):
            to = expected[:, c // 2 * 3 : c // 2 * 3 + 3, d * 2 + a, h, v * 3 + b * 2]
            to += x[:, c, d, h, v, None] * w[c, :, a, 0, b]
    np.testing.assert_allclose(te.reference([X, W, Y], [x, w])[0], expected, 1e-5, 1e-6)


def test_einsum_with_ellipses() -> None:
    a, b = floats(3, 1, 2, 4), floats(5, 4, 2)
    A, B = te.placeholder(a.shape, name="a"), te.placeholder(b.shape, name="b")
    for text in ("...ij,...jk->...ik", "...ij,...ji->i...", "...ij,...jk"):
        (found,) = te.reference([A, B, topi.einsum(text, A, B)], [a, b])
        np.testing.assert_allclose(found, np.einsum(text, a, b), 1e-5, 1e-6)
