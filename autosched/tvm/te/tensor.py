"""`tvm.te.tensor`: tensors and the operations that define them."""

from __future__ import annotations

from autosched.te.extern import ExternOp as ExternOp
from autosched.te.scan import ScanOp as ScanOp
from autosched.te.tensor import ComputeOp as ComputeOp
from autosched.te.tensor import Operation as Operation
from autosched.te.tensor import PlaceholderOp as PlaceholderOp
from autosched.te.tensor import Tensor as Tensor
from autosched.te.tensor import TensorSlice as TensorSlice
from autosched.te.tensor_intrin import TensorIntrin as TensorIntrin
from autosched.tvm._missing import missing

__getattr__ = missing("te.tensor", globals())
