"""`tvm.te.tensor`: tensors and the operations that define them."""

from __future__ import annotations

from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice
from autosched.te.tensor_intrin import TensorIntrin
from autosched.tvm._missing import missing

__all__ = [
    "ComputeOp",
    "ExternOp",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Tensor",
    "TensorIntrin",
    "TensorSlice",
]

__getattr__ = missing("te.tensor", globals())
