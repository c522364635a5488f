"""Networks with random weights as ONNX models: ResNet-50, MobileNetV2, BERT, a small CNN, a perceptron.

from networks import NETWORKS
model = NETWORKS["resnet50"]()          # an onnx.ModelProto with the input `data`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Adds nodes one after the other; every method returns the name of what it made."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name, self.rng = name, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int, scale: float | None = None, value: Any = None) -> str:
        """A constant: random numbers that keep the size of what they multiply, or this value."""
        name = f"w{len(self.weights)}"
        if value is None:
            spread = scale if scale is not None else (2.0 / max(1, int(np.prod(shape[1:])))) ** 0.5
            value = self.rng.standard_normal(shape, np.float32) * np.float32(spread)
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, ci: int, co: int, k: int, stride: int = 1, groups: int = 1) -> str:
        w, p = self.weight(co, ci // groups, k, k), k // 2
        return self.node("Conv", x, w, kernel_shape=[k, k], strides=[stride] * 2, pads=[p] * 4, group=groups)

    def norm(self, x: str, c: int) -> str:
        one = np.ones(c, np.float32)
        parts = [one * 0.9, one * 0.01, one * 0.02, one * 1.1]
        return self.node("BatchNormalization", x, *(self.weight(value=p) for p in parts))

    def dense(self, x: str, n: int, m: int) -> str:
        """`x @ w + b` on the last axis."""
        product = self.node("MatMul", x, self.weight(n, m, scale=n**-0.5))
        return self.node("Add", product, self.weight(m, scale=0.1))

    def model(self, shape: list[Any], out: str, out_shape: list[Any], of: int = TensorProto.FLOAT) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("data", of, shape)]
        outputs = [helper.make_tensor_value_info(out, TensorProto.FLOAT, out_shape)]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.checker.check_model(made)
        return made


def resnet50(batch: Any = 1, size: int = 224) -> onnx.ModelProto:
    """He et al. 2015: 53 convolutions, 23 of them distinct."""
    b = Builder("resnet50")
    x = b.node("Relu", b.norm(b.conv("data", 3, 64, 7, 2), 64))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(blocks):
            stride = first if k == 0 else 1
            y = b.node("Relu", b.norm(b.conv(x, channels, width, 1), width))
            y = b.node("Relu", b.norm(b.conv(y, width, width, 3, stride), width))
            y = b.norm(b.conv(y, width, 4 * width, 1), 4 * width)
            short = x if k else b.norm(b.conv(x, channels, 4 * width, 1, stride), 4 * width)
            x, channels = b.node("Relu", b.node("Add", y, short)), 4 * width
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    x = b.node("Gemm", x, b.weight(1000, 2048, scale=0.02), b.weight(1000, scale=0.1), transB=1)
    return b.model([batch, 3, size, size], x, [batch, 1000])


def mobilenet_v2(batch: Any = 1, size: int = 224) -> onnx.ModelProto:
    """Sandler et al. 2018: inverted residuals, 52 convolutions."""
    b = Builder("mobilenet_v2")

    def relu6(x: str) -> str:
        return b.node("Clip", x, zero, six)

    zero, six = b.weight(value=np.float32(0)), b.weight(value=np.float32(6))
    x = relu6(b.norm(b.conv("data", 3, 32, 3, 2), 32))
    channels = 32
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for t, c, n, s in settings:
        for k in range(n):
            stride, wide, y = s if k == 0 else 1, channels * t, x
            if t > 1:
                y = relu6(b.norm(b.conv(y, channels, wide, 1), wide))
            y = relu6(b.norm(b.conv(y, wide, wide, 3, stride, groups=wide), wide))
            y = b.norm(b.conv(y, wide, c, 1), c)
            x = b.node("Add", x, y) if stride == 1 and channels == c else y
            channels = c
    x = relu6(b.norm(b.conv(x, channels, 1280, 1), 1280))
    x = b.node("Flatten", b.node("GlobalAveragePool", x))
    x = b.node("Gemm", x, b.weight(1000, 1280, scale=0.02), b.weight(1000, scale=0.1), transB=1)
    return b.model([batch, 3, size, size], x, [batch, 1000])


def bert(layers: int = 2, width: int = 128, heads: int = 2, length: int = 128, batch: Any = 1) -> onnx.ModelProto:
    """Devlin et al. 2018, the encoder: token numbers in, a vector for each token out."""
    b = Builder(f"bert_{layers}x{width}")
    shape = b.weight(value=np.array([0, 0, heads, width // heads], np.int64))
    flat = b.weight(value=np.array([0, 0, width], np.int64))
    scale = b.weight(value=np.float32((width // heads) ** -0.5))

    def norm(x: str) -> str:
        return b.node("LayerNormalization", x, b.weight(value=np.ones(width, np.float32)), b.weight(width, scale=0.1))

    def split(x: str, order: list[int]) -> str:
        return b.node("Transpose", b.node("Reshape", b.dense(x, width, width), shape), perm=order)

    words = b.node("Gather", b.weight(30522, width, scale=0.5), "data")
    x = norm(b.node("Add", words, b.weight(length, width, scale=0.5)))
    for _ in range(layers):
        q, k, v = split(x, [0, 2, 1, 3]), split(x, [0, 2, 3, 1]), split(x, [0, 2, 1, 3])
        weights = b.node("Softmax", b.node("Mul", b.node("MatMul", q, k), scale), axis=-1)
        seen = b.node("Transpose", b.node("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = norm(b.node("Add", x, b.dense(b.node("Reshape", seen, flat), width, width)))
        y = b.node("Gelu", b.dense(x, width, 4 * width))
        x = norm(b.node("Add", x, b.dense(y, 4 * width, width)))
    return b.model([batch, length], x, [batch, length, width], TensorProto.INT64)


def small_cnn(batch: Any = 1) -> onnx.ModelProto:
    """LeNet's kind: two convolutions, two pools, three products."""
    b = Builder("small_cnn")
    x = "data"
    for ci, co in ((1, 16), (16, 32)):
        x = b.node("Conv", x, b.weight(co, ci, 5, 5), b.weight(co, scale=0.1), kernel_shape=[5, 5])
        x = b.node("MaxPool", b.node("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("Flatten", x)
    for n, m in ((512, 120), (120, 84)):
        x = b.node("Relu", b.node("Gemm", x, b.weight(m, n), b.weight(m, scale=0.1), transB=1))
    x = b.node("Softmax", b.node("Gemm", x, b.weight(10, 84), b.weight(10, scale=0.1), transB=1))
    return b.model([batch, 1, 28, 28], x, [batch, 10])


def mlp(batch: Any = 1) -> onnx.ModelProto:
    """Four products with ReLU between them."""
    b = Builder("mlp")
    x = "data"
    for n, m in ((784, 512), (512, 256), (256, 128)):
        x = b.node("Relu", b.dense(x, n, m))
    return b.model([batch, 784], b.dense(x, 128, 10), [batch, 10])


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "bert_2x128": bert,
    "small_cnn": small_cnn,
    "mlp": mlp,
}


def random_input(model: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """An array for the input, of its shape; symbolic dimensions are 1."""
    rng = np.random.default_rng(seed)
    tensor = model.graph.input[0].type.tensor_type
    shape = [d.dim_value or 1 for d in tensor.shape.dim]
    if tensor.elem_type == TensorProto.INT64:
        return {"data": rng.integers(0, 30522, shape)}
    return {"data": rng.standard_normal(shape, np.float32)}
