"""`tvm.contrib.mkl`: products of matrices by the BLAS that NumPy calls, whichever that is."""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.contrib._blas import bytes_product, products

matmul, batch_matmul = products("mkl")
matmul_u8s8s32 = bytes_product("mkl")

__getattr__ = missing("contrib.mkl", globals())
