"""The divisions of the language in LLVM: defined for every operand, cheap for constant divisors.

An integer divided by zero is 0, and so is the remainder; INT_MIN / -1 wraps. LLVM's own `sdiv` is
undefined there, so signed numbers are divided by their magnitudes, and a divisor of zero becomes 1.

Vectors with a divisor that is no constant are divided in floating point, which is exact for up to
32 bits: with a, b < 2^k the quotient is at least 1/b away from the integer above it, and rounding to
more than 2k bits moves it by less. It is faster than a division per lane, and it cannot trap.
LLVM 22 can, on AVX-512: it turns `x / select(c, 1, y)` into `select(c, x, x / y)`, and divides by the
zero that the select was there to avoid. 64-bit lanes are divided one by one.
"""

from __future__ import annotations

from autosched.codegen.llvm_text import Value, Writer, constant
from autosched.ir.dtype import BOOL, dtype

_FLOAT32, _FLOAT64, _INT32 = map(dtype, ("float32", "float64", "int32"))


def trunc_div(w: Writer, a: Value, b: Value, *, non_negative: bool = False) -> Value:
    """Quotient rounded toward zero. `non_negative` promises that neither operand is below 0."""
    if b.const == 0:
        return constant(0, a.dtype)
    if b.const is not None:
        return _constant_quotient(w, a, b, non_negative)
    if a.dtype.lanes > 1:
        return _vector_quotient(w, a, b, non_negative)
    w.divisions += 1
    if _unsigned(a, non_negative):
        quotient = w.binary("udiv", a, _at_least_one(w, b))
    else:
        size = w.binary("udiv", _magnitude(w, a), _at_least_one(w, _magnitude(w, b)))
        quotient = _with_sign(w, size, _sign(w, w.binary("xor", a, b)))
    return w.select(w.compare("eq", b, 0), constant(0, a.dtype), quotient)


def trunc_mod(w: Writer, a: Value, b: Value, *, non_negative: bool = False) -> Value:
    """Remainder with the sign of the dividend."""
    if b.const in (0, -1):
        return constant(0, a.dtype)
    if b.const is not None:
        return w.binary("urem" if _unsigned(a, non_negative) else "srem", a, b)
    if a.dtype.lanes > 1:
        remainder = w.binary("sub", a, w.binary("mul", _vector_quotient(w, a, b, non_negative), b))
        return w.select(w.compare("eq", b, 0), constant(0, a.dtype), remainder)
    w.divisions += 1
    if _unsigned(a, non_negative):  # x % 1 is the 0 that x % 0 shall be
        return w.binary("urem", a, _at_least_one(w, b))
    size = w.binary("urem", _magnitude(w, a), _at_least_one(w, _magnitude(w, b)))
    return _with_sign(w, size, _sign(w, a))


def floor_div(w: Writer, a: Value, b: Value, *, non_negative: bool = False) -> Value:
    """Quotient rounded down."""
    if a.dtype.is_float:
        return _float_floor_div(w, a, b)
    if b.const == 0 or _unsigned(a, non_negative):
        return trunc_div(w, a, b, non_negative=non_negative)
    if b.const is not None and b.const > 0:
        return _floor_div_by_positive(w, a, b)
    quotient = trunc_div(w, a, b)
    remainder = w.binary("sub", a, w.binary("mul", quotient, b))
    return w.select(_needs_step(w, remainder, b), w.binary("add", quotient, constant(-1, a.dtype)), quotient)


def floor_mod(w: Writer, a: Value, b: Value, *, non_negative: bool = False) -> Value:
    """Remainder with the sign of the divisor."""
    if a.dtype.is_float:
        return _float_floor_mod(w, a, b)
    if b.const is not None and b.const > 0 and not int(b.const) & (int(b.const) - 1):
        return w.binary("and", a, b.const - 1)
    remainder = trunc_mod(w, a, b, non_negative=non_negative)
    if b.const == 0 or _unsigned(a, non_negative):
        return remainder
    if b.const is not None and b.const > 0:  # add the divisor to a negative remainder, without a branch
        return w.binary("add", remainder, w.binary("and", _sign(w, remainder), b))
    return w.select(_needs_step(w, remainder, b), w.binary("add", remainder, b), remainder)


# -- integers -------------------------------------------------------------------------------------


def _unsigned(a: Value, non_negative: bool) -> bool:
    return non_negative or a.dtype.kind != "int"


def _at_least_one(w: Writer, b: Value) -> Value:
    return w.intrinsic("umax", b.dtype, [b, constant(1, b.dtype)])


def _magnitude(w: Writer, a: Value) -> Value:
    """|a| as an unsigned number, which holds that of the smallest number as well."""
    return w.intrinsic("abs", a.dtype, [a, constant(0, BOOL)])


