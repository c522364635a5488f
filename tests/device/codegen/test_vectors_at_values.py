"""Vectors that begin where an element says."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, create_schedule, te
from autosched.ir.dtype import SCALAR_DTYPES
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


@pytest.mark.parametrize("target", [*TARGETS, "opencl"])
def test_one_channel_and_then_all_of_them(target: str) -> None:
    """The one is taken from vectors that end where it ends, all from vectors side by side."""
    image = te.placeholder((64, 3), name="image")
    red = te.compute((64,), lambda i: image[i, 0] * 2.0, name="red")
    grey = te.compute((64,), lambda i: image[i, 0] + image[i, 1] * 2.0 + image[i, 2] * 4.0, name="grey")
    s = create_schedule([red, grey])
    for stage in (red, grey):
        s[stage].vectorize(s[stage].split("i", factor=16)[1])
    pixels = np.arange(192, dtype="float32").reshape(64, 3)
    got = build(s, target, args=[image, red, grey])(pixels)
    np.testing.assert_array_equal(got[0], pixels[:, 0] * 2)
    np.testing.assert_array_equal(got[1], pixels @ np.float32([1, 2, 4]))


@pytest.mark.parametrize("target", [*TARGETS, "opencl"])
@pytest.mark.parametrize("of", SCALAR_DTYPES)
@pytest.mark.parametrize("lanes", [8, 32])
def test_vectors_chosen_by_an_element(target: str, of: str, lanes: int) -> None:
    """All lanes take one side, by masks, and not with a jump on what nothing foretells."""
    n = 12
    x, y = te.placeholder((n, lanes), of, name="x"), te.placeholder((lanes,), of, name="y")
    taken = te.placeholder((n,), "int8", name="taken")
    c = te.compute((n, lanes), lambda i, j: te.select(taken[i] > 0, x[i, j], y[j]), name="c")
    s = create_schedule(c)
    s[c].vectorize("j")
    rng = np.random.default_rng(2)
    given = [rng.integers(0, 2, (n, lanes)).astype(of), rng.integers(0, 2, lanes).astype(of)]
    which = rng.integers(-1, 2, n).astype("int8")
    f = build(s, target, args=[x, y, taken, c])
    if target == "llvm":
        assert "llvm.vp.select" in f.get_source()
    np.testing.assert_array_equal(np.asarray(f(*given, which)), np.where(which[:, None] > 0, *given))
