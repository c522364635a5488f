"""Pieces of C: text with its type and precedence, names, and the names that the C library has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.codegen import c_divisions
from autosched.codegen.dialects import Dialect
from autosched.codegen.halves import Half
from autosched.ir.dtype import INT32, INT64, DType, dtype
from autosched.ir.expr import OPS
from autosched.ir.ranges import RULES, Interval, of_type

#: C's levels, tighter binding is larger
CONDITIONAL, OR, AND, BITOR, BITXOR, BITAND, EQUALITY, RELATION, SHIFT, ADD, MUL, UNARY, ATOM = range(3, 16)
PRECEDENCE = {
    "||": OR,
    "&&": AND,
    "|": BITOR,
    "^": BITXOR,
    "&": BITAND,
    "==": EQUALITY,
    "!=": EQUALITY,
    "<": RELATION,
    "<=": RELATION,
    ">": RELATION,
    ">=": RELATION,
    "<<": SHIFT,
    ">>": SHIFT,
    "+": ADD,
    "-": ADD,
    "*": MUL,
    "/": MUL,
    "%": MUL,
}
#: operator of `ir.expr.OPS` -> C's infix
SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "bitand": "&",
    "bitor": "|",
    "bitxor": "^",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&&",
    "or": "||",
}
#: C's type of index arithmetic: `int` or `long`, decided when the program is built
INDEX = "index_t"
TRUTH = Interval(0, 1)
_ZERO = Interval(0, 0)
_INT32_RANGE, _INT64_RANGE = of_type(INT32), of_type(INT64)


@dataclass(frozen=True, slots=True)
class Code:
    """C text, the precedence of its outermost operator and the type C gives it.

    `ctype` is a type after integer promotion (`int32`, `uint32`, `int64`, `uint64`, a float, or a
    vector), or INDEX. The value of a scalar integer lies in `range`. `mask` marks a vector condition:
    integers whose lanes are 0 or -1.
    """

    text: str
    prec: int
    ctype: str
    range: Interval = _ZERO
    mask: bool = False

    def at(self, level: int) -> str:
        """The text as an operand of an operator that binds as tightly as `level`."""
        return self.text if self.prec >= level else f"({self.text})"


def promoted(of: DType) -> str:
    """C's type for a value of this type in arithmetic."""
    return "int32" if of.is_bool or (of.is_integer and of.bits < 32) else str(of)


def infix(symbol: str, a: Code, b: Code, ctype: str, range: Interval = _ZERO) -> Code:
    """`a symbol b`, grouping to the left; mixtures that compilers warn about get parentheses."""
    level = PRECEDENCE[symbol]
    left = a.at(ATOM if _is_confusing(symbol, a) else level)
    right = b.at(ATOM if _is_confusing(symbol, b) else level + 1)
    return Code(f"{left} {symbol} {right}", level, ctype, range)


def _is_confusing(symbol: str, operand: Code) -> bool:
    """True if compilers warn about `operand` beside `symbol` without parentheses."""
    if symbol == "||":
        return operand.prec == AND
    if PRECEDENCE[symbol] in (EQUALITY, RELATION):
        return operand.prec in (EQUALITY, RELATION)
    return symbol in ("&", "|", "^", "<<", ">>") and operand.prec < UNARY and operand.prec != PRECEDENCE[symbol]


def literal(value: int | float | bool, of: DType, dialect: Dialect) -> Code:
    """A constant of the scalar type `of`, printed so that a compiler reads back the same value."""
    if of.is_bool:
        return Code("true" if value else "false", ATOM, "int32", Interval(int(value), int(value)))
    if of.is_float:
        return _float_literal(float(value), of, dialect)
    number = int(value)
    if _INT32_RANGE.low <= number <= _INT32_RANGE.high:
        ctype = "int32"
    else:
        ctype = "uint32" if of == "uint32" else "uint64" if number > _INT64_RANGE.high else "int64"
    suffix = dialect.suffixes.get(ctype, "")
    if number in (_INT32_RANGE.low, _INT64_RANGE.low):  # C reads -2147483648 as minus a number too large for int
        text, prec = f"(-{-(number + 1)}{suffix} - 1)", ATOM
    else:
        text, prec = f"{number}{suffix}", UNARY if number < 0 else ATOM
    return Code(text, prec, ctype, Interval(number, number))


