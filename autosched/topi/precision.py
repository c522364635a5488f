"""The types in which sums are accumulated: float16 in float32, all others in their own.

A float16 has 11 bits: past 2,048 a sum takes no more ones. Sums, means, products and norms of float16 are
therefore float32 until they are done, and are rounded once (as torch and oneDNN do).
"""

from __future__ import annotations

from autosched import te
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.te.tensor import Tensor

__all__ = ["accumulator", "narrowed"]


def accumulator(of: object) -> DType:
    """The type of sums whose result is of type `of`."""
    found = to_dtype(of)
    return to_dtype("float32") if found == "float16" else found


def narrowed(x: Tensor, of: object) -> Tensor:
    """`x` as a tensor of type `of`, where it is not one already: sums, rounded."""
    to = to_dtype(of)
    if x.dtype == to:
        return x
    return te.compute(x.shape, lambda *i: x(*i).astype(to), name=f"{x.op.name}_{to}", tag="elemwise")
