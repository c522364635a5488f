"""`tvm.topi.sparse.utils`: sparse matrices to try programs on."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.tvm._missing import missing


def random_bsr_matrix(m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str) -> Any:
    """Return an [m, n] matrix of SciPy's `bsr_matrix` with random blocks [bs_r, bs_c], about `density` of all.

    Raises UsageError unless blocks divide the matrix.
    """
    from scipy.sparse import bsr_matrix  # which nothing else here needs

    if m % bs_r or n % bs_c:
        asked = f"random_bsr_matrix({m}, {n}, {bs_r}, {bs_c})"
        raise UsageError("blocks do not divide the matrix", asked=asked, legal="m % bs_r == 0 and n % bs_c == 0")
    rows, columns = m // bs_r, n // bs_c
    count = min(int(int(density * m * n) / (bs_r * bs_c)) + 1, rows * columns)
    dense = np.zeros((rows, bs_r, columns, bs_c), dtype)
    for at in np.random.choice(rows * columns, count, replace=False):
        dense[at // columns, :, at % columns, :] = np.random.randn(bs_r, bs_c)
    return bsr_matrix(dense.reshape(m, n), blocksize=(bs_r, bs_c))


_MODELS = "models of ONNX have dense weights: tvm.relay.frontend.from_onnx; topi.nn.sparse_dense is the operator"
_INSTEAD = {
    **dict.fromkeys(
        ("random_sparse_dense_params", "random_sparse_conv2d_params", "convert_model_dense_to_sparse"), _MODELS
    ),
    "sparse_sketch_rules": "auto_scheduler.PreloadCustomSketchRule, with a function of your own",
}
__getattr__ = missing("topi.sparse.utils", globals(), _INSTEAD)
