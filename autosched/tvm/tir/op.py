"""`tvm.tir.op`: functions on expressions that TVM names and te does not."""

from __future__ import annotations

import operator
from typing import Any

from autosched.ir.bits import reinterpret as reinterpret
from autosched.ir.calls import address_of as address_of
from autosched.ir.calls import call_extern as call_extern
from autosched.ir.calls import call_intrin as _call_intrin
from autosched.ir.calls import call_llvm_intrin as call_llvm_intrin
from autosched.ir.calls import call_llvm_pure_intrin as call_llvm_pure_intrin
from autosched.ir.calls import call_packed as call_packed
from autosched.ir.calls import call_pure_extern as call_pure_extern
from autosched.ir.expr import Expr, as_expr
from autosched.ir.expr import logical_and as logical_and
from autosched.ir.expr import logical_not as logical_not
from autosched.ir.expr import logical_or as logical_or
from autosched.te import *  # noqa: F403
from autosched.tvm._missing import missing
from autosched.tvm.te import add as add
from autosched.tvm.te import const as const
from autosched.tvm.te import indexdiv as indexdiv
from autosched.tvm.te import indexmod as indexmod
from autosched.tvm.te import multiply as multiply
from autosched.tvm.te import spelled
from autosched.tvm.te import subtract as subtract


def call_intrin(dtype: Any, func_name: str, *args: Any, span: Any = None) -> Expr:
    """`autosched.ir.calls.call_intrin`, which knows no name `tir.reinterpret`."""
    if func_name == "tir.reinterpret":
        return reinterpret(dtype, *args)
    return _call_intrin(dtype, func_name, *args)


call_pure_intrin = call_intrin

shift_left = spelled("<<", operator.lshift)
shift_right = spelled(">>", operator.rshift)
bitwise_and = spelled("&", operator.and_)
bitwise_or = spelled("|", operator.or_)
bitwise_xor = spelled("^", operator.xor)


def bitwise_not(x: Any) -> Expr:
    """Return `~x`."""
    return ~as_expr(x)


def vscale() -> Expr:
    """The number of a processor's vectors of 128 bits, which no target here knows: schedules take numbers of lanes."""
    return call_intrin("int32", "tir.vscale")


_INSTEAD = {
    "assume": "te.likely(condition) for a condition that nearly always holds; loops are partitioned on it",
    "undef": "a value of your own, such as te.const(0, dtype): no element is left uninitialized",
}
__getattr__ = missing("tir.op", globals(), _INSTEAD)
