"""`tvm.te`: tensor expressions and schedules, by TVM's names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from autosched import te as _te
from autosched import tir as _tir
from autosched.ir.expr import Expr, as_expr, floordiv, floormod
from autosched.ir.expr import const as wrapping_const
from autosched.schedule.schedule import Schedule as Schedule
from autosched.schedule.stage import Stage as Stage
from autosched.te import *  # noqa: F403
from autosched.te.tensor import TensorSlice as TensorSlice
from autosched.tir import extern_primfunc as extern_primfunc
from autosched.tir.module import PrimFunc
from autosched.tvm._missing import missing
from autosched.tvm.promotion import by_tvm_rules
from autosched.tvm.te import intrinsic_calls, lanes, open_axes
from autosched.tvm.te.intrinsic_calls import create_schedule as create_schedule


def _of_whole_lengths(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make` by TVM's rules, where the lengths of its first argument may be floats: `(N / 32, M)`."""
    ruled = by_tvm_rules(make)

    @wraps(make)
    def made(shape: Any, *args: Any, **kwargs: Any) -> Any:
        return ruled(whole_lengths(shape), *args, **kwargs)

    return made


def whole_lengths(shape: Any) -> Any:
    """A shape, or a list of shapes, with whole numbers as integers: `1024 / 32` is 32.0 in Python."""
    if isinstance(shape, (list, tuple)):
        return type(shape)(map(whole_lengths, shape))
    return int(shape) if isinstance(shape, float) and shape.is_integer() else shape


placeholder = _of_whole_lengths(_te.placeholder)
compute = _of_whole_lengths(open_axes.closing(intrinsic_calls.compute))
reduce_axis = open_axes.reduce_axis
extern = _of_whole_lengths(_te.extern)
scatter_reduce = by_tvm_rules(_te.scatter_reduce)
decl_tensor_intrin = by_tvm_rules(_te.decl_tensor_intrin)


@wraps(_tir.create_prim_func)
def create_prim_func(ops: Any, index_dtype_override: str | None = None, **kwargs: Any) -> PrimFunc:
    """`tir.create_prim_func`; indices are 64-bit, whatever `index_dtype_override` says."""
    args = tuple(ops) if isinstance(ops, (list, tuple)) else (ops,)
    numbers = [a for a in args if isinstance(a, Expr) and a.op == "var"]
    made = _tir.create_prim_func([a for a in args if a not in numbers], **kwargs)
    free = {t for op in _te.Graph.of(made.schedule.outputs).ops for t in _free_of_layout(op)}
    found = [at for at, a in enumerate(args) if a in free]
    attrs = {**made.attrs, **({"layout_free_buffers": found} if found else {})}
    return replace(made, args=args, attrs=attrs)


def _free_of_layout(op: Any) -> Any:
    """The tensors that an operation's attributes let tuners lay out anew."""
    return getattr(op, "attrs", {}).get("layout_free_placeholders", ())


indexdiv = floordiv
indexmod = floormod


def const(value: Any, dtype: Any = None, span: Any = None) -> Any:  # type: ignore[no-redef]
    """Return a literal. As in TVM, an integer that the type does not hold wraps."""
    return wrapping_const(value, dtype)


def spelled(symbol: str, f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Expr]:
    """Return an operator of Python's as a function that takes numbers, too."""

    def call(lhs: Any, rhs: Any) -> Expr:
        result: Expr = f(as_expr(lhs), rhs)
        return result

    call.__doc__ = f"Return `lhs {symbol} rhs`."
    return call


add = spelled("+", operator.add)
subtract = spelled("-", operator.sub)
multiply = spelled("*", operator.mul)

from autosched.tvm.te import hybrid, recorded, schedule, tensor  # noqa: E402

__getattr__ = missing("te", globals())
