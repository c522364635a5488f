"""`tvm.relay.random`: states of the generator Threefry, for `tvm.topi.random`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.runtime.ndarray import NDArray, array
from autosched.tvm._missing import missing


@dataclass(frozen=True)
class Key:
    """A state, as an array in `data`."""

    data: NDArray


def threefry_key(seed: int) -> Key:
    """Return the first state of a seed below 2**256."""
    words = np.frombuffer(int(seed).to_bytes(32, "little"), "<u8").astype("uint64")
    return Key(array(np.concatenate((words, np.array([0, 0, 0, 0, 1 << 63, 0], "uint64")))))


__getattr__ = missing(
    "relay.random",
    globals(),
    dict.fromkeys("threefry_generate threefry_split uniform normal multinomial".split(), "tvm.topi.random, and te"),
)
