"""Normalisations: values shifted and scaled by statistics of their neighbourhood."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, at_least, axes_of, axis_of, number
from autosched.topi.nn.padding import pad
from autosched.topi.reduction import mean
from autosched.topi.transform import reshape


def _normalized(
    data: Tensor, axes: Sequence[int], epsilon: float, scaled: Callable[[Expr, Sequence[Expr]], Expr], name: str
) -> Tensor:
    """Mean 0 and variance 1 over `axes`, in two passes; then `scaled`. Nothing is rounded to float16 on the way."""
    centre, variance = moments(data, axes, name)
    sums = centre.dtype

    def body(*i: Expr) -> object:
        r = [e for k, e in enumerate(i) if k not in axes]
        value = (data(*i).astype(sums) - centre(*r)) * te.rsqrt(variance(*r) + te.const(epsilon, sums))
        return ir.cast(data.dtype, scaled(value, i))

    return te.compute(data.shape, body, name=name, tag="injective")


def moments(data: Tensor, axes: Sequence[int], name: str = "T_moments") -> tuple[Tensor, Tensor]:
    """Return the mean and the variance over `axes`, in the type of sums. The variance takes a pass of its own."""
    chosen = axes_of(data, list(axes), "topi.nn.moments")
    centre = mean(data, chosen, dtype=accumulator(data.dtype))
    return centre, mean_square(data, chosen, f"{name}_square", centre)


def mean_square(data: Tensor, axes: Sequence[int], name: str, centre: Tensor | None = None) -> Tensor:
    """The mean over `axes` of the squares of elements, or of what lies off the centre, in the type of sums."""
    sums = accumulator(data.dtype)

    def squared(*i: Expr) -> Expr:
        e = data(*i).astype(sums)
        off = e if centre is None else e - centre(*(x for k, x in enumerate(i) if k not in axes))
        return off * off

    return mean(te.compute(data.shape, squared, name=name, tag="injective"), list(axes))


def _affine(
    gamma: Tensor | None, beta: Tensor | None, at: Callable[[Sequence[Expr]], Sequence[Expr]]
) -> Callable[[Expr, Sequence[Expr]], Expr]:
    def scaled(value: Expr, i: Sequence[Expr]) -> Expr:
        place = at(i)
        value = value if gamma is None else value * gamma(*place)
        return value if beta is None else value + beta(*place)

    return scaled


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: object, epsilon: float = 1e-5) -> Tensor:
    """Normalise over `axis`, with a scale and a shift for each place along it. The variance takes two passes."""
    axes = axes_of(data, axis, "topi.nn.layer_norm")
    return _normalized(data, axes, epsilon, _affine(gamma, beta, lambda i: [i[k] for k in axes]), "T_layer_norm")


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, axis: object, epsilon: float = 1e-5, channel_axis: int = 1
) -> Tensor:
    """Normalise each sample and channel over `axis`; a scale and a shift for each channel."""
    axes = axes_of(data, axis, "topi.nn.instance_norm")
    return _normalized(data, axes, epsilon, _affine(gamma, beta, lambda i: [i[channel_axis]]), "T_instance_norm")


def group_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise over `axes` and the channels of each of `num_groups` groups."""
    asked = f"topi.nn.group_norm(num_groups={num_groups})"
    at = axis_of(data, channel_axis, asked)
    channels = number(data.shape[at], asked)
    at_least(1, [num_groups], asked)
    if channels % num_groups:
        raise UsageError(f"{channels} channels do not make {num_groups} groups", asked=asked, legal="a divisor of them")
    grouped = reshape(data, [*data.shape[:at], num_groups, channels // num_groups, *data.shape[at + 1 :]])
    chosen = [at + 1, *(k + (k > at) for k in axes_of(data, list(axes), asked))]

    def at_channel(i: Sequence[Expr]) -> list[Expr]:
        return [i[at] * (channels // num_groups) + i[at + 1]]

    made = _normalized(grouped, sorted(set(chosen)), epsilon, _affine(gamma, beta, at_channel), "T_group_norm")
    return reshape(made, data.shape)


def rms_norm(data: Tensor, weight: Tensor, axis: object, epsilon: float = 1e-5) -> Tensor:
    """Divide by the root of the mean of squares over `axis`, and scale."""
    axes = axes_of(data, axis, "topi.nn.rms_norm")
    sums, power = accumulator(data.dtype), mean_square(data, axes, "T_rms_square")

    def body(*i: Expr) -> object:
        rest = [e for k, e in enumerate(i) if k not in axes]
        scale = te.rsqrt(power(*rest) + te.const(epsilon, sums))
        return ir.cast(data.dtype, data(*i).astype(sums) * scale * weight(*(i[k] for k in axes)))

    return te.compute(data.shape, body, name="T_rms_norm", tag="injective")


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    training: bool = False,
    momentum: float = 0.1,
) -> list[Tensor]:
    """Normalise over every axis but one. Return the result, the moving mean, the moving variance.

    In training, the statistics are those of this batch, and the moving ones take a step of `momentum` towards them;
    else they are the moving ones, which are returned as they are.
    """
    at = axis_of(data, axis, "topi.nn.batch_norm")
    others = [k for k in range(data.ndim) if k != at]
    sums = accumulator(data.dtype)
    centre, variance = moments(data, others, "T") if training else (moving_mean, moving_var)

    def body(*i: Expr) -> object:
        c = i[at]
        value = data(*i).astype(sums) - centre(c).astype(sums)
        value = value * te.rsqrt(variance(c).astype(sums) + te.const(epsilon, sums))
        value = value * gamma(c) if scale else value
        return ir.cast(data.dtype, value + beta(c) if center else value)

    out = te.compute(data.shape, body, name="T_batch_norm", tag="broadcast")
    if not training:
        return [out, moving_mean, moving_var]

    def moved(old: Tensor, new: Tensor, name: str) -> Tensor:
        step = te.const(momentum, sums)

        def body(c: Expr) -> Expr:
            return ir.cast(old.dtype, old(c).astype(sums) + (new(c).astype(sums) - old(c).astype(sums)) * step)

        return te.compute(old.shape, body, name=name, tag="elemwise")

    return [out, moved(moving_mean, centre, "moving_mean_out"), moved(moving_var, variance, "moving_var_out")]


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Scale and shift each channel of [n, c, h, w]."""
    return te.compute(
        Input.shape, lambda b, c, i, j: Input(b, c, i, j) * Scale(c) + Shift(c), name="ScaleShift", tag="broadcast"
    )


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Scale and shift each channel of [n, h, w, c]."""
    return te.compute(
        Input.shape, lambda b, i, j, c: Input(b, i, j, c) * Scale(c) + Shift(c), name="ScaleShift", tag="broadcast"
    )


def lrn(data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2) -> Tensor:
    """Normalise the local response: divide by `(bias + alpha / size * sum of squares) ** beta`.

    The sum is over `size` neighbours along `axis`; of an even number, there is one more after than before
    (Krizhevsky et al. 2012, 3.3).
    """
    at_least(1, [size], f"topi.nn.lrn(size={size})")
    at = axis_of(data, axis, "topi.nn.lrn")
    sums = accumulator(data.dtype)
    before, after = ([n if k == at else 0 for k in range(data.ndim)] for n in ((size - 1) // 2, size // 2))
    wide = pad(data, before, after, name="pad_data")
    r = te.reduce_axis((0, size), "r")

    def square(*i: Expr) -> Expr:
        e = wide(*(x + r if k == at else x for k, x in enumerate(i))).astype(sums)
        return te.sum(e * e, axis=r)

    total = te.compute(data.shape, square, name="lrn_sum")

    def body(*i: Expr) -> object:
        base = te.const(bias, sums) + te.const(alpha / size, sums) * total(*i)
        return ir.cast(data.dtype, data(*i).astype(sums) / te.power(base, te.const(beta, sums)))

    return te.compute(data.shape, body, name="T_lrn", tag="injective")
