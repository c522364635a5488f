"""Convolutions and pooling in NumPy: sums over windows of a padded array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from autosched.topi.nn.padding import pads

#: an array of NumPy's, whose types do not say what it may be indexed by
Array = Any


def listed(value: Any, count: int) -> list[int]:
    """One number for all, or one for each."""
    given = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    return given * count if len(given) == 1 else given


def dilate_python(
    input_np: Array, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: object = None
) -> Array:
    """Put `stride - 1` elements of a value between neighbours."""
    shape = [(d - 1) * s + 1 for d, s in zip(input_np.shape, strides, strict=True)]
    out = np.full(shape, dilation_value, out_dtype or input_np.dtype)  # type: ignore[call-overload]
    out[tuple(slice(None, None, s) for s in strides)] = input_np
    return np.asarray(out)


def padded(a: Array, before: Sequence[int], after: Sequence[int], value: float = 0) -> Array:
    """A border along the last dimensions; a negative width cuts off."""
    lead = a.ndim - len(before)
    cut = [slice(max(-b, 0), d - max(-e, 0)) for b, e, d in zip(before, after, a.shape[lead:], strict=True)]
    wide = [(0, 0)] * lead + [(max(b, 0), max(e, 0)) for b, e in zip(before, after, strict=True)]
    return np.pad(a[(..., *cut)], wide, constant_values=value)


def window_view(a: Array, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """[.., positions.., elements..] of the windows over the last dimensions."""
    rank = len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    view: Array = sliding_window_view(a, reach, axis=tuple(range(a.ndim - rank, a.ndim)))
    return view[(..., *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilation))]


def _exact(a: Array) -> Array:
    """In a type whose sums lose nothing that matters."""
    return a.astype("float64" if np.issubdtype(a.dtype, np.floating) else "int64")


def convolve(a: Array, w: Array, stride: Any, padding: Any, dilation: Any = 1, groups: int = 1) -> Array:
    """Data [n, c, ...], weights [out, in of a group, ...]; a result of the data's type."""
    rank = a.ndim - 2
    spread = listed(dilation, rank)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], spread, strict=True)]
    before, after = pads(padding, reach, "conv")
    wide = padded(_exact(a), before, after)  # type: ignore[arg-type]
    windows = window_view(wide, w.shape[2:], listed(stride, rank), spread)
    over = [1, *range(rank + 2, 2 * rank + 2)]
    parts = [
        np.tensordot(x, f, (over, [1, *range(2, rank + 2)]))
        for x, f in zip(np.split(windows, groups, 1), np.split(_exact(w), groups, 0), strict=True)
    ]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1).astype(a.dtype)


def convolve_transposed(
    a: Array, w: Array, stride: Any, padding: Any, output_padding: Any = 0, groups: int = 1
) -> Array:
    """Data [n, c, ...], weights [in, out of a group, ...]."""
    rank = a.ndim - 2
    kernel, extra = w.shape[2:], listed(output_padding, rank)
    before, after = pads(padding, kernel, "conv_transpose")
    wide = dilate_python(a, [1, 1, *listed(stride, rank)])
    low = [k - 1 - int(p) for k, p in zip(kernel, before, strict=True)]  # type: ignore[arg-type]
    high = [k - 1 - int(p) + e for k, p, e in zip(kernel, after, extra, strict=True)]  # type: ignore[arg-type]
    turned = np.flip(w, tuple(range(2, rank + 2)))
    filters = np.concatenate([part.swapaxes(0, 1) for part in np.split(turned, groups, 0)], 0)
    return convolve(padded(wide, low, high), filters, 1, 0, 1, groups)


def in_layout(
    f: Callable[..., Array], data: str, kernel: str, usual_data: str = "NCHW", usual_kernel: str = "OIHW"
) -> Callable[..., Array]:
    """The function for other layouts of its first two arguments and its result."""

    def call(a: Array, w: Array, *args: Any, **kwargs: Any) -> Array:
        moved = a.transpose([data.index(x) for x in usual_data])
        filters = w.transpose([kernel.index(x) for x in usual_kernel])
        return f(moved, filters, *args, **kwargs).transpose([usual_data.index(x) for x in data])

    return call


