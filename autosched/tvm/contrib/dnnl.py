"""`tvm.contrib.dnnl`: products of matrices by the BLAS that NumPy calls, whichever that is."""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.contrib._blas import products

matmul, batch_matmul = products("dnnl")

__getattr__ = missing("contrib.dnnl", globals(), dict.fromkeys(("dnnl_conv2d",), "tvm.topi.nn.conv2d"))
