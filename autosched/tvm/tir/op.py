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
from autosched.ir.expr import Expr, as_expr, logical_and, logical_not, logical_or
from autosched.te import *  # noqa: F403
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
    "logical_and",
    "logical_not",
    "logical_or",
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


_INSTEAD = {
    "vscale": "vectors have a fixed number of lanes: s[C].split(i, factor=16) and s[C].vectorize(inner)",
    "assume": "te.likely(condition) for a condition that nearly always holds; loops are partitioned on it",
    "undef": "a value of your own, such as te.const(0, dtype): no element is left uninitialized",
}
__getattr__ = missing("tir.op", globals(), _INSTEAD)
