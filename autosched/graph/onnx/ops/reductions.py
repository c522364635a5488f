"""Operators that combine the elements along axes: sums and their like, running sums, softmax, the greatest's place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched import te, topi
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.ops.elementwise import converted
from autosched.graph.onnx.ops.movement import axes_of, axis_of, without
from autosched.ir import expr as ir
from autosched.ir.expr import is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, product
from autosched.topi.elementwise import elementwise

#: (tensor, axes or None, keepdims) -> tensor
Reducing = Callable[[Tensor, Sequence[int] | None, bool], Tensor]


def _in_floats(x: Tensor) -> Tensor:
    """Numbers in a type that sums and functions are exact enough in."""
    return converted(x, accumulator(x.dtype) if x.dtype.is_float else "float64" if x.dtype.bits == 64 else "float32")


def _extreme(name: str) -> Reducing:
    def reduce(x: Tensor, axes: Any, keep: bool) -> Tensor:
        return getattr(topi, {"max": "any", "min": "all"}[name] if x.dtype.is_bool else name)(x, axes, keep)

    return reduce


def _sums(before: str, after: str = "") -> Reducing:
    """Sums of a function of each element, or a function of the sums."""

    def reduce(x: Tensor, axes: Any, keep: bool) -> Tensor:
        wide = _in_floats(x) if after else converted(x, accumulator(x.dtype))
        wide = {"abs": topi.abs, "square": lambda t: elementwise(t, lambda e: e * e, "square")}.get(
            before, lambda t: t
        )(wide)
        total = topi.sum(wide, axes, keep)
        return converted(elementwise(total, te.MATH[after], after) if after else total, x.dtype)

    return reduce


def _log_sum_exp(x: Tensor, axes: Any, keep: bool) -> Tensor:
    wide = _in_floats(x)
    top = topi.max(wide, axes, True)
    top = elementwise(top, lambda e: te.select(te.isfinite(e), e, te.const(0, e.dtype)), "finite")
    total = topi.sum(elementwise(topi.subtract(wide, top), te.exp, "exp"), axes, True)
    found = converted(topi.add(elementwise(total, te.log, "log"), top), x.dtype)
    return found if keep else without(found, list(range(x.ndim)) if axes is None else axes)


_REDUCE: dict[str, Reducing] = {
    "ReduceSum": topi.sum,
    "ReduceMean": topi.mean,
    "ReduceProd": topi.prod,
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceL1": _sums("abs"),
    "ReduceL2": _sums("square", "sqrt"),
    "ReduceSumSquare": _sums("square"),
    "ReduceLogSum": _sums("", "log"),
    "ReduceLogSumExp": _log_sum_exp,
}


def _reduction(name: str, f: Reducing) -> None:
    @operator(name)
    def read(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
        chosen = axes_of(node, axes, x.ndim)
        if not chosen and not node.attr("noop_with_empty_axes", 0):
            chosen = None
        elif chosen is None:
            chosen = []
        return f(x, chosen, bool(node.attr("keepdims", 1)))


for _name, _f in _REDUCE.items():
    _reduction(_name, _f)


@operator("ArgMax", "ArgMin")
def arg_extreme(node: Node, x: Tensor) -> Tensor:
    find = topi.argmax if node.kind == "ArgMax" else topi.argmin
    at = axis_of(node, node.attr("axis", 0), x.ndim)
    found = find(x, at, bool(node.attr("keepdims", 1)), bool(node.attr("select_last_index", 0)))
    return converted(found, "int64")


def _hardmax(x: Tensor, axis: int) -> Tensor:
    best = topi.argmax(x, axis, keepdims=True)

    def body(*i: Any) -> object:
        here = ir.compare("eq", best(*(0 if k == axis else e for k, e in enumerate(i))), i[axis])
        return here.astype(x.dtype)

    return te.compute(x.shape, body, name="T_hardmax")


@operator("Softmax", "LogSoftmax", "Hardmax")
def along_axis(node: Node, x: Tensor) -> Tensor:
    f = {"Softmax": topi.nn.softmax, "LogSoftmax": topi.nn.log_softmax, "Hardmax": _hardmax}[node.kind]
    at = node.attr("axis", -1 if node.opset >= 13 else 1)
    if node.opset >= 13:
        return f(x, axis_of(node, at, x.ndim))
    at = at if at == x.ndim else axis_of(node, at, x.ndim)  # all axes from there on count as one
    if at == x.ndim - 1:
        return f(x, at)
    return topi.reshape(f(topi.reshape(x, [product(x.shape[:at]), product(x.shape[at:])]), 1), x.shape)


@operator("CumSum", "CumProd")
def cumulative(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    f = topi.cumsum if node.kind == "CumSum" else topi.cumprod
    at = axis_of(node, int(node.number(axis)), x.ndim)
    if any(is_const(d, 0) for d in x.shape):
        return x
    is_reverse = node.attr("reverse", 0)
    found = f(topi.flip(x, at) if is_reverse else x, at, exclusive=bool(node.attr("exclusive", 0)))
    return topi.flip(found, at) if is_reverse else found
