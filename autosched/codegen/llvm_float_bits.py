"""Functions that read or write the exponent and the last place of floats, for vectors as well as scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.codegen.llvm_text import Value, Writer, constant
from autosched.ir.dtype import DType, dtype

__all__ = ["next_after", "scale_by_power"]


def next_after(w: Writer, of: DType, args: Sequence[Value]) -> Value:
    """The number next to a in the direction of b; a NaN stays one.

    As integers, floats of one sign are in the order of their sizes, so the next one is one more or less.
    """
    a, b = args
    ints = dtype(f"int{of.bits}").with_lanes(of.lanes)
    zero = constant(0.0, of)
    outward = w.binary("xor", w.compare("ogt", b, a), w.compare("ogt", a, zero))
    step = w.select(outward, constant(-1, ints), constant(1, ints))
    moved = w.convert("bitcast", w.binary("add", w.convert("bitcast", a, ints), step), of)
    sign = w.binary("and", w.convert("bitcast", b, ints), constant(-1 << (of.bits - 1), ints))
    smallest = w.convert("bitcast", w.binary("or", sign, constant(1, ints)), of)
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
