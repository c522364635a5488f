"""Operators on whole tensors, by TVM's names: NumPy's vocabulary, and layers in `topi.nn`.

    C = topi.sum(topi.nn.relu(A + B), axis=1)

Importing it lets `+`, `*`, `<` and the other operators take whole tensors, whose shapes go together
as NumPy's. Every operator returns `te` tensors and nothing else: a schedule is made of them as of any
others, and `topi.generic`, `topi.x86` and `topi.cuda` have schedules to begin with.
"""

from __future__ import annotations

from autosched.topi import cuda, generic, nn, x86
from autosched.topi.calls import check_calls
from autosched.topi.elementwise import (
    BINARY,
    UNARY,
    broadcast_to,
    cast,
    clip,
    elemwise_sum,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from autosched.topi.linalg import cumprod, cumsum, einsum, matmul, tensordot
from autosched.topi.reduction import all, any, argmax, argmin, collapse_sum, max, mean, min, prod, sum
from autosched.topi.transform import (
    arange,
    concatenate,
    expand_dims,
    flip,
    gather,
    gather_nd,
    layout_transform,
    meshgrid,
    one_hot,
    repeat,
    reshape,
    sequence_mask,
    split,
    squeeze,
    stack,
    strided_slice,
    take,
    tile,
    transpose,
    trilu,
    where,
)

globals().update(UNARY)
globals().update(BINARY)

__all__ = [
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "broadcast_to",
    "cast",
    "clip",
    "collapse_sum",
    "concatenate",
    "cuda",
    "cumprod",
    "cumsum",
    "einsum",
    "elemwise_sum",
    "expand_dims",
    "flip",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "generic",
    "layout_transform",
    "matmul",
    "max",
    "mean",
    "meshgrid",
    "min",
    "nn",
    "one_hot",
    "ones",
    "ones_like",
    "prod",
    "repeat",
    "reshape",
    "sequence_mask",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "sum",
    "take",
    "tensordot",
    "tile",
    "transpose",
    "trilu",
    "where",
    "x86",
    "zeros",
    "zeros_like",
    *BINARY,
    *UNARY,
]

check_calls(globals(), __all__)
