"""`reverse_compute_at` and `reverse_compute_inline` of a stage whose indices are cast to another integer type."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.schedule import create_schedule
from autosched.testing.oracle import check_against_reference


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("inline", [True, False])
def test_indices_of_another_type(target: str, inline: bool) -> None:
    a = te.placeholder((8, 6), name="A")
    b = te.compute((8, 6), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 6), lambda i, j: b[i.astype("int64"), j.astype("int64")] * 2, name="C")
    s = create_schedule(c)
    s["B"].split("i", factor=4)
    if inline:
        s["C"].reverse_compute_inline()
    else:
        s["C"].reverse_compute_at(s["B"], "i.outer")
    assert [x.name for x in s["C"].loops] == ["i.outer", "i.inner", "j"]
    assert_roundtrip(s, [a, c], target)
    given = np.arange(48, dtype="float32").reshape(8, 6)
    check_against_reference([a, c], s, target, [given], "native")  # type: ignore[arg-type]
