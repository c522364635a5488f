"""`tvm.tir.op`: functions on expressions that TVM names and te does not."""

from __future__ import annotations

import operator
from typing import Any

from autosched import te as _te
from autosched.ir.bits import reinterpret as reinterpret
from autosched.ir.calls import address_of as address_of
from autosched.ir.calls import call_extern as call_extern
from autosched.ir.calls import call_intrin as _call_intrin
from autosched.ir.calls import call_llvm_intrin as call_llvm_intrin
from autosched.ir.calls import call_llvm_pure_intrin as call_llvm_pure_intrin
from autosched.ir.calls import call_packed as _call_packed
from autosched.ir.calls import call_pure_extern as call_pure_extern
from autosched.ir.expr import Expr, as_expr
from autosched.ir.expr import logical_and as logical_and
from autosched.ir.expr import logical_not as logical_not
from autosched.ir.expr import logical_or as logical_or
from autosched.ir.functions import get_global_func as _get_global_func
from autosched.ir.functions import register_func as _register_func
from autosched.te import *  # noqa: F403
from autosched.tvm._missing import missing
from autosched.tvm.te import add as add
from autosched.tvm.te import const as const
from autosched.tvm.te import indexdiv as indexdiv
from autosched.tvm.te import indexmod as indexmod
from autosched.tvm.te import multiply as multiply
from autosched.tvm.te import spelled
from autosched.tvm.te import subtract as subtract

#: functions of `te` that `call_intrin` may name
_FUNCTIONS = frozenset(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "sigmoid floor ceil trunc round nearbyint fabs popcount power pow fmod atan2 hypot copysign nextafter ldexp "
    "isnan isinf isfinite".split()
)


def call_intrin(dtype: Any, func_name: str, *args: Any, span: Any = None) -> Expr:
    """`autosched.ir.calls.call_intrin`, where functions of `te` go by their names, with `tir.` or, as before TVM 0.7,
    without."""
    name = func_name.removeprefix("tir.")
    if name == "reinterpret":
        return reinterpret(dtype, *args)
    function = getattr(_te, name, None) if name in _FUNCTIONS else None
    if function is not None:
        found: Expr = function(*args)
        if found.dtype == dtype:
            return found
    return _call_intrin(dtype, func_name, *args)


call_pure_intrin = call_intrin


def call_packed(func_name: str, *args: Any, dtype: Any = "int32") -> Expr:
    """`autosched.ir.calls.call_packed`; texts among the arguments reach the function, too.

    They are no values of a program: the call is one of `f('text', _)`, a function that has them already.
    """
    texts = [x if isinstance(x, str) else None for x in args]
    if texts.count(None) == len(texts):
        return _call_packed(func_name, *args, dtype=dtype)

    def with_texts(*others: Any) -> Any:
        rest = iter(others)
        return _get_global_func(func_name)(*(next(rest) if x is None else x for x in texts))

    called = f"{func_name}({', '.join('_' if x is None else repr(x) for x in texts)})"
    _register_func(called, with_texts, override=True)
    return _call_packed(called, *(x for x in args if not isinstance(x, str)), dtype=dtype)


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
