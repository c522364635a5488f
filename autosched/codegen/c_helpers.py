"""Functions that a source of the C family defines, for operators that no expression says safely."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autosched.codegen import c_divisions, c_math
from autosched.codegen.c_text import INDEX, SYMBOLS, literal, unsigned
from autosched.codegen.dialects import Dialect, Vectors
from autosched.codegen.halves import Half
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import OPS

# Each gives the language's answer where C's is undefined or differs: division by zero is 0 and INT_MIN / -1 wraps,
# `floordiv` rounds down, shifts by the width or more empty the number, `min` and `max` of floats propagate NaN, and
# conversion of floats to integers saturates, NaN becoming 0.

#: `{f}` qualifiers, `{n}` suffix of the name, `{t}` type, `{u}` its unsigned type, `{bits}` its width, `{one}` and
#: `{half}` floats of the type. [[c ? a : b]] is a choice, lane by lane in vectors
_INTEGER = {
    "min": "{f} {t} min_{n}({t} a, {t} b) {{ return [[a < b ? a : b]]; }}",
    "max": "{f} {t} max_{n}({t} a, {t} b) {{ return [[a > b ? a : b]]; }}",
    "shl": "{f} {t} shl_{n}({t} a, {t} b) {{ return ({u})b < {bits} ? ({t})(({u})a << b) : 0; }}",
    "popcount": "{f} {t} popcount_{n}({t} a) {{ return {popcount}(({u})a); }}",
    "clz": "{f} {t} clz_{n}({t} a) {{ return {clz}; }}",
}
#: of vectors, in whose registers it counts pairs, then fours, then bytes; `{every}` has one bit in each byte
_COUNTED = """\
{f} {t} popcount_{n}({t} counted) {{
  {u} a = ({u})counted;
  a -= a >> 1 & {every} * 0x55;
  a = (a & {every} * 0x33) + (a >> 2 & {every} * 0x33);
  a = (a + (a >> 4)) & {every} * 0x0f;
  return ({t})(a * {every} >> {bits} - 8);
}}"""
_SIGNED = {
    "abs": "{f} {t} abs_{n}({t} a) {{ return [[a < 0 ? ({t})-({u})a : a]]; }}",
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
    "min": "{f} {t} min_{n}({t} a, {t} b) {{ return [[a < b || a != a ? a : b]]; }}",
    "max": "{f} {t} max_{n}({t} a, {t} b) {{ return [[a > b || a != a ? a : b]]; }}",
    # the exponential of -|a| cannot overflow, and far below zero it is the result
    "sigmoid": """\
{f} {t} sigmoid_{n}({t} a) {{
  const {t} s = {exp}([[a < 0 ? a : -a]]);
  return ([[a < 0 ? s : {one}]]) / ({one} + s);
}}""",
    # exact: see `formulas`. OpenCL's quotient may be a little too small, too. This and the next two serve vectors, too
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
  const {t} r = {fmod}(a, b), moved = [[(r < 0) != (b < 0) ? r + b : r]];
  return [[b == 0 ? r : [[r == 0 ? {copysign}(r, b) : moved]]]];
}}""",
    "floordiv": """\
{f} {t} floordiv_{n}({t} a, {t} b) {{
  const {t} r = {fmod}(a, b), plain = (a - r) / b;
  const {t} q = [[r != 0 && (r < 0) != (b < 0) ? plain - 1 : plain]], whole = {floor}(q);
  const {t} near = [[q - whole > {half} ? whole + 1 : whole]];
  return [[b == 0 ? a / b : [[q == 0 ? {copysign}(q, a / b) : near]]]];
}}""",
}
_CALLED = {
    "sigmoid": ("exp",),
    "fmod": ("abs", "trunc", "copysign"),
    "floormod": ("fmod", "copysign"),
    "floordiv": ("fmod", "floor", "copysign"),
}
_SATURATE = "{f} {t} saturate_{n}_{sn}({s} a) {{ return {saturated}; }}"
_CLIP = """\
{f} {t} saturate_{t}_{s}({s} a) {{
  const {s} b = [[a != a ? {zero} : a]];
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
_FORMULA = """\
{f} {t} {name}({parameters}) {{
  {lines}
}}"""
_RARE = """\
static __attribute__((noinline, cold)) {t} {name}({mask} is_rare, {t} usual, {parameters}) {{
  for (int i = 0; i < {lanes}; ++i)
    if (is_rare[i]) usual[i] = {value};
  return usual;
}}"""
_TAKEN = "{f} {t} {name}({parameters}) {{ return {value}; }}"
_COMBINED = "{f} {t} {name}({v} v) {{ return {value}; }}"
_UNARY = frozenset(("abs", "popcount", "clz", "sigmoid"))
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
        low, high = self._halves("v", half)
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

    def _in_turn(self, places: Sequence[int], parts: Sequence[int], names: Sequence[str], of: DType) -> str:
        """The elements at `places` of more than two vectors: those of the first two, then each of the others in."""
        vectors, count = self._dialect.vectors, len(places)
        assert vectors is not None
        value, mask = names[0], self.type_of(dtype(f"int{of.bits}").with_lanes(count))
        for k, (first, name) in enumerate(zip(parts[1:], names[1:], strict=True)):
            lanes = []
            for i, at in enumerate(places):
                old = at - parts[0] if k == 0 else i
                lanes.append(count + at - first if first <= at < first + count else old % count)
            value = vectors.shuffled.format(mask=mask, a=value, b=name, i=", ".join(map(str, lanes)))
        return value

    def _halves(self, x: str, half: DType) -> tuple[str, str]:
        vectors = self._dialect.vectors
        assert vectors is not None
        if half.lanes == 1:
            return vectors.element.format(x=x, i=0), vectors.element.format(x=x, i=1)
        low, high = (part.format(x=x, type=self._dialect.type_name(half)) for part in vectors.halves)
        return low, high

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
        v = self._dialect.vectors
        value = (v.listed or v.splat).format(type=result, x=", ".join(lanes))
        if v.shuffled and len(places) == of.lanes and len(parts) > 2:
            value = self._in_turn(places, parts, names, of)
        return self._define(op, result, _TAKEN, {"t": result, "parameters": parameters, "value": value})

    def math(self, op: str, of: DType, count: int) -> str:
        """The function for the math operator `op` on `count` operands of type `of`, scalars or vectors."""
        written = self._formula(op, of, count) if of.lanes > 1 else None
        if written is not None:
            return written
        if op in ("sigmoid", "fmod"):
            return self.name(op, str(of))
        function = self._dialect.function_name(op, of.scalar)
        if of.lanes == 1 or not self._lane:
            return self._sound(op, of) if of.lanes > 1 else function
        if op in _PREDICATES:
            return self.lanewise(function, dtype(f"int{of.bits}x{of.lanes}"), of, count, "-(bool){x}")
        return self.lanewise(function, of, of, count)

    @property
    def _has_formulas(self) -> bool:
        return self._dialect.vectors is not None and self._dialect.vectors.formulas

    def _formula(self, op: str, of: DType, count: int) -> str | None:
        """The function of vectors that a formula makes, None without one."""
        if not self._has_formulas:
            return None
        if op == "sqrt":  # which the dialect defines
            return f"sqrt_{self.type_of(of)}"
        if op == "rsqrt":
            words = {"t": self.type_of(of), "parameters": f"{self.type_of(of)} a"}
            return self._define(
                op, words["t"], _FORMULA, {**words, "lines": f"return 1 / {self.math('sqrt', of, 1)}(a);"}
            )
        operands = ["a", "b", "c"][:count]
        vectors = self._dialect.vectors
        lines = c_math.body(op, of, operands, self, vectors is not None and vectors.fuses)
        if lines is None:
            return None
        words = {"parameters": ", ".join(f"{self.type_of(of)} {x}" for x in operands), "lines": "\n  ".join(lines)}
        return self._define(op, self.type_of(of), _FORMULA, {"t": self.type_of(of), **words})

    # -- what a formula asks for: see `c_math.Writer` ----------------------------------------
    def type_of(self, of: DType) -> str:
        return self._dialect.type_name(of)

    def literal(self, x: int | float, of: DType) -> str:
        return literal(x, of.scalar, self._dialect).text

    def splat(self, x: str, of: DType) -> str:
        assert self._dialect.vectors is not None
        return self._dialect.vectors.splat.format(type=self.type_of(of), x=x)

    def either(self, mask: str, a: str, b: str) -> str:
        assert self._dialect.vectors is not None
        return self._dialect.vectors.either(mask, a, b)

    def any(self, mask: str, of: DType) -> str:
        return f"{self.combined('bitor', of)}({mask}) != 0"

    def rare(self, name: str, of: DType, count: int) -> str:
        operands = ["a", "b", "c"][:count]
        scalar = self._dialect.function_name(name, of.scalar)
        words = {
            "t": self.type_of(of),
            "mask": self.type_of(dtype(f"int{of.bits}").with_lanes(of.lanes)),
            "parameters": ", ".join(f"{self.type_of(of)} {x}" for x in operands),
            "lanes": str(of.lanes),
            "value": f"{scalar}({', '.join(self._lane.format(x=x, i='i') for x in operands)})",
        }
        return self._define(f"rare_{name}", words["t"], _RARE, words)

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
        if of.lanes > 1 and self._lane and not self._is_whole(op, of):
            return self.lanewise(self.name(op, of.scalar), of, of, 1 if op in _UNARY else 2)
        table = _FLOAT if of.is_float else _INTEGER | (_SIGNED if of.kind == "int" else _UNSIGNED)
        if of.kind == "uint" and op in ("floordiv", "floormod"):  # all roundings agree
            op = op.replace("floor", "trunc")
        if of.lanes > 1 and op in c_divisions.TEMPLATES and of.is_integer:
            return self.in_floats(op, of)
        words = {"t": self.type_of(of), "bits": str(of.bits)}
        words["u"] = self.type_of(unsigned(of)) if of.is_integer else ""
        if of.is_float:
            called = _CALLED.get(op, ())
            words |= {f: self.math(f, of, 2 if f in ("copysign", "fmod") else 1) for f in called}
            words |= self._remainder_words(of) if op == "fmod" else {}
        words["clz"] = self._dialect.clz.format(x=f"({words['u']})a", bits=of.bits)
        words |= {"popcount": self._dialect.popcount, "one": self._number("1", of), "half": self._number("0.5", of)}
        template = table[op]
        if op == "popcount" and of.lanes > 1:
            words["every"] = f"({self._dialect.types[f'uint{of.bits}']})0x{(1 << of.bits) // 255:x}"
            template = _COUNTED
        return self._define(op, words["t"], template, words, of.lanes)

    def _number(self, x: str, of: DType) -> str:
        """A number as a value of a type."""
        return self.splat(x, of) if of.lanes > 1 and self._lane else f"({self.type_of(of)}){x}"

    def _is_whole(self, op: str, of: DType) -> bool:
        """Whether an operator of vectors is written with operators of vectors, though functions take scalars."""
        vectors = self._dialect.vectors
        if vectors is None or not vectors.keeps_whole:
            return False
        if op in ("min", "max", "popcount") or (of.is_integer and (op == "abs" or op in c_divisions.TEMPLATES)):
            return True
        return of.is_float and op in ("sigmoid", "floordiv", "floormod") and vectors.formulas

    def in_floats(self, op: str, of: DType) -> str:
        """The function that divides integer vectors, or integers in lanes of which a compiler makes vectors."""
        op = op.replace("floor", "trunc") if of.kind == "uint" else op  # all roundings agree
        if op in c_divisions.CALLED:
            self.in_floats(c_divisions.CALLED[op], of)
        words = c_divisions.words(of, self._dialect)
        suffix = words["t"] if of.lanes > 1 else f"lane_{words['t']}"
        return self._define(op, suffix, c_divisions.TEMPLATES[op], words, of.lanes)

    def _remainder_words(self, of: DType) -> dict[str, str]:
        """What `fmod` calls: the last resort is the language's function, lane by lane."""
        d = self._dialect
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
        vectors = self._dialect.vectors
        is_clipped = vectors is not None and vectors.keeps_whole and to.bits <= source.bits in (32, 64)
        if to.lanes > 1 and self._lane and not is_clipped:
            return self.lanewise(self.saturate(dtype(to.scalar), dtype(source.scalar)), to, source, 1)
        t, s = self._dialect.type_name(to), self._dialect.type_name(source)
        low, high = (literal(int(end), dtype(to.scalar), self._dialect).text for end in (to.min, to.max))
        end = literal(float(int(to.max) + 1), dtype(source.scalar), self._dialect).text
        if to.lanes > 1 and is_clipped:
            return self._define("saturate", f"{t}_{s}", _CLIP, {"t": t, "s": s, **self._clipped(to, source)}, to.lanes)
        number = self._dialect.saturate.format(type=t, x=f"a != a ? ({s})0 : a", low=low, high=high, end=end)
        return self._define("saturate", f"{t}_{s}", _SATURATE, {"t": t, "s": s, "saturated": number, "n": t, "sn": s})

    def _clipped(self, to: DType, source: DType) -> dict[str, str]:
        """`clipped`: the lanes of the float vector `b`, none of which is NaN, as integers as wide or narrower."""
        d = self._dialect

        def number(value: int, of: DType) -> str:
            return self.splat(self.literal(float(value) if of.is_float else value, of), of)

        low, high = (number(int(end), source) for end in (to.min, to.max))
        if to.bits == source.bits:  # whose largest number no float is
            whole = d.converted(f"[[b < {low} ? {low} : b]]", source, to)
            clipped = f"[[b >= {number(int(to.max) + 1, source)} ? {number(int(to.max), to)} : {whole}]]"
        else:
            wide = dtype(f"int{source.bits}").with_lanes(to.lanes)
            within = f"[[b < {low} ? {low} : [[b > {high} ? {high} : b]]]]"
            clipped = d.converted(d.converted(within, source, wide), wide, to)
        return {"zero": number(0, source), "clipped": clipped}

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

    def _define(self, op: str, suffix: str, template: str, words: dict[str, str], lanes: int = 1) -> str:
        """The name of the function of that text. The first to have a name keeps it, others get a number: what a name
        says may be less than what its function depends on. With `lanes`, choices are those of vectors."""
        first = re.sub(r"\W+", "_", f"{op}_{suffix}").rstrip("_")
        name, number = first, 1
        while True:
            text = template.format(**{"f": self._dialect.function, "name": name, "n": suffix, **words})
            text = _with_choices(text, self._dialect.vectors if lanes > 1 else None)
            if self._texts.setdefault(name, text) == text:
                return name
            number += 1
            name = f"{first}_{number}"


_CHOICE = re.compile(r"\[\[({0}) \? ({0}) : ({0})\]\]".format(r"(?:(?!\[\[|\]\]).)*?"), re.DOTALL)


def _with_choices(text: str, vectors: Vectors | None) -> str:
    """Write [[c ? a : b]] in C, of vectors as the language chooses lane by lane."""

    def written(found: re.Match[str]) -> str:
        condition, a, b = found.groups()
        if vectors is None or not vectors.choose:
            return f"{condition} ? {a} : {b}"
        for symbol in ("||", "&&"):  # which are of numbers only
            parts = condition.split(f" {symbol} ")
            condition = f" {symbol[0]} ".join(f"({p})" for p in parts) if len(parts) > 1 else condition
        return vectors.either(condition, a, b)

    while (after := _CHOICE.sub(written, text)) != text:
        text = after
    return text
