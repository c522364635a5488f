"""Scalar expressions as C text: one table over `ir.expr.OPS`.

C computes narrow integers in `int`, and overflow of signed integers is undefined. Every integer
expression therefore carries the range of values that its C text can take. While a sum or product
stays within `int`, it is written plainly; where it might not, it is computed in the unsigned type.
`ring` returns a number that is right modulo 2^bits, `value` the number itself, cast back where the
range says that it could be off:

    uint8 sum of three elements, narrowed       (uchar)(a[i] + b[i] + c[i])
    int32 sum of two                            (int)((uint)a[i] + b[i])

Index arithmetic (`ir.expr.is_index`) is exact by contract and computed in `index_t`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autosched.codegen.c_helpers import Helpers
from autosched.codegen.c_text import (
    ADD,
    ATOM,
    CONDITIONAL,
    INDEX,
    INT32_RANGE,
    INT64_RANGE,
    MUL,
    OR,
    UNARY,
    Code,
    infix,
    literal,
    promoted,
)
from autosched.codegen.dialects import Dialect
from autosched.codegen.index_range import IndexRanges
from autosched.errors import BuildError
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr, is_index
from autosched.ir.stmt import Buffer

__all__ = ["SCALAR", "Expressions"]

_SYMBOLS = {
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
#: operators on float16 whose result is a half already, whatever they were computed in
_HALF_EXACT = frozenset("const var load select if_then_else min max neg abs floor ceil trunc round nearbyint likely".split())


@dataclass
class Expressions:
    """Turns expressions into C. The statement emitter keeps the fields up to date.

    `variables` gives each variable in scope its C name and type (INDEX or a dtype), `temporaries`
    the subexpressions that already have a name. `native_half`: whether the device computes in half
    precision; otherwise halves are 16 bits in memory and floats in registers.
    """

    dialect: Dialect
    ranges: IndexRanges
    native_half: bool = False
    helpers: Helpers = field(init=False)
    variables: dict[Expr, tuple[str, str]] = field(default_factory=dict)
    buffers: dict[Buffer, str] = field(default_factory=dict)
    temporaries: dict[Expr, Code] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.helpers = Helpers(self.dialect)

    # -- types --------------------------------------------------------------------------------
    def register(self, of: DType) -> DType:
        """The type in which values of type `of` are computed."""
        return dtype("float32").with_lanes(of.lanes) if of.scalar == "float16" and not self.native_half else of

    def type_name(self, of: DType) -> str:
        return self.dialect.type_name(self.register(of))

    # -- the forms of an expression -----------------------------------------------------------
    def index(self, e: Expr) -> Code:
        """`e` as an offset, bound or extent: exact, in `index_t` where it is index arithmetic."""
        if not is_index(e):
            return self.value(e)
        self.ranges.note(e)
        return self._index(e)

    def value(self, e: Expr) -> Code:
        """Text whose C value is the value of the scalar `e`."""
        code = self.raw(e)
        if e.dtype == "float16" and not self.native_half and e.op not in _HALF_EXACT and e not in self.temporaries:
            return self.round_half(code)
        return code

    def raw(self, e: Expr) -> Code:
        """Like `value`; an emulated float16 is not yet rounded to half precision."""
        found = self.temporaries.get(e)
        if found is not None:
            return found
        if e.op != "const" and is_index(e) and self._lives_in_index(e):
            self.ranges.note(e)
            code = self._index(e)
            return replace(code, ctype="int32", low=0, high=1) if e.dtype.is_bool else self.cast(code, e.dtype)
        if e.op in _RING and e.dtype.is_integer:
            return self.exact(self.ring(e), e.dtype)
        return SCALAR[e.op](self, e)

    def ring(self, e: Expr) -> Code:
        """Text that equals the integer `e` modulo 2^bits of its type."""
        rule = _RING.get(e.op)
        if rule is None or not e.dtype.is_integer or e in self.temporaries or is_index(e):
            return self.value(e)
        return rule(self, e)

    def condition(self, e: Expr) -> Code:
        return self.value(e)

    def _lives_in_index(self, e: Expr) -> bool:
        return e.op != "var" or self.variable(e)[1] == INDEX

    def variable(self, v: Expr) -> tuple[str, str]:
        found = self.variables.get(v)
        if found is None:
            raise BuildError(f"the variable {v.value.name!r} has no value here", asked=f"code for {v!r}")
        return found

    # -- index arithmetic ---------------------------------------------------------------------
    def _index(self, e: Expr) -> Code:
        found = self.temporaries.get(e)
        if found is not None:
            return found
        match e.op:
            case "const":
                return literal(e.value, e.dtype, self.dialect)
            case "var":
                name, ctype = self.variable(e)
                return Code(name, ATOM, INDEX) if ctype == INDEX else self._call_cast(INDEX, Code(name, ATOM, ctype))
            case "cast" | "likely":
                return self._index(e.args[0])
            case "not":
                return Code(f"!{self._index(e.args[0]).at(UNARY)}", UNARY, "int32", 0, 1)
            case "neg":
                return negate(self._index(e.args[0]), INDEX)
            case "select" | "if_then_else":
                return conditional(*(self._index(a) for a in e.args), ctype=INDEX)
        a, b = (self._index(x) for x in e.args)
        if e.op in ("add", "sub", "mul"):
            return _chain(_SYMBOLS[e.op], a, b)
        if e.op in _SYMBOLS:
            return infix(_SYMBOLS[e.op], a, b, "int32").bounded(0, 1)
        if e.op in ("min", "max"):
            return self._function(self.helpers.name(e.op, INDEX), INDEX, a, b)
        first, divisor = (self.ranges(x) for x in e.args)
        if divisor.positive and (first.nonneg or e.op.startswith("trunc")):
            return infix("/" if e.op.endswith("div") else "%", a, b, INDEX)
        return self._function(self.helpers.name(e.op, INDEX), INDEX, a, b)

    # -- conversions --------------------------------------------------------------------------
    def _call_cast(self, type_name: str, x: Code) -> Code:
        return Code(f"({type_name}){x.at(UNARY)}", UNARY, type_name)

    def cast(self, x: Code, to: DType) -> Code:
        """`(to)x`, by C's rules."""
        code = replace(self._call_cast(self.type_name(to), x), ctype=promoted(self.register(to)))
        return code.bounded(int(to.min), int(to.max)) if not to.is_float else code

    def exact(self, x: Code, of: DType) -> Code:
        """`x`, right modulo 2^bits, as the number of type `of`."""
        fits = x.within(int(of.min), int(of.max)) and x.ctype in _HOLDS[promoted(of)]
        return x if fits else self.cast(x, of)

    def common(self, a: Code, b: Code, of: DType) -> tuple[Code, Code, str]:
        """Exact operands of type `of` so that C's conversions leave both values alone."""
        if a.ctype == b.ctype:
            return a, b, a.ctype
        return self.compute_in(promoted(of), a, b)

    def compute_in(self, ctype: str, a: Code, b: Code) -> tuple[Code, Code, str]:
        """The operands with a cast on one of them if C would not compute in `ctype` by itself."""
        if ctype not in (a.ctype, b.ctype):
            a, b = (self.cast(a, dtype(ctype)), b) if not _is_literal(a) else (a, self.cast(b, dtype(ctype)))
        return a, b, ctype

    def round_half(self, x: Code) -> Code:
        return self._function(self.helpers.round_half(x.ctype), "float32", x)

    def _function(self, name: str, ctype: str, *args: Code) -> Code:
        return Code(f"{name}({', '.join(a.text for a in args)})", ATOM, ctype)

    # -- memory -------------------------------------------------------------------------------
    def element(self, buffer: Buffer, offset: Expr) -> str:
        return f"{self.buffers[buffer]}[{self.index(offset).text}]"

    def is_packed_half(self, buffer: Buffer) -> bool:
        """Whether the buffer's elements must go through the half load and store functions."""
        return buffer.dtype.scalar == "float16" and not self.native_half

    def pointer(self, buffer: Buffer, offset: Expr) -> str:
        """The address of an element, as the argument of a load or store function."""
        name = self.buffers[buffer]
        if self.is_packed_half(buffer) and buffer.scope != "global":
            d = self.dialect
            scope = d.shared_scope if buffer.scope == "shared" else d.private_scope
            name = f"({scope} {d.types['float16']}*){name}"
        index = self.index(offset)
        return name if index.text == "0" else f"{name} + {index.at(ADD)}"


