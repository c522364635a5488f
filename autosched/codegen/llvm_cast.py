"""Conversions between element types.

Float to integer truncates toward zero and saturates, NaN becomes 0. LLVM's own saturating
intrinsics are split into scalars on x86, and its plain conversions are undefined out of range, so
the operand is clamped first: two or three vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from autosched.codegen.llvm_text import Value, Writer, constant
from autosched.ir.dtype import DType, dtype

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
        return w.compare("une", a, 0.0) if to.is_bool else _float_to_int(w, a, to)
    if to.is_float:
        return w.convert("sitofp" if source.kind == "int" else "uitofp", a, to)
    if to.is_bool:
        return w.compare("ne", a, 0)
    return extend(w, a, to)


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
    single, bits = _FLOAT32.with_lanes(lanes), _INT32.with_lanes(lanes)
    near = w.convert("fptrunc", a, single)
    back = w.convert("fpext", near, a.dtype)
    inexact = w.compare("one", back, a)
    above = w.compare("ogt", w.intrinsic("fabs", a.dtype, [back]), w.intrinsic("fabs", a.dtype, [a]))
    pattern = w.convert("bitcast", near, bits)
    toward_zero = w.binary("sub", pattern, w.convert("zext", above, bits))
    odd = w.binary("or", toward_zero, 1)
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
    low, high = int(to.min), int(to.max)
    top = _largest_below(high, a.dtype)
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
