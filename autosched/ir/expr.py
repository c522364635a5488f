"""Building expressions: literals and variables, arithmetic, conditions, conversions, vectors.

Integer arithmetic wraps around like NumPy's; `/` on integers truncates toward zero (C's
division), `//` and `%` floor (Python's and NumPy's); dividing an integer by zero gives 0 (NumPy's
result, without its warning). Index arithmetic (see `is_index`) is exact: it is evaluated in 64 bits.

The class itself is in `ir.node`, and found here too.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.attached import attach
from autosched.ir.dtype import BOOL, INT32, INT64, DType, dtype, promote
from autosched.ir.node import INDEX_OPS, Operators, T, VarInfo, bottom_up, fresh, is_index, make, variables  # noqa: F401
from autosched.ir.node import Expr as Expr  # for programs in which a type checker asks for explicit exports
from autosched.ir.ops import OPS, ORDERS, SPELLED, as_type, evaluated, nearest

# -- leaves ---------------------------------------------------------------------------------------


def const(value: Any, of: object = None) -> Expr:
    """A literal. Without `of`: int32 (int64 when it does not fit), float32, bool."""
    if type(value) is int and (of is None or of is INT32) and -(2**31) <= value < 2**31:  # most of them
        return make("const", INT32, (), value)
    if isinstance(value, Expr):
        return cast(of, value) if of is not None else value
    if isinstance(value, np.generic):
        of, value = of or value.dtype, value.item()
    if of is None and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        of = "int32" if -(2**31) <= int(value) < 2**31 else "int64"
    to = dtype(("bool" if isinstance(value, bool) else "float32") if of is None else of)
    if not isinstance(value, numbers.Real):
        raise UsageError("not a number", asked=f"const({value!r})", legal="legal: int, float, bool")
    if to.lanes > 1:
        return broadcast(const(value, to.scalar), to.lanes)
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if to.is_float:
        try:
            with np.errstate(over="ignore"):
                return make("const", to, (), nearest(number, to))
        except OverflowError:
            raise UsageError("an integer too large for any float", asked=f"const(..., {to!r})") from None
    if to.is_bool:
        return make("const", to, (), bool(number))
    if isinstance(number, float) and not math.isfinite(number):
        raise UsageError(f"{value} has no {to} value", asked=f"const({value!r}, {to!r})")
    span = 1 << to.bits
    wrapped = int(number) % span
    if to.kind == "int" and wrapped >= span >> 1:
        wrapped -= span
    return make("const", to, (), wrapped)


def var(
    name: str,
    of: object = INT32,
    role: str = "scalar",
    lower: int | None = None,
    upper: int | None = None,
) -> Expr:
    """A fresh variable, distinct from every other, even of the same name."""
    info = VarInfo(name, role, fresh(), lower, upper)
    return make("var", dtype(of), (), info)


def as_expr(value: object, like: DType | None = None) -> Expr:
    """`value` as an Expr. A Python number takes the type `like` if that can hold its kind.

    An integer too large for int32 makes that int64; one that another type cannot hold is a
    UsageError, not another number.
    """
    if isinstance(value, Expr):
        return value
    if type(value) is int:
        return _integer_literal(value, like)
    as_scalar = getattr(value, "as_expr", None)  # loop handles and iteration variables
    if as_scalar is not None:
        return as_scalar()
    if isinstance(value, (bool, np.bool_)):
        return const(bool(value), "bool" if like is None else like)
    if isinstance(value, np.generic):
        return const(value)
    if isinstance(value, numbers.Integral):
        return _integer_literal(int(value), like)
    if isinstance(value, numbers.Real):
        return const(float(value), like if like is not None and like.is_float else None)
    legal = "legal: a number, a te variable, an axis, or an expression over tensor elements A[i, j]"
    raise UsageTypeError(f"{type(value).__name__} is not an expression", asked=repr(value), legal=legal)


def _integer_literal(value: int, like: DType | None) -> Expr:
    beside = None if like is None or like is INT32 or like.is_bool else like
    of = beside or INT64
    if of.is_integer and not of.min <= value <= of.max:
        raise UsageError(
            f"{value} is not a value of {of}",
            asked=f"{value} beside an operand of type {like}" if like else f"the number {value}",
            legal=f"an operand of a wider type, or a number from {of.min} to {of.max}",
        )
    return const(value, beside)


@dataclass(frozen=True)
class Promotion:
    """The rules by which two operands come to one type.

    `literal` gives the type of a Python number beside an operand of a scalar type, or None for the type
    that it has alone: int32 or float32. `common` gives the type for two scalar types that differ.
    """

    literal: Callable[[object, DType], DType | None]
    common: Callable[[DType, DType], DType]


#: NumPy's for numbers: they take the type of what they stand beside
_OWN = Promotion(lambda _, beside: beside, promote)
_promotion: ContextVar[Promotion] = ContextVar("promotion", default=_OWN)


@contextmanager
def promotion(rule: Promotion) -> Iterator[None]:
    """Let operators follow `rule` while this lasts, in this thread.

    Other spellings of the language run a user's function so: what was written in `te` keeps its own rule.
    """
    token = _promotion.set(rule)
    try:
        yield
    finally:
        _promotion.reset(token)


def current_promotion() -> Promotion:
    """The rule in force."""
    return _promotion.get()


def as_operand(value: object, beside: DType) -> Expr:
    """`value` as an operand beside another one of type `beside`, by the rule in force."""
    return as_expr(value, _promotion.get().literal(value, beside.scalar))


def convert_pair(a: object, b: object) -> tuple[Expr, Expr]:
    """Both operands in their common type and lane count."""
    if type(a) is Expr and type(b) is Expr and a.dtype is b.dtype:
        return a, b
    left = a if isinstance(a, Expr) or not is_number(a) else None
    right = b if isinstance(b, Expr) or not is_number(b) else None
    if left is None and right is not None:
        y = as_expr(b)
        x = as_operand(a, y.dtype)
    else:
        x = as_expr(a)
        y = as_expr(b) if right is not None else as_operand(b, x.dtype)
    if x.dtype is y.dtype:
        return x, y
    s, t = x.dtype.scalar, y.dtype.scalar
    to = s if s is t else _promotion.get().common(s, t)
    lanes = max(x.dtype.lanes, y.dtype.lanes)
    return _fit(x, to, lanes), _fit(y, to, lanes)


def is_number(value: object) -> bool:
    """Whether a value is a Python number, which takes the type of what it stands beside."""
    return type(value) in (int, float) or (isinstance(value, numbers.Real) and not isinstance(value, np.generic))


def _fit(x: Expr, to: DType, lanes: int) -> Expr:
    x = cast(to.with_lanes(x.dtype.lanes), x)
    return x if x.dtype.lanes == lanes else broadcast(x, lanes)


# -- builders, folding constants -----------------------------------------------------------------


def is_const(x: Expr, value: object = None) -> bool:
    return x.op == "const" and (value is None or x.value == value)


def fold(op: str, of: DType, args: tuple[Expr, ...]) -> Expr:
    """`make`, evaluated at once when every argument is a constant (with NumPy's arithmetic).

    An int32 result that would wrap around is left as it is: as an index it is exact, as a value
    it wraps when it becomes one.
    """
    for a in args:
        if a.op != "const":
            return make(op, of, args)
    ufunc, exact = OPS[op].numpy, OPS[op].exact
    if exact is not None and all(type(a.value) is int for a in args):  # a constant wraps when it is made
        number = exact(*(a.value for a in args))
        fits = of is not INT32 or -(2**31) <= number < 2**31
        return const(number, of) if fits else make(op, of, args)
    if ufunc is None:
        return make(op, of, args)
    with np.errstate(all="ignore"):
        result = evaluated(op, of, [a.dtype.numpy.type(a.value) for a in args])
        if of is INT32 and op in INDEX_OPS and ufunc(*(np.int64(a.value) for a in args)) != result:
            return make(op, of, args)
    return const(result[()], of)


def binary(op: str, a: object, b: object) -> Expr:
    """Arithmetic on two operands in their common type, with the identities of 0 and 1 applied."""
    x, y = convert_pair(a, b)
    if x.dtype.is_bool and op in ("add", "sub", "mul"):
        x, y = cast("int32", x), cast("int32", y)
    if not x.dtype.is_float:
        if op == "add":
            if is_const(x, 0):
                return y
            if is_const(y, 0):
                return x
        elif op == "sub":
            if is_const(y, 0):
                return x
            if x is y:
                return const(0, x.dtype)
        elif op == "mul":
            for one, other in ((x, y), (y, x)):
                if is_const(one, 1):
                    return other
                if is_const(one, 0):
                    return one
        elif op in ("min", "max") and x is y:
            return x
    return fold(op, x.dtype, (x, y))


def divide(a: object, b: object) -> Expr:
    """`/`: float division, or truncation toward zero when both operands are integers."""
    x, y = convert_pair(a, b)
    if x.dtype.is_float:
        return fold("div", x.dtype, (x, y))
    return truncdiv(x, y)


def _integer_division(op: str) -> Callable[[object, object], Expr]:
    def division(a: object, b: object) -> Expr:
        x, y = convert_pair(a, b)
        if op == "truncdiv":
            require_integer(op, x)
        if x.dtype.is_bool:
            x, y = cast("int32", x), cast("int32", y)
        if is_const(y, 1) and x.dtype.is_integer:
            return x if op.endswith("div") else const(0, x.dtype)
        return fold(op, x.dtype, (x, y))

    division.__name__ = op
    rounding = "toward zero" if op.startswith("trunc") else "down"
    division.__doc__ = f"The {'quotient' if op.endswith('div') else 'remainder'} of a division that rounds {rounding}."
    return division


truncdiv, truncmod = _integer_division("truncdiv"), _integer_division("truncmod")
floordiv, floormod = _integer_division("floordiv"), _integer_division("floormod")


def ceildiv(a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    return floordiv(x + (y - 1), y)


def minimum(a: object, b: object) -> Expr:
    return binary("min", a, b)


def maximum(a: object, b: object) -> Expr:
    return binary("max", a, b)


def neg(x: object) -> Expr:
    e = as_expr(x)
    if e.dtype.is_bool:
        e = cast("int32", e)
    return fold("neg", e.dtype, (e,))


def compare(op: str, a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    return fold(op, BOOL.with_lanes(x.dtype.lanes), (x, y))


def _truth(x: object) -> Expr:
    e = as_expr(x)
    return e if e.dtype.is_bool else compare("ne", e, const(0, e.dtype))


def logical_and(*conditions: object) -> Expr:
    result = const(True)
    for condition in map(_truth, conditions):
        if is_const(result, True):
            result = condition
        elif not is_const(condition, True) and result is not condition:
            lanes = max(result.dtype.lanes, condition.dtype.lanes)
            pair = (_fit(result, BOOL, lanes), _fit(condition, BOOL, lanes))
            if is_const(pair[0], False) or is_const(pair[1], False):
                return const(False, BOOL.with_lanes(lanes))
            result = make("and", BOOL.with_lanes(lanes), pair)
    return result


def logical_or(*conditions: object) -> Expr:
    return logical_not(logical_and(*(logical_not(c) for c in conditions))) if conditions else const(False)


NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def logical_not(x: object) -> Expr:
    """The negation of a condition."""
    e = _truth(x)
    if e.op in ("and", "or"):
        return _opposite(e)
    if e.op in ("const", "not"):
        return const(not e.value) if e.op == "const" else e.args[0]
    has_opposite = e.op in NEGATED and not e.args[0].dtype.is_float  # a NaN makes both sides false
    return make(NEGATED[e.op], e.dtype, e.args) if has_opposite else make("not", e.dtype, (e,))


@partial(bottom_up, below=lambda e: [a for a in e.args if a.op in ("and", "or")])
def _opposite(e: Expr, _: list[Expr]) -> Expr:
    sides = tuple(map(logical_not, e.args))
    return make("or", e.dtype, sides) if e.op == "and" else logical_and(*sides)


def likely(x: object) -> Expr:
    e = _truth(x)
    return e if e.op in ("const", "likely") else make("likely", e.dtype, (e,))


def _choice(op: str, condition: object, then: object, otherwise: object) -> Expr:
    c = _truth(condition)
    x, y = convert_pair(then, otherwise)
    if c.op == "const":
        return x if c.value else y
    if x is y:
        return x
    lanes = max(c.dtype.lanes, x.dtype.lanes)
    return make(op, x.dtype.with_lanes(lanes), (c, _fit(x, x.dtype.scalar, lanes), _fit(y, y.dtype.scalar, lanes)))


def select(condition: object, then: object, otherwise: object) -> Expr:
    """`then` where `condition` holds, else `otherwise`; both are evaluated."""
    return _choice("select", condition, then, otherwise)


def if_then_else(condition: object, then: object, otherwise: object) -> Expr:
    """`then` if `condition` holds, else `otherwise`; only that one is evaluated."""
    return _choice("if_then_else", condition, then, otherwise)


def cast(to: object, x: object) -> Expr:
    """`x` converted to the type `to`.

    Float to integer truncates toward zero and saturates (NaN becomes 0), on every backend;
    integer to integer wraps; anything to bool is `!= 0`.
    """
    target, e = dtype(to), as_expr(x)
    if target.lanes == 1 and e.dtype.lanes > 1:
        target = target.with_lanes(e.dtype.lanes)
    if target == e.dtype:
        return e
    if target.lanes > 1 and e.dtype.lanes == 1:
        return broadcast(cast(target.scalar, e), target.lanes)
    if e.op == "broadcast":
        return broadcast(cast(target.scalar, e.args[0]), target.lanes)
    if target.is_bool:
        return compare("ne", e, const(0, e.dtype))
    if e.op == "const":
        if e.dtype.is_float and not target.is_float:
            return const(saturate(e.value, target), target)
        with np.errstate(over="ignore"):  # by way of NumPy: through a Python float it would round twice
            return const(as_type(np.asarray(e.value, e.dtype.numpy), target)[()], target)
    return make("cast", target, (e,))


def saturate(value: float, to: DType) -> int:
    """The integer of type `to` nearest to `value` cut off toward zero; 0 for NaN."""
    if math.isnan(value):
        return 0
    low, high = int(to.min), int(to.max)
    return low if value <= low else high if value >= high else math.trunc(value)


def require_integer(spelling: str, e: Expr) -> Expr:
    if e.dtype.is_float:
        raise UsageError(f"{spelling} needs integers, not {e.dtype}", asked=repr(e), legal="cast first")
    return e


def integer_operand(spelling: str, e: Expr) -> Expr:
    if not e.dtype.is_integer:
        raise UsageError(f"{spelling} needs an integer, not {e.dtype}", asked=f"{spelling}({e!r})", legal="cast first")
    return e


def bitwise(op: str, on_bool: str, a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    if x.dtype.is_bool:
        if on_bool == "and":
            return logical_and(x, y)
        if on_bool == "or":
            return logical_or(x, y)
        if on_bool:
            return fold(on_bool, BOOL.with_lanes(x.dtype.lanes), (x, y))
        x, y = cast("int32", x), cast("int32", y)
    require_integer(op, x)
    return fold(op, x.dtype, (x, y))


RESULT_BOOL = frozenset(("isnan", "isinf", "isfinite"))


def call(op: str, *operands: object) -> Expr:
    """A math intrinsic by name, for example `call("exp", x)`. Integers become floats first, of 64 bits float64."""
    if op == "ldexp":
        return ldexp(*operands)
    info = OPS[op]
    args: tuple[Expr, ...] = convert_pair(*operands) if info.arity == 2 else (as_expr(operands[0]),)
    of = args[0].dtype
    if info.kind == "math" and not of.is_float:
        if op in ("floor", "ceil", "trunc", "round", "nearbyint"):
            return args[0]
        if op in RESULT_BOOL:
            return const(op == "isfinite")
        to = dtype("float64" if of.bits == 64 else "float32").with_lanes(of.lanes)
        args = tuple(cast(to, a) for a in args)
        of = to
    if op == "abs" and of.kind in ("uint", "bool"):
        return args[0]
    if op == "popcount":
        require_integer(op, args[0])
    return make(SPELLED.get(op, op), BOOL.with_lanes(of.lanes) if op in RESULT_BOOL else of, args)


def ldexp(x: object, n: object) -> Expr:
    """`x * 2**n` for an integer `n`, rounded once; an integer `x` becomes float32 (of 64 bits: float64)."""
    a, by = as_expr(x), integer_operand("ldexp", as_expr(n))
    if not a.dtype.is_float:
        a = cast("float64" if a.dtype.bits == 64 else "float32", a)
    if by.dtype.scalar != "int32":
        bound = 127 if by.dtype.bits == 8 else 5000  # more than the exponents of any type
        if by.dtype.bits > 8:
            by = minimum(by, const(bound, by.dtype))
            by = maximum(by, const(-bound, by.dtype)) if by.dtype.kind == "int" else by
        by = cast("int32", by)
    lanes = max(a.dtype.lanes, by.dtype.lanes)
    of = a.dtype.with_lanes(lanes)
    return fold("ldexp", of, (cast(of, a), cast(INT32.with_lanes(lanes), by)))


def ramp(base: object, stride: object, lanes: int) -> Expr:
    """The vector `base, base + stride, ..., base + (lanes - 1) * stride`."""
    b, s = convert_pair(base, stride)
    return b if lanes == 1 else make("ramp", b.dtype.with_lanes(lanes), (b, s))


def broadcast(x: object, lanes: int) -> Expr:
    e = as_expr(x)
    if lanes == 1 or e.dtype.lanes == lanes:
        return e
    return make("broadcast", e.dtype.with_lanes(lanes), (e,))


def combine_lanes(op: str, vector: Expr) -> Expr:
    """All lanes combined by `op` (add, mul, min, max, bitand, bitor, bitxor) as a tree, half on half:

    the first half of the lanes with the second, lane by lane, until one is left; of an odd number
    the last lane comes in at the end. The order is fixed, so that results do not depend on the CPU.
    """
    return vector if vector.dtype.lanes == 1 else make("combine_lanes", vector.dtype.scalar, (vector,), op)


def dot(total: Expr, a: Expr, b: Expr) -> Expr:
    """`total[i] + a[4*i]*b[4*i] + ... + a[4*i + 3]*b[4*i + 3]` in each lane i, which wraps.

    `total` is int32 of n lanes, and each of `a` and `b` int8 or uint8 of 4*n lanes, or of four that all lanes share. Or
    it is float32, and they are bfloat16 of 2*n or two: products are exact, the last one is added first, and processors
    may take numbers below 2^-126 for zeros."""
    return make("dot", total.dtype, (total, a, b))


def min_value(of: object) -> Expr:
    t = dtype(of)
    return const(t.min, t)


def max_value(of: object) -> Expr:
    t = dtype(of)
    return const(t.max, t)


#: operator -> the function that builds it, with its conversions and folding
BUILD: dict[str, Callable[..., Expr]] = {
    **{op: partial(binary, op) for op in ("add", "sub", "mul", "min", "max")},
    "truncdiv": truncdiv,
    "truncmod": truncmod,
    "floordiv": floordiv,
    "floormod": floormod,
    **{op: partial(compare, op) for op in NEGATED},
    "and": logical_and,
    "or": logical_or,
    "not": logical_not,
    "likely": likely,
    "select": select,
    "if_then_else": if_then_else,
    "neg": neg,
}


# -- Python's operators ---------------------------------------------------------------------------


def _invert(e: Expr) -> Expr:
    return logical_not(e) if e.dtype.is_bool else make("bitnot", e.dtype, (require_integer("~", e),))


#: method of two operands, which has a reflected one -> what it builds
_BINARY: dict[str, Callable[[object, object], Expr]] = {
    "add": BUILD["add"],
    "sub": BUILD["sub"],
    "mul": BUILD["mul"],
    "truediv": divide,
    "floordiv": floordiv,
    "mod": floormod,
    "and": partial(bitwise, "bitand", "and"),
    "or": partial(bitwise, "bitor", "or"),
    "xor": partial(bitwise, "bitxor", "ne"),
    "lshift": partial(bitwise, "shl", ""),
    "rshift": partial(bitwise, "shr", ""),
    "pow": partial(call, "pow"),
}
#: other methods
_OTHERS: dict[str, Callable[..., Expr]] = {
    **{op: BUILD[op] for op in ORDERS},
    "neg": neg,
    "abs": partial(call, "abs"),
    "invert": _invert,
}
#: the names of all of them, as Python's data model has them without underscores
OPERATORS = (*(f"{r}{name}" for name in _BINARY for r in ("", "r")), *_OTHERS)


def _method(build: Callable[..., Expr]) -> Callable[..., Any]:
    return lambda e, *by: (
        NotImplemented if by and type(by[0]) is not Expr and getattr(by[0], "goes_first", False) else build(e, *by)
    )


def _reflected(build: Callable[[object, object], Expr]) -> Callable[[Expr, object], Expr]:
    return lambda self, other: build(other, self)


def _comparison(op: str) -> Callable[[Expr, object], Any]:
    def compared(self: Expr, other: object) -> Any:
        try:
            return compare(op, self, other)
        except UsageError:
            return NotImplemented

    return compared


attach(Expr, **{f"__{name}__": _method(build) for name, build in (_BINARY | _OTHERS).items()})
attach(Expr, **{f"__r{name}__": _reflected(build) for name, build in _BINARY.items()})
attach(Expr, __eq__=_comparison("eq"), __ne__=_comparison("ne"), astype=lambda self, to: cast(to, self))


class Arithmetic(Operators[T]):
    """Takes part in expressions as what its `as_expr` says it is: axes, tensors, and parts of tensors."""

    __slots__ = ()

    def as_expr(self) -> Expr:
        """The expression that it stands for."""
        raise NotImplementedError

    def equal(self, other: object) -> T:
        """The condition that both are equal; `==` of two axes or tensors asks whether they are the same."""
        return getattr(self.as_expr(), "equal")(other)  # noqa: B009


def _stands_for(method: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self.as_expr(), method)(*args)


attach(Arithmetic, **{name: _stands_for(name) for name in ("astype", *(f"__{name}__" for name in OPERATORS))})
