"""Elements shifted and scaled by statistics of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched import te, topi
from autosched.graph.known import evaluated
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.windows import fixed
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, broadcast_shapes, same
from autosched.topi.elementwise import stretched
from autosched.topi.nn.normalization import mean_square


def _computed(node: Node, shape: Sequence[Expr], body: Callable[..., object], name: str) -> Tensor:
    """A tensor; the constant that it is where it depends on constants alone."""
    made = te.compute(tuple(shape), body, name=name)
    value = evaluated(made, node.constants)
    return made if value is None else node.constant(value, made.dtype)


@operator("BatchNormalization")
def batch_normalization(
    node: Node, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor
) -> Tensor | tuple[Tensor, ...]:
    """Scale and shift each channel: constants, where the statistics are."""
    epsilon = node.attr("epsilon", 1e-5)
    stats = x.shape[1:] if node.opset < 9 and not node.attr("spatial", 1) else x.shape[1:2]
    for t in (scale, shift, mean, variance):
        if x.ndim < 2 or t.ndim != len(stats) or not all(map(same, t.shape, stats)):
            raise node.refused(f"{x!r} meets {t!r}", f"a shape of {list(stats)!r}")
    if node.attr("training_mode", 0):
        step = 1 - node.attr("momentum", 0.9)
        made = topi.nn.batch_norm(x, scale, shift, mean, variance, 1, epsilon, training=True, momentum=step)
        return tuple(made)
    if len([o for o in node.outputs if o]) > 1:
        raise node.refused("it is in training mode", "one output, or training_mode and opset 14")
    sums = accumulator(x.dtype)

    def factor(*c: Expr) -> Expr:
        return scale(*c).astype(sums) * te.rsqrt(variance(*c).astype(sums) + te.const(epsilon, sums))

    by = _computed(node, stats, factor, "bn_scale")
    plus = _computed(node, stats, lambda *c: shift(*c).astype(sums) - mean(*c).astype(sums) * by(*c), "bn_shift")

    def body(*i: Expr) -> Expr:
        c = i[1 : 1 + len(stats)]
        return (x(*i).astype(sums) * by(*c) + plus(*c)).astype(x.dtype)

    return te.compute(x.shape, body, name="T_batch_norm", tag="broadcast")


def _scaled(node: Node, x: Tensor, e: Expr, i: Sequence[Expr], scale: Tensor, shift: Tensor | None) -> Expr:
    """A normalised element, scaled and shifted by tensors that stretch to the shape of `x`."""
    for t in (scale, shift):
        if t is None:
            continue
        if len(broadcast_shapes(x.shape, t.shape, node.kind)) != x.ndim:
            raise node.refused(f"{t!r} does not stretch to {x!r}")
        factor = stretched(t, i, x.shape).astype(e.dtype)  # type: ignore[attr-defined]
        e = e * factor if t is scale else e + factor
    return e.astype(x.dtype)


def _last_axes(node: Node, x: Tensor) -> list[int]:
    return list(range(axis_of(x, node.attr("axis", -1), node.kind), x.ndim))


def _reduced(t: Tensor, x: Tensor, axes: Sequence[int], of: object, f: Callable[[Expr], Expr], name: str) -> Tensor:
    """A statistic as an output: with a 1 for each dimension it is of, in type `of`."""
    shape = [1 if k in axes else d for k, d in enumerate(x.shape)]

    def body(*i: Expr) -> Expr:
        return f(t(*(e for k, e in enumerate(i) if k not in axes))).astype(of)

    return te.compute(tuple(shape), body, name=name)


@operator("LayerNormalization")
def layer_normalization(
    node: Node, x: Tensor, scale: Tensor, shift: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    axes = _last_axes(node, x)
    centre, variance = topi.nn.moments(x, axes, "layer_norm")
    sums = centre.dtype

    def deviation(e: Expr) -> Expr:
        return te.rsqrt(e + te.const(node.attr("epsilon", 1e-5), sums))

    def body(*i: Expr) -> Expr:
        r = [e for k, e in enumerate(i) if k not in axes]
        return _scaled(node, x, (x(*i).astype(sums) - centre(*r)) * deviation(variance(*r)), i, scale, shift)

    made = te.compute(x.shape, body, name="T_layer_norm", tag="injective")
    of = _stash_type(node)
    return (
        made,
        _reduced(centre, x, axes, of, lambda e: e, "layer_norm_mean"),
        _reduced(variance, x, axes, of, deviation, "layer_norm_deviation"),
    )


def _stash_type(node: Node) -> object:
    """The type of statistics that are outputs."""
    code = node.attr("stash_type", 1)
    names = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}
    if code not in names:
        raise node.refused(f"stash_type is {code}", "1, 10, 11, 16: float32, float16, float64, bfloat16")
    return to_dtype(names[code])


@operator("RMSNormalization")
def rms_normalization(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    axes, sums = _last_axes(node, x), accumulator(x.dtype)
    power = mean_square(x, axes, "T_rms_square")

    def body(*i: Expr) -> Expr:
        mean = power(*(e for k, e in enumerate(i) if k not in axes))
        e = x(*i).astype(sums) * te.rsqrt(mean + te.const(node.attr("epsilon", 1e-5), sums))
        return _scaled(node, x, e, i, scale, None)

    return te.compute(x.shape, body, name="T_rms_norm", tag="injective")


@operator("InstanceNormalization")
def instance_normalization(node: Node, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return topi.nn.instance_norm(x, scale, shift, list(range(2, x.ndim)), node.attr("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(node: Node, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    groups, channels = node.attr("num_groups"), fixed(node, x.shape[1])
    if groups < 1 or channels % groups:
        raise node.refused(f"{channels} channels in {groups} groups", "a divisor of them")
    if node.opset < 21:  # numbers for groups, not for channels
        per_group = channels // groups
        scale, shift = (
            _computed(node, x.shape[1:2], lambda c, t=t: t(te.floordiv(c, per_group)), "of_channel")
            for t in (scale, shift)
        )
    return topi.nn.group_norm(x, scale, shift, groups, 1, list(range(2, x.ndim)), node.attr("epsilon", 1e-5))


@operator("LpNormalization")
def lp_normalization(node: Node, x: Tensor) -> Tensor:
    """Divide by a norm along an axis; where it is 0, so is the result."""
    p, sums = node.attr("p", 2), accumulator(x.dtype)
    at = axis_of(x, node.attr("axis", -1), node.kind)
    if p not in (1, 2):
        raise node.refused(f"p is {p}", "1, 2")

    def power(*i: Expr) -> Expr:
        e = x(*i).astype(sums)
        return te.abs(e) if p == 1 else e * e

    total = topi.sum(te.compute(x.shape, power, name="T_power", tag="elemwise"), at)

    def body(*i: Expr) -> Expr:
        norm = total(*i[:at], *i[at + 1 :])
        norm = norm if p == 1 else te.sqrt(norm)
        zero = te.const(0, sums)
        return te.select(norm > zero, x(*i).astype(sums) / norm, norm).astype(x.dtype)

    return te.compute(x.shape, body, name="lp_normalization", tag="injective")


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Node, x: Tensor) -> Tensor:
    axes = sorted(axis_of(x, a, node.kind) for a in node.attr("axes") or [0, 2, 3])
    centre, variance = topi.nn.moments(x, axes, "mvn")

    def body(*i: Expr) -> Expr:
        r = [e for k, e in enumerate(i) if k not in axes]
        deviation = te.sqrt(variance(*r)) + te.const(1e-9, centre.dtype)
        return ((x(*i).astype(centre.dtype) - centre(*r)) / deviation).astype(x.dtype)

    return te.compute(x.shape, body, name="T_mvn", tag="injective")


@operator("LRN")
def lrn(node: Node, x: Tensor) -> Tensor:
    size = node.attr("size")
    return topi.nn.lrn(x, size, 1, node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0))
