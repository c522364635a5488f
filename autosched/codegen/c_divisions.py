"""Divisions of integers in floats, in languages of the C family: of whole vectors, or in loops that become vectors.

Processors divide vectors of floats only, and compilers take those of integers apart into lanes. Up to 32 bits, floating
point is exact: `(a + 0.5) / b` is at least `0.5 / b` away from the integers on both sides, and its rounding error is
smaller (`llvm_ops` has the same in LLVM's language). The results are the language's: see `c_helpers`.
"""

from __future__ import annotations

from autosched.codegen.dialects import Dialect
from autosched.ir.dtype import DType, dtype

#: `{t}` the operands' type, `{n}` the end of the name, `{w}` floats, `{last}` the number of the sign bit; words
#: of more letters are expressions, and [[c ? a : b]] is a choice (see `c_helpers`)
TEMPLATES = {
    "truncdiv": """\
{f} {t} truncdiv_{n}({t} a, {t} b) {{
  const {w} x = {x}, y = {y}, q = [[y == {none} ? {none} : (x + {half}) / y]];
  return {whole};
}}""",
    "truncmod": """\
{f} {t} truncmod_{n}({t} a, {t} b) {{
  const {t} q = truncdiv_{n}(a, b), r = {rest}, zero = {zero};
  return [[b == zero ? zero : r]];
}}""",
    "floordiv": """\
{f} {t} floordiv_{n}({t} a, {t} b) {{
  const {t} q = truncdiv_{n}(a, b), r = {rest}, zero = {zero};
  return {floored};
}}""",
    "floormod": """\
{f} {t} floormod_{n}({t} a, {t} b) {{
  const {t} r = truncmod_{n}(a, b), zero = {zero};
  return {moved};
}}""",
    # by positive numbers that are known, of which compilers make multiplications: floor(a / b) = ~(~a / b) for a < 0
    "floordiv_by": """\
{f} {t} floordiv_by_{n}({t} a, {t} b) {{
  const {t} s = a >> {last};
  return ((a ^ s) / b) ^ s;
}}""",
    "floormod_by": """\
{f} {t} floormod_by_{n}({t} a, {t} b) {{
  const {t} r = a % b;
  return r + (b & (r >> {last}));
}}""",
}
#: what each calls, which is defined before it
CALLED = {"truncmod": "truncdiv", "floordiv": "truncdiv", "floormod": "truncmod"}


def width(of: DType) -> int:
    """Bytes of the floats in which integers of a type are divided."""
    return 4 if of.bits <= 16 else 8


def words(of: DType, d: Dialect) -> dict[str, str]:
    """What the templates say of integers of a type."""

    def type_of(kind: str) -> str:
        return d.type_name(dtype(kind).with_lanes(of.lanes))

    v = d.vectors if of.lanes > 1 else None
    bits = v.bits if v is not None else ""
    kind, is_signed = f"float{8 * width(of)}", of.kind == "int"
    t, w, suffix = d.type_name(of), type_of(kind), d.suffixes.get(kind, "")

    def converted(x: str, old: str, new: str) -> str:
        if v is None:
            return f"({type_of(new)}){x}"
        return d.converted(x, dtype(old).with_lanes(of.lanes), dtype(new).with_lanes(of.lanes))

    def wrapped(to: str, x: str) -> str:
        return bits.format(type=to, x=x) if bits else f"({to}){x}"

    def number(value: str, of: str = t) -> str:
        return v.splat.format(type=of, x=value) if v is not None else f"({of}){value}"

    # in C's own integers, products of 16 bits overflow `int`
    ring = type_of(f"uint{of.bits if bits else max(of.bits, 32)}")
    a, q, b = (wrapped(ring, x) for x in "aqb")
    whole, half = "q", number(f"0.5{suffix}", w)
    if is_signed:
        below, minus = f"x < {number('0', w)}", number(f"-0.5{suffix}", w)
        half = f"([[{below} ? {minus} : {half}]])"
    if of.bits < 32:
        whole = converted("q", kind, "int32")
    elif is_signed:  # INT_MIN / -1 wraps
        beyond, least = f"q >= {number('2147483648.0', w)}", number("-2147483648.0", w)
        whole = f"([[{beyond} ? {least} : q]])"
    mask = "((r != zero) & ((r ^ b) < zero))"
    return {
        "t": t,
        "w": w,
        "x": converted("a", of.scalar, kind),
        "y": converted("b", of.scalar, kind),
        "zero": number("0"),
        "last": number(str(of.bits - 1)),
        "none": number("0", w),
        "half": half,
        "whole": converted(whole, "int32" if of.bits < 32 else kind, of.scalar),
        "rest": wrapped(t, f"({a} - {q} * {b})"),
        # lanes that are not moved must not overflow either: a mask is -1 where it holds
        "floored": f"q {'+' if v is not None else '-'} ((b != zero) & (r != zero) & ((r ^ b) < zero))",
        "moved": f"r + (b & {mask})" if v is not None else f"[[{mask} ? r + b : r]]",
    }
