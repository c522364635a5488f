"""Views of arrays: `NDArray._create_view`, another shape, type and beginning for the same memory; bits of bfloat16."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.ir.attached import attach
from autosched.ir.dtype import BFLOAT16, numpy_dtype
from autosched.runtime.ndarray import NDArray


def create_view(a: NDArray, shape: int | Sequence[Any], dtype: Any = None, relative_byte_offset: int = 0) -> NDArray:
    """An array over a part of another one's memory. Raises UsageError for one that leaves it, and for other devices.

    shape:                elements
    dtype:                of the view; that of the array unless one is given
    relative_byte_offset: bytes from the beginning of the array to that of the view
    """
    dims = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    of = numpy_dtype(a.dtype if dtype is None else str(dtype))
    begin, length = int(relative_byte_offset), math.prod(dims) * of.itemsize
    if begin < 0 or length < 0 or begin + length > a.nbytes:
        why = (
            f"it would occupy bytes {begin} <= i_byte < {begin + length}, "
            f"but the NDArray being viewed only contains {a.nbytes} bytes"
        )
        raise UsageError(why, asked=f"_create_view({list(dims)})", legal="a part of the array")
    if begin % max(1, of.alignment):
        asked = f"_create_view(relative_byte_offset={begin})"
        raise UsageError(f"elements of {of} do not begin there", asked=asked, legal=f"a multiple of {of.alignment}")
    memory = a.view().reshape(-1).view(np.uint8)[begin : begin + length]
    return NDArray(dims, str(dtype or a.dtype), a.device, memory.view(of).reshape(dims), None)


_copyfrom = NDArray.copyfrom


def copyfrom(self: NDArray, source: Any) -> NDArray:
    """As `NDArray.copyfrom`; for elements of bfloat16, numbers of uint16 are their bits, as in TVM."""
    is_bits = self.dtype == BFLOAT16 and isinstance(source, np.ndarray) and source.dtype == np.uint16
    return _copyfrom(self, source.view(numpy_dtype(BFLOAT16)) if is_bits else source)


attach(NDArray, _create_view=create_view, copyfrom=copyfrom)