def _is_literal(x: Code) -> bool:
    return x.low == x.high and x.text[-1:].isalnum() and x.text.lstrip("-")[:1].isdigit()


#: C type -> the C types whose values it holds after C's conversions, for exact operands
_HOLDS = {
    "int32": ("int32",),
    "uint32": ("int32", "uint32"),
    "int64": ("int32", "uint32", "int64"),
    "uint64": ("int32", "uint32", "int64", "uint64"),
}


def negate(x: Code, ctype: str) -> Code:
    inner = f"({x.text})" if x.text.startswith("-") else x.at(UNARY)
    return Code(f"-{inner}", UNARY, ctype, -x.high, -x.low)


def conditional(condition: Code, a: Code, b: Code, ctype: str) -> Code:
    text = f"{condition.at(OR)} ? {a.at(CONDITIONAL)} : {b.at(CONDITIONAL)}"
    return Code(text, CONDITIONAL, ctype, min(a.low, b.low), max(a.high, b.high))


def _chain(symbol: str, a: Code, b: Code) -> Code:
    """Exact arithmetic is associative: `a + (b - c)` needs no parentheses."""
    product = b.prec == MUL and "/" not in b.text and "%" not in b.text
    if (symbol == "+" and b.prec == ADD) or (symbol == "*" and product):
        return Code(f"{a.at(b.prec)} {symbol} {b.text}", b.prec, INDEX)
    return infix(symbol, a, b, INDEX)


