"""Steps of optimisers, from the domain of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched import te
from autosched.graph.onnx.node import Node, operator
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor

_DOMAIN = "ai.onnx.preview.training"


def _updated(node: Node, rest: Sequence[Tensor], kinds: int, step: Callable[..., Sequence[Expr]]) -> tuple[Tensor, ...]:
    """A step of each parameter. Inputs, and outputs, come in groups: all parameters, then all gradients, and so on.

    step: from elements of the inputs of one parameter to those of its outputs, of which there is one less
    """
    count, left = divmod(len(rest), kinds)
    if left or not count:
        raise node.refused(f"{len(rest)} tensors", f"{kinds} for each parameter")
    made: list[tuple[Tensor, ...]] = []
    for n in range(count):
        x, *others = rest[n::count]
        one = te.compute(
            x.shape,
            lambda *i, x=x, others=others: tuple(e.astype(x.dtype) for e in step(x(*i), *(t(*i) for t in others))),
            name=node.kind.lower(),
        )
        made.append(tuple(one) if isinstance(one, (list, tuple)) else (one,))
    return tuple(t for group in zip(*made, strict=True) for t in group)


def _scalar(t: Tensor) -> Expr:
    return t(*[0] * t.ndim)


@operator(f"{_DOMAIN}.Adagrad")
def adagrad(node: Node, rate: Tensor, t: Tensor, *rest: Tensor) -> Any:
    decay, epsilon, norm = (
        node.attr(k, d) for k, d in (("decay_factor", 0.0), ("epsilon", 1e-6), ("norm_coefficient", 0.0))
    )

    def step(x: Expr, g: Expr, h: Expr) -> Sequence[Expr]:
        g = x * norm + g
        total = h + g * g
        now = _scalar(rate).astype(x.dtype) / (_scalar(t).astype(x.dtype) * decay + 1)
        return x - now * g / (te.sqrt(total) + epsilon), total

    return _updated(node, rest, 3, step)


@operator(f"{_DOMAIN}.Adam")
def adam(node: Node, rate: Tensor, t: Tensor, *rest: Tensor) -> Any:
    alpha, beta, epsilon = node.attr("alpha", 0.9), node.attr("beta", 0.999), node.attr("epsilon", 1e-6)
    norm, after = node.attr("norm_coefficient", 0.0), node.attr("norm_coefficient_post", 0.0)

    def step(x: Expr, g: Expr, v: Expr, h: Expr) -> Sequence[Expr]:
        g = x * norm + g
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        r, n = _scalar(rate).astype(x.dtype), _scalar(t).astype(x.dtype)
        a, b = (te.power(te.const(k, x.dtype), n) for k in (alpha, beta))
        now = te.select(n > 0, r * te.sqrt(1 - b) / (1 - a), r)
        return (x - now * (v / (te.sqrt(h) + epsilon))) * (1 - after), v, h

    return _updated(node, rest, 4, step)


@operator(f"{_DOMAIN}.Momentum")
def momentum(node: Node, rate: Tensor, t: Tensor, *rest: Tensor) -> Any:
    alpha, beta, norm = node.attr("alpha"), node.attr("beta"), node.attr("norm_coefficient")
    is_nesterov = node.attr("mode") == "nesterov"

    def step(x: Expr, g: Expr, v: Expr) -> Sequence[Expr]:
        g = x * norm + g
        v = v * alpha + g * te.select(_scalar(t) > 0, te.const(beta, x.dtype), te.const(1, x.dtype))
        return x - _scalar(rate).astype(x.dtype) * (g + v * alpha if is_nesterov else v), v

    return _updated(node, rest, 3, step)
