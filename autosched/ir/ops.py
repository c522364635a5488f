"""The table of operators. One that is added here needs a row in each backend's own table, see
`tests/unit/ir/test_ir_tables.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.ir.dtype import BFLOAT16, DType

#: operator -> the text that calls of it carry from now on, equal to its name: packages above give it members
SPELLED: dict[str, str] = {}

#: operators whose value is a buffer that they read, or hand to a function
ACCESSES = frozenset(("load", "address", "view"))
#: comparisons that ask which side is larger, and all of them
ORDERS = ("lt", "le", "gt", "ge")
COMPARISONS = (*ORDERS, "eq", "ne")
#: operators whose value is a truth, or truths in lanes
CONDITIONS = frozenset((*COMPARISONS, "and", "or", "not", "likely"))
#: choices between two values by a condition
CHOICES = ("select", "if_then_else")
#: Of `and` and `or`, which do not look at their right side where the left one decides, the operators on truths that
#: look at both.
BOTH_SIDES = {"and": "min", "or": "max"}


#: from |x| >= 2^first on, so many low bits of an integer may go for one that says whether they were zeros: what is left
#: is a float32, and rounds to bfloat16 as `x` does
BITS_BELOW_BFLOAT16 = ((24, 12), (36, 26), (50, 40))


def as_type(values: Any, to: DType) -> Any:
    """Numbers of NumPy's types in the type `to`, rounded once: `ml_dtypes` goes by way of float32 to bfloat16."""
    if to.scalar == BFLOAT16 and values.dtype.kind in "iuf" and values.dtype != np.float32:
        values = _near_odd(values) if values.dtype == np.float64 else _without_low_bits(values)
    return values.astype(to.numpy, copy=False)


def nearest(number: int | float, to: DType) -> float:
    """The number of a float type that is nearest to Python's. Raises OverflowError for an integer beyond all floats."""
    if to != BFLOAT16:
        return float(to.numpy.type(number))
    return float(as_type(np.asarray(number if -(2**63) <= number < 2**63 else float(number)), to))


def _near_odd(values: Any) -> Any:
    """float64 to float32, with an odd last bit where it is not exact: rounded again, it is as if rounded at once."""
    near = values.astype(np.float32)
    inexact, bits = near != values, near.view(np.uint32)
    return np.where(inexact, bits - (np.abs(near) > np.abs(values)) | 1, bits).astype(np.uint32).view(np.float32)


def _without_low_bits(values: Any) -> Any:
    for first, count in BITS_BELOW_BFLOAT16:
        if values.dtype.kind in "iu" and first < 8 * values.itemsize:
            low = values & values.dtype.type((1 << count) - 1)
            short = values - low | (low != 0).astype(values.dtype) << values.dtype.type(count)
            large = values >= 1 << first
            if values.dtype.kind == "i":
                large |= values <= -1 << first
            values = np.where(large, short, values)
    return values.astype(np.float32)


def evaluated(op: str, of: DType, args: Sequence[Any]) -> Any:
    """An operator on numbers of NumPy's types, rounded to the type `of`. Of bfloat16, it is computed in float32."""
    function = OPS[op].numpy
    assert function is not None, op
    if op != "nextafter":
        args = [a.astype(np.float32) if a.dtype.kind == "V" else a for a in args]
    return as_type(np.asarray(function(*args)), of)


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An operator, for whoever handles expressions.

    `kind`: leaf, arith, bits, compare, logic, choice, cast, math, memory, call, vector, reduce.
    `flops`: cost in units of one add. `numpy`: the ufunc (or function) that evaluates it on values, which
    wrap and round as their types do. `exact`: the function that evaluates it on Python's integers, which
    do neither, as index arithmetic is evaluated; conditions are 0 and 1.
    """

    kind: str
    arity: int
    flops: float = 0.0
    numpy: Callable[..., Any] | None = None
    exact: Callable[..., int] | None = None


def _exact_truncdiv(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _total(divide: Callable[..., Any], on_float: Callable[..., Any]) -> Callable[..., Any]:
    """A division that gives 0 for a divisor of 0, if it is one of integers."""

    def division(a: Any, b: Any) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        of = np.result_type(a, b)
        if of.kind == "f":
            return on_float(a, b)
        result = divide(a, np.where(b == 0, np.ones_like(b), b))
        return np.where(b == 0, np.zeros_like(result), result).astype(of)

    return division


def _np_truncdiv(a: Any, b: Any) -> Any:
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "i":
        quotient = quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))
    return quotient


def _on_whole_floats(op: str) -> Callable[..., Any]:
    """An integer division of numbers that are kept as floats; by zero it gives 0 as well."""
    rounding = np.trunc if op.startswith("trunc") else np.floor

    def division(a: Any, b: Any) -> Any:
        quotient = np.where(b == 0, 0.0, rounding(a / b))
        return quotient if op.endswith("div") else np.where(b == 0, 0.0, a - b * quotient)

    return division


#: how integer divisions are evaluated on numbers that are kept as floats
ON_WHOLE_FLOATS = {op: _on_whole_floats(op) for op in ("truncdiv", "truncmod", "floordiv", "floormod")}


_erf_of_each = np.vectorize(math.erf, otypes=[float])


def _np_sigmoid(x: Any) -> Any:
    x = np.asarray(x)
    x = x.astype(_float_of(x))
    small = np.exp(-np.abs(x))  # in (0, 1], so that nothing overflows
    return np.where(x < 0, small, np.ones_like(x)) / (1 + small)


def _float_of(x: Any) -> Any:
    return x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)


def _np_round_half_away(x: Any) -> Any:
    x = np.asarray(x)
    whole = np.trunc(x)  # what is left of `x` is exact, unlike a sum with one half
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0).astype(x.dtype), x)


def _np_pow(x: Any, y: Any) -> Any:
    """C's `pow`. For a single exponent NumPy has shortcuts with other zeros and infinities: 0.5 is a square root."""
    a, b = np.broadcast_arrays(x, y)
    return np.power(np.atleast_1d(a), np.atleast_1d(b).copy()).reshape(a.shape)