# -- integers modulo 2^bits ---------------------------------------------------------------------


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
    return "int64" if "uint64" not in ctypes and INT64_RANGE[0] <= bounds[0] and bounds[1] <= INT64_RANGE[1] else "uint64"


def _wrapped(code: Code, ctype: str, bounds: tuple[int, int]) -> Code:
    """The range of a result: what was computed, or all of an unsigned type."""
    if ctype.startswith("u"):
        bounds = 0, int(dtype(ctype).max)
    return code.bounded(*bounds)


def _ring_binary(x: Expressions, e: Expr) -> Code:
    a, b = (x.ring(arg) for arg in e.args)
    bounds = _interval(e.op, a, b)
    a, b, ctype = x.compute_in(_place(x, e.dtype, bounds, a, b), a, b)
    return _wrapped(infix(_SYMBOLS[e.op], a, b, ctype), ctype, bounds)


def _ring_neg(x: Expressions, e: Expr) -> Code:
    a = x.ring(e.args[0])
    ctype = _place(x, e.dtype, (-a.high, -a.low), a)
    if a.ctype != ctype:
        a = x.cast(a, dtype(ctype))
    return _wrapped(negate(a, ctype), ctype, (-a.high, -a.low))


def _ring_bitnot(x: Expressions, e: Expr) -> Code:
    a = x.value(e.args[0])
    if a.ctype.startswith("u") and a.ctype != promoted(e.dtype):
        a = x.cast(a, e.dtype)  # the bits above a narrower unsigned type count too
    code = Code(f"~{a.at(UNARY)}", UNARY, a.ctype)
    return _wrapped(code, a.ctype, (~a.high, ~a.low))


def _ring_shl(x: Expressions, e: Expr) -> Code:
    a, by = e.args
    if by.op != "const":
        name = x.helpers.name("shl", e.dtype)
        code = x._function(name, promoted(e.dtype), x.value(a), x.value(by))
        return code.bounded(int(e.dtype.min), int(e.dtype.max))
    if not 0 <= by.value < e.dtype.bits:
        return literal(0, e.dtype, x.dialect)
    code = x.ring(a)
    bounds = code.low << by.value, code.high << by.value
    ctype = _place(x, e.dtype, bounds, code)
    if code.low < 0 and not ctype.startswith("u"):
        ctype = f"u{ctype}"  # shifting a negative number is undefined in C
    if code.ctype != ctype:
        code = x.cast(code, dtype(ctype))
    return _wrapped(infix("<<", code, literal(by.value, e.dtype, x.dialect), ctype), ctype, bounds)


def _ring_cast(x: Expressions, e: Expr) -> Code:
    (arg,) = e.args
    source, to = arg.dtype, e.dtype
    if source.is_float:
        name = x.helpers.saturate(to, x.register(source))
        code = x._function(name, promoted(to), x.value(arg))
        return code.bounded(int(to.min), int(to.max))
    code = x.ring(arg) if to.bits <= source.bits and source.is_integer else x.value(arg)
    return x.cast(code, to) if to.bits < 64 and code.ctype in ("int64", "uint64") else code


Rule = Callable[[Expressions, Expr], Code]
_RING: dict[str, Rule] = {
    "add": _ring_binary,
    "sub": _ring_binary,
    "mul": _ring_binary,
    "neg": _ring_neg,
    "bitnot": _ring_bitnot,
    "shl": _ring_shl,
    "cast": _ring_cast,
}


# -- values ---------------------------------------------------------------------------------------


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
    return infix(_SYMBOLS[e.op], a, b, a.ctype)


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
        return x._function(x.dialect.math["trunc"], a.ctype, quotient)
    return x._function(x.helpers.name(e.op, a.ctype), a.ctype, a, b)


def _division(x: Expressions, e: Expr, op: str) -> Code:
    a, b = (x.value(arg) for arg in e.args)
    modulo = op.endswith("mod")
    if b.low > 0 and (a.low >= 0 or op.startswith("trunc")):  # C's own division rounds to zero
        a, b, ctype = x.common(a, b, e.dtype)
        code = infix("%" if modulo else "/", a, b, ctype)
        return code.bounded(*_quotient_range(a, b, modulo))
    code = x._function(x.helpers.name(op, e.dtype), "", a, b)
    return _typed(x, code, e.dtype)


