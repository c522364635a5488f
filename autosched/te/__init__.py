"""The tensor-expression language: *what* to compute.

    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="B")

A lambda that returns a tuple makes several tensors at once. `te.comm_reducer` makes reductions of one's own, of tuples
too, `te.scan` recurrences, `te.scatter_reduce` histograms. `te.reference` evaluates any such program with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.ir.bits import clz, dp4a, infinity, q_multiply_shift, reinterpret
from autosched.ir.buffers import decl_buffer
from autosched.ir.expr import (
    Expr,
    ceildiv,
    floordiv,
    floormod,
    if_then_else,
    likely,
    max_value,
    min_value,
    select,
    truncdiv,
    truncmod,
)
from autosched.ir.expr import divide as div
from autosched.te.boundary import constant_exterior, mirror_image, mirror_interior, repeat_edge, repeat_image
from autosched.te.extern import ExternOp, extern, trace
from autosched.te.functions import AXIS_SEPARATOR, MATH, const, reduce_axis, size_var, thread_axis, var
from autosched.te.gradient import gradient
from autosched.te.graph_json import graph_from_json, graph_to_json, workload_key
from autosched.te.numpy_calls import NAMES as _NAMES  # noqa: F401 - gives expressions NumPy's protocols
from autosched.te.reducers import all, any, argmax, argmin, comm_reducer, max, min, prod, scatter_reduce, sum
from autosched.te.reduction import Combiner, Reduction
from autosched.te.reference import reference
from autosched.te.scan import ScanOp, scan
from autosched.te.tensor import (
    ComputeOp,
    Graph,
    IterVar,
    Operation,
    PlaceholderOp,
    Tensor,
    compute,
    placeholder,
    tag_scope,
)
from autosched.te.tensor_intrin import TensorIntrin, decl_tensor_intrin

globals().update(MATH)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Expr]: ...


# fmt: off
__all__ = [
    "AXIS_SEPARATOR", "Combiner", "ComputeOp", "ExternOp", "Graph", "IterVar", "Operation", "PlaceholderOp",
    "Reduction", "ScanOp", "Tensor", "TensorIntrin", "all", "any", "argmax", "argmin", "ceildiv", "clz",
    "comm_reducer", "compute", "const", "constant_exterior", "decl_buffer", "decl_tensor_intrin", "div", "dp4a",
    "extern", "floordiv", "floormod", "gradient", "graph_from_json", "graph_to_json", "if_then_else", "infinity",
    "likely", "max", "max_value", "min", "min_value", "mirror_image", "mirror_interior", "placeholder", "prod",
    "q_multiply_shift", "reduce_axis", "reference", "reinterpret", "repeat_edge", "repeat_image", "scan",
    "scatter_reduce", "select", "size_var", "sum", "tag_scope", "thread_axis", "trace", "truncdiv", "truncmod",
    "var", "workload_key", *MATH,
]
