"""Conversions between element types.

Float to integer truncates toward zero and saturates, NaN becomes 0. LLVM's own saturating
intrinsics are split into scalars on x86, and its plain conversions are undefined out of range, so
the operand is clamped first: two or three vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from autosched.codegen.llvm_text import Value, Writer, constant, register_type
from autosched.ir.dtype import BOOL, DType, dtype

__all__ = ["convert", "extend"]

_INT32 = dtype("int32")
_FLOAT32 = dtype("float32")


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
    source = a.dtype
    if source.is_float and to.is_float:
        return _resize_float(w, a, to)
    if source.is_float:
        return _float_to_bool(w, a, to) if to.is_bool else _float_to_int(w, a, to)
    if to.is_float:
        return w.convert("sitofp" if source.kind == "int" else "uitofp", a, to)
    if to.is_bool:
        return w.op(f"icmp ne {register_type(source)} {a.ref}, {constant(0, source).ref}", to)
    return extend(w, a, to)


def _float_to_bool(w: Writer, a: Value, to: DType) -> Value:
    return w.op(f"fcmp une {register_type(a.dtype)} {a.ref}, {constant(0.0, a.dtype).ref}", to)


def _resize_float(w: Writer, a: Value, to: DType) -> Value:
    if a.dtype.bits == to.bits:
        return a
    if a.dtype.bits < to.bits:
        return w.convert("fpext", a, to)
    if a.dtype.bits == 64 and to.bits == 16:
        a = _round_to_odd(w, a)
    return w.convert("fptrunc", a, to)


def _round_to_odd(w: Writer, a: Value) -> Value:
    """float64 to float32 such that rounding again to float16 rounds as if at once.

    An inexact result gets an odd last bit (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly
    rounded sums: proved algorithms using rounding to odd", 2008). No CPU but the newest converts
    float64 to float16, and the library function for it is not always there.
    """
    lanes = a.dtype.lanes
    single, bits, truth = _FLOAT32.with_lanes(lanes), _INT32.with_lanes(lanes), BOOL.with_lanes(lanes)
    near = w.convert("fptrunc", a, single)
    back = w.convert("fpext", near, a.dtype)
    double = register_type(a.dtype)
    inexact = w.op(f"fcmp one {double} {back.ref}, {a.ref}", truth)
    above = w.op(
        f"fcmp ogt {double} {w.intrinsic('fabs', a.dtype, [back]).ref}, {w.intrinsic('fabs', a.dtype, [a]).ref}", truth
    )
    pattern = w.convert("bitcast", near, bits)
    toward_zero = w.binary("sub", pattern, w.convert("zext", above, bits))
    odd = w.binary("or", toward_zero, constant(1, bits))
    return w.convert("bitcast", w.select(inexact, odd, pattern), single)


def _largest_below(limit: int, of: DType) -> float:
    """The largest number of the float type that is at most `limit`."""
    scalar = of.numpy.type
    value = scalar(limit)
    if int(value) > limit:
        value = np.nextafter(value, scalar(0))
    return float(value)


def _float_to_int(w: Writer, a: Value, to: DType) -> Value:
    if a.dtype.bits == 16:
        a = w.convert("fpext", a, _FLOAT32.with_lanes(a.dtype.lanes))
    kind, truth = register_type(a.dtype), BOOL.with_lanes(a.dtype.lanes)
    low, high = int(to.min), int(to.max)
    top = _largest_below(high, a.dtype)
    lower, upper = constant(float(low), a.dtype), constant(top, a.dtype)
    # each comparison is false for NaN, so a NaN becomes the lower bound: 0 when unsigned
    clamped = w.select(w.op(f"fcmp ogt {kind} {a.ref}, {lower.ref}", truth), a, lower)
    clamped = w.select(w.op(f"fcmp olt {kind} {clamped.ref}, {upper.ref}", truth), clamped, upper)
    if to.bits < 32:  # vectors convert to 32 bits and then narrow
        wide = w.convert("fptosi", clamped, _INT32.with_lanes(to.lanes))
        result = w.convert("trunc", wide, to)
    else:
        result = w.convert("fptosi" if to.kind == "int" else "fptoui", clamped, to)
    if math.trunc(top) != high:
        beyond = w.op(f"fcmp ogt {kind} {a.ref}, {upper.ref}", truth)
        result = w.select(beyond, constant(high, to), result)
    if to.kind == "int":
        nan = w.op(f"fcmp uno {kind} {a.ref}, {constant(0.0, a.dtype).ref}", truth)
        result = w.select(nan, constant(0, to), result)
    return result
