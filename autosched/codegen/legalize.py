"""Rewriting of operators that targets would all have to decide about, before they are emitted.

    legal(half_a + half_b, HALF_EMULATED)       half(float(half_a) + float(half_b))
    legal(bfloat16(double_a), ...)              bfloat16(a float beside it, whose last bit says that it is not exact)
    legal(truncmod(x, y), ...)                  fmod(x, y), of floats

One operator is rewritten at a time, when an emitter comes to it: what a program shares stays shared, and an
operator that needs nothing costs a look into a table.

Here is what targets spell alike once it is decided. What they compute in different ways stays with them:
integers are divided by magnitudes or in floating point by LLVM (`llvm_ops`), which also divides indices in
64 bits, and by small functions in C (`c_helpers.Helpers`), which a reader can check. The same holds for conversions
that saturate, shifts by any amount, NaN in `min` and `max`, and `sigmoid`, whose exponential C must not
compute twice.
"""

from __future__ import annotations

from autosched.ir.bits import reinterpret
from autosched.ir.dtype import BFLOAT16, FLOAT32, dtype
from autosched.ir.expr import OPS, Expr, cast, compare, const, logical_or, make, select
from autosched.ir.ops import BITS_BELOW_BFLOAT16

_MATH = frozenset(op for op, info in OPS.items() if info.kind == "math")
#: like NumPy: of halves, a quotient is rounded to half precision only in the end
_DIVISIONS = frozenset(("truncmod", "floordiv", "floormod"))

#: Operators that are computed in float where their result is a half: on a device with half precision, by LLVM (whose
#: library has no other functions), and where halves are but 16 bits in memory. The others give a half of halves.
HALF_NATIVE = _DIVISIONS
HALF_ARITHMETIC = _DIVISIONS | _MATH - {"nextafter"}
HALF_EMULATED = (
    _DIVISIONS
    | {"add", "sub", "mul", "div", "cast", "call"}
    | _MATH - {"floor", "ceil", "trunc", "round", "nearbyint", "nextafter", "copysign"}
)


def legal(e: Expr, in_float: frozenset[str]) -> Expr:
    """`e`, or what computes it; `in_float` are the operators that are computed in float where `e` is a half. Where it
    is a bfloat16, of which registers hold floats everywhere, `HALF_EMULATED` are.
    """
    of = e.dtype.scalar
    if (of == "float16" and e.op in in_float) or (of == BFLOAT16 and e.op in HALF_EMULATED):
        return _rounded(e)
    if e.op == "reinterpret" and of.is_float and of.bits == 16 and e.args[0].dtype.is_float:
        return make("reinterpret", e.dtype, (make("reinterpret", dtype("uint16").with_lanes(e.dtype.lanes), e.args),))
    if e.op == "truncmod" and e.dtype.is_float:
        return make("fmod", e.dtype, e.args)
    return e


def _rounded(e: Expr) -> Expr:
    """The operator in float, its result rounded to a half. A conversion from float is that already."""
    wide = FLOAT32.with_lanes(e.dtype.lanes)
    if e.op == "cast":
        (a,) = e.args
        if a.dtype == wide or (a.dtype.is_float and e.dtype.scalar != BFLOAT16):
            return e
        if e.dtype.scalar == BFLOAT16:
            a = _near_odd(a) if a.dtype.scalar == "float64" else _without_low_bits(a)
        return make("cast", e.dtype, (make("cast", wide, (a,)) if a.dtype != wide else a,))
    args = e.args
    if e.op != "call":  # what is called takes halves as they are
        args = tuple(make("cast", wide, (a,)) if a.dtype.is_float and a.dtype.bits == 16 else a for a in args)
    return make("cast", e.dtype, (make(e.op, wide, args, e.value),))


def _near_odd(a: Expr) -> Expr:
    """float64 to float32 such that rounding again rounds as if at once: an inexact result gets an odd last bit."""
    near = cast("float32", a)
    back, bits = cast("float64", near), reinterpret("uint32", near)
    odd = (bits - cast("uint32", compare("gt", make("abs", a.dtype, (back,)), make("abs", a.dtype, (a,))))) | 1
    return reinterpret("float32", select(compare("ne", back, a), odd, bits))


def _without_low_bits(a: Expr) -> Expr:
    """An integer that as a float32 is exact, and rounds to bfloat16 as `a`."""
    given = a
    for first, count in BITS_BELOW_BFLOAT16:
        if given.dtype.is_integer and first < given.dtype.bits:
            low, ends = a & ((1 << count) - 1), 1 << first
            short = (a - low) | cast(a.dtype, compare("ne", low, 0)) * (1 << count)
            large = compare("ge", a, const(ends, a.dtype))
            if a.dtype.kind == "int":
                large = logical_or(large, compare("le", a, const(-ends, a.dtype)))
            a = select(large, short, a)
    return a
