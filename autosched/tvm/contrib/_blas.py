"""Products of matrices by the BLAS that NumPy calls: what `tvm.contrib.cblas`, `mkl` and `dnnl` have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir.calls import call_packed
from autosched.ir.functions import register_func
from autosched.te.tensor import Tensor


def _product(a: Any, b: Any, out: Any, transa: bool = False, transb: bool = False, *_: Any) -> None:
    left, right = (np.asarray(x).swapaxes(-1, -2) if t else np.asarray(x) for x, t in ((a, transa), (b, transb)))
    to = np.asarray(out)
    if left.dtype != to.dtype:
        left, right = left.astype(to.dtype), right.astype(to.dtype)
    np.matmul(left, right, out=to)


def _extern(name: str, of_batches: bool) -> Callable[..., Tensor]:
    """A function that makes a tensor of the registered product `name`."""
    rank = 3 if of_batches else 2

    def matmul(
        lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, iterative: bool = False, **kwargs: Any
    ) -> Tensor:
        if lhs.ndim != rank or rhs.ndim != rank:
            why, asked = f"they have {lhs.ndim} and {rhs.ndim} dimensions", f"{name}({lhs.name}, {rhs.name})"
            raise UsageError(why, asked=asked, legal=f"two tensors of {rank} dimensions")
        rows, columns = lhs.shape[-1 if transa else -2], rhs.shape[-2 if transb else -1]
        # one matrix may stand for as many as the other tensor has
        batch = [rhs.shape[0] if lhs.shape[0].op == "const" and lhs.shape[0].value == 1 else lhs.shape[0]]
        result: Tensor = te.extern(
            (*(batch if of_batches else ()), rows, columns),
            [lhs, rhs],
            lambda ins, outs: call_packed(name, ins[0], ins[1], outs[0], bool(transa), bool(transb)),
            name="C",
            **{"dtype": lhs.dtype, **kwargs},
        )
        return result

    matmul.__doc__ = f"A tensor of {'products of matrices' if of_batches else 'the product of two matrices'}, " + (
        "by the BLAS that NumPy calls: an operand may be transposed. Raises UsageError for another rank."
    )
    return matmul


def products(library: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """`matmul` and `batch_matmul` of a library of TVM's; Python functions of their names are registered."""
    names = [f"tvm.contrib.{library}.{f}" for f in ("matmul", "batch_matmul")]
    for name in (*names, f"{names[1]}_iterative"):
        register_func(name, _product, override=True)
    return _extern(names[0], False), _extern(names[1], True)


def bytes_product(library: str) -> Callable[..., Tensor]:
    """`matmul_u8s8s32`: unsigned by signed bytes, summed up as int32."""
    name = f"tvm.contrib.{library}.matmul_u8s8s32"
    register_func(name, _product, override=True)
    matmul = _extern(name, False)

    def matmul_u8s8s32(lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any) -> Tensor:
        """A tensor of the product of a matrix of uint8 and one of int8, by NumPy, which has no fast one."""
        return matmul(lhs, rhs, transa, transb, **{"dtype": "int32", **kwargs})

    return matmul_u8s8s32
