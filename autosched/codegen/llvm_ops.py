"""Operators in LLVM: arithmetic, comparisons, conversions of types, and the bits of floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autosched.codegen.llvm_math import by_lanes, call, inlined
from autosched.codegen.llvm_text import Value, Writer, constant, typed
from autosched.ir.dtype import BFLOAT16, BOOL, DType, dtype


def next_after(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    """The number next to a in the direction of b; a NaN stays one.

    As integers, floats of one sign are in the order of their sizes, so the next one is one more or less.
    """
    a, b = args
    ints = dtype(f"int{of.bits}").with_lanes(of.lanes)
    zero = constant(0.0, of)
    outward = w.binary("xor", w.compare("ogt", b, a), w.compare("ogt", a, zero))
    step = w.select(outward, constant(-1, ints), constant(1, ints))
    moved = of_bits(w, w.binary("add", _as(bits_of(w, a), ints), step), of)
    sign = w.binary("and", _as(bits_of(w, b), ints), constant(-1 << (of.bits - 1), ints))
    smallest = of_bits(w, w.binary("or", sign, constant(1, ints)), of)
    result = w.select(w.compare("oeq", a, zero), smallest, moved)
    result = w.select(w.compare("oeq", a, b), b, result)
    return w.select(w.compare("uno", a, b), w.binary("fadd", a, b), result)


def scale_by_power(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    """x * 2^n, rounded once, for an int32 n: multiplications by powers of two that numbers have.

    Where n is too low for one, it is taken in steps that leave a whole mantissa above the denormal
    numbers, so that only the last product is rounded (as in musl's `scalbn`).
    """
    x, n = args
    info = np.finfo(of.scalar.numpy)
    top, bottom, mantissa = int(info.maxexp) - 1, int(info.minexp), int(info.nmant)
    down = bottom + mantissa + 1
    ints = n.dtype
    n = w.intrinsic("smax", ints, [n, constant(bottom + 2 * down, ints)])
    n = w.intrinsic("smin", ints, [n, constant(3 * top, ints)])
    for _ in range(2):
        high, low = w.compare("sgt", n, constant(top, ints)), w.compare("slt", n, constant(bottom, ints))
        factor = w.select(low, constant(2.0**down, of), constant(1.0, of))
        x = w.binary("fmul", x, w.select(high, constant(2.0**top, of), factor))
        taken = w.select(low, constant(down, ints), constant(0, ints))
        n = w.binary("sub", n, w.select(high, constant(top, ints), taken))
    exponent = w.binary("add", n, constant(top, ints))
    bits = dtype(f"int{of.bits}").with_lanes(of.lanes)
    if of.bits == 64:
        exponent = w.convert("sext", exponent, bits)
    power = w.convert("bitcast", w.binary("shl", exponent, constant(mantissa, bits)), of)
    return w.binary("fmul", x, power)


_FLOAT32, _FLOAT64, _INT32 = map(dtype, ("float32", "float64", "int32"))


def _as(a: Value, of: DType) -> Value:
    """The same register as a value of another type."""
    return Value(a.ref, of, a.const)


def bits_of(w: Writer, a: Value) -> Value:
    """The bits of a number as an integer, unsigned."""
    lanes = a.dtype.lanes
    if not a.dtype.is_float:
        return a
    if a.dtype.scalar != BFLOAT16:
        return w.convert("bitcast", a, dtype(f"uint{a.dtype.bits}").with_lanes(lanes))
    wide = w.convert("bitcast", a, dtype("uint32").with_lanes(lanes))
    return w.convert("trunc", w.binary("lshr", wide, 16), dtype("uint16").with_lanes(lanes))


def of_bits(w: Writer, bits: Value, of: DType) -> Value:
    """The number with these bits."""
    if of.scalar != BFLOAT16:
        return w.convert("bitcast", bits, of) if of.is_float else _as(bits, of)
    wide = w.convert("zext", bits, dtype("uint32").with_lanes(of.lanes))
    return w.convert("bitcast", w.binary("shl", wide, 16), of)


def extend(w: Writer, a: Value, to: DType) -> Value:
    """An integer or bool in another integer type: wraps when narrower."""
    if a.const is not None:
        return constant(int(a.const), to)
    if a.dtype.bits == to.bits:
        return Value(a.ref, to)
    if a.dtype.bits > to.bits:
        return Value(w.convert("trunc", a, to).ref, to)
    return w.convert("sext" if a.dtype.kind == "int" else "zext", a, to)


def convert(w: Writer, a: Value, to: DType) -> Value:
    """`a` in the type `to`, as `ir.expr.cast` defines it."""
    if BFLOAT16 in (a.dtype.scalar, to.scalar):
        single = _FLOAT32.with_lanes(to.lanes)
        if a.dtype.scalar != BFLOAT16:
            odd = a.dtype.scalar == "float64"
            return _round_to_bfloat(w, _round_to_odd(w, a) if odd else convert(w, a, single), to)
        a = _as(a, single)
        if to.scalar == BFLOAT16:
            return _as(a, to)
    source = a.dtype
    if source.is_float and to.is_float:
        if source.bits <= to.bits:
            return a if source.bits == to.bits else w.convert("fpext", a, to)
        return w.convert("fptrunc", _round_to_odd(w, a) if (source.bits, to.bits) == (64, 16) else a, to)
    if source.is_float:
        return w.compare("une", a, 0.0) if to.is_bool else _float_to_int(w, a, to)
    if to.is_float:
        return w.convert("sitofp" if source.kind == "int" else "uitofp", a, to)
    if to.is_bool:
        return w.compare("ne", a, 0)
    return extend(w, a, to)


def rounded(w: Writer, a: Value) -> Value:
    """What was computed of floats as a bfloat16, if it shall be one."""
    if a.dtype.scalar != BFLOAT16:
        return a
    return _round_to_bfloat(w, _as(a, _FLOAT32.with_lanes(a.dtype.lanes)), a.dtype)


def _round_to_bfloat(w: Writer, a: Value, to: DType) -> Value:
    """The float whose lower half is zeros that is nearest to a float, ties to even.

    x86's instruction takes numbers below 2^-126 for zeros, and LLVM uses it for `fptrunc` wherever it is.
    """
    bits = w.convert("bitcast", a, _INT32.with_lanes(to.lanes))
    odd = w.binary("and", w.binary("lshr", bits, 16), 1)
    near = w.binary("add", w.binary("add", bits, 0x7FFF), odd)
    quiet = w.binary("or", bits, 0x400000)  # a NaN whose bits are low ones would become infinite
    either = w.select(w.compare("uno", a, a), quiet, near)
    return w.convert("bitcast", w.binary("and", either, -1 << 16), to)


def _round_to_odd(w: Writer, a: Value) -> Value:
    """float64 to float32 such that rounding again to float16 rounds as if at once.

    An inexact result gets an odd last bit (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly
    rounded sums: proved algorithms using rounding to odd", 2008). No CPU but the newest converts
    float64 to float16, and the library function for it is not always there.
    """
    lanes = a.dtype.lanes
    single, bits = _FLOAT32.with_lanes(lanes), _INT32.with_lanes(lanes)
    near = w.convert("fptrunc", a, single)
    back = w.convert("fpext", near, a.dtype)
    inexact = w.compare("one", back, a)
    above = w.compare("ogt", w.intrinsic("fabs", a.dtype, [back]), w.intrinsic("fabs", a.dtype, [a]))
    pattern = w.convert("bitcast", near, bits)
    toward_zero = w.binary("sub", pattern, w.convert("zext", above, bits))
    odd = w.binary("or", toward_zero, 1)
    return w.convert("bitcast", w.select(inexact, odd, pattern), single)


def _float_to_int(w: Writer, a: Value, to: DType) -> Value:
    if a.dtype.bits == 16:
        a = w.convert("fpext", a, _FLOAT32.with_lanes(a.dtype.lanes))
    low, high = int(to.min), int(to.max)
    limit = a.dtype.numpy.type(high)
    top = float(np.nextafter(limit, limit.dtype.type(0)) if int(limit) > high else limit)  # the largest up to `high`
    lower, upper = constant(float(low), a.dtype), constant(top, a.dtype)
    # each comparison is false for NaN, so a NaN becomes the lower bound: 0 when unsigned
    clamped = w.select(w.compare("ogt", a, lower), a, lower)
    clamped = w.select(w.compare("olt", clamped, upper), clamped, upper)
    if to.bits < 32:  # vectors convert to 32 bits and then narrow
        wide = w.convert("fptosi", clamped, _INT32.with_lanes(to.lanes))
        result = w.convert("trunc", wide, to)
    else:
        result = w.convert("fptosi" if to.kind == "int" else "fptoui", clamped, to)
    if math.trunc(top) != high:
        result = w.select(w.compare("ogt", a, upper), constant(high, to), result)
    if to.kind == "int":
        result = w.select(w.compare("uno", a, 0.0), constant(0, to), result)
    return result


# -- divisions: defined for every operand, cheap for constant divisors --------------------------------
# An integer divided by zero is 0, and so is the remainder; INT_MIN / -1 wraps. LLVM's own `sdiv` is undefined there,
# so signed numbers are divided by their magnitudes, and a divisor of zero becomes 1.
#
# Vectors with a divisor that is no constant are divided in floating point, which is exact for up to 32 bits: with
# a, b < 2^k the quotient is at least 1/b away from the integer above it, and rounding to more than 2k bits moves it by
# less. It is faster than a division per lane, and it cannot trap. LLVM 22 can, on AVX-512: it turns
# `x / select(c, 1, y)` into `select(c, x, x / y)`, and divides by the zero that the select was there to avoid. 64-bit
# lanes are divided one by one.


def trunc_div(w: Writer, a: Value, b: Value, *, non_negative: bool = False) -> Value:
    """Quotient rounded toward zero. `non_negative` promises that neither operand is below 0."""
    if b.const in (0, 1, -1):
        zero = constant(0, a.dtype)
        return a if b.const == 1 else w.binary("sub", zero, a) if b.const else zero
    if b.const is not None:
        return w.binary("udiv" if _unsigned(a, non_negative) else "sdiv", a, b)
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
        fixed, _, plain = _signed_remainder(w, a, b)
        return w.select(w.compare("oeq", b, 0.0), plain, fixed)
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
    """True if truncation rounded up: the remainder's sign is not the divisor's.

    A zero divisor leaves quotient 0 and remainder `a`; it must not step.
    """
    nonzero = w.compare("ne", remainder, 0)
    differ = w.compare("slt", w.binary("xor", remainder, b), 0)
    step = w.binary("and", nonzero, differ)
    return step if b.const is not None else w.binary("and", step, w.compare("ne", b, 0))


# -- floats: NumPy's npy_divmod -------------------------------------------------------------------


def _fmod(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    return inlined(w, "fmod", of, args) or w.binary("frem", *args)


def _signed_remainder(w: Writer, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """NumPy's remainder for b != 0, whether it was moved by `b`, and the plain C remainder."""
    zero = constant(0.0, a.dtype)
    plain = _fmod(w, a.dtype, [a, b])
    nonzero = w.compare("une", plain, zero)
    below = w.binary("xor", w.compare("olt", b, zero), w.compare("olt", plain, zero))
    moved = w.binary("and", nonzero, below)
    signed_zero = w.intrinsic("copysign", a.dtype, [zero, b])
    fixed = w.select(moved, w.binary("fadd", plain, b), w.select(nonzero, plain, signed_zero))
    return fixed, moved, plain


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


# -- rows of the table ------------------------------------------------------------------------------

Row = Callable[[Writer, DType, Sequence[Value]], Value]

#: emitted by `llvm_expr`: leaves, memory, vectors, and what evaluates its operands on demand
STRUCTURAL = frozenset(
    "const var load address view call to_line ramp broadcast combine_lanes dot select if_then_else and or".split()
)


# -- arithmetic -----------------------------------------------------------------------------------


def _arith(on_int: str, on_float: str) -> Row:
    def row(w: Writer, of: DType, args: Sequence[Value]) -> Value:
        if not of.is_float:
            return w.binary(on_int, *args)
        # a contracted half has no single instruction, and its library call is seldom there
        fused = w.module.contract and of.bits != 16
        return w.binary(f"{on_float} contract" if fused else on_float, *args)

    return row


def _extreme(name: str, on_bool: str, ordered: str) -> Row:
    """NumPy's minimum / maximum: a NaN wins. Which of two zeros wins is left open, as it is there."""

    def row(w: Writer, of: DType, args: Sequence[Value]) -> Value:
        a, b = args
        if of.is_bool:
            return w.binary(on_bool, a, b)
        if not of.is_float:
            return w.intrinsic(f"{'s' if of.kind == 'int' else 'u'}{name}", of, [a, b])
        if b.const is not None:
            a, b = b, a
        if a.const is not None and a.const == a.const:  # only one may be NaN: one instruction
            return w.select(w.compare(ordered, a, b), a, b)
        return w.intrinsic(f"{name}imum", of, args, flags="nsz")

    return row


def _neg(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    if of.is_float:
        return w.op(f"fneg {typed(args[0])}", of)
    return w.binary("sub", constant(0, of), args[0])


def _abs(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    if of.is_float:
        return w.intrinsic("fabs", of, args)
    if of.kind != "int":
        return args[0]
    return w.intrinsic("abs", of, [args[0], constant(0, BOOL)])


# -- bits -----------------------------------------------------------------------------------------


def _bitnot(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    return w.binary("xor", args[0], constant(-1 if not of.is_bool else 1, of))


def _shift(w: Writer, opcode: str, of: DType, a: Value, amount: Value) -> Value:
    """A shift, 0 for an amount that is negative or not below the width."""
    if amount.const is not None:
        return w.binary(opcode, a, amount) if 0 <= amount.const < of.bits else constant(0, of)
    return w.select(w.compare("ult", amount, of.bits), w.binary(opcode, a, amount), constant(0, of))


def _shr(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    if of.kind == "int":  # a shift by the width or more leaves the sign everywhere
        return w.binary("ashr", args[0], w.intrinsic("umin", of, [args[1], constant(of.bits - 1, of)]))
    return _shift(w, "lshr", of, *args)


# -- comparisons and logic ------------------------------------------------------------------------


def _compare(signed: str, unsigned: str, on_float: str) -> Row:
    def row(w: Writer, of: DType, args: Sequence[Value]) -> Value:
        kind = args[0].dtype.kind
        return w.compare(on_float if kind == "float" else signed if kind == "int" else unsigned, *args)

    return row


def _classify(predicate: str) -> Row:
    """Compare |x| with infinity."""

    def row(w: Writer, of: DType, args: Sequence[Value]) -> Value:
        return w.compare(predicate, w.intrinsic("fabs", args[0].dtype, args), math.inf)

    return row


# -- math -----------------------------------------------------------------------------------------


def _intrinsic(name: str) -> Row:
    return _ours_or(name, lambda w, of, args: w.intrinsic(name, of, args))


def _library(name: str) -> Row:
    """A function of the C mathematics library that LLVM knows nothing about."""
    return _ours_or(name, lambda w, of, args: by_lanes(w, name, of, args))


def _ours_or(name: str, row: Row) -> Row:
    """Inline code for a function, else the library's for vectors, else `row`."""
    return lambda w, of, args: inlined(w, name, of, args) or _by_vectors(w, name, of, args) or row(w, of, args)


def _by_vectors(w: Writer, name: str, of: DType, args: Sequence[Value]) -> Value | None:
    """Call the library for whole registers; the last one is filled up with its own last lane."""
    library = w.module.abilities.vectors
    found = library.find(name, of, len(args)) if library is not None and of.lanes > 1 else None
    if found is None:
        return None
    symbol, lanes = found
    parts = [
        call(w, symbol, of.with_lanes(lanes), [w.part(a, start, lanes) for a in args])
        for start in range(0, of.lanes, lanes)
    ]
    return w.part(w.join(parts), 0, of.lanes)


_EXP = _intrinsic("exp")


def _sigmoid(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    """1 / (1 + exp(-x)) with the exponential of -|x|, which cannot overflow."""
    x = args[0]
    one = constant(1.0, of)
    small = _EXP(w, of, [w.op(f"fneg {typed(w.intrinsic('fabs', of, [x]))}", of)])
    return w.binary("fdiv", w.select(w.compare("olt", x, 0.0), small, one), w.binary("fadd", one, small))


_INTRINSICS = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "pow", "sqrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
    *("floor", "ceil", "trunc", "round", "copysign"),
)
_LIBRARY = ("log1p", "asinh", "acosh", "atanh", "erf", "hypot")

#: every operator that code generation can meet and that is not STRUCTURAL
LLVM_OPS: dict[str, Row] = {
    "add": _arith("add", "fadd"),
    "sub": _arith("sub", "fsub"),
    "mul": _arith("mul", "fmul"),
    "div": lambda w, of, args: w.binary("fdiv", *args),
    "truncdiv": lambda w, of, args: trunc_div(w, *args),
    "truncmod": lambda w, of, args: trunc_mod(w, *args),
    "floordiv": lambda w, of, args: floor_div(w, *args),
    "floormod": lambda w, of, args: floor_mod(w, *args),
    "min": _extreme("min", "and", "olt"),
    "max": _extreme("max", "or", "ogt"),
    "neg": _neg,
    "abs": _abs,
    "bitand": lambda w, of, args: w.binary("and", *args),
    "bitor": lambda w, of, args: w.binary("or", *args),
    "bitxor": lambda w, of, args: w.binary("xor", *args),
    "bitnot": _bitnot,
    "shl": lambda w, of, args: _shift(w, "shl", of, *args),
    "shr": _shr,
    "popcount": lambda w, of, args: w.intrinsic("ctpop", of, args),
    "clz": lambda w, of, args: w.intrinsic("ctlz", of, [args[0], constant(0, BOOL)]),
    "eq": _compare("eq", "eq", "oeq"),
    "ne": _compare("ne", "ne", "une"),
    "lt": _compare("slt", "ult", "olt"),
    "le": _compare("sle", "ule", "ole"),
    "gt": _compare("sgt", "ugt", "ogt"),
    "ge": _compare("sge", "uge", "oge"),
    "not": _bitnot,
    "likely": lambda w, of, args: args[0],
    "cast": lambda w, of, args: convert(w, args[0], of),
    "reinterpret": lambda w, of, args: of_bits(w, bits_of(w, args[0]), of),
    **{name: _intrinsic(name) for name in _INTRINSICS},
    **{name: _library(name) for name in _LIBRARY},
    "nearbyint": _intrinsic("roundeven"),
    "sigmoid": _sigmoid,
    "rsqrt": lambda w, of, args: w.binary("fdiv", constant(1.0, of), w.intrinsic("sqrt", of, args)),
    "isnan": lambda w, of, args: w.compare("uno", args[0], args[0]),
    "isinf": _classify("oeq"),
    "isfinite": _classify("olt"),
    "fmod": _fmod,
    "nextafter": next_after,
    "ldexp": scale_by_power,
}
