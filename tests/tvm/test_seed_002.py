"""The thread "how to control data layout of intermediate values", with the names of TVM 0.5."""

from __future__ import annotations

import numpy as np
import pytest
from shim_cells import Notebook, in_order

from autosched import tvm

RULE = "======================================"


@pytest.mark.parametrize("cell", ["transposed", "in_order"])
def test_the_answers(cell: str) -> None:
    """The layout is transposed; in the second answer, the loops are not."""
    book = Notebook("seed_002")
    plain, changed = book.run(cell).split(RULE)
    assert in_order(plain, "B = T.allocate([200]", "for i, j in T.grid(10, 20):", "B[i, j] = A[i, j]") or in_order(
        plain, "for i, j in T.grid(10, 20):", "[i, j] = A[i, j]"
    )
    assert in_order(changed, "(20, 10)" if "(20, 10)" in changed else "B_global", "A[i_c, j_c]")
    loops = "for j_c, i_c in T.grid(20, 10):" if cell == "transposed" else "for i_c, j_c in T.grid(10, 20):"
    assert loops in changed
    names = book.names
    a = np.random.default_rng(1).random((10, 20), dtype="float32")
    c = np.zeros_like(a)
    tvm.build(names["s"], [names["A"], names["C"]], "llvm")(a, c)
    assert np.array_equal(a, c)
