"""Integer operators that wrap: C text that is right modulo 2^bits, free of signed overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.codegen.c_text import (
    INT32_RANGE,
    INT64_RANGE,
    SYMBOLS,
    UNARY,
    Code,
    infix,
    literal,
    negate,
    promoted,
)
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr

if TYPE_CHECKING:
    from autosched.codegen.c_scalar import Expressions

__all__ = ["RING", "ring_bitnot", "ring_shl"]


def _interval(op: str, a: Code, b: Code) -> tuple[int, int]:
    if op == "add":
        return a.low + b.low, a.high + b.high
    if op == "sub":
        return a.low - b.high, a.high - b.low
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _place(x: Expressions, of: DType, bounds: tuple[int, int], *operands: Code) -> str:
    """The C type in which a result within `bounds` is computed without overflow, or wraps."""
    ctypes = {c.ctype for c in operands}
    if ctypes == {"int32"} and INT32_RANGE[0] <= bounds[0] and bounds[1] <= INT32_RANGE[1]:
        return "int32"
    if of.bits < 64:
        return "uint32"
    fits = INT64_RANGE[0] <= bounds[0] and bounds[1] <= INT64_RANGE[1]
    return "int64" if fits and "uint64" not in ctypes else "uint64"


def _wrapped(code: Code, ctype: str, bounds: tuple[int, int]) -> Code:
    """The range of a result: what was computed, or all of an unsigned type."""
    if ctype.startswith("u"):
        bounds = 0, int(dtype(ctype).max)
    return code.bounded(*bounds)


def _ring_binary(x: Expressions, e: Expr) -> Code:
    a, b = (x.ring(arg) for arg in e.args)
    bounds = _interval(e.op, a, b)
    a, b, ctype = x.compute_in(_place(x, e.dtype, bounds, a, b), a, b)
    return _wrapped(infix(SYMBOLS[e.op], a, b, ctype), ctype, bounds)


def _ring_neg(x: Expressions, e: Expr) -> Code:
    a = x.ring(e.args[0])
    ctype = _place(x, e.dtype, (-a.high, -a.low), a)
    if a.ctype != ctype:
        a = x.cast(a, dtype(ctype))
    return _wrapped(negate(a, ctype), ctype, (-a.high, -a.low))


def ring_bitnot(x: Expressions, e: Expr) -> Code:
    a = x.value(e.args[0])
    if a.ctype.startswith("u") and a.ctype != promoted(e.dtype):
        a = x.cast(a, e.dtype)  # the bits above a narrower unsigned type count too
    code = Code(f"~{a.at(UNARY)}", UNARY, a.ctype)
    return _wrapped(code, a.ctype, (~a.high, ~a.low))


def ring_shl(x: Expressions, e: Expr) -> Code:
    a, by = e.args
    if by.op != "const":
        name = x.helpers.name("shl", e.dtype)
        code = x.function(name, promoted(e.dtype), x.value(a), x.value(by))
        return code.bounded(int(e.dtype.min), int(e.dtype.max))
    if not 0 <= by.value < e.dtype.bits:
        return literal(0, e.dtype, x.dialect)
    code = x.ring(a)
    bounds = code.low << by.value, code.high << by.value
    ctype = _place(x, e.dtype, bounds, code)
    if code.low < 0 and not ctype.startswith("u"):
        ctype = "uint64" if e.dtype.bits == 64 else "uint32"  # shifting a negative number is undefined in C
    if code.ctype != ctype:
        code = x.cast(code, dtype(ctype))
    return _wrapped(infix("<<", code, literal(by.value, e.dtype, x.dialect), ctype), ctype, bounds)


def _ring_cast(x: Expressions, e: Expr) -> Code:
    (arg,) = e.args
    source, to = arg.dtype, e.dtype
    if source.is_float:
        name = x.helpers.saturate(to, x.register(source))
        code = x.function(name, promoted(to), x.value(arg))
        return code.bounded(int(to.min), int(to.max))
    code = x.ring(arg) if to.bits <= source.bits and source.is_integer else x.value(arg)
    return x.cast(code, to) if to.bits < 64 and code.ctype in ("int64", "uint64") else code


#: Each row takes the emitter and the expression.
RING: dict[str, Callable[[Expressions, Expr], Code]] = {
    "add": _ring_binary,
    "sub": _ring_binary,
    "mul": _ring_binary,
    "neg": _ring_neg,
    "bitnot": ring_bitnot,
    "shl": ring_shl,
    "cast": _ring_cast,
}
