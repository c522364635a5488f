"""Arrays whose elements do not lie close together, as the memory that they span."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.errors import ArgumentError, clipped


def memory_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory that an array spans, from its first element to its last, as a contiguous array."""
    if array.flags.c_contiguous:
        return array
    steps = zip(array.shape, array.strides, strict=True)
    count = sum((n - 1) * (step // array.itemsize) for n, step in steps) + 1 if array.size else 0
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


def allocate(shape: tuple[int, ...], of: np.dtype[Any], strides: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
    """A new array. Strides are in bytes; without any, it is contiguous. Raises ArgumentError where NumPy has no such
    arrays, and MemoryError."""
    room = (
        1 + sum((n - 1) * step // of.itemsize for n, step in zip(shape, strides, strict=False)) if 0 not in shape else 0
    )
    try:
        if not strides:
            return np.empty(shape, of)
        return np.lib.stride_tricks.as_strided(np.empty(room, of), shape, strides)
    except ValueError as error:
        asked = clipped(f"an array of shape {shape}", 100)
        legal = "64 dimensions at most, and less than 2**63 bytes, counted without dimensions of 0"
        raise ArgumentError(f"NumPy cannot hold it: {error}", asked=asked, legal=legal) from None
