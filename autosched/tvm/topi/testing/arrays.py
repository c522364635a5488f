"""Arrays moved, chosen and normalised, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.tvm.topi.testing.windows import Array


def _slices(
    ndim: int, begin: Sequence[Any], end: Sequence[Any], strides: Sequence[int] | None, axes: Sequence[int] | None
) -> tuple[slice, ...]:
    cut = [slice(None)] * ndim
    steps = list(strides or [])
    for k, axis in enumerate(range(max(len(begin), len(end))) if axes is None else axes):
        low, high, step = ((given[k] if k < len(given) else None) for given in (begin, end, steps))
        cut[axis] = slice(low, high, step)
    return tuple(cut)


def strided_slice_python(
    data: Array, begin: Any, end: Any, strides: Any, slice_mode: str = "end", axes: Any = None
) -> Array:
    """`data[begin:end:stride]`; with `slice_mode` size, `end` is how many elements, or -1 for all."""
    if slice_mode == "size":
        end = [None if n < 0 else b + n for b, n in zip(begin, end, strict=True)]
        strides = None
    return data[_slices(data.ndim, begin, end, strides, axes)]


def strided_set_python(data: Array, v: Any, begin: Any, end: Any, strides: Any) -> Array:
    """A copy in which `v` takes the place of `data[begin:end:stride]`."""
    out = data.copy()
    out[_slices(data.ndim, begin, end, strides, None)] = v
    return out


def slice_axis_python(data: Array, axis: int, begin: int, end: int | None = None) -> Array:
    """Elements from `begin` to `end` along one axis."""
    return data[_slices(data.ndim, [begin], [end], None, [axis])]


def gather_python(data: Array, axis: int, indices: Array) -> Array:
    """Elements at the places of `indices` along an axis."""
    return np.take_along_axis(data, indices, axis)


def gather_nd_python(a_np: Array, indices_np: Array) -> Array:
    """Elements at places whose coordinates are the rows of `indices_np`."""
    return a_np[tuple(indices_np.astype("int32"))]


def one_hot(indices: Array, on_value: Any, off_value: Any, depth: int, axis: int, dtype: Any) -> Array:
    """`on_value` where the place along a new axis is the index."""
    at = indices.ndim if axis == -1 else axis
    hit = np.expand_dims(indices, at) == np.arange(depth).reshape([-1] + [1] * (indices.ndim - at))
    return np.where(hit, on_value, off_value).astype(dtype)


def sequence_mask(data: Array, valid_length: Array, mask_value: float, axis: int) -> Array:
    """`mask_value` where a step is not before its batch's length."""
    steps = np.arange(data.shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
    mask = steps >= valid_length.reshape((1, -1) if axis == 0 else (-1, 1))
    return np.where(mask.reshape(mask.shape + (1,) * (data.ndim - 2)), mask_value, data)


def matrix_set_diag(input_np: Array, diagonal: Array, k: Any = 0, align: str = "RIGHT_LEFT") -> Array:
    """A copy with other diagonals: the k-th, or those from k[0] to k[1], in the last two dimensions."""
    out = input_np.copy()
    rows, columns = out.shape[-2:]
    low, high = (k[0], k[-1]) if isinstance(k, (list, tuple)) else (k, k)
    for d in range(low, high + 1):
        length = min(columns - max(d, 0), rows + min(d, 0))
        to_right = align.split("_")[0 if d >= 0 else 1] == "RIGHT"
        values = diagonal if low == high else diagonal[..., high - d, :]
        values = values[..., values.shape[-1] - length :] if to_right else values[..., :length]
        i = np.arange(length)
        out[..., i - min(d, 0), i + max(d, 0)] = values
    return out


def space_to_batch_nd_python(
    data: Array, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int], pad_value: float = 0
) -> Array:
    """Blocks of the dimensions after the first become batches."""
    m = len(block_shape)
    border = [(0, 0), *zip(pad_before, pad_after, strict=True), *[(0, 0)] * (data.ndim - 1 - m)]
    wide = np.pad(data, border, constant_values=pad_value)
    split = [p for d, b in zip(wide.shape[1:], block_shape) for p in (d // b, b)]
    cut = wide.reshape(wide.shape[0], *split, *wide.shape[m + 1 :])
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, cut.ndim)]
    return cut.transpose(order).reshape(-1, *split[::2], *wide.shape[m + 1 :])


