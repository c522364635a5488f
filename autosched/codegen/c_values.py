"""Scalar operators as C text: one row for each operator of `ir.expr.OPS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from autosched.codegen.c_ring import ring_bitnot, ring_shl
from autosched.codegen.c_text import ADD, ATOM, SYMBOLS, UNARY, Code, conditional, infix, literal, negate, promoted
from autosched.errors import BuildError
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import OPS, Expr
from autosched.ir.stmt import Buffer

if TYPE_CHECKING:
    from autosched.codegen.c_scalar import Expressions

__all__ = ["SCALAR"]


def _const(x: Expressions, e: Expr) -> Code:
    return literal(e.value, x.register(e.dtype), x.dialect)


def _var(x: Expressions, e: Expr) -> Code:
    name, _ = x.variable(e)
    return _typed(x, Code(name, ATOM, ""), e.dtype)


def _typed(x: Expressions, code: Code, of: DType) -> Code:
    """`code` as a value of type `of` that may be anything the type allows."""
    code = replace(code, ctype=promoted(x.register(of)))
    return code if of.is_float else code.bounded(int(of.min), int(of.max))


def _load(x: Expressions, e: Expr) -> Code:
    buffer: Buffer = e.value
    if x.is_packed_half(buffer):
        return Code(x.dialect.half_load.format(pointer=x.pointer(buffer, e.args[0])), ATOM, "float32")
    code = _typed(x, Code(x.element(buffer, e.args[0]), ATOM, ""), e.dtype)
    return infix("!=", code, literal(0, dtype("int32"), x.dialect), "int32").bounded(0, 1) if e.dtype.is_bool else code


def _float_binary(x: Expressions, e: Expr) -> Code:
    a, b = (x.value(arg) for arg in e.args)
    return infix(SYMBOLS[e.op], a, b, a.ctype)


def _div(x: Expressions, e: Expr) -> Code:
    return _float_binary(x, e) if e.dtype.is_float else _division(x, e, "truncdiv")


def _neg(x: Expressions, e: Expr) -> Code:
    a = x.value(e.args[0])
    return replace(negate(a, a.ctype), low=0, high=0)


def _integer_division(x: Expressions, e: Expr) -> Code:
    if not e.dtype.is_float:
        return _division(x, e, e.op)
    a, b = (x.value(arg) for arg in e.args)
    if e.op == "truncdiv":
        quotient = infix("/", a, b, a.ctype)
        return x.function(x.dialect.function_name("trunc", a.ctype), a.ctype, quotient)
    if a.ctype == "float16":  # like NumPy: the quotient is rounded to half precision only in the end
        return x.cast(x.function(x.helpers.name(e.op, "float32"), "float32", a, b), e.dtype)
    return x.function(x.helpers.name(e.op, a.ctype), a.ctype, a, b)


def _division(x: Expressions, e: Expr, op: str) -> Code:
    a, b = (x.value(arg) for arg in e.args)
    modulo = op.endswith("mod")
    if b.low > 0 and (a.low >= 0 or op.startswith("trunc")):  # C's own division rounds to zero
        a, b, ctype = x.common(a, b, e.dtype)
        code = infix("%" if modulo else "/", a, b, ctype)
        return code.bounded(*_quotient_range(a, b, modulo))
    code = x.function(x.helpers.name(op, e.dtype), "", a, b)
    return _typed(x, code, e.dtype)


def _quotient_range(a: Code, b: Code, modulo: bool) -> tuple[int, int]:
    if modulo:
        largest = b.high - 1
        return max(-largest, min(a.low, 0)), min(largest, max(a.high, 0))
    low = -(-a.low // b.low) if a.low < 0 else a.low // b.high
    return low, a.high // b.low if a.high >= 0 else -(-a.high // b.high)


def _min_max(x: Expressions, e: Expr) -> Code:
    a, b = (x.value(arg) for arg in e.args)
    if e.dtype.is_bool:
        return infix("&&" if e.op == "min" else "||", a, b, "int32").bounded(0, 1)
    if e.dtype.is_float:
        return x.function(x.helpers.name(e.op, a.ctype), a.ctype, a, b)
    a, b, ctype = x.common(a, b, e.dtype)
    pick = min if e.op == "min" else max
    code = x.function(x.helpers.name(e.op, ctype), ctype, a, b)
    return code.bounded(pick(a.low, b.low), pick(a.high, b.high))


def _abs(x: Expressions, e: Expr) -> Code:
    a = x.value(e.args[0])
    if e.dtype.is_float:
        return x.function(x.dialect.function_name("abs", a.ctype), a.ctype, a)
    if a.low >= 0:
        return a
    return _typed(x, x.function(x.helpers.name("abs", e.dtype), "", a), e.dtype)


def _bitwise(x: Expressions, e: Expr) -> Code:
    a, b, ctype = x.common(x.value(e.args[0]), x.value(e.args[1]), e.dtype)
    code = infix(SYMBOLS[e.op], a, b, ctype)
    nonneg = [x.high for x in (a, b) if x.low >= 0]
    if nonneg and e.op == "bitand":
        return code.bounded(0, min(nonneg))
    if len(nonneg) == 2:
        return code.bounded(0, (1 << max(nonneg).bit_length()) - 1)
    return code.bounded(int(e.dtype.min), int(e.dtype.max))


def _shr(x: Expressions, e: Expr) -> Code:
    a, by = x.value(e.args[0]), e.args[1]
    if by.op != "const":
        return _typed(x, x.function(x.helpers.name("shr", e.dtype), "", a, x.value(by)), e.dtype)
    amount = by.value if 0 <= by.value < e.dtype.bits else e.dtype.bits - 1
    if amount != by.value and e.dtype.kind == "uint":
        return literal(0, e.dtype, x.dialect)
    if amount >= 32 and a.ctype in ("int32", "uint32"):
        a = x.cast(a, e.dtype).bounded(a.low, a.high)
    shift = literal(amount, dtype("int32"), x.dialect)
    return infix(">>", a, shift, a.ctype).bounded(a.low >> amount, a.high >> amount)


def _count(x: Expressions, e: Expr) -> Code:
    code = _typed(x, x.function(x.helpers.name(e.op, e.dtype), "", x.value(e.args[0])), e.dtype)
    return code.bounded(0, e.dtype.bits)


def _compare(x: Expressions, e: Expr) -> Code:
    of = e.args[0].dtype
    a, b = (x.value(arg) for arg in e.args)
    if not of.is_float:
        a, b, _ = x.common(a, b, of)
    return infix(SYMBOLS[e.op], a, b, "int32").bounded(0, 1)


def _logic(x: Expressions, e: Expr) -> Code:
    a, b = (x.condition(arg) for arg in e.args)
    return infix(SYMBOLS[e.op], a, b, "int32").bounded(0, 1)


def _not(x: Expressions, e: Expr) -> Code:
    return Code(f"!{x.condition(e.args[0]).at(UNARY)}", UNARY, "int32", 0, 1)


def _likely(x: Expressions, e: Expr) -> Code:
    return x.value(e.args[0])


def _choice(x: Expressions, e: Expr) -> Code:
    condition, a, b = (x.value(arg) for arg in e.args)
    if e.dtype.is_float:
        return replace(conditional(condition, a, b, a.ctype), low=0, high=0)
    a, b, ctype = x.common(a, b, e.dtype)
    return conditional(condition, a, b, ctype)


def _cast(x: Expressions, e: Expr) -> Code:
    (arg,) = e.args
    a = x.value(arg)
    if e.dtype.is_bool:
        return infix("!=", a, literal(0, x.register(arg.dtype), x.dialect), "int32").bounded(0, 1)
    if x.register(e.dtype) == x.register(arg.dtype):  # between float32 and an emulated half
        return a
    if e.dtype == "float16" and not x.native_half and arg.dtype == "float64":
        return a  # rounding to float first would round twice
    return x.cast(a, e.dtype)


def _reinterpret(x: Expressions, e: Expr) -> Code:
    name = x.helpers.reinterpret(e.dtype, e.args[0].dtype, x.native_half)
    return _typed(x, x.function(name, "", x.value(e.args[0])), e.dtype)


def _math(x: Expressions, e: Expr) -> Code:
    args = [x.value(a) for a in e.args]
    if e.op == "nextafter" and e.dtype == "float16" and not x.native_half:
        return x.function(x.helpers.next_half(), args[0].ctype, *args)
    if e.op == "sigmoid":
        return x.function(x.helpers.name("sigmoid", args[0].ctype), args[0].ctype, *args)
    code = x.function(x.dialect.function_name(e.op, args[0].ctype), args[0].ctype, *args)
    return replace(code, ctype="int32").bounded(0, 1) if e.dtype.is_bool else code


def _address(x: Expressions, e: Expr) -> Code:
    text = x.pointer(e.value, e.args[0])
    return Code(text, ADD if " + " in text else ATOM, "handle")


def _call(x: Expressions, e: Expr) -> Code:
    name, kind = e.value.name, e.value.kind
    if kind != "extern":
        what = {"packed": "a Python function", "llvm": "an intrinsic of LLVM"}.get(kind, "an intrinsic without a rule")
        raise BuildError(
            f"it is {what}, which {x.dialect.name} cannot call",
            asked=f"call of {name} in code for {x.dialect.name}",
            legal=f"register_intrin_lowering({name!r}, {x.dialect.name!r}, f=...)"
            if kind == "intrin"
            else "call_extern of a function that the language has; or target llvm",
        )
    args = []
    for a in e.args:
        code = x.value(a)
        of = x.register(a.dtype)
        args.append(code if code.ctype == str(of) else x.cast(code, a.dtype))  # the type chooses among overloads
    code = x.function(name, promoted(x.register(e.dtype)), *args)
    return code if e.dtype.is_float else code.bounded(int(e.dtype.min), int(e.dtype.max))


def _no_scalar(x: Expressions, e: Expr) -> Code:
    raise BuildError(f"{e.op!r} is no scalar operator of a lowered program", asked=f"code for {e!r}")


_MATH = [op for op, info in OPS.items() if info.kind == "math"]
#: One row per operator of `ir.expr.OPS`; `c_ring.RING` overrides the rows of wrapping integer operators.
SCALAR: dict[str, Callable[[Expressions, Expr], Code]] = {
    "const": _const,
    "var": _var,
    "add": _float_binary,
    "sub": _float_binary,
    "mul": _float_binary,
    "div": _div,
    "truncdiv": _integer_division,
    "truncmod": _integer_division,
    "floordiv": _integer_division,
    "floormod": _integer_division,
    "min": _min_max,
    "max": _min_max,
    "neg": _neg,
    "abs": _abs,
    "bitand": _bitwise,
    "bitor": _bitwise,
    "bitxor": _bitwise,
    "bitnot": ring_bitnot,
    "shl": ring_shl,
    "shr": _shr,
    "popcount": _count,
    "clz": _count,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compare),
    "and": _logic,
    "or": _logic,
    "not": _not,
    "likely": _likely,
    "select": _choice,
    "if_then_else": _choice,
    "cast": _cast,
    "reinterpret": _reinterpret,
    **dict.fromkeys(_MATH, _math),
    "load": _load,
    "address": _address,
    "call": _call,
    "view": _no_scalar,
    # tensor reads and reductions are lowered away; vectors are the other table's, or taken apart by lane
    "read": _no_scalar,
    "reduce": _no_scalar,
    "scatter": _no_scalar,
    "ramp": _no_scalar,
    "broadcast": _no_scalar,
    "combine_lanes": _no_scalar,
    "to_line": _no_scalar,
}
