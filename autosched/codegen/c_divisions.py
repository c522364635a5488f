"""Divisions of whole integer vectors in languages of the C family.

Processors divide vectors of floats only, and compilers take those of integers apart into lanes. Up to 32 bits, floating
point is exact: `(a + 0.5) / b` is at least `0.5 / b` away from the integers on both sides, and its rounding error is
smaller (`llvm_ops` has the same in LLVM's language). The results are the language's: see `c_text`.
"""

from __future__ import annotations

from autosched.codegen.dialects import Dialect
from autosched.ir.dtype import INT32, DType, dtype

#: `{t}` the vectors' type, `{n}` its name, `{w}` vectors of floats, `{last}` the number of the sign bit
TEMPLATES = {
    "truncdiv": """\
{f} {t} truncdiv_{n}({t} a, {t} b) {{
  const {w} x = {x}, y = {y}, q = y == 0 ? ({w})0 : (x + {half}) / y;
  return {whole};
}}""",
    "truncmod": """\
{f} {t} truncmod_{n}({t} a, {t} b) {{
  const {t} r = {rest}, zero = 0;
  return b == zero ? zero : r;
}}""",
    # a comparison of vectors is -1 where it holds
    "floordiv": """\
{f} {t} floordiv_{n}({t} a, {t} b) {{
  const {t} q = {quotient}(a, b), r = {rest_of_q}, zero = 0;
  return b == zero ? q : q + ((r != zero) & ((r ^ b) < zero));
}}""",
    "floormod": """\
{f} {t} floormod_{n}({t} a, {t} b) {{
  const {t} r = {remainder}(a, b), zero = 0;
  return r + ((r != zero) & ((r ^ b) < zero) & b);
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


def words(op: str, of: DType, d: Dialect) -> dict[str, str]:
    """What the template of an operator on vectors of integers says of their type."""
    assert d.vectors is not None
    if op.endswith("_by"):
        return {"last": str(of.bits - 1)}
    convert, bits = d.vectors.convert.format, d.vectors.bits.format
    vector, number = d.type_name(of), dtype(f"uint{of.bits}").with_lanes(of.lanes)
    wide = dtype("float32" if of.bits <= 16 else "float64").with_lanes(of.lanes)
    w, is_signed = d.type_name(wide), of.kind == "int"
    suffix = d.suffixes.get(wide.scalar, "")

    def rest(quotient: str) -> str:
        a, q, b = (bits(type=d.type_name(number), x=x) for x in ("a", quotient, "b"))
        return bits(type=vector, x=f"{a} - {q} * {b}")

    whole = convert(type=vector, x="q")
    if of.bits < 32:
        whole = convert(type=vector, x=convert(type=d.type_name(INT32.with_lanes(of.lanes)), x="q"))
    elif is_signed:  # INT_MIN / -1 wraps
        whole = convert(type=vector, x=f"q >= 2147483648.0 ? ({w})-2147483648.0 : q")
    quotient, remainder = (f"{name}_{vector}" for name in ("truncdiv", "truncmod"))
    return {
        "w": w,
        "x": convert(type=w, x="a"),
        "y": convert(type=w, x="b"),
        "half": f"(x < 0 ? ({w})-0.5{suffix} : ({w})0.5{suffix})" if is_signed else f"0.5{suffix}",
        "whole": whole,
        "rest": rest(f"{quotient}(a, b)"),
        "rest_of_q": rest("q"),
        "quotient": quotient,
        "remainder": remainder,
    }


#: what each calls, which is defined before it
CALLED = {"truncmod": "truncdiv", "floordiv": "truncdiv", "floormod": "truncmod"}