def batch_to_space_nd_python(
    data: Array, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Array:
    """Batches become blocks of the dimensions after the first."""
    m = len(block_shape)
    cut = data.reshape(*block_shape, -1, *data.shape[1:])
    order = [m, *(k for n in range(m) for k in (m + 1 + n, n)), *range(2 * m + 1, cut.ndim)]
    wide = [d * b for d, b in zip(data.shape[1:], block_shape)]
    out = cut.transpose(order).reshape(cut.shape[m], *wide, *data.shape[m + 1 :])
    kept = [slice(b, d - e) for b, e, d in zip(crop_begin_list, crop_end_list, wide, strict=True)]
    return out[(slice(None), *kept)]


def depth_to_space_python(data: Array, block_size: int, mode: str = "DCR") -> Array:
    """Blocks of channels become squares."""
    n, c, h, w = data.shape
    b, left = block_size, c // block_size**2
    if mode == "DCR":
        out = data.reshape(n, b, b, left, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        out = data.reshape(n, left, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return out.reshape(n, left, h * b, w * b)


def space_to_depth_python(data: Array, block_size: int) -> Array:
    """Squares become blocks of channels."""
    n, c, h, w = data.shape
    b = block_size
    return data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


def reorg_python(a_np: Array, stride: int) -> Array:
    """Squares become channels, as in Darknet: element by element of the flat array."""
    n, c, h, w = a_np.shape
    kept = c // stride**2
    b, k, j, i = np.indices(a_np.shape)
    part = k // kept
    at = i * stride + part % stride + w * stride * (j * stride + part // stride + h * stride * (k % kept + kept * b))
    return a_np.reshape(-1)[at.reshape(-1)].reshape(n, c * stride**2, h // stride, w // stride)


def searchsorted_ref(sorted_sequence: Array, values: Array, right: bool, out_dtype: Any) -> Array:
    """Where values would be inserted, in one sequence or row by row."""
    side: Any = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return np.searchsorted(sorted_sequence, values, side).astype(out_dtype)
    out = np.zeros(values.shape, out_dtype)
    for row in np.ndindex(*values.shape[:-1]):
        out[row] = np.searchsorted(sorted_sequence[row], values[row], side)
    return out


# -- products and norms -------------------------------------------------------------------------------


def batch_matmul(x: Array, y: Array, out_dtype: Any = None, trans_x: bool = False, trans_y: bool = True) -> Array:
    """Products of the matrices of each batch."""
    left = x.swapaxes(1, 2) if trans_x else x
    right = y.swapaxes(1, 2) if trans_y else y
    of = out_dtype or x.dtype
    return (left.astype(of) @ right.astype(of)).astype(of)


def dense(
    x: Array, y: Array, bias: Array | None, use_bias: bool = False, use_relu: bool = False, out_dtype: Any = None
) -> Array:
    """`x @ y.T`, with a bias and a relu if so asked."""
    of = out_dtype or x.dtype
    out = x.astype(of) @ y.T.astype(of)
    out = out + bias if use_bias else out
    return np.maximum(out, 0) if use_relu else out


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    power = np.exp(a_np - a_np.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    below = a_np - a_np.max(axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis, keepdims=True))


def _normal(data: Array, axes: Any, epsilon: float) -> Array:
    a = data.astype("float64")
    return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + epsilon)


def _along(values: Array, axes: Sequence[int], ndim: int) -> Array:
    """Values of some axes, to be stretched over the others."""
    return values.reshape([values.shape[list(axes).index(k)] if k in axes else 1 for k in range(ndim)])


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    return tuple(k % ndim for k in (axis if isinstance(axis, (list, tuple)) else [axis]))


def layer_norm_python(data: Array, gamma: Array, beta: Array | None, axis: Any, epsilon: float = 1e-5) -> Array:
    axes = _axes(axis, data.ndim)
    out = _normal(data, axes, epsilon) * _along(gamma, axes, data.ndim)
    return (out if beta is None else out + _along(beta, axes, data.ndim)).astype(data.dtype)


#: TVM's has a scale and a shift for each place along `axis`
instance_norm_python = layer_norm_python


def group_norm_python(
    data: Array,
    gamma: Array,
    beta: Array | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Array:
    at = channel_axis % data.ndim
    split = data.reshape(*data.shape[:at], num_groups, -1, *data.shape[at + 1 :])
    over = (at + 1, *(k + (k > at) for k in _axes(axes, data.ndim)))
    out = _normal(split, over, epsilon).reshape(data.shape) * _along(gamma, [at], data.ndim)
    return (out if beta is None else out + _along(beta, [at], data.ndim)).astype(data.dtype)


def rms_norm_python(data: Array, weight: Array, axis: Any, epsilon: float = 1e-5) -> Array:
    axes = _axes(axis, data.ndim)
    a = data.astype("float64")
    scale = 1 / np.sqrt((a * a).mean(axes, keepdims=True) + epsilon)
    return (a * scale * _along(weight, axes, data.ndim)).astype(data.dtype)


def batch_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    moving_mean: Array,
    moving_var: Array,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    training: bool,
    momentum: float,
) -> list[Array]:
    others = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
    mean, var = (x.mean(others), x.var(others)) if training else (moving_mean, moving_var)
    of = [_along(t, [axis % x.ndim], x.ndim) for t in (mean, var, gamma, beta)]
    out = (x - of[0]) / np.sqrt(of[1] + epsilon)
    out = out * of[2] if scale else out
    out = out + of[3] if center else out
    if not training:
        return [out, moving_mean, moving_var]
    return [out, moving_mean + momentum * (mean - moving_mean), moving_var + momentum * (var - moving_var)]


def lrn_python(a_np: Array, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    border = [((size // 2, size // 2) if k == axis else (0, 0)) for k in range(a_np.ndim)]
    square = np.pad(a_np.astype("float64") ** 2, border)
    total = sum(np.take(square, range(n, n + a_np.shape[axis]), axis) for n in range(2 * (size // 2) + 1))
    return (a_np / (bias + alpha * total / size) ** beta).astype(a_np.dtype)


def l2_normalize_python(a_np: Array, eps: float, axis: Any = None) -> Array:
    over = tuple(axis) if isinstance(axis, (list, tuple)) else axis
    return a_np / np.sqrt(np.maximum((a_np**2).sum(over, keepdims=True), eps))


def nll_loss(
    predictions: Array, targets: Array, weights: Array, reduction: str = "mean", ignore_index: int = -100
) -> Array:
    """The weighted prediction of each target's class, negative: their mean, their sum, or each."""
    kept = targets != ignore_index
    places = np.where(kept, targets, 0)
    of = weights[places] * kept
    axis = min(predictions.ndim - 1, 1)
    out = -np.take_along_axis(predictions, np.expand_dims(places, axis), axis).squeeze(axis) * of
    if reduction == "none":
        return np.asarray(out, predictions.dtype)
    total = out.sum() / (of.sum() if reduction == "mean" else 1)
    return np.asarray(total, predictions.dtype)


_ACTIVATIONS: dict[str, Any] = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh}


def lstm_python(
    Xs: Array,
    Wi: Array,
    Wh: Array,
    Bi: Array | None = None,
    Bh: Array | None = None,
    h_init: Array | None = None,
    c_init: Array | None = None,
    proj: Array | None = None,
    p_i: Array | None = None,
    p_f: Array | None = None,
    p_o: Array | None = None,
    f_act: str = "sigmoid",
    g_act: str = "tanh",
    h_act: str = "tanh",
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Array, Array]:
    """Hidden states and cell states of every step, with peepholes and a projection if given."""
    f, g, h = (_ACTIVATIONS[name] for name in (f_act, g_act, h_act))
    hidden = np.zeros((Xs.shape[1], Wh.shape[1]), "float32") if h_init is None else h_init
    cell: Any = np.zeros((Xs.shape[1], Wi.shape[0] // 4), "float32") if c_init is None else c_init
    peep = [0 if p is None else p for p in (p_i, p_f, p_o)]
    states: list[tuple[Array, Array]] = []
    for x in Xs[::-1] if reverse else Xs:
        total = x @ Wi.T + hidden @ Wh.T + (0 if Bi is None else Bi) + (0 if Bh is None else Bh)
        part = dict(zip(weight_layout, np.split(total, 4, 1), strict=True))
        kept, taken = f(part["F"] + peep[1] * cell), f(part["I"] + peep[0] * cell)
        cell = kept * cell + taken * g(part["G"])
        hidden = f(part["O"] + peep[2] * cell) * h(cell)
        hidden = hidden if proj is None else hidden @ proj.T
        states.append((hidden, cell))
    return np.stack([s[0] for s in states]), np.stack([s[1] for s in states])
