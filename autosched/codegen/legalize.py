"""Rewriting of operators that targets would all have to decide about, before they are emitted.

    legal(half_a + half_b, HALF_EMULATED)       half(float(half_a) + float(half_b))
    legal(truncmod(x, y), ...)                  fmod(x, y), of floats

One operator is rewritten at a time, when an emitter comes to it: what a program shares stays shared, and an
operator that needs nothing costs a look into a table.

Here is what targets spell alike once it is decided. What they compute in different ways stays with them:
integers are divided by magnitudes or in floating point by LLVM (`llvm_ops`), which also divides indices in
64 bits, and by small functions in C (`c_text.Helpers`), which a reader can check. The same holds for conversions
that saturate, shifts by any amount, NaN in `min` and `max`, and `sigmoid`, whose exponential C must not
compute twice.
"""

from __future__ import annotations

from autosched.ir.dtype import dtype
from autosched.ir.expr import OPS, Expr, make

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
    """`e`, or what computes it; `in_float` are the operators that are computed in float where `e` is a half."""
    if e.op in in_float and e.dtype.scalar == "float16":
        return _rounded(e)
    if e.op == "truncmod" and e.dtype.is_float:
        return make("fmod", e.dtype, e.args)
    return e


def _rounded(e: Expr) -> Expr:
    """The operator in float, its result rounded to a half. A conversion from float is that already."""
    wide = dtype("float32").with_lanes(e.dtype.lanes)
    if e.op == "cast":
        return e if e.args[0].dtype.is_float else make("cast", e.dtype, (make("cast", wide, e.args),))
    args = e.args
    if e.op != "call":  # what is called takes halves as they are
        args = tuple(make("cast", wide, (a,)) if a.dtype.scalar == "float16" else a for a in args)
    return make("cast", e.dtype, (make(e.op, wide, args, e.value),))