def _sign(w: Writer, a: Value) -> Value:
    """All ones where `a` is negative, else 0."""
    return w.binary("ashr", a, a.dtype.bits - 1)


def _with_sign(w: Writer, size: Value, sign: Value) -> Value:
    return w.binary("sub", w.binary("xor", size, sign), sign)


def _constant_quotient(w: Writer, a: Value, b: Value, non_negative: bool) -> Value:
    if b.const == 1:
        return a
    if b.const == -1:
        return w.binary("sub", constant(0, a.dtype), a)
    return w.binary("udiv" if _unsigned(a, non_negative) else "sdiv", a, b)


def _floor_div_by_positive(w: Writer, a: Value, b: Value) -> Value:
    """An arithmetic shift, or floor(a / b) = ~(~a / b) for a < 0, where both quotients are unsigned."""
    divisor = int(b.const or 1)
    if not divisor & (divisor - 1):
        return w.binary("ashr", a, divisor.bit_length() - 1) if divisor > 1 else a
    sign = _sign(w, a)
    return w.binary("xor", w.binary("udiv", w.binary("xor", a, sign), b), sign)


def _vector_quotient(w: Writer, a: Value, b: Value, non_negative: bool) -> Value:
    of = a.dtype
    if of.bits == 64:
        lanes = [(w.extract(a, i), w.extract(b, i)) for i in range(of.lanes)]
        return w.concat([trunc_div(w, *pair, non_negative=non_negative) for pair in lanes], of)
    signed = not _unsigned(a, non_negative)
    wide = (_FLOAT32 if of.bits <= 16 else _FLOAT64).with_lanes(of.lanes)
    x, y = (w.convert("sitofp" if signed else "uitofp", v, wide) for v in (a, b))
    ratio = w.select(w.compare("eq", b, 0), constant(0.0, wide), w.binary("fdiv", x, y))
    if of.bits < 32:
        return w.convert("trunc", w.convert("fptosi", ratio, _INT32.with_lanes(of.lanes)), of)
    if not signed:
        return w.convert("fptoui", ratio, of)
    beyond = w.compare("oge", ratio, constant(2.0**31, wide))  # INT_MIN / -1
    return w.convert("fptosi", w.select(beyond, constant(-(2.0**31), wide), ratio), of)


def _needs_step(w: Writer, remainder: Value, b: Value) -> Value:
    """Whether truncation rounded up: a remainder whose sign is not the divisor's.

    A zero divisor leaves quotient 0 and remainder `a`; it must not step.
    """
    nonzero = w.compare("ne", remainder, 0)
    differ = w.compare("slt", w.binary("xor", remainder, b), 0)
    step = w.binary("and", nonzero, differ)
    return step if b.const is not None else w.binary("and", step, w.compare("ne", b, 0))


# -- floats: NumPy's npy_divmod -------------------------------------------------------------------


def _signed_remainder(w: Writer, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """NumPy's remainder for b != 0, whether it was moved by `b`, and the plain C remainder."""
    zero = constant(0.0, a.dtype)
    plain = w.binary("frem", a, b)
    nonzero = w.compare("une", plain, zero)
    below = w.binary("xor", w.compare("olt", b, zero), w.compare("olt", plain, zero))
    moved = w.binary("and", nonzero, below)
    signed_zero = w.intrinsic("copysign", a.dtype, [zero, b])
    fixed = w.select(moved, w.binary("fadd", plain, b), w.select(nonzero, plain, signed_zero))
    return fixed, moved, plain


def _float_floor_mod(w: Writer, a: Value, b: Value) -> Value:
    fixed, _, plain = _signed_remainder(w, a, b)
    return w.select(w.compare("oeq", b, 0.0), plain, fixed)


def _float_floor_div(w: Writer, a: Value, b: Value) -> Value:
    of = a.dtype
    _, moved, plain = _signed_remainder(w, a, b)
    quotient = w.binary("fdiv", w.binary("fsub", a, plain), b)
    quotient = w.select(moved, w.binary("fsub", quotient, 1.0), quotient)
    ratio = w.binary("fdiv", a, b)
    floor = w.intrinsic("floor", of, [quotient])
    excess = w.compare("ogt", w.binary("fsub", quotient, floor), 0.5)
    rounded = w.select(excess, w.binary("fadd", floor, 1.0), floor)
    signed_zero = w.intrinsic("copysign", of, [constant(0.0, of), ratio])
    result = w.select(w.compare("une", quotient, 0.0), rounded, signed_zero)
    return w.select(w.compare("oeq", b, 0.0), ratio, result)
