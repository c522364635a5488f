"""NumPy's element-wise functions as te expressions, with the types that NumPy gives them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched import te
from autosched.ir import expr as ir
from autosched.ir.attached import attach
from autosched.ir.expr import Expr
from autosched.ir.powers import repeated
from autosched.te.numpy_calls import NAMES
from autosched.te.tensor import Tensor
from autosched.topi.elementwise import sign_of
from autosched.tracing.functions import PRODUCTS
from autosched.tracing.traced import (
    NOT_TRACED,
    TO_ASSIGN,
    Operand,
    Traced,
    computed,
    element,
    element_type,
    lifted,
    refuse,
    released,
)

_MATH = te.MATH


def _is_bool(e: Expr) -> bool:
    return bool(e.dtype.is_bool)


def _sum(a: Expr, b: Expr) -> Expr:
    return ir.logical_or(a, b) if _is_bool(a) else a + b


def _product(a: Expr, b: Expr) -> Expr:
    return ir.logical_and(a, b) if _is_bool(a) else a * b


def _compare(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: ir.compare(name, a, b)


def _unequal(a: Expr, b: Expr) -> Expr:
    return ir.compare("ne", ir.cast("bool", a), ir.cast("bool", b))


def _extreme(name: str, of_truths: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    pick = getattr(te, name)
    return lambda a, b: of_truths(a, b) if _is_bool(a) else pick(a, b)


def _unless_nan(name: str) -> Callable[[Expr, Expr], Expr]:
    """`fmax` and `fmin`: of a number and NaN, the number."""
    pick = getattr(te, name)

    def f(a: Expr, b: Expr) -> Expr:
        if not a.dtype.is_float:
            return pick(a, b)
        return te.select(_MATH["isnan"](a), b, te.select(_MATH["isnan"](b), a, pick(a, b)))

    return f


def _sign(x: Expr) -> Expr:
    found = sign_of(x)
    return te.select(_MATH["isnan"](x), x, found) if x.dtype.is_float else found


def _power(a: Expr, b: Expr) -> Expr:
    if b.op == "const" and float(b.value).is_integer() and 0 <= b.value <= 64:
        return repeated(a, int(b.value))
    if a.dtype.is_float:
        if b.op == "const" and b.value == 0.5:
            return _MATH["sqrt"](a)
        if b.op == "const" and b.value == -1.0:
            return te.const(1.0, a.dtype) / a
        return _MATH["power"](a, b)
    refuse("an integer to a power that is not known", "integers have no such function", "x.astype(float) ** y")


def _bits(ints: Callable[[Expr, Expr], Expr], truths: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: truths(a, b) if _is_bool(a) else ints(a, b)


def _expm1(x: Expr) -> Expr:
    """exp(x) - 1 without cancellation: tanh(x/2) * (exp(x) + 1)."""
    small = _MATH["tanh"](x / 2) * (_MATH["exp"](x) + 1)
    return te.select(_MATH["abs"](x) < te.const(1, x.dtype), small, _MATH["exp"](x) - 1)


def _logaddexp(a: Expr, b: Expr) -> Expr:
    most, least = te.max(a, b), te.min(a, b)
    return te.select(ir.compare("eq", a, b), most + math.log(2), most + _MATH["log1p"](_MATH["exp"](least - most)))


def _heaviside(x: Expr, at_zero: Expr) -> Expr:
    zero, one = te.const(0, x.dtype), te.const(1, x.dtype)
    found = te.select(x < zero, zero, te.select(x > zero, one, at_zero))
    return te.select(_MATH["isnan"](x), x, found)


#: name -> f(converted operands); several results as a tuple
UFUNCS: dict[str, Callable[..., Any]] = {
    "add": _sum,
    "subtract": lambda a, b: a - b,
    "multiply": _product,
    "divide": lambda a, b: a / b,
    "floor_divide": te.floordiv,
    "remainder": te.floormod,
    "fmod": lambda a, b: _MATH["fmod"](a, b) if a.dtype.is_float else te.truncmod(a, b),
    "divmod": lambda a, b: (te.floordiv(a, b), te.floormod(a, b)),
    "power": _power,
    "float_power": _power,
    "negative": lambda a: -a,
    "positive": lambda a: a,
    "absolute": _MATH["abs"],
    "fabs": _MATH["abs"],
    "sign": _sign,
    "square": lambda a: a * a,
    "reciprocal": lambda a: te.const(1, a.dtype) / a,
    "conjugate": lambda a: a,
    "maximum": _extreme("max", ir.logical_or),
    "minimum": _extreme("min", ir.logical_and),
    "fmax": _unless_nan("max"),
    "fmin": _unless_nan("min"),
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "logical_and": lambda a, b: ir.logical_and(ir.cast("bool", a), ir.cast("bool", b)),
    "logical_or": lambda a, b: ir.logical_or(ir.cast("bool", a), ir.cast("bool", b)),
    "logical_xor": _unequal,
    "logical_not": lambda a: ir.logical_not(ir.cast("bool", a)),
    "bitwise_and": _bits(lambda a, b: a & b, ir.logical_and),
    "bitwise_or": _bits(lambda a, b: a | b, ir.logical_or),
    "bitwise_xor": _bits(lambda a, b: a ^ b, _unequal),
    "invert": lambda a: ir.logical_not(a) if _is_bool(a) else ~a,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
    "signbit": lambda a: _MATH["copysign"](te.const(1, a.dtype), a) < te.const(0, a.dtype),
    "expm1": _expm1,
    "cbrt": lambda a: _sign(a) * _MATH["power"](_MATH["abs"](a), te.const(1.0 / 3.0, a.dtype)),
    "logaddexp": _logaddexp,
    "heaviside": _heaviside,
    "deg2rad": lambda a: a * (math.pi / 180),
    "radians": lambda a: a * (math.pi / 180),
    "rad2deg": lambda a: a * (180 / math.pi),
    "degrees": lambda a: a * (180 / math.pi),
    **{name: _MATH[of] for name, of in NAMES.items()},
}
#: what `ufunc.reduce` and `ufunc.accumulate` are called as functions
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_RUNNING = {"add": "cumsum", "multiply": "cumprod"}


def apply(_: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """What NumPy asks of a traced operand: `ufunc(*inputs, **options)`, or one of its methods."""
    name, asked = ufunc.__name__, f"np.{ufunc.__name__}"
    out = options.pop("out", None)
    if method == "reduce" and name in _REDUCTIONS:
        axis = options.pop("axis", 0)
        options = {k: v for k, v in options.items() if v is not None}
        return getattr(np, _REDUCTIONS[name])(*inputs, axis=axis, **options)
    if method == "accumulate" and name in _RUNNING:
        return getattr(np, _RUNNING[name])(*inputs, axis=options.get("axis", 0))
    if method == "outer":
        a, b = (lifted(x, asked) for x in inputs)
        if isinstance(a, Traced) and isinstance(b, Traced):
            a = a.reshape(a.shape + (1,) * b.ndim)
        return ufunc(a, b)
    if method != "__call__":
        refuse(f"{asked}.{method}", "it cannot be traced", "reduce, accumulate of sums and products, outer")
    wanted = options.pop("dtype", None)
    where = options.pop("where", True)
    if where is not True:
        refuse(f"{asked}(where=..)", "what stands elsewhere would be arbitrary", "np.where(condition, f(x), other)")
    if left := set(options) - {"casting", "order", "subok"}:
        refuse(f"{asked}({', '.join(left)}=..)", "that option cannot be traced")
    if name in PRODUCTS:
        found = PRODUCTS[name](*inputs)
    elif name in UFUNCS:
        found = elementwise(ufunc, [lifted(x, asked) for x in inputs], wanted)
    else:
        refuse(asked, "it is not among the functions that can be traced", ", ".join(sorted(UFUNCS)))
    return released(found if out is None else _into(out, found, asked))


def elementwise(ufunc: Any, operands: Sequence[Operand], dtype: Any = None) -> Any:
    """A ufunc of operands that are stretched to one shape."""
    asked = f"np.{ufunc.__name__}"
    given = [
        float if isinstance(x, Traced) and x.weak else x.dtype if isinstance(x, Traced) else type(x) for x in operands
    ]
    wanted = {} if dtype is None else {"signature": (*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout)}
    try:
        kinds = [np.dtype(bool) if k is bool else k for k in given]
        types = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout), **wanted)
        shape = np.broadcast_shapes(*(x.shape for x in operands if isinstance(x, Traced)))
    except (TypeError, ValueError) as error:
        refuse(asked, " ".join(str(error).split()))
    names = [element_type(t) for t in types]
    for x, to in zip(operands, types[: ufunc.nin], strict=True):
        if isinstance(x, int) and not isinstance(x, bool) and to.kind in "iu":
            limits = np.iinfo(to)
            if not limits.min <= x <= limits.max:
                refuse(asked, f"{x} is out of the range of {to}", "an array of a wider type")
    f = UFUNCS[ufunc.__name__]

    def body(*index: Expr) -> Any:
        found = f(*(element(x, index, shape, of) for x, of in zip(operands, names, strict=False)))
        each = found if isinstance(found, tuple) else (found,)
        each = tuple(e.astype(of) for e, of in zip(each, names[ufunc.nin :], strict=True))
        return each if isinstance(found, tuple) else each[0]

    if ufunc.nout > 1:
        return tuple(
            computed(shape, lambda *i, k=k: body(*i)[k], ufunc.__name__)  # type: ignore[misc]
            for k in range(ufunc.nout)
        )
    made = computed(shape, body, ufunc.__name__)
    made.weak = all(not isinstance(x, Traced) or x.weak for x in operands) and made.dtype == np.float64
    return made


def _into(out: Any, found: Any, asked: str) -> Any:
    """Write results into `out=`, where that is a traced array."""
    several = isinstance(found, tuple)
    for into, x in zip(out, found if several else (found,), strict=True):
        if into is None:
            continue
        if not isinstance(into, Traced):
            refuse(f"{asked}(out=..)", NOT_TRACED, TO_ASSIGN)
        if x.shape != into.shape or not np.can_cast(x.dtype, into.dtype, "same_kind"):
            why = f"{x.dtype}{list(x.shape)} does not go into {into.dtype}{list(into.shape)}"
            refuse(f"{asked}(out=..)", why, "a result of the same shape and kind")
        into.assign(x.astype(into.dtype).__te_tensor__() if x.dtype != into.dtype else x.__te_tensor__(), asked)
    return tuple(out) if several else out[0]


attach(Traced, __array_ufunc__=apply)
attach(Tensor, __array_ufunc__=apply)
