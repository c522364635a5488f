"""Vectors that begin where an element says."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, create_schedule, te
from autosched.runtime.c_compiler import find_compiler

TARGETS = ["llvm", pytest.param("c", marks=pytest.mark.skipif(find_compiler() is None, reason="no C compiler"))]


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_at_indices_of_either_width_are_loaded_whole(index: str, target: str) -> None:
    """NumPy's and ONNX's indices have 64 bits, and an axis beside one is converted to them."""
    x, rows = te.placeholder((50, 64), name="x"), te.placeholder((9,), index, name="rows")
    found = te.compute((9, 64), lambda r, c: x[rows[r], c], name="found")
    s = create_schedule(found)
    s[found].vectorize(s[found].split("c", factor=16)[1])
    f = build(s, target, args=[x, rows, found])
    if target == "llvm":
        source = f.get_source()
        assert "load <16 x float>" in source and "load float" not in source
    data, at = np.arange(3200, dtype="float32").reshape(50, 64), np.arange(9, dtype=index) * 6 % 50
    np.testing.assert_array_equal(f(data, at), data[at])
