"""Losses of classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched import te, topi
from autosched.graph.onnx.node import Node, operator
from autosched.ir import expr as ir
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, narrowed, product, same


@operator("NegativeLogLikelihoodLoss")
def nll_loss(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    sums = accumulator(x.dtype)
    return _loss(node, x, lambda n, c, *d: x(n, c, *d).astype(sums), target, weight)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """The log-probability of the target alone, unless all of them are wanted."""
    sums = accumulator(x.dtype)
    if len(node.outputs) > 1 and node.outputs[1]:
        found = topi.nn.log_softmax(x, 1)
        return _loss(node, x, lambda *i: found(*i).astype(sums), target, weight), found
    top = topi.max(x, 1)

    def below(n: Expr, c: Expr, *d: Expr) -> Expr:
        return x(n, c, *d).astype(sums) - top(n, *d).astype(sums)

    total = topi.sum(te.compute(x.shape, lambda *i: te.exp(below(*i)), name="T_softmax_exp"), 1)
    return _loss(node, x, lambda n, c, *d: below(n, c, *d) - te.log(total(n, *d)), target, weight)


def _loss(node: Node, x: Tensor, log_of: Callable[..., Expr], target: Tensor, weight: Tensor | None) -> Tensor:
    """Minus the weighted logarithms at the targets; `log_of` gives one at an index of `x`."""
    reduction, ignored = node.attr("reduction", "mean"), node.attr("ignore_index")
    if reduction not in ("none", "sum", "mean"):
        raise node.refused(f"reduction is {reduction!r}", "none, sum, mean")
    rest = [*x.shape[:1], *x.shape[2:]]
    if x.ndim < 2 or target.ndim != len(rest) or not all(map(same, target.shape, rest)):
        raise node.refused(f"{x!r} and targets {target!r}", "[N, C, ...] and [N, ...]")
    if weight is not None and (weight.ndim != 1 or not same(weight.shape[0], x.shape[1])):
        raise node.refused(f"weights {weight!r} for {x.shape[1]!r} classes", "as many")
    sums = accumulator(x.dtype)

    def unless_ignored(i: Sequence[Expr], e: Expr) -> Expr:
        return e if ignored is None else te.select(ir.compare("ne", target(*i), ignored), e, te.const(0, sums))

    def share(i: Sequence[Expr]) -> Expr:
        return te.const(1, sums) if weight is None else weight(_class(target(*i), x.shape[1])).astype(sums)

    def body(*i: Expr) -> Expr:
        e = -log_of(i[0], _class(target(*i), x.shape[1]), *i[1:])
        return unless_ignored(i, e if weight is None else e * share(i))

    each = te.compute(tuple(rest), body, name="loss")
    if reduction == "none":
        return narrowed(each, x.dtype)
    total = topi.sum(each)
    if reduction == "sum":
        return narrowed(total, x.dtype)
    if weight is None and ignored is None:
        count: Callable[[], Expr] = lambda: product(rest).astype(sums)  # noqa: E731
    else:
        count = topi.sum(te.compute(tuple(rest), lambda *i: unless_ignored(i, share(i)), name="loss_weight"))
    return te.compute((), lambda: (total() / count()).astype(x.dtype), name="loss_mean")


def _class(t: Expr, classes: Expr) -> Expr:
    """A class, moved to the nearest one that there is."""
    return te.max(te.min(t, (classes - 1).astype(t.dtype)), te.const(0, t.dtype))
