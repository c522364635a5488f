"""Scratch memory for the intermediate buffers of kernels that run on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["WORKSPACE", "Arena"]

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64


class Arena(threading.local):
    """Scratch memory of one Python thread, grown on demand and kept."""

    def __init__(self) -> None:
        self._memory: Array | None = None
        self._address = 0
        self._size = 0

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Around code that a running kernel calls: kernels in it must not use that kernel's memory."""
        kept = self._memory, self._address, self._size
        self._memory, self._address, self._size = None, 0, 0
        try:
            yield
        finally:
            self._memory, self._address, self._size = kept

    @contextmanager
    def lent(self, address: int, size: int) -> Iterator[None]:
        """Around calls that are to use somebody else's memory: `size` bytes, of which the address is aligned."""
        with self.set_aside():
            self._address, self._size = address, size
            yield

    def address(self, size: int, name: str) -> int:
        """The address of `size` bytes, aligned. Raises MemoryError."""
        if size > self._size:
            self._memory = None  # let the old one go first
            self._size = 0
            try:
                self._memory = np.empty(size + _ALIGNMENT, np.uint8)
            except (MemoryError, ValueError):
                raise MemoryError(
                    f"{name} needs a workspace of {size:,} bytes for its intermediate buffers, which cannot be had"
                ) from None
            self._address = -(-self._memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT
            self._size = size
        return self._address


WORKSPACE = Arena()