def _quotient_range(a: Code, b: Code, modulo: bool) -> tuple[int, int]:
    if modulo:
        largest = b.high - 1
        return max(-largest, min(a.low, 0)), min(largest, max(a.high, 0))
    return -(-a.low // b.low) if a.low < 0 else a.low // b.high, a.high // b.low if a.high >= 0 else -(-a.high // b.high)


def _min_max(x: Expressions, e: Expr) -> Code:
    a, b = (x.value(arg) for arg in e.args)
    if e.dtype.is_bool:
        return infix("&&" if e.op == "min" else "||", a, b, "int32").bounded(0, 1)
    if e.dtype.is_float:
        return x._function(x.helpers.name(e.op, a.ctype), a.ctype, a, b)
    a, b, ctype = x.common(a, b, e.dtype)
    pick = min if e.op == "min" else max
    code = x._function(x.helpers.name(e.op, ctype), ctype, a, b)
    return code.bounded(pick(a.low, b.low), pick(a.high, b.high))


def _abs(x: Expressions, e: Expr) -> Code:
    a = x.value(e.args[0])
    if e.dtype.is_float:
        return x._function(x.dialect.math["abs"], a.ctype, a)
    if a.low >= 0:
        return a
    return _typed(x, x._function(x.helpers.name("abs", e.dtype), "", a), e.dtype)


def _bitwise(x: Expressions, e: Expr) -> Code:
    a, b, ctype = x.common(x.value(e.args[0]), x.value(e.args[1]), e.dtype)
    code = infix(_SYMBOLS[e.op], a, b, ctype)
    if a.low >= 0 and b.low >= 0:
        high = (1 << max(a.high, b.high).bit_length()) - 1
        return code.bounded(0, min(a.high, b.high) if e.op == "bitand" else high)
    return code.bounded(int(e.dtype.min), int(e.dtype.max))


def _shr(x: Expressions, e: Expr) -> Code:
    a, by = x.value(e.args[0]), e.args[1]
    if by.op != "const":
        return _typed(x, x._function(x.helpers.name("shr", e.dtype), "", a, x.value(by)), e.dtype)
    amount = by.value if 0 <= by.value < e.dtype.bits else e.dtype.bits - 1
    if amount != by.value and e.dtype.kind == "uint":
        return literal(0, e.dtype, x.dialect)
    if amount >= 32 and a.ctype in ("int32", "uint32"):
        a = x.cast(a, e.dtype).bounded(a.low, a.high)
    shift = literal(amount, dtype("int32"), x.dialect)
    return infix(">>", a, shift, a.ctype).bounded(a.low >> amount, a.high >> amount)


def _popcount(x: Expressions, e: Expr) -> Code:
    return _typed(x, x._function(x.helpers.name("popcount", e.dtype), "", x.value(e.args[0])), e.dtype)


def _compare(x: Expressions, e: Expr) -> Code:
    of = e.args[0].dtype
    a, b = (x.value(arg) for arg in e.args)
    if not of.is_float:
        a, b, _ = x.common(a, b, of)
    return infix(_SYMBOLS[e.op], a, b, "int32").bounded(0, 1)


def _logic(x: Expressions, e: Expr) -> Code:
    a, b = (x.condition(arg) for arg in e.args)
    return infix(_SYMBOLS[e.op], a, b, "int32").bounded(0, 1)


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


def _math(x: Expressions, e: Expr) -> Code:
    args = [x.value(a) for a in e.args]
    if e.op == "sigmoid":
        return x._function(x.helpers.name("sigmoid", args[0].ctype), args[0].ctype, *args)
    code = x._function(x.dialect.math[e.op], args[0].ctype, *args)
    return replace(code, ctype="int32").bounded(0, 1) if e.dtype.is_bool else code


def _no_scalar(x: Expressions, e: Expr) -> Code:
    raise BuildError(f"{e.op!r} is no scalar operator of a lowered program", asked=f"code for {e!r}")


_MATH = (
    "exp exp2 exp10 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid sqrt "
    "rsqrt floor ceil trunc round nearbyint isnan isinf isfinite pow fmod atan2 hypot copysign"
).split()
#: One row per operator of `ir.expr.OPS`; `_RING` overrides the rows of wrapping integer operators.
SCALAR: dict[str, Rule] = {
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
    "bitnot": _ring_bitnot,
    "shl": _ring_shl,
    "shr": _shr,
    "popcount": _popcount,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compare),
    "and": _logic,
    "or": _logic,
    "not": _not,
    "likely": _likely,
    "select": _choice,
    "if_then_else": _choice,
    "cast": _cast,
    **dict.fromkeys(_MATH, _math),
    "load": _load,
    # tensor reads and reductions are lowered away; vectors are the other table's, or taken apart by lane
    "read": _no_scalar,
    "reduce": _no_scalar,
    "ramp": _no_scalar,
    "broadcast": _no_scalar,
}
