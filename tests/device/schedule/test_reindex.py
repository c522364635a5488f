"""`reindex`: copies in the order of reading hold what the definition reads."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native"), ("opencl", "interpreter")]


def convolution() -> list[Tensor]:
    """C[f, y, x] of A[c, y, x], every second column, with taps from 1 on; a channel index that only looks moved."""
    n = te.var("n")
    a, w = te.placeholder((3, n + 2, 9), name="A"), te.placeholder((4, 3, 3, 3), name="W")
    c, dy, dx = te.reduce_axis((0, 3), "c"), te.reduce_axis((1, 4), "dy"), te.reduce_axis((0, 3), "dx")
    taps = lambda f, y, x: a[f // 4 + c, y + dy - 1, 2 * x + dx] * w[f, c, dy - 1, dx]  # noqa: E731
    return [a, w, te.compute((4, n, 4), lambda f, y, x: te.sum(taps(f, y, x), axis=[c, dy, dx]), name="C")]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("at", [None, "y", "c"])
def test_windows_of_a_convolution(target: str, backend: str, at: str | None) -> None:
    args = convolution()
    s = create_schedule(args)
    windows = s.reindex("C", "A")
    assert [a.name for a in windows.op.axis] == ["y", "x", "c", "dy", "dx"]
    assert s.reindex("C", "W").shape[1:] == args[1].shape[1:]
    if at is not None:
        s[windows].compute_at(s["C"], at)
    assert_roundtrip(s, args, target)
    rng = np.random.default_rng(0)
    given = [rng.integers(-9, 9, shape).astype("float32") for shape in ((3, 11, 9), (4, 3, 3, 3))]  # sums are exact
    check_against_reference(args, s, target, given, backend)  # type: ignore[arg-type]