def _float_literal(value: float, of: DType, dialect: Dialect) -> Code:
    name = dialect.type_name(of)
    if math.isnan(value):
        return Code(dialect.nan if of == "float32" else f"({name}){dialect.nan}", UNARY, str(of))
    negative = math.copysign(1.0, value) < 0
    sign = "-" if negative else ""
    if math.isinf(value):
        text = dialect.infinity if of == "float32" else f"({name}){dialect.infinity}"
    else:
        text = str(of.numpy.type(abs(value))) + dialect.suffixes.get(of, "")
    return Code(sign + text, UNARY if negative or math.isinf(value) else ATOM, str(of))


def is_literal(x: Code) -> bool:
    return x.range.constant is not None and x.text[-1:].isalnum() and x.text.lstrip("-")[:1].isdigit()


def negate(x: Code, ctype: str) -> Code:
    inner = f"({x.text})" if x.text.startswith("-") else x.at(UNARY)
    return Code(f"-{inner}", UNARY, ctype, RULES["neg"](x.range))


def conditional(condition: Code, a: Code, b: Code, ctype: str) -> Code:
    text = f"{condition.at(OR)} ? {a.at(CONDITIONAL)} : {b.at(CONDITIONAL)}"
    return Code(text, CONDITIONAL, ctype, a.range | b.range)


def chain(symbol: str, a: Code, b: Code) -> Code:
    """Sums and products of exact numbers, without parentheses: `a + b - c` for `a + (b - c)`."""
    if symbol == "+" and b.range.high < 0 and is_literal(b):
        return infix("-", a, Code(b.text.removeprefix("-"), ATOM, b.ctype), INDEX)
    product = b.prec == MUL and "/" not in b.text and "%" not in b.text
    if (symbol == "+" and b.prec == ADD) or (symbol == "*" and product):
        return Code(f"{a.at(b.prec)} {symbol} {b.text}", b.prec, INDEX)
    return infix(symbol, a, b, INDEX)


class Names:
    """C identifiers that read like the program's names, unique among those in scope."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._scopes: list[set[str]] = [set()]

    def declare(self, name: str) -> str:
        """A free identifier for `name` in the innermost scope: `y.outer` becomes `y_outer`."""
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "v"
        if base[0].isdigit():
            base = f"v{base}"
        if self._dialect.is_reserved(base):
            base = f"v{base}" if base.startswith("_") else f"{base}_"
        found, count = base, 0
        while any(found in scope for scope in self._scopes):
            count += 1
            found = f"{base}_{count}"
        self._scopes[-1].add(found)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A C block: names declared in it are free again after it."""
        self._scopes.append(set())
        try:
            yield
        finally:
            self._scopes.pop()

    def state(self) -> set[str]:
        """The names of the innermost scope, for `restore`."""
        return set(self._scopes[-1])

    def restore(self, state: set[str]) -> None:
        self._scopes[-1] = state


# -- functions that the source defines for operators that no C expression says safely ---------------
# Each gives the language's answer where C's is undefined or differs: division by zero is 0 and INT_MIN / -1 wraps,
# `floordiv` rounds down, shifts by the width or more empty the number, `min` and `max` of floats propagate NaN, and
# conversion of floats to integers saturates, NaN becoming 0.

