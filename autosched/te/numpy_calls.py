"""NumPy's functions of single expressions: `np.sqrt(A[i])` in a compute is `te.sqrt(A[i])`.

NumPy asks its operands what a function of them is (`__array_ufunc__`, `__array_function__`). Operators mean what they
mean between expressions, types included; what te has no function for, and arrays with more than one element, are
refused with what te offers in their place. Whole tensors have NumPy's functions inside `autosched.jit` alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from autosched.errors import UsageError, UsageTypeError, asked_at, with_line
from autosched.ir import expr as ir
from autosched.ir.attached import attach
from autosched.ir.dtype import DType
from autosched.ir.expr import Arithmetic, Expr, as_expr
from autosched.te.functions import MATH
from autosched.te.tensor import Tensor

#: NumPy's name -> te's, of functions whose operands and result have one type in both
NAMES: dict[str, str] = {
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arctan2": "atan2",
    "rint": "nearbyint",
    **{
        name: name
        for name in (
            "exp exp2 log log2 log10 log1p sin cos tan sinh cosh tanh sqrt floor ceil trunc isnan isinf isfinite "
            "copysign hypot ldexp nextafter"
        ).split()
    },
}


def _truths(build: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda *operands: build(*(ir.cast("bool", e) for e in operands))


#: NumPy's name -> the operator
_OF_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow, "negative": operator.neg,
    "absolute": operator.abs, "fabs": operator.abs, "invert": operator.invert, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "left_shift": operator.lshift,
    "right_shift": operator.rshift, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}  # fmt: skip
#: NumPy's name -> what it is of expressions
_UFUNCS: dict[str, Callable[..., Any]] = {
    **_OF_OPERATORS,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "maximum": ir.BUILD["max"],
    "minimum": ir.BUILD["min"],
    "square": lambda a: a * a,
    "fmod": MATH["fmod"],
    "logical_and": _truths(ir.logical_and),
    "logical_or": _truths(ir.logical_or),
    "logical_not": _truths(ir.logical_not),
    **{name: MATH[of] for name, of in NAMES.items()},
}


def _clip(x: Any, low: Any = None, high: Any = None) -> Expr:
    found = as_expr(x)
    found = found if low is None else ir.BUILD["max"](found, low)
    return found if high is None else ir.BUILD["min"](found, high)


_FUNCTIONS: dict[str, Callable[..., Expr]] = {"where": ir.select, "clip": _clip}
#: te's word for what cannot be NumPy's here
_INSTEAD = {
    **dict.fromkeys(("sum", "prod", "max", "min", "argmax", "argmin", "all", "any"), "te.{} over a te.reduce_axis"),
    **dict.fromkeys(("mean", "average"), "te.sum over a te.reduce_axis, and a division in a compute of its own"),
    "round": "te.round or te.nearbyint",
}


def _refuse(asked: str, why: str, legal: str) -> NoReturn:
    raise UsageTypeError(why, asked=with_line(asked, asked_at(("autosched", "numpy"))), legal=legal) from None


def _unknown(name: str) -> NoReturn:
    legal = _INSTEAD.get(name, f"te.{', te.'.join(sorted(MATH))}")
    _refuse(f"np.{name}", "it is no function of one element in te", legal.format(name))


def _operand(x: Any, asked: str) -> Any:
    """An operand as an expression, or as a number, which takes its type from what is beside it."""
    if isinstance(x, np.ndarray):
        if x.ndim:
            why = f"an array of shape {x.shape} beside one element of a tensor"
            legal = "a te.placeholder for the array, read at an index, or one of its numbers"
            _refuse(asked, why, legal)
        x = x[()]
    return x if ir.is_number(x) else as_expr(x)


def _ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    name = ufunc.__name__
    if not isinstance(self, Tensor) and any(
        getattr(x, "goes_first", False) or hasattr(x, "__te_tensor__") for x in inputs
    ):
        return NotImplemented  # what stands for a whole tensor says what an expression and it are together
    if method != "__call__" or options:
        what = f"np.{name}.{method}" if method != "__call__" else f"np.{name}({', '.join(options)}=..)"
        legal = "te.sum, te.max and the like over a te.reduce_axis; .astype(..) of what {asked} gives"
        _refuse(what, "it is no function of one element in te", legal.format(asked=f"np.{name}"))
    if name not in _UFUNCS:
        _unknown(name)
    return _UFUNCS[name](*(_operand(x, f"np.{name}") for x in inputs))


def _function(_: Any, function: Any, types: object, args: Any, kwargs: Any) -> Any:
    name = function.__name__
    f = _FUNCTIONS.get(name)
    if f is None:
        _unknown(name)
    try:
        return f(*(x if x is None else _operand(x, f"np.{name}") for x in args), **kwargs)
    except UsageError:
        raise
    except TypeError as error:
        _refuse(f"np.{name}", f"{error}", "te.select(condition, a, b), te.max and te.min")


def _whole(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """Operators are the tensor's own, which `topi` gives it."""
    whole = next((x for x in inputs if isinstance(x, Tensor) and x.ndim), None)
    if whole is None:
        return _ufunc(self, ufunc, method, *inputs, **options)
    if ufunc.__name__ in _OF_OPERATORS and method == "__call__" and not options:
        return _UFUNCS[ufunc.__name__](
            *(x if isinstance(x, Tensor) else _operand(x, f"np.{ufunc.__name__}") for x in inputs)
        )
    axes = ", ".join("ijkl"[: whole.ndim]) if whole.ndim <= 4 else "..."
    legal = f"in te.compute, an element: {whole.name}[{axes}]; of whole tensors, autosched.topi or autosched.jit"
    _refuse(f"np.{ufunc.__name__}", f"{whole.name} is a whole tensor", legal)


def _mean_as(dtype: DType) -> Callable[[Any], Expr]:
    """What NumPy makes a mean with, of a list of expressions: of an array of objects it asks the sum for its type."""

    def made(x: Any) -> Expr:
        if not dtype.is_float:
            why = f"of {dtype} NumPy's is a float64, and a quotient of integers is one here"
            _refuse("the mean of a list of expressions", why, 'each .astype("float32") first')
        return ir.cast(dtype, as_expr(x))

    return made


attach(Expr, __array_ufunc__=_ufunc, __array_function__=_function, conjugate=lambda self: self)
attach(DType, type=property(_mean_as))
attach(Arithmetic, __array_ufunc__=_ufunc, __array_function__=_function)
attach(Tensor, __array_ufunc__=_whole)
