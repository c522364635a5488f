"""Activations, and softmax along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, narrowed
from autosched.topi.elementwise import elementwise
from autosched.topi.reduction import sum as reduce_sum


def relu(x: Tensor) -> Tensor:
    """Replace negative elements by zero."""
    return elementwise(x, lambda e: te.max(e, te.const(0, e.dtype)), "relu")


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Multiply negative elements by `alpha`."""
    return elementwise(x, lambda e: te.select(e > 0, e, e * te.const(alpha, e.dtype)), "leaky_relu")


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Multiply negative elements by a slope for each place along an axis."""
    at = axis_of(x, axis, "topi.nn.prelu")
    return te.compute(
        x.shape, lambda *i: te.select(x(*i) > 0, x(*i), x(*i) * slope(i[at])), name="T_prelu", tag="broadcast"
    )


class _Along:
    """Reductions of a tensor along one axis, kept out of the way of the other indices."""

    def __init__(self, x: Tensor, axis: int, name: str) -> None:
        self.x, self.at = x, axis_of(x, axis, f"topi.nn.{name}")
        self.shape = [d for k, d in enumerate(x.shape) if k != self.at]
        self.sums = accumulator(x.dtype)

    def others(self, i: Sequence[Expr]) -> list[Expr]:
        return [e for k, e in enumerate(i) if k != self.at]

    def below(self, top: Tensor, i: Sequence[Expr]) -> Expr:
        """The distance of an element from the greatest, in the type of sums."""
        return self.x(*i).astype(self.sums) - top(*self.others(i)).astype(self.sums)

    def reduced(self, combine: Callable[..., Expr], source: Callable[..., Expr], name: str) -> Tensor:
        k = te.reduce_axis((0, self.x.shape[self.at]), "k")

        def body(*i: Expr) -> object:
            return combine(source(*i[: self.at], k.var, *i[self.at :]), axis=k)

        return te.compute(tuple(self.shape), body, name=name)


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Scale exponentials along an axis so that they add up to 1; no input overflows.

    >>> from autosched import te, topi
    >>> topi.nn.softmax(te.placeholder((2, 5), name="x")).shape
    (2, 5)
    """
    along = _Along(x, axis, "softmax")
    top = along.reduced(te.max, lambda *i: x(*i), "T_softmax_maxelem")
    power = te.compute(x.shape, lambda *i: te.exp(along.below(top, i)), name="T_softmax_exp")
    total = along.reduced(te.sum, lambda *i: power(*i), "T_softmax_expsum")

    def body(*i: Expr) -> object:
        return ir.cast(x.dtype, power(*i) / total(*along.others(i)))

    return te.compute(x.shape, body, name="T_softmax_norm", tag="softmax_output")


#: exponentials are fast as they are
fast_softmax = softmax


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Compute the logarithm of softmax, without its loss of digits."""
    along = _Along(x, axis, "log_softmax")
    top = along.reduced(te.max, lambda *i: x(*i), "T_softmax_maxelem")
    total = along.reduced(te.sum, lambda *i: te.exp(along.below(top, i)), "T_softmax_expsum")

    def body(*i: Expr) -> object:
        rest = along.others(i)
        return ir.cast(x.dtype, along.below(top, i) - te.log(total(*rest)))

    return te.compute(x.shape, body, name="T_log_softmax", tag="log_softmax_output")


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """Return the negative weighted prediction of each target's class: their `mean`, `sum`, or each (`none`).

    Predictions are [n, classes, ...], targets [n, ...], weights [classes]. A target that is `ignore_index` counts
    nothing; the mean is weighted.
    """
    asked = "topi.nn.nll_loss"
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"no reduction {reduction!r}", asked=asked, legal="mean, sum, none")
    if predictions.ndim != targets.ndim + 1 or weights.ndim != 1:
        raise UsageError(f"{predictions!r}, {targets!r}, {weights!r}", asked=asked, legal="[n, c, ..], [n, ..], [c]")
    sums = accumulator(predictions.dtype)

    def class_of(t: Expr) -> Expr:
        return te.select(t != ignore_index, t, te.const(0, t.dtype)).astype("int32")

    def weight(*i: Expr) -> Expr:
        t = targets(*i)
        return te.select(t != ignore_index, weights(class_of(t)).astype(sums), te.const(0, sums))

    def loss(*i: Expr) -> Expr:
        return -(predictions(*i[:1], class_of(targets(*i)), *i[1:]).astype(sums) * weight(*i))

    each = te.compute(targets.shape, loss, name="T_nll_loss", tag="broadcast")
    if reduction == "none":
        return narrowed(each, predictions.dtype)
    total = reduce_sum(each)
    if reduction == "sum":
        return narrowed(total, predictions.dtype)
    count = reduce_sum(te.compute(targets.shape, weight, name="T_nll_weight", tag="broadcast"))
    return narrowed(te.compute((), lambda: total() / count(), name="T_nll_mean", tag="elemwise"), predictions.dtype)