#: `{f}` qualifiers, `{n}` suffix of the name, `{t}` type, `{u}` its unsigned type, `{bits}` its width
_INTEGER = {
    "min": "{f} {t} min_{n}({t} a, {t} b) {{ return a < b ? a : b; }}",
    "max": "{f} {t} max_{n}({t} a, {t} b) {{ return a > b ? a : b; }}",
    "shl": "{f} {t} shl_{n}({t} a, {t} b) {{ return ({u})b < {bits} ? ({t})(({u})a << b) : 0; }}",
    "popcount": "{f} {t} popcount_{n}({t} a) {{ return {popcount}(({u})a); }}",
    "clz": "{f} {t} clz_{n}({t} a) {{ return {clz}; }}",
}
_SIGNED = {
    "abs": "{f} {t} abs_{n}({t} a) {{ return a < 0 ? ({t})-({u})a : a; }}",
    "shr": "{f} {t} shr_{n}({t} a, {t} b) {{ return a >> (({u})b < {bits} ? b : {bits} - 1); }}",
    "truncdiv": "{f} {t} truncdiv_{n}({t} a, {t} b) {{ return b == 0 ? 0 : b == -1 ? ({t})-({u})a : a / b; }}",
    "truncmod": "{f} {t} truncmod_{n}({t} a, {t} b) {{ return b == 0 || b == -1 ? 0 : a % b; }}",
    "floordiv": """\
{f} {t} floordiv_{n}({t} a, {t} b) {{
  if (b == 0) return 0;
  if (b == -1) return ({t})-({u})a;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}}""",
    "floormod": """\
{f} {t} floormod_{n}({t} a, {t} b) {{
  if (b == 0 || b == -1) return 0;
  const {t} r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}}""",
}
_UNSIGNED = {
    "shr": "{f} {t} shr_{n}({t} a, {t} b) {{ return b < {bits} ? a >> b : 0; }}",
    "truncdiv": "{f} {t} truncdiv_{n}({t} a, {t} b) {{ return b == 0 ? 0 : a / b; }}",
    "truncmod": "{f} {t} truncmod_{n}({t} a, {t} b) {{ return b == 0 ? 0 : a % b; }}",
}
_FLOAT = {
    "min": "{f} {t} min_{n}({t} a, {t} b) {{ return a < b || a != a ? a : b; }}",
    "max": "{f} {t} max_{n}({t} a, {t} b) {{ return a > b || a != a ? a : b; }}",
    # the exponential of -|a| cannot overflow, and far below zero it is the result
    "sigmoid": """\
{f} {t} sigmoid_{n}({t} a) {{
  const {t} s = {exp}(a < 0 ? a : -a);
  return (a < 0 ? s : ({t})1) / (({t})1 + s);
}}""",
    # gcc makes a square root of it in vectors, which is something else of -inf and of -0
    "pow_half": "{f} {t} pow_half_{n}({t} a) {{ return a == -{inf} ? {inf} : {sqrt}(a) + 0; }}",
    # exact: see `llvm_math`. OpenCL's quotient may be a little too small, too. This and the next two serve vectors, too
    "fmod": """\
{f} {t} fmod_{n}({t} a, {t} b) {{
  const {t} x = {abs}(a), y = {abs}(b), q = {trunc}(x / y);
  if ({any}(!(q < {few}))) return {fmod};
  {t} r = {fma}(-q, y, x);
  r = r < 0 ? r + y : r >= y ? {fma}(-(q + 1), y, x) : r;
  return {copysign}(q == 0 ? x : r, a);
}}""",
    # NumPy's definitions: the remainder is exact and has the divisor's sign, the quotient follows from it
    "floormod": """\
{f} {t} floormod_{n}({t} a, {t} b) {{
  const {t} r = {fmod}(a, b), moved = (r < 0) != (b < 0) ? r + b : r;
  return b == 0 ? r : r == 0 ? {copysign}(r, b) : moved;
}}""",
    "floordiv": """\
{f} {t} floordiv_{n}({t} a, {t} b) {{
  const {t} r = {fmod}(a, b), plain = (a - r) / b;
  const {t} q = r != 0 && (r < 0) != (b < 0) ? plain - 1 : plain, whole = {floor}(q);
  const {t} near = q - whole > ({t})0.5 ? whole + 1 : whole;
  return b == 0 ? a / b : q == 0 ? {copysign}(q, a / b) : near;
}}""",
}
_CALLED = ("exp", "fmod", "floor", "trunc", "abs", "copysign", "sqrt")
_SATURATE = "{f} {t} saturate_{n}_{sn}({s} a) {{ return {saturated}; }}"
_CLIP = """\
{f} {t} saturate_{t}_{s}({s} a) {{
  const {s} b = a != a ? ({s})0 : a;
  return {clipped};
}}"""
_ROUND_HALF = """\
{f} {r} {name}({t} a) {{
  {bits_type} bits{dimension};
  {store};
  return {load};
}}"""

