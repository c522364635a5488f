"""`tvm.topi.sparse`: products with the sparse matrices of `tvm.contrib.sparse`."""

from __future__ import annotations

from typing import Any

from autosched.errors import UsageError
from autosched.te.tensor import Tensor
from autosched.topi import sparse as _core
from autosched.topi.nn import bias_add
from autosched.tvm._missing import missing


def csrmm(a: Any, b: Tensor, c: Tensor | None = None) -> Tensor:
    """Multiply a sparse matrix and a matrix [k, n]; `c` is added to each row."""
    return _core.csrmm(a.data, a.indices, a.indptr, b, c)


def csrmv(a: Any, x: Tensor, y: Tensor | None = None) -> Tensor:
    """Multiply a sparse matrix and a vector [k, 1]; `y` is added to each row."""
    return _core.csrmv(a.data, a.indices, a.indptr, x, y)


def dense(data: Any, weight: Any, bias: Tensor | None = None) -> Tensor:
    """Compute a fully connected layer, of which the data [batch, in] or the weights [out, in] are sparse."""
    if hasattr(weight, "indptr") and isinstance(data, Tensor):
        return _core.dense(data, weight.data, weight.indices, weight.indptr, bias)
    if hasattr(data, "indptr") and isinstance(weight, Tensor):
        made = _core.dense_sparse_data(data.data, data.indices, data.indptr, weight)
        return made if bias is None else bias_add(made, bias)
    raise UsageError(f"{data!r} and {weight!r}", asked="topi.sparse.dense", legal="one tensor and one sparse matrix")


csrmm_default, csrmv_default = _core.csrmm, _core.csrmv
dense_sw, dense_si = _core.dense, _core.dense_sparse_data

__getattr__ = missing("topi.sparse", globals())
