"""Operators on the bits of numbers, and what fixed-point and 8-bit arithmetic makes of them.

clz(x)                          zeros above the highest one
reinterpret("int32", x)         the same bits as a number of another type
q_multiply_shift(x, y, 31, s)   a product of fixed-point numbers, rounded
dp4a(a, b, c)                   c + the sum of four products of 8-bit integers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, binary, cast, const, fold, integer_operand, is_const, make, maximum, select


def clz(x: object) -> Expr:
    """The number of zeros above the highest one, as an int32; all bits, for 0.

    >>> clz(const(1, "uint8"))
    7
    """
    e = integer_operand("clz", as_expr(x))
    return cast("int32", fold("clz", e.dtype, (e,)))


def reinterpret(dtype: object, value: object) -> Expr:
    """The bits of a number as a number of another type of the same width.

    >>> from autosched.ir.expr import var
    >>> reinterpret("int32", var("x", "float32"))
    reinterpret(int32, x)

    The payload of a NaN is not kept where halves are computed in float. Raises UsageError for types
    of different widths, and for bool.
    """
    to, e = to_dtype(dtype), as_expr(value)
    if to.lanes == 1:
        to = to.with_lanes(e.dtype.lanes)
    if to.is_bool or e.dtype.is_bool or (to.bits, to.lanes) != (e.dtype.bits, e.dtype.lanes):
        raise UsageError(
            f"{e.dtype} has {e.dtype.bits} bits, {to} has {to.bits}"
            if to.bits != e.dtype.bits
            else "a bool has one bit, whatever it takes in memory",
            asked=f"reinterpret({str(to)!r}, {e!r})",
            legal="a type of the same width; cast converts the number",
        )
    if to == e.dtype:
        return e
    if e.op == "reinterpret":
        return reinterpret(to, e.args[0])
    if e.op == "const":
        return const(e.dtype.numpy.type(e.value).view(to.numpy), to)
    return make("reinterpret", to, (e,))


def infinity(dtype: object) -> Expr:
    """The largest value of a floating-point type."""
    return const(float("inf"), dtype)


def q_multiply_shift(x: object, y: object, q: object, s: object) -> Expr:
    """`x * y * 2**(s - q)` rounded to the nearest, halves up: what quantized operators rescale with.

    `x` and `y` are int32 numbers with `q` bits after the point; a positive `s` shifts left before the
    product is taken, in 64 bits, and a negative one right after it.
    """
    a, b, point, shift = (integer_operand("q_multiply_shift", as_expr(e)) for e in (x, y, q, s))
    if a.dtype.scalar != "int32" or b.dtype.scalar != "int32":
        raise UsageError(f"it multiplies int32, not {a.dtype} and {b.dtype}", asked="q_multiply_shift", legal="cast")
    left = cast("int64", maximum(shift, const(0, shift.dtype)))
    right = cast("int64", point) + cast("int64", maximum(-shift, const(0, shift.dtype)))
    product = (cast("int64", a) if is_const(left, 0) else cast("int64", a) << left) * cast("int64", b)
    half = select(right > 0, const(1, "int64") << binary("sub", right, 1), const(0, "int64"))
    return cast("int32", (product + half) >> right)


def dp4a(vec1: Any, vec2: Any, acc: object = 0) -> Expr:
    """`acc` plus the sum of four products of 8-bit integers, in int32.

    An operand is a list of four int8 or uint8 numbers, or one int32 (of int8) or uint32 (of uint8)
    that has them in its bytes, lowest first, as the instruction of that name takes them.
    """
    total = cast("int32", as_expr(acc))
    for a, b in zip(_four_bytes(vec1), _four_bytes(vec2), strict=True):
        total = total + cast("int32", a) * cast("int32", b)
    return total


def _four_bytes(operand: Any) -> Sequence[Expr]:
    parts = [as_expr(e) for e in operand] if isinstance(operand, (list, tuple)) else []
    if len(parts) == 4 and all(e.dtype in ("int8", "uint8") for e in parts):
        return parts
    packed = None if isinstance(operand, (list, tuple)) else as_expr(operand)
    if packed is None or packed.dtype not in ("int32", "uint32"):
        legal = "a list of four int8 or uint8 numbers, or an int32 or uint32 with them in its bytes"
        raise UsageError("the operands are four 8-bit integers each", asked=f"dp4a({operand!r}, ...)", legal=legal)
    byte = "int8" if packed.dtype == "int32" else "uint8"
    return [cast(byte, packed >> 8 * at) for at in range(4)]
