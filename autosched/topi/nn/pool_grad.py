"""The gradient of pooling with respect to its data."""

from __future__ import annotations

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dims, Pads, accumulator, narrowed, pair
from autosched.topi.nn.padding import Windows


def pool_grad(
    grads: Tensor,
    data: Tensor,
    kernel: Dims,
    stride: Dims,
    padding: Pads,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:
    """Return the gradient of `pool2d` of `data`, given that of its result.

    Of equal elements in a window, the first one gets the gradient of a maximum.
    """
    asked = "topi.nn.pool_grad"
    if layout not in ("NCHW", "NHWC") or data.ndim != 4 or pool_type not in ("max", "avg"):
        raise UsageError(f"{data!r}, {layout!r}, {pool_type!r}", asked=asked, legal="NCHW or NHWC; max or avg")
    size = dict(zip(layout, data.shape, strict=True))
    taps = dict(zip("HW", pair(kernel, 2, asked), strict=True))
    value = te.min_value(data.dtype) if pool_type == "max" else te.const(0, data.dtype)
    window = Windows.over(data, layout, taps, (stride, 1, padding), asked, "pad_temp", value, ceil_mode)
    over = {x: te.reduce_axis((0, taps[x]), f"w{x.lower()}") for x in "HW"}
    of = accumulator(data.dtype)

    def first_greatest(*i: Expr) -> object:
        inside = {x: te.reduce_axis((0, taps[x]), f"r{x.lower()}") for x in "HW"}
        at = inside["H"] * taps["W"] + inside["W"]
        return te.argmax((at, window.element(dict(zip(layout, i, strict=True)), inside)), axis=list(inside.values()))

    places: Tensor | None = None
    if pool_type == "max":
        places, _ = te.compute(grads.shape, first_greatest, name="pool_grad_place")

    def counted(x: str, y: Expr) -> Expr:
        """The elements of a window along a dimension that the mean counted."""
        low = y * window.step[x] - window.before[x]
        before, after = (window.before[x], window.after[x]) if count_include_pad else (0, 0)
        return te.min(low + taps[x], as_expr(size[x]) + after) - te.max(low, -as_expr(before))

    def incoming(*i: Expr) -> object:
        """From each window that has the element: at (w, v) of it."""
        at = dict(zip(layout, i, strict=True))
        begin = {x: at[x] + window.before[x] - over[x].var for x in "HW"}
        y = {x: te.floordiv(begin[x], window.step[x]) for x in "HW"}
        parts = [
            c for x in "HW" for c in (te.floormod(begin[x], window.step[x]) == 0, y[x] >= 0, y[x] < window.count[x])
        ]
        place = [y[x] if x in y else at[x] for x in layout]
        kept = {x: te.max(te.min(y[x], window.count[x] - 1), te.const(0)) for x in "HW"}
        here = [kept[x] if x in kept else at[x] for x in layout]
        grad = grads(*place).astype(of)
        if places is not None:
            parts.append(places(*here) == over["H"].var * taps["W"] + over["W"].var)
            return te.sum(te.if_then_else(te.all(*parts), grad, te.const(0, of)), axis=list(over.values()))
        share = grad / te.max(counted("H", y["H"]) * counted("W", y["W"]), te.const(1)).astype(of)
        return te.sum(te.if_then_else(te.all(*parts), share, te.const(0, of)), axis=list(over.values()))

    made = te.compute(data.shape, incoming, name=f"T_pool_grad_{pool_type}", tag=f"pool_grad_{pool_type}")
    return narrowed(made, data.dtype)