def conv2d_nchw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1) -> Array:
    """Data [n, c, h, w], weights [out, in of a group, h, w]."""
    return convolve(a_np, w_np, stride, padding, 1, groups)


conv3d_ncdhw_python = conv2d_nchw_python
conv2d_nhwc_python = in_layout(conv2d_nchw_python, "NHWC", "HWIO")
conv2d_hwcn_python = in_layout(conv2d_nchw_python, "HWCN", "HWIO")
conv3d_ndhwc_python = in_layout(conv2d_nchw_python, "NDHWC", "DHWIO", "NCDHW", "OIDHW")


def group_conv1d_ncw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """Data [n, c, w], weights [out, in of a group, w]."""
    return convolve(a_np, w_np, stride, padding, dilation, groups)


def conv1d_ncw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any) -> Array:
    """Data [n, c, w], weights [out, in, w]."""
    return convolve(a_np, w_np, stride, padding, dilation)


conv2d_transpose_nchw_python = convolve_transposed
conv3d_transpose_ncdhw_python = convolve_transposed
conv1d_transpose_ncw_python = convolve_transposed
group_conv1d_transpose_ncw_python = convolve_transposed


def conv2d_transpose_nhwc_python(
    a_nhwc: Array, weight: Array, weight_format: str, stride: Any, padding: Any, output_padding: Any = 0
) -> Array:
    """Data [n, h, w, c], weights in the order of letters of `weight_format`."""
    of = in_layout(convolve_transposed, "NHWC", weight_format, usual_kernel="IOHW")
    return of(a_nhwc, weight, stride, padding, output_padding)


def depthwise_conv2d_python_nchw(input_np: Array, filter_np: Array, stride: Any, padding: Any) -> Array:
    """Data [n, c, h, w], weights [c, results of each, h, w]."""
    before, after = pads(padding, filter_np.shape[2:], "depthwise_conv2d")
    wide = padded(input_np, before, after)  # type: ignore[arg-type]
    windows = window_view(wide, filter_np.shape[2:], listed(stride, 2), [1, 1])
    out = np.einsum("nchwij,cmij->ncmhw", _exact(windows), _exact(filter_np))
    return out.reshape(out.shape[0], -1, *out.shape[3:])


depthwise_conv2d_python_nhwc = in_layout(depthwise_conv2d_python_nchw, "NHWC", "HWCM", usual_kernel="CMHW")


def depthwise_conv2d_python_nchwc(input_np: Array, filter_np: Array, stride: Any, padding: Any) -> Array:
    """Data [n, C, h, w, c], weights [C, M, h, w, m, c]."""
    n, chunks, h, w, block = input_np.shape
    data = input_np.transpose(0, 1, 4, 2, 3).reshape(n, chunks * block, h, w)
    oc, mc, kh, kw, mb, ob = filter_np.shape
    filters = filter_np.transpose(0, 5, 1, 4, 2, 3).reshape(oc * ob, mc * mb, kh, kw)
    out = depthwise_conv2d_python_nchw(data, filters, stride, padding)
    return out.reshape(n, oc, ob, *out.shape[2:]).transpose(0, 1, 3, 4, 2)


def conv2d_backward_weight_python(
    dy_np: Array,
    x_np: Array,
    kernel_size: Sequence[int],
    stride: Any,
    padding: Any,
    layout: str = "NCHW",
    groups: int = 1,
    channels: int | None = None,
) -> Array:
    """The gradient of a convolution's weights, [out, in, h, w], or [out, h, w, in] of an NHWC one."""
    first = [layout.index(x) for x in "NCHW"]
    dy, x = dy_np.transpose(first), x_np.transpose(first)
    before, after = pads(padding, kernel_size, "conv2d_backward_weight")
    windows = window_view(padded(x, before, after), kernel_size, listed(stride, 2), [1, 1])  # type: ignore[arg-type]
    windows = windows[:, :, : dy.shape[2], : dy.shape[3]]
    pairs = zip(np.split(dy, groups, 1), np.split(windows, groups, 1), strict=True)
    out = np.concatenate([np.einsum("noyx,niyxhw->oihw", d, v) for d, v in pairs], 0)
    return out if layout == "NCHW" else out.transpose(0, 2, 3, 1)


