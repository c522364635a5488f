"""Arrays whose elements do not lie close together, as the memory that they span."""

from __future__ import annotations

from typing import Any

import numpy as np


def memory_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory that an array spans, from its first element to its last, as a contiguous array."""
    if array.flags.c_contiguous:
        return array
    steps = zip(array.shape, array.strides, strict=True)
    count = sum((n - 1) * (step // array.itemsize) for n, step in steps) + 1 if array.size else 0
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
