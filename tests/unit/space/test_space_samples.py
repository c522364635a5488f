"""Arrays to tune on: what is drawn, and how much memory that takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from autosched import te
from autosched.space import samples


def _inputs(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = te.placeholder(shape, dtype, name="x")
    y = te.compute(shape, lambda *i: x[i], name="y")
    (found,) = samples.random_inputs([x, y], {}, 7, "copy")
    return found


@pytest.mark.parametrize("shape", [(), (0, 3), (7, 11), (1000,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64", "bool"])
def test_parts_make_the_array_that_one_draw_makes(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _inputs(shape, dtype)
    assert whole.shape == shape and whole.dtype == dtype
    monkeypatch.setattr(samples, "PART", 64)
    assert np.array_equal(_inputs(shape, dtype), whole)
    low, high = (0, 1) if dtype == "bool" else (0, 255) if dtype == "uint8" else (-4, 4)
    assert np.array_equal(np.random.default_rng(7).integers(low, high, shape, endpoint=True).astype(dtype), whole)


def test_drawing_takes_little_more_memory_than_the_array() -> None:
    tracemalloc.start()
    try:
        array = _inputs((4096, 4096), "uint8")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.3 * array.nbytes
