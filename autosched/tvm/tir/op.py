"""`tvm.tir.op`: functions on expressions that TVM names and te does not."""

from __future__ import annotations

from typing import Any

from autosched.ir.calls import (
    address_of,
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
)
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, const, logical_and
from autosched.tvm._missing import missing

__all__ = [
    "address_of",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_pure_extern",
    "call_pure_intrin",
    "infinity",
    "logical_and",
    "shift_left",
    "shift_right",
]

call_pure_intrin = call_intrin


def shift_left(x: Any, y: Any) -> Expr:
    """`x << y`."""
    return as_expr(x) << y


def shift_right(x: Any, y: Any) -> Expr:
    """`x >> y`, keeping the sign."""
    return as_expr(x) >> y


def bitwise_and(x: Any, y: Any) -> Expr:
    """`x & y`."""
    return as_expr(x) & y


def bitwise_or(x: Any, y: Any) -> Expr:
    """`x | y`."""
    return as_expr(x) | y


def bitwise_xor(x: Any, y: Any) -> Expr:
    """`x ^ y`."""
    return as_expr(x) ^ y


def bitwise_not(x: Any) -> Expr:
    """`~x`."""
    return ~as_expr(x)


def infinity(dtype: Any) -> Expr:
    """The largest value of a floating-point type."""
    return const(float("inf"), to_dtype(dtype))


__getattr__ = missing("tir.op", globals())
