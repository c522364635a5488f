"""`tvm.te`: tensor expressions and schedules, by TVM's names."""

from __future__ import annotations

from typing import Any

from autosched import te as _te
from autosched.ir.expr import as_expr, floordiv, floormod
from autosched.ir.expr import const as wrapping_const
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Stage
from autosched.te import *  # noqa: F403
from autosched.te.tensor import TensorSlice
from autosched.tir import create_prim_func, extern_primfunc
from autosched.tvm._missing import missing
from autosched.tvm.promotion import by_tvm_rules

placeholder = by_tvm_rules(_te.placeholder)
compute = by_tvm_rules(_te.compute)
extern = by_tvm_rules(_te.extern)
scatter_reduce = by_tvm_rules(_te.scatter_reduce)
decl_tensor_intrin = by_tvm_rules(_te.decl_tensor_intrin)

indexdiv = floordiv
indexmod = floormod


def const(value: Any, dtype: Any = None, span: Any = None) -> Any:  # type: ignore[no-redef]
    """A literal. As in TVM, an integer that the type does not hold wraps."""
    return wrapping_const(value, dtype)


def add(lhs: Any, rhs: Any) -> Any:
    """`lhs + rhs`."""
    return as_expr(lhs) + rhs


def subtract(lhs: Any, rhs: Any) -> Any:
    """`lhs - rhs`."""
    return as_expr(lhs) - rhs


def multiply(lhs: Any, rhs: Any) -> Any:
    """`lhs * rhs`."""
    return as_expr(lhs) * rhs


from autosched.tvm.te import schedule, tensor  # noqa: E402

__all__ = [
    "Schedule",
    "Stage",
    "TensorSlice",
    "add",
    "compute",
    "const",
    "create_prim_func",
    "create_schedule",
    "decl_tensor_intrin",
    "extern",
    "extern_primfunc",
    "indexdiv",
    "indexmod",
    "multiply",
    "placeholder",
    "scatter_reduce",
    "schedule",
    "subtract",
    "tensor",
]

_INSTEAD = {
    "hybrid": "te.extern with a body made by tir.ir_builder: loops, conditions and stores, written out",
}
__getattr__ = missing("te", globals(), _INSTEAD)
