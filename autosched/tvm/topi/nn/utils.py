"""`tvm.topi.nn.utils`: widths of borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.te.tensor import Tensor
from autosched.topi.nn.padding import pads
from autosched.tvm._missing import missing
from autosched.tvm.topi.utils import get_const_int


def get_pad_tuple_generic(padding: Any, kernel: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the widths before and after each dimension."""
    before, after = pads(padding, kernel, "get_pad_tuple")
    return list(before), list(after)


def get_pad_tuple(padding: Any, kernel: Sequence[Any]) -> tuple[Any, ...]:
    """Return the widths before each dimension, then those after: (top, left, bottom, right)."""
    before, after = pads(padding, kernel, "get_pad_tuple")
    return (*before, *after)


get_pad_tuple1d = get_pad_tuple3d = get_pad_tuple


def infer_pad(data: Tensor, data_pad: Tensor | None) -> tuple[int, int]:
    """Return the borders of the last two dimensions, by what they were padded to."""
    if data_pad is None:
        return 0, 0
    widths = [get_const_int((t - d) // 2) for d, t in zip(data.shape[-2:], data_pad.shape[-2:], strict=True)]
    return widths[0], widths[1]


def infer_stride(data: Tensor, kernel: Tensor, out: Tensor) -> tuple[int, int]:
    """Return the strides of a convolution of [n, c, h, w]."""
    rows = zip(data.shape[2:], kernel.shape[2:], out.shape[2:], strict=True)
    found = [(get_const_int(d) - get_const_int(k), get_const_int(o)) for d, k, o in rows]
    strides = [1 if o == 1 else room // (o - 1) for room, o in found]
    return strides[0], strides[1]


__getattr__ = missing("topi.nn.utils", globals())
