"""Arrays with more elements than an int32 counts."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, create_schedule, te

STEP = 700_000_000


@pytest.mark.parametrize("schedule", ["plain", "vector"])
def test_offsets_beyond_int32_on_the_cpu(schedule):
    """Five elements 700 million apart: 2.8 GB of address space, five pages of memory."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), "uint8", name="a")
    b = te.compute((m,), lambda i: a[i * STEP] + te.const(1, "uint8"), name="b")
    s = create_schedule(b)
    if schedule == "vector":
        _, lane = s[b].split("i", factor=2)
        s[b].vectorize(lane)
    big = np.zeros(4 * STEP + 1, dtype=np.uint8)
    big[0], big[3 * STEP], big[4 * STEP] = 7, 9, 11
    out = np.zeros(5, dtype=np.uint8)
    build(s, "llvm", args=[a, b])(big, out)
    assert out.tolist() == [8, 1, 1, 10, 12]
