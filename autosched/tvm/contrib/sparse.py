"""`tvm.contrib.sparse`: matrices stored as their rows' elements that are not 0 (CSR)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError, UsageTypeError
from autosched.runtime import ndarray as nd
from autosched.runtime.ndarray import NDArray
from autosched.tvm._missing import missing

itype, float32 = "int32", "float32"


class CSRNDArray:
    """A matrix: `data` and `indices` (columns) of its elements that are not 0, `indptr[r]` the first of row r.

    arg1: a dense matrix, or `(data, indices, indptr)` as arrays of a device, which need `shape`

    Raises UsageTypeError for anything else.
    """

    stype = "csr"

    def __init__(self, arg1: Any, device: Any = None, shape: Sequence[int] | None = None) -> None:
        if isinstance(arg1, np.ndarray) and arg1.ndim == 2:
            rows, columns = np.nonzero(arg1)
            counts = np.bincount(rows, minlength=arg1.shape[0])
            parts = arg1[rows, columns], columns.astype(itype), np.concatenate(([0], np.cumsum(counts))).astype(itype)
            self.data, self.indices, self.indptr = (nd.array(part, device) for part in parts)
            self.shape: tuple[int, ...] = arg1.shape
        elif isinstance(arg1, tuple) and len(arg1) == 3 and all(isinstance(x, NDArray) for x in arg1) and shape:
            self.data, self.indices, self.indptr = arg1
            self.shape = tuple(shape)
        else:
            legal = "a NumPy matrix, or arrays (data, indices, indptr) of tvm.nd and a shape"
            raise UsageTypeError(f"{type(arg1).__name__} is no matrix", asked="CSRNDArray", legal=legal)
        self.dtype = self.data.dtype

    def numpy(self) -> Any:
        """The dense matrix."""
        full = np.zeros(self.shape, self.dtype)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr.numpy()))
        full[rows, self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


def array(source_array: Any, device: Any = None, shape: Sequence[int] | None = None, stype: str = "csr") -> CSRNDArray:
    """A sparse matrix of a dense one, or of its three parts. Raises UsageError for another storage than `csr`."""
    _check(stype)
    return CSRNDArray(source_array, device, shape)


class CSRPlaceholderOp:
    """An input that is a sparse matrix: placeholders `data`, `indices`, `indptr`."""

    stype = "csr"

    def __init__(self, shape: Sequence[Any], nonzeros: Any, dtype: str, name: str) -> None:
        self.shape, self.dtype, self.name = tuple(shape), dtype, name
        self.data = te.placeholder((nonzeros,), dtype, f"{name}_data")
        self.indices = te.placeholder((nonzeros,), itype, f"{name}_indices")
        self.indptr = te.placeholder((self.shape[0] + 1,), itype, f"{name}_indptr")


def placeholder(
    shape: Sequence[Any],
    nonzeros: Any = None,
    dtype: str | None = None,
    name: str = "placeholder",
    stype: str | None = None,
) -> CSRPlaceholderOp:
    """An input that is a sparse matrix of so many rows and columns. Raises UsageError for another storage."""
    _check(stype or "csr")
    return CSRPlaceholderOp(shape, 0 if nonzeros is None else nonzeros, dtype or float32, name)


def _check(stype: str) -> None:
    if stype != "csr":
        raise UsageError(f"there is no storage {stype!r}", asked=f"stype={stype!r}", legal="csr")


__getattr__ = missing("contrib.sparse", globals())
