"""`tvm.te`: tensor expressions and schedules, by TVM's names."""

from __future__ import annotations

from typing import Any

from autosched.ir.expr import as_expr, floordiv, floormod
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Stage
from autosched.te import *  # noqa: F403
from autosched.te.tensor import TensorSlice
from autosched.tir import create_prim_func, extern_primfunc
from autosched.tvm._missing import missing

indexdiv = floordiv
indexmod = floormod


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
    "create_prim_func",
    "create_schedule",
    "extern_primfunc",
    "indexdiv",
    "indexmod",
    "multiply",
    "schedule",
    "subtract",
    "tensor",
]

_INSTEAD = {
    "hybrid": "te.extern with a body made by tir.ir_builder: loops, conditions and stores, written out",
}
__getattr__ = missing("te", globals(), _INSTEAD)
