"""Elementwise functions of one tensor, and of two whose shapes go together as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError, UsageTypeError
from autosched.ir import expr as ir
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.te.tensor import Tensor, on_tensor_arithmetic
from autosched.topi.arguments import Dim, broadcast_shapes, same

#: tags of operations, as TVM's schedules know them
ELEMWISE, BROADCAST = "elemwise", "broadcast"


def elementwise(x: Tensor, f: Callable[[Expr], object], name: str) -> Tensor:
    """Return `f` of every element."""
    if not isinstance(x, Tensor):
        raise UsageTypeError(f"{x!r} is not a tensor", asked=f"topi.{name}", legal="a te tensor")
    return te.compute(x.shape, lambda *i: f(x(*i)), name=f"T_{name}", tag=ELEMWISE)


def _unary(name: str, f: Callable[[Expr], object]) -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        return elementwise(x, f, name)

    operator.__name__ = name
    operator.__doc__ = f"`{name}` of every element of `x`, of any shape; the result has that shape."
    return operator


def sign_of(x: Expr) -> Expr:
    """-1, 0 or 1; 0 of a NaN."""
    zero, one = te.const(0, x.dtype), te.const(1, x.dtype)
    below = te.const(-1, x.dtype) if x.dtype.kind != "uint" else zero
    return te.select(x > zero, one, te.select(x < zero, below, zero))


_MATH = (
    "exp exp2 exp10 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid "
    "sqrt rsqrt floor ceil trunc round nearbyint isnan isinf isfinite abs popcount"
).split()

#: name -> operator on one tensor
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: _unary(name, te.MATH[name]) for name in _MATH},
    **{f"fast_{name}": _unary(f"fast_{name}", te.MATH[name]) for name in ("exp", "tanh", "erf")},
    "identity": _unary("identity", lambda x: x),
    "negative": _unary("negative", lambda x: -x),
    "logical_not": _unary("logical_not", ir.logical_not),
    "bitwise_not": _unary("bitwise_not", lambda x: ~x),
    "sign": _unary("sign", sign_of),
}
identity, sign = UNARY["identity"], UNARY["sign"]


def cast(x: Tensor, dtype: object) -> Tensor:
    """Convert `x` to another element type."""
    return elementwise(x, lambda e: e.astype(dtype), "cast")


def reinterpret(x: Tensor, dtype: object) -> Tensor:
    """Take the bits of `x` for another element type of that width."""
    return elementwise(x, lambda e: te.reinterpret(dtype, e), "reinterpret")


def clip(x: Tensor, a_min: object, a_max: object) -> Tensor:
    """Limit `x` to the range between two numbers."""
    return elementwise(x, lambda e: te.max(te.min(e, te.const(a_max, e.dtype)), te.const(a_min, e.dtype)), "clip")


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """Add tensors of one shape."""
    if not xs:
        raise UsageError("there is nothing to add", asked="topi.elemwise_sum([])", legal="one tensor at least")
    return te.compute(xs[0].shape, lambda *i: sum((x(*i) for x in xs[1:]), xs[0](*i)), name="T_sum", tag=ELEMWISE)


def full(shape: Sequence[Dim], dtype: object, fill_value: object) -> Tensor:
    """Return a tensor of one value."""
    value = as_expr(fill_value, to_dtype(dtype))
    return te.compute(tuple(shape), lambda *i: ir.cast(dtype, value), name="T_full", tag=ELEMWISE)


def full_like(x: Tensor, fill_value: object) -> Tensor:
    return full(x.shape, x.dtype, fill_value)


def zeros(shape: Sequence[Dim], dtype: object = "float32") -> Tensor:
    return full(shape, dtype, 0)


def ones(shape: Sequence[Dim], dtype: object = "float32") -> Tensor:
    return full(shape, dtype, 1)


def zeros_like(x: Tensor) -> Tensor:
    return full(x.shape, x.dtype, 0)


def ones_like(x: Tensor) -> Tensor:
    return full(x.shape, x.dtype, 1)


# -- two operands -------------------------------------------------------------------------------------


def stretched(x: object, i: Sequence[Expr], shape: Sequence[Dim]) -> object:
    """Return the element of `x` at an index of the shape that it is stretched to; a number stays as it is."""
    if not isinstance(x, Tensor):
        return x
    last = i[len(i) - x.ndim :]
    wide = shape[len(i) - x.ndim :]
    return x(*(0 if is_const(d, 1) and not same(d, w) else k for k, d, w in zip(last, x.shape, wide, strict=True)))


def _binary(name: str, f: Callable[[Any, Any], object]) -> Callable[[Any, Any], Any]:
    def operator(lhs: Any, rhs: Any) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return f(as_expr(lhs), as_expr(rhs))
        left, right = (x.shape if isinstance(x, Tensor) else () for x in (lhs, rhs))
        shape = broadcast_shapes(left, right, f"topi.{name}")
        return te.compute(
            shape, lambda *i: f(stretched(lhs, i, shape), stretched(rhs, i, shape)), name=f"T_{name}", tag=BROADCAST
        )

    operator.__name__ = name
    operator.__doc__ = f"""`{name}`, element by element, of two tensors or of a tensor and a number.

    Shapes go together as NumPy's: dimensions are equal or one of them is 1. Raises UsageError
    otherwise.
    """
    return operator


def _divided(a: Any, b: Any) -> object:
    x, y = ir.convert_pair(a, b)
    return te.truncdiv(x, y) if x.dtype.is_integer else x / y


#: name -> operator on two operands
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: _binary(name, f)
    for name, f in {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": _divided,
        "floor_divide": te.floordiv,
        "mod": te.truncmod,
        "floor_mod": te.floormod,
        "maximum": te.max,
        "minimum": te.min,
        "power": te.MATH["power"],
        "left_shift": lambda a, b: a << b,
        "right_shift": lambda a, b: a >> b,
        "equal": lambda a, b: ir.compare("eq", a, b),
        "not_equal": lambda a, b: ir.compare("ne", a, b),
        "less": lambda a, b: ir.compare("lt", a, b),
        "less_equal": lambda a, b: ir.compare("le", a, b),
        "greater": lambda a, b: ir.compare("gt", a, b),
        "greater_equal": lambda a, b: ir.compare("ge", a, b),
        "logical_and": ir.logical_and,
        "logical_or": ir.logical_or,
        "logical_xor": lambda a, b: ir.compare("ne", ir.cast("bool", a), ir.cast("bool", b)),
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "atan2": te.MATH["atan2"],
        "hypot": te.MATH["hypot"],
        "fmod": te.MATH["fmod"],
    }.items()
}

#: Python's operators on tensors mean these, once topi is imported
_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "floor_mod", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift",
    "rshift": "right_shift", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "pow": "power",
}  # fmt: skip


def _on_tensors(operator: str, a: Any, b: Any = None) -> Any:
    if operator in ("neg", "abs", "invert"):
        return UNARY[{"neg": "negative", "abs": "abs", "invert": "bitwise_not"}[operator]](a)
    if operator == "astype":
        return cast(a, b)
    if operator.startswith("r") and operator[1:] in _OPERATORS:
        return BINARY[_OPERATORS[operator[1:]]](b, a)
    return BINARY[_OPERATORS[operator]](a, b)


on_tensor_arithmetic(_on_tensors)


def broadcast_to(x: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Stretch dimensions of 1 so that `x` gets `shape`."""
    wide = broadcast_shapes(x.shape, shape, "topi.broadcast_to")
    if len(wide) != len(shape) or not all(same(a, b) for a, b in zip(wide, shape)):
        raise UsageError(
            f"a tensor of shape {list(x.shape)} does not stretch to {list(shape)}",
            asked="topi.broadcast_to",
            legal="equal dimensions, or 1 in the tensor",
        )
    return te.compute(wide, lambda *i: stretched(x, i, wide), name="T_broadcast_to", tag=BROADCAST)