_REINTERPRET = """\
{f} {t} {name}({s} a) {{
  union {{
    {s} from;
    {t} to;
  }} bits;
  bits.from = a;
  return bits.to;
}}"""
#: of an emulated half, whose value is a float
_FROM_HALF = """\
{f} {t} {name}(float a) {{
  {bits_type} bits;
  {store};
  return ({t})bits;
}}"""
_TO_HALF = """\
{f} float {name}({s} a) {{
  {bits_type} bits = ({bits_type})a;
  return {load};
}}"""
_NEXT_HALF = """\
{f} float {name}(float a, float b) {{
  {bits_type} bits;
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  {store};
  bits = a == 0 ? (b < 0 ? 0x8001 : 1) : bits + ((b > a) == (a > 0) ? 1 : -1);
  return {load};
}}"""

_LANEWISE = """\
{f} {r} {name}({parameters}) {{
  {r} r;
  for (int i = 0; i < {lanes}; ++i) {to} = {value};
  return r;
}}"""
#: What PoCL gets wrong in vectors. Of float32 lanes, one at 2**23 or beyond, or infinite, spoils the sine of all: they
#: are computed one by one then.
_ONE_BY_ONE = """\
{f} {v} {name}({v} a) {{
  if (!any(fabs(a) >= ({v})(8388608))) return {function}(a);
  return ({v})({lanes});
}}"""
_NEAR_ONLY = frozenset(("sin", "cos", "tan"))
#: Of 8 float64 and more, an infinite lane spoils the powers of all.
_HALVED = "{f} {v} {name}({v} a, {v} b) {{ return ({v})({function}(a.lo, b.lo), {function}(a.hi, b.hi)); }}"
_IN_HALVES, _MOST_WHOLE = frozenset(("pow",)), 4
_TAKEN = "{f} {t} {name}({parameters}) {{ return {value}; }}"
_COMBINED = "{f} {t} {name}({v} v) {{ return {value}; }}"
_UNARY = frozenset(("abs", "popcount", "clz", "sigmoid", "pow_half"))
_PREDICATES = frozenset(op for op, info in OPS.items() if op.startswith("is") and info.kind == "math")


