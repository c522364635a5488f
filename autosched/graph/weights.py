"""Weights as one block of bytes: what a function of a model takes, and what files hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.graph.memory import ALIGNMENT, padded
from autosched.ir.dtype import dtype

Array = np.ndarray[Any, Any]

#: the type and the shape of an array
Described = tuple[str, Sequence[int]]


def described(weights: Sequence[Array]) -> list[Described]:
    """The types and shapes of weights."""
    return [(w.dtype.name, w.shape) for w in weights]


def offsets(weights: Sequence[Described]) -> tuple[list[int], int]:
    """Where each weight begins in the block of all, and the bytes of the block."""
    found, end = [], 0
    for of, shape in weights:
        found.append(end)
        end += padded(math.prod(shape) * dtype(of).bytes)
    return found, end


def as_block(weights: Sequence[Array]) -> Array:
    """The weights as one array of bytes, as the function takes them. They are copied once."""
    begins, size = offsets(described(weights))
    block = _room(size)
    for at, w in zip(begins, weights, strict=True):
        block[at : at + w.nbytes].view(w.dtype)[:] = w.reshape(-1)
    return block


def apart(block: Array, weights: Sequence[Described]) -> list[Array]:
    """The weights that lie in one block. Raises ValueError for a block of another size."""
    begins, size = offsets(weights)
    if size != len(block):
        raise ValueError(f"{len(block)} bytes of weights, {size} were expected")
    found = []
    for at, (of, shape) in zip(begins, weights, strict=True):
        one = dtype(of)
        found.append(block[at : at + math.prod(shape) * one.bytes].view(one.numpy).reshape(shape))
    return found


def aligned(block: Array) -> Array:
    """The same bytes at an address that kernels take."""
    if block.ctypes.data % ALIGNMENT == 0:
        return block
    found = _room(len(block))
    found[:] = block
    return found


def _room(size: int) -> Array:
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
