"""`tvm.contrib.cblas`: products of matrices by the BLAS that NumPy calls, whichever that is."""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.contrib._blas import products

matmul, batch_matmul = products("cblas")

__getattr__ = missing("contrib.cblas", globals())