class Helpers:
    """The helper functions of one source, each defined once, in the order of first use."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lane = dialect.vectors.lane if dialect.vectors else ""
        self._texts: dict[str, str] = {}

    def definitions(self) -> list[str]:
        return list(self._texts.values())

    def state(self) -> dict[str, str]:
        """The definitions so far, for `restore`."""
        return dict(self._texts)

    def restore(self, state: dict[str, str]) -> None:
        self._texts = state

    def lanewise(self, function: str, to: DType, of: DType, count: int, lane: str = "{x}") -> str:
        """A function that applies the scalar `function` to each lane of its `count` vectors of type `of`.

        `lane` is what becomes of each result {x}. For languages whose functions take scalars only.
        """
        d = self._dialect
        operands = ["a", "b", "c"][:count]
        taken = [self._lane.format(x=x, i="i") for x in operands]
        words = {
            "r": d.type_name(to),
            "parameters": ", ".join(f"{d.type_name(of)} {x}" for x in operands),
            "lanes": str(of.lanes),
            "to": self._lane.format(x="r", i="i"),
            "value": lane.format(x=f"{function}({', '.join(taken)})"),
        }
        return self._define(function, f"{d.types[of.scalar]}{of.lanes}", _LANEWISE, words)

    def combined(self, op: str, of: DType) -> str:
        """The function that makes one number of all lanes of a vector, half on half."""
        half = dtype(of.scalar).with_lanes(of.lanes // 2)
        ring = half.is_integer and op in ("add", "mul")  # which wraps
        low, high = "v.lo", "v.hi"
        if op in ("min", "max"):
            both = f"{self.name(op, str(half))}({low}, {high})"
        elif ring and half.lanes == 1:
            wide = self._dialect.types[f"uint{max(half.bits, 32)}"]
            both = f"({self._dialect.type_name(half)})(({wide}){low} {SYMBOLS[op]} ({wide}){high})"
        elif ring and self._dialect.vectors:
            bits = self._dialect.vectors.bits.format
            a, b = (bits(type=self._dialect.type_name(unsigned(half)), x=x) for x in (low, high))
            both = bits(type=self._dialect.type_name(half), x=f"{a} {SYMBOLS[op]} {b}")
        else:
            both = f"{low} {SYMBOLS[op]} {high}"
        if half.lanes > 1:
            both = f"{self.combined(op, half)}({both})"
        vector, number = self._dialect.type_name(of), self._dialect.type_name(dtype(of.scalar))
        return self._define(f"combined_{op}", vector, _COMBINED, {"t": number, "v": vector, "value": both})

    def taken(self, places: Sequence[int], parts: Sequence[int], of: DType) -> str:
        """A function of whole vectors of type `of`, which begin at elements `parts`, that gives some elements."""
        assert self._dialect.vectors is not None
        names = [f"v{i}" for i in range(len(parts))]
        lanes = []
        for at in places:
            i = max(i for i, first in enumerate(parts) if first <= at)
            lanes.append(self._dialect.vectors.element.format(x=names[i], i=at - parts[i]))
        result, vector = self._dialect.type_name(dtype(of.scalar).with_lanes(len(places))), self._dialect.type_name(of)
        step = places[1] - places[0]
        is_line = list(places) == [step * k for k in range(len(places))] and step > 0
        op = f"every_{step}" if is_line else "taken"
        parameters = ", ".join(f"{vector} {x}" for x in names)
        value = self._dialect.vectors.splat.format(type=result, x=", ".join(lanes))
        return self._define(op, result, _TAKEN, {"t": result, "parameters": parameters, "value": value})

    def math(self, op: str, of: DType, count: int) -> str:
        """The function for the math operator `op` on `count` operands of type `of`, scalars or vectors."""
        if op in ("sigmoid", "fmod"):
            return self.name(op, str(of))
        function = self._dialect.function_name(op, of.scalar)
        if of.lanes == 1 or not self._lane:
            return self._sound(op, of) if of.lanes > 1 else function
        if op in _PREDICATES:
            return self.lanewise(function, dtype(f"int{of.bits}x{of.lanes}"), of, count, "-(bool){x}")
        return self.lanewise(function, of, of, count)

    def _sound(self, op: str, of: DType) -> str:
        """The language's function of vectors, or one that does without what drivers get wrong in it."""
        function, vector = self._dialect.math[op], self._dialect.type_name(of)
        words = {"v": vector, "function": function}
        if op in _NEAR_ONLY and of.scalar == "float32" and self._dialect.vectors:
            element = self._dialect.vectors.element
            lanes = ", ".join(f"{function}({element.format(x='a', i=i)})" for i in range(of.lanes))
            return self._define(function, vector, _ONE_BY_ONE, {**words, "lanes": lanes})
        if op in _IN_HALVES and of.scalar == "float64" and of.lanes > _MOST_WHOLE:
            half = self._sound(op, dtype(of.scalar).with_lanes(of.lanes // 2))
            return self._define(function, vector, _HALVED, {**words, "function": half})
        return function

    def name(self, op: str, ctype: str) -> str:
        """The function for `op` on operands of `ctype` (INDEX, or a scalar or vector type)."""
        if ctype == INDEX:
            return self._define(op, INDEX, {**_INTEGER, **_SIGNED}[op], {"t": INDEX, "u": INDEX, "bits": "64"})
        of = dtype(ctype)
        if of.lanes > 1 and self._lane:
            return self.lanewise(self.name(op, of.scalar), of, of, 1 if op in _UNARY else 2)
        table = _FLOAT if of.is_float else _INTEGER | (_SIGNED if of.kind == "int" else _UNSIGNED)
        if of.kind == "uint" and op in ("floordiv", "floormod"):  # all roundings agree
            op = op.replace("floor", "trunc")
        if of.lanes > 1 and op in c_divisions.TEMPLATES and of.is_integer:
            return self.in_floats(op, of)
        words = {"t": self._dialect.type_name(of), "bits": str(of.bits)}
        words["u"] = self._dialect.type_name(unsigned(of)) if of.is_integer else ""
        words |= {f: self._dialect.function_name(f, of.scalar) for f in _CALLED}
        if of.is_float:
            words |= self._remainder_words(op, of)
        words["inf"] = self._dialect.infinity
        words["clz"] = self._dialect.clz.format(x=f"({words['u']})a", bits=of.bits)
        return self._define(op, words["t"], table[op], words | {"popcount": self._dialect.popcount})

    def in_floats(self, op: str, of: DType) -> str:
        """The function that divides integer vectors, or integers in lanes of which a compiler makes vectors."""
        op = op.replace("floor", "trunc") if of.kind == "uint" else op  # all roundings agree
        if op in c_divisions.CALLED:
            self.in_floats(c_divisions.CALLED[op], of)
        words = c_divisions.words(of, self._dialect)
        suffix = words["t"] if of.lanes > 1 else f"lane_{words['t']}"
        return self._define(op, suffix, c_divisions.TEMPLATES[op], words)

    def _remainder_words(self, op: str, of: DType) -> dict[str, str]:
        """What the templates of remainders call: the last resort of `fmod` is the language's function, lane by lane."""
        d = self._dialect
        if op != "fmod":
            return {"fmod": self.name("fmod", str(of))} if op in ("floordiv", "floormod") else {}
        words = {"fma": f"fma{d.float_suffix if of.scalar == 'float32' else ''}", "any": ""}
        words["few"] = literal(2.0**20 if of.scalar == "float32" else 2.0**50, of.scalar, d).text
        function = d.function_name("fmod", of.scalar)
        words["fmod"] = f"{function}(a, b)"
        if of.lanes > 1 and d.vectors is not None:
            element = d.vectors.element.format
            lanes = ", ".join(f"{function}({element(x='a', i=i)}, {element(x='b', i=i)})" for i in range(of.lanes))
            words |= {"any": "any", "fmod": d.vectors.splat.format(type=d.type_name(of), x=lanes)}
        return words

    def saturate(self, to: DType, source: DType) -> str:
        """The function that converts a float to the integer type `to`, cut off at its ends."""
        if to.lanes > 1 and self._lane:
            return self.lanewise(self.saturate(dtype(to.scalar), dtype(source.scalar)), to, source, 1)
        t, s = self._dialect.type_name(to), self._dialect.type_name(source)
        low, high = (literal(int(end), dtype(to.scalar), self._dialect).text for end in (to.min, to.max))
        end = literal(float(int(to.max) + 1), dtype(source.scalar), self._dialect).text
        vectors = self._dialect.vectors
        if to.lanes > 1 and vectors is not None and vectors.keeps_whole and to.bits <= source.bits in (32, 64):
            return self._define("saturate", f"{t}_{s}", _CLIP, {"t": t, "s": s, "clipped": self._clipped(to, source)})
        number = self._dialect.saturate.format(type=t, x=f"a != a ? ({s})0 : a", low=low, high=high, end=end)
        return self._define("saturate", f"{t}_{s}", _SATURATE, {"t": t, "s": s, "saturated": number, "n": t, "sn": s})

    def _clipped(self, to: DType, source: DType) -> str:
        """The lanes of the float vector `b`, none of which is NaN, as integers of its width or narrower ones."""
        d = self._dialect
        assert d.vectors is not None
        splat, convert, t = d.vectors.splat, d.vectors.convert, d.type_name(to)

        def number(value: int, of: DType) -> str:
            text = literal(float(value) if of.is_float else value, of.scalar, d).text
            return splat.format(type=d.type_name(of), x=text)

        low, high = (number(int(end), source) for end in (to.min, to.max))
        if to.bits == source.bits:  # whose largest number no float is
            whole = convert.format(type=t, x=f"b < {low} ? {low} : b")
            return f"b >= {number(int(to.max) + 1, source)} ? {number(int(to.max), to)} : {whole}"
        wide = d.type_name(dtype(f"int{source.bits}").with_lanes(to.lanes))
        whole = convert.format(type=wide, x=f"b < {low} ? {low} : b > {high} ? {high} : b")
        return convert.format(type=t, x=whole)

    def round_half(self, half: Half, to: DType, ctype: str) -> str:
        """The function that rounds a float (or double) to the nearest number of a type of 16 bits."""
        of = dtype(ctype)
        words = {
            "t": self._dialect.type_name(of),
            "r": self._dialect.type_name(dtype("float32").with_lanes(of.lanes)),
            "dimension": "" if of.lanes == 1 else f"[{of.lanes}]",
        }
        return self._define(f"round_{half.name}", words["t"], _ROUND_HALF, words | self._half_words(half, to, of.lanes))

    def reinterpret(self, to: DType, source: DType, to_half: Half | None, of_half: Half | None) -> str:
        """The function that reinterprets the bits of one scalar type as another of the same width."""
        t, s = (self._dialect.type_name(of) for of in (to, source))
        template, words = _REINTERPRET, {}
        if to_half is not None:
            template, t, words = _TO_HALF, to_half.name, self._half_words(to_half, to)
        elif of_half is not None:
            template, s, words = _FROM_HALF, of_half.name, self._half_words(of_half, source)
        return self._define("reinterpret", f"{s}_as_{t}", template, {"t": t, "s": s, **words})

    def next_half(self, half: Half, of: DType) -> str:
        """`nextafter` of halves that are computed in float."""
        return self._define("nextafter", half.name, _NEXT_HALF, self._half_words(half, of))

    def _half_words(self, half: Half, of: DType, lanes: int = 1) -> dict[str, str]:
        """Words of templates: store the floats `a` as halves in `bits`, and load them from there."""
        d = self._dialect
        load, store = (half.load, half.store) if lanes == 1 else (half.load_lanes, half.store_lanes)
        pointer = f"({d.pointer_type(d.private_scope, d.types[of.scalar])}){'&' if lanes == 1 else ''}bits"
        return {
            "bits_type": d.types["uint16"],
            "store": store.format(x="a", pointer=pointer, lanes=lanes),
            "load": load.format(pointer=pointer, lanes=lanes),
        }

    def _define(self, op: str, suffix: str, template: str, words: dict[str, str]) -> str:
        """The name of the function of that text. The first to have a name keeps it, others get a number: what a name
        says may be less than what its function depends on."""
        first = re.sub(r"\W+", "_", f"{op}_{suffix}").rstrip("_")
        name, number = first, 1
        while True:
            text = template.format(**{"f": self._dialect.function, "name": name, "n": suffix, **words})
            if self._texts.setdefault(name, text) == text:
                return name
            number += 1
            name = f"{first}_{number}"


def unsigned(of: DType) -> DType:
    """The unsigned integer type of the same width and lanes."""
    return dtype(f"uint{of.bits}").with_lanes(of.lanes)
