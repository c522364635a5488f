"""Divisions of integers in floats, in languages of the C family: of whole vectors, or in loops that become vectors.

Processors divide vectors of floats only, and compilers take those of integers apart into lanes. Up to 32 bits, floating
point is exact: `(a + 0.5) / b` is at least `0.5 / b` away from the integers on both sides, and its rounding error is
smaller (`llvm_ops` has the same in LLVM's language). The results are the language's: see `c_text`.
"""

from __future__ import annotations

from autosched.codegen.dialects import Dialect
from autosched.ir.dtype import DType, dtype

#: `{t}` the operands' type, `{n}` the end of the name, `{w}` floats, `{last}` the number of the sign bit
TEMPLATES = {
    "truncdiv": """\
{f} {t} truncdiv_{n}({t} a, {t} b) {{
  const {w} x = {x}, y = {y}, q = y == 0 ? ({w})0 : (x + {half}) / y;
  return {whole};
}}""",
    "truncmod": """\
{f} {t} truncmod_{n}({t} a, {t} b) {{
  const {t} q = truncdiv_{n}(a, b), r = {rest}, zero = 0;
  return b == zero ? zero : r;
}}""",
    "floordiv": """\
{f} {t} floordiv_{n}({t} a, {t} b) {{
  const {t} q = truncdiv_{n}(a, b), r = {rest}, zero = 0, one = 1;
  return (b != zero) & (r != zero) & ((r ^ b) < zero) ? q - one : q;
}}""",
    "floormod": """\
{f} {t} floormod_{n}({t} a, {t} b) {{
  const {t} r = truncmod_{n}(a, b), zero = 0;
  return (r != zero) & ((r ^ b) < zero) ? r + b : r;
}}""",
    # by positive numbers that are known, of which compilers make multiplications: floor(a / b) = ~(~a / b) for a < 0
    "floordiv_by": """\
{f} {t} floordiv_by_{n}({t} a, {t} b) {{
  const {t} s = a >> ({t}){last};
  return ((a ^ s) / b) ^ s;
}}""",
    "floormod_by": """\
{f} {t} floormod_by_{n}({t} a, {t} b) {{
  const {t} r = a % b;
  return r + (b & (r >> ({t}){last}));
}}""",
}
#: what each calls, which is defined before it
CALLED = {"truncmod": "truncdiv", "floordiv": "truncdiv", "floormod": "truncmod"}


def words(of: DType, d: Dialect) -> dict[str, str]:
    """What the templates say of integers of a type."""

    def type_of(kind: str) -> str:
        return d.type_name(dtype(kind).with_lanes(of.lanes))

    def changed(to: str, x: str, how: str = "") -> str:
        return how.format(type=to, x=x) if how else f"({to}){x}"

    convert, bits = (d.vectors.convert, d.vectors.bits) if of.lanes > 1 and d.vectors is not None else ("", "")
    kind, is_signed = "float32" if of.bits <= 16 else "float64", of.kind == "int"
    t, w, suffix = d.type_name(of), type_of(kind), d.suffixes.get(kind, "")
    # in C's own integers, products of 16 bits overflow `int`
    ring = type_of(f"uint{of.bits if bits else max(of.bits, 32)}")
    a, q, b = (changed(ring, x, bits) for x in "aqb")
    whole = "q"
    if of.bits < 32:
        whole = changed(type_of("int32"), "q", convert)
    elif is_signed:  # INT_MIN / -1 wraps
        whole = f"(q >= 2147483648.0 ? ({w})-2147483648.0 : q)"
    return {
        "t": t,
        "w": w,
        "last": str(of.bits - 1),
        "x": changed(w, "a", convert),
        "y": changed(w, "b", convert),
        "half": f"(x < 0 ? ({w})-0.5{suffix} : ({w})0.5{suffix})" if is_signed else f"0.5{suffix}",
        "whole": changed(t, whole, convert),
        "rest": changed(t, f"({a} - {q} * {b})", bits),
    }
