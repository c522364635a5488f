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
    assert in_order(plain, 'B = T.allocate([10, 20], "float32", "global")', "for i, j in T.grid(10, 20):", "= A[i, j]")
    loops = "for j_c, i_c in T.grid(20, 10):" if cell == "transposed" else "for i_c, j_c in T.grid(10, 20):"
    assert in_order(
        changed,
        'B_global = T.allocate([20, 10], "float32", "global")',
        loops,
        "B_global_1[j_c, i_c] = A[i_c, j_c]",
        "for i, j in T.grid(10, 20):",
        "C[i, j] = B_global_1[j, i]",
    )
    names = book.names
    a = np.random.default_rng(1).random((10, 20), dtype="float32")
    c = np.zeros_like(a)
    tvm.build(names["s"], [names["A"], names["C"]], "llvm")(a, c)
    assert np.array_equal(a, c)


def test_the_question_s_binds() -> None:
    """TVM refused the layout that the question gives to an intermediate; here it is stored like that."""
    book = Notebook("seed_002")
    text = book.run("question")
    assert in_order(
        text, "for y, x in T.grid(rows, cols):", "x_blur = T.allocate([3, 1, chans]", "for y_1, c in T.grid(3, chans):"
    )
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (12, 20, 3)).astype("float32")
    out = np.zeros(image.shape, "uint8")
    book.names["fun"](image, out)
    wide = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge").astype("uint16")
    rows = (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) // 3
    assert np.array_equal(out, ((rows[:-2] + rows[1:-1] + rows[2:]) // 3).astype("uint8"))
