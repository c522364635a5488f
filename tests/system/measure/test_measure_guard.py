from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.verify import ALIGNMENT, OFFSET, GuardedArray

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (64,), (4096,), (4097,), (1000, 3), (2**20 + 1, 5)])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "int64"])
def test_an_ordinary_array(shape: tuple[int, ...], dtype: str) -> None:
    memory = GuardedArray(shape, np.dtype(dtype))
    array = memory.array
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.c_contiguous and array.flags.writeable
    assert array.size == 0 or array.ctypes.data % ALIGNMENT == OFFSET
    assert not array.any()
    array.fill(1)
    assert memory.intact()


def test_close_misses_are_seen() -> None:
    memory = GuardedArray((4,), np.dtype(np.float32))
    start, end = memory.array.ctypes.data, memory.array.ctypes.data + memory.array.nbytes
    for address in (start - 1, start - 500, end, end + 23):
        ctypes.memset(address, 7, 1)
        assert not memory.intact()
        memory.repair()
        assert memory.intact()


@pytest.mark.parametrize(
    ("act", "expression"),
    [
        ("ctypes.memset({}, 7, 1)", "end + 32"),
        ("ctypes.string_at({}, 1)", "end + 4096"),
        ("ctypes.memset({}, 7, 1)", "start // 4096 * 4096 - 1"),
    ],
)
def test_far_misses_crash(act: str, expression: str) -> None:
    script = f"""
import ctypes, numpy, resource
from autosched.measure.verify import GuardedArray
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
array = GuardedArray((4,), numpy.dtype("float32")).array
start, end = array.ctypes.data, array.ctypes.data + array.nbytes
{act.format(expression)}
"""
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == -11