# -- pooling ------------------------------------------------------------------------------------------


def poolnd_python(
    np_data: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str | None = None,
) -> Array:
    """The greatest (`max`) or mean (`avg`) of each window. A mean counts what is inside the border at most."""
    usual = {3: "NCW", 4: "NCHW", 5: "NCDHW"}[np_data.ndim]
    layout = layout or usual
    a = np_data.transpose([layout.index(x) for x in usual])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    room = [n - r + b + e for n, r, b, e in zip(a.shape[2:], reach, padding_before, padding_after, strict=True)]
    beyond = [(-m) % s if ceil_mode else 0 for m, s in zip(room, strides, strict=True)]
    rank = len(kernel)
    over = tuple(range(-rank, 0))

    def windows(of: Array, border: float, outside: float) -> Array:
        wide = padded(padded(of, padding_before, padding_after, border), [0] * rank, beyond, outside)
        return window_view(wide, kernel, strides, dilation)

    if pool_type == "max":
        least = -np.inf if np.issubdtype(a.dtype, np.floating) else np.iinfo(a.dtype).min
        out = windows(a, 0 if count_include_pad else least, least).max(over)
    else:
        counted = windows(np.ones_like(a), float(count_include_pad), 0).sum(over)
        out = windows(a, 0, 0).sum(over) / np.maximum(counted, 1)
    return out.astype(dtype).transpose([usual.index(x) for x in layout])


def adaptive_pool(np_data: Array, out_size: Any, pool_type: str, layout: str = "NCHW") -> Array:
    """The greatest or mean of so many windows along each spatial dimension."""
    space = [k for k, x in enumerate(layout) if x in "DHW"]
    count = dict(zip(space, listed(out_size, len(space)), strict=True))
    out = np.zeros([count.get(k, d) for k, d in enumerate(np_data.shape)], np_data.dtype)
    for place in np.ndindex(*count.values()):
        at: list[Any] = [slice(None)] * np_data.ndim
        part = list(at)
        for k, i in zip(space, place, strict=True):
            length = np_data.shape[k]
            at[k], part[k] = i, slice(i * length // count[k], -(-(i + 1) * length // count[k]))
        of = np_data[tuple(part)]
        out[tuple(at)] = (of.max if pool_type == "max" else of.mean)(axis=tuple(space))
    return out


def pool_grad_nchw(
    a_np: Array,
    out_grad_np: Array,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> Array:
    """The gradient of pooling [n, c, h, w] with respect to its data; `padding` is top, left, bottom, right."""
    n, c, h, w = a_np.shape
    top, left, bottom, right = padding
    wide = padded(a_np, (top, left), (bottom, right))
    grad: Array = np.zeros(wide.shape)
    for y, x in np.ndindex(*out_grad_np.shape[2:]):
        part = (..., *(slice(i * s, i * s + k) for i, s, k in zip((y, x), strides, pool_size, strict=True)))
        window, incoming = wide[part], out_grad_np[:, :, y, x]
        if pool_type == "max":
            flat = window.reshape(n, c, -1)
            first = np.eye(flat.shape[2])[flat.argmax(2)] * incoming[..., None]
            grad[part] += first.reshape(window.shape)
        else:
            inside = padded(np.ones(a_np.shape), (top, left), (bottom, right))[part][0, 0].sum()
            counted = window[0, 0].size if count_include_pad else inside
            grad[part] += incoming[..., None, None] / max(counted, 1)
    return grad[:, :, top : top + h, left : left + w]