def _np_nextafter(x: Any, y: Any) -> Any:
    """Of equal operands the second, as in C: NumPy's halves give the first, which may be the other zero."""
    return np.where(np.equal(x, y), y, np.nextafter(x, y))


def _unsigned(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(x.dtype.str.replace("i", "u"))


def _np_popcount(x: Any) -> Any:
    return np.bitwise_count(_unsigned(x)).astype(np.asarray(x).dtype)


def _np_clz(x: Any) -> Any:
    """Zeros above the highest one: the width less the ones of `x` with all bits below that one set."""
    bits = _unsigned(x)
    width = bits.dtype.itemsize * 8
    for step in (1, 2, 4, 8, 16, 32):
        if step < width:
            bits = bits | bits >> bits.dtype.type(step)
    return (width - np.bitwise_count(bits).astype(int)).astype(np.asarray(x).dtype)


def _unary(fn: Callable[..., Any] | None, flops: float) -> OpInfo:
    return OpInfo("math", 1, flops, fn)


#: The closed table of operators. Each backend keeps a table of its own over the same keys.
OPS: dict[str, OpInfo] = {
    # leaves
    "const": OpInfo("leaf", 0),
    "var": OpInfo("leaf", 0),
    # arithmetic; `div` is float division, the integer divisions are named for how they round
    "add": OpInfo("arith", 2, 1, np.add, operator.add),
    "sub": OpInfo("arith", 2, 1, np.subtract, operator.sub),
    "mul": OpInfo("arith", 2, 1, np.multiply, operator.mul),
    "div": OpInfo("arith", 2, 4, np.divide),
    "truncdiv": OpInfo("arith", 2, 8, _total(_np_truncdiv, lambda a, b: np.trunc(a / b)), _exact_truncdiv),
    "truncmod": OpInfo("arith", 2, 8, _total(np.fmod, np.fmod), lambda a, b: a - b * _exact_truncdiv(a, b) if b else 0),
    "floordiv": OpInfo("arith", 2, 8, _total(np.floor_divide, np.floor_divide), lambda a, b: a // b if b else 0),
    "floormod": OpInfo("arith", 2, 8, _total(np.remainder, np.remainder), lambda a, b: a % b if b else 0),
    "min": OpInfo("arith", 2, 1, np.minimum, min),
    "max": OpInfo("arith", 2, 1, np.maximum, max),
    "neg": OpInfo("arith", 1, 1, np.negative, operator.neg),
    "abs": OpInfo("arith", 1, 1, np.abs),
    # bits
    "bitand": OpInfo("bits", 2, 1, np.bitwise_and),
    "bitor": OpInfo("bits", 2, 1, np.bitwise_or),
    "bitxor": OpInfo("bits", 2, 1, np.bitwise_xor),
    "bitnot": OpInfo("bits", 1, 1, np.invert),
    "shl": OpInfo("bits", 2, 1, np.left_shift),
    "shr": OpInfo("bits", 2, 1, np.right_shift),
    "popcount": OpInfo("bits", 1, 2, _np_popcount),  # of negative numbers: in two's complement
    "clz": OpInfo("bits", 1, 2, _np_clz),  # zeros above the highest one; of 0, all
    # comparisons and logic
    "eq": OpInfo("compare", 2, 1, np.equal, operator.eq),
    "ne": OpInfo("compare", 2, 1, np.not_equal, operator.ne),
    "lt": OpInfo("compare", 2, 1, np.less, operator.lt),
    "le": OpInfo("compare", 2, 1, np.less_equal, operator.le),
    "gt": OpInfo("compare", 2, 1, np.greater, operator.gt),
    "ge": OpInfo("compare", 2, 1, np.greater_equal, operator.ge),
    "and": OpInfo("logic", 2, 1, np.logical_and, operator.and_),
    "or": OpInfo("logic", 2, 1, np.logical_or, operator.or_),
    "not": OpInfo("logic", 1, 1, np.logical_not, operator.not_),
    #: a condition that holds nearly always: loops are partitioned on it
    "likely": OpInfo("logic", 1, 0, lambda x: x, lambda x: x),
    # choice: `select` evaluates both sides, `if_then_else` only the one it needs
    "select": OpInfo("choice", 3, 1, np.where),
    "if_then_else": OpInfo("choice", 3, 1, np.where),
    "cast": OpInfo("cast", 1, 1),
    "reinterpret": OpInfo("cast", 1, 0),  # the same bits as a number of another type
    # math
    "exp": _unary(np.exp, 10),
    "exp2": _unary(np.exp2, 8),
    "exp10": _unary(lambda x: _np_pow(np.asarray(10, np.asarray(x).dtype), x), 10),
    "log": _unary(np.log, 10),
    "log2": _unary(np.log2, 10),
    "log10": _unary(np.log10, 10),
    "log1p": _unary(np.log1p, 10),
    "sin": _unary(np.sin, 10),
    "cos": _unary(np.cos, 10),
    "tan": _unary(np.tan, 12),
    "asin": _unary(np.arcsin, 12),
    "acos": _unary(np.arccos, 12),
    "atan": _unary(np.arctan, 12),
    "sinh": _unary(np.sinh, 14),
    "cosh": _unary(np.cosh, 14),
    "tanh": _unary(np.tanh, 14),
    "asinh": _unary(np.arcsinh, 14),
    "acosh": _unary(np.arccosh, 14),
    "atanh": _unary(np.arctanh, 14),
    "erf": _unary(lambda x: _erf_of_each(x).astype(_float_of(np.asarray(x))), 14),
    "sigmoid": _unary(_np_sigmoid, 12),
    "sqrt": _unary(np.sqrt, 4),
    "rsqrt": _unary(lambda x: np.asarray(1, np.asarray(x).dtype) / np.sqrt(x), 6),
    "floor": _unary(np.floor, 1),
    "ceil": _unary(np.ceil, 1),
    "trunc": _unary(np.trunc, 1),
    "round": _unary(_np_round_half_away, 2),  # halves away from zero, C's round
    "nearbyint": _unary(np.rint, 1),  # halves to even, NumPy's rint
    "isnan": _unary(np.isnan, 1),
    "isinf": _unary(np.isinf, 1),
    "isfinite": _unary(np.isfinite, 1),
    "pow": OpInfo("math", 2, 20, _np_pow),
    "fmod": OpInfo("math", 2, 10, np.fmod),
    "atan2": OpInfo("math", 2, 16, np.arctan2),
    "hypot": OpInfo("math", 2, 8, np.hypot),
    "copysign": OpInfo("math", 2, 1, np.copysign),
    "nextafter": OpInfo("math", 2, 4, _np_nextafter),
    "ldexp": OpInfo("math", 2, 4, np.ldexp),  # a * 2^b, where b is an int32
    # memory: `read` names a te tensor, `load` a lowered buffer; args are the indices
    "read": OpInfo("memory", -1),
    "load": OpInfo("memory", -1),
    # how many elements after the index of its buffer the next cache line begins: known to the call only
    "to_line": OpInfo("memory", 1),
    # the address of an element, and a view of memory (offset, lengths, strides): arguments of calls
    "address": OpInfo("memory", -1),
    "view": OpInfo("memory", -1),
    # a function from outside, by name; value is the `ir.calls.Callee`
    "call": OpInfo("call", -1, 10),
    # vectors: ramp(base, stride) and broadcast(x); the lane count is the dtype's
    "ramp": OpInfo("vector", 2),
    "broadcast": OpInfo("vector", 1),
    # all lanes combined into a scalar by the operator that is the value: see `ir.expr.combine_lanes`
    "combine_lanes": OpInfo("vector", 1),
    # dot(c, a, b): to each lane of c, the neighbouring products of factors that are 32 bits: see `ir.expr.dot`
    "dot": OpInfo("vector", 3, 2),
    # a reduction over te reduce axes; value is the te Reduction
    "reduce": OpInfo("reduce", -1),
    # a te scatter_reduce: value, condition and the indices of its place; value is the te Reduction
    "scatter": OpInfo("reduce", -1),
}
