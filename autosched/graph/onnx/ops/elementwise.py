"""Operators that compute each element from those at the same place: arithmetic, comparisons, activations."""

from __future__ import annotations

from autosched import topi
from autosched.graph.onnx.node import Node, operator
from autosched.te.tensor import Tensor


@operator("Relu")
def relu(node: Node, x: Tensor) -> Tensor:
    return topi.nn.relu(x)


@operator("Add")
def add(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return topi.add(a, b)


@operator("Shape")
def shape(node: Node, x: Tensor) -> Tensor:
    from autosched import te

    dims = x.shape

    def pick(i):
        e = dims[-1].astype("int64")
        for k, d in list(enumerate(dims))[:-1]:
            e = te.select(i == k, d.astype("int64"), e)
        return e

    return te.compute((len(dims),), pick, name="shape")


@operator("Reshape")
def reshape(node: Node, x: Tensor, to: Tensor) -> Tensor:
    return topi.reshape(x, node.dims(to))


@operator("Concat")
def concat(node: Node, *xs: Tensor) -> Tensor:
    return topi.concatenate(list(xs), node.attr("axis"))


@operator("Gather")
def gather(node: Node, x: Tensor, i: Tensor) -> Tensor:
    return topi.take(x, i, node.attr("axis", 0))
