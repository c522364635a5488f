"""Scalar expressions as C text: one row for each operator of `ir.expr.OPS`.

C computes narrow integers in `int`, and overflow of signed integers is undefined. Every integer
expression therefore carries the range of values that its C text can take. While a sum or product
stays within `int`, it is written plainly; where it might not, it is computed in the unsigned type.
`ring` returns a number that is right modulo 2^bits (the rows of `RING`), `value` the number itself
(those of `SCALAR`), cast back where the range says that it could be off:

    uint8 sum of three elements                 (uchar)(a[i] + b[i] + c[i])
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
    INDEX,
    SYMBOLS,
    TRUTH,
    UNARY,
    Code,
    chain,
    conditional,
    infix,
    is_literal,
    literal,
    negate,
    promoted,
)
from autosched.codegen.dialects import Dialect
from autosched.codegen.halves import Half
from autosched.codegen.index_range import IndexRanges
from autosched.codegen.legalize import HALF_EMULATED, HALF_NATIVE, legal
from autosched.errors import BuildError
from autosched.ir.dtype import INT32, DType, dtype
from autosched.ir.expr import OPS, Expr, is_index, variables
from autosched.ir.ops import CHOICES, COMPARISONS
from autosched.ir.ranges import RULES, Interval, of_type
from autosched.ir.stmt import Buffer

#: C type -> the C types whose values it holds after C's conversions, for exact operands
_HOLDS = {
    "int32": ("int32",),
    "uint32": ("int32", "uint32"),
    "int64": ("int32", "uint32", "int64"),
    "uint64": ("int32", "uint32", "int64", "uint64"),
}


@dataclass
class Expressions:
    """Emitter of expressions. The emitter of statements keeps its fields up to date.

    `variables` gives each variable in scope its C name and type (INDEX or a dtype), `temporaries`
    the subexpressions that already have a name. `native_half`: whether the device computes in half
    precision; otherwise halves are 16 bits in memory and floats in registers.
    """

    dialect: Dialect
    ranges: IndexRanges
    native_half: bool = False
    helpers: Helpers = field(init=False)
    in_float: frozenset[str] = field(init=False)  #: see `legalize`
    variables: dict[Expr, tuple[str, str]] = field(default_factory=dict)
    buffers: dict[Buffer, str] = field(default_factory=dict)
    temporaries: dict[Expr, Code] = field(default_factory=dict)
    #: writes all lanes of a vector as one number; what emits vectors sets it
    combined: Callable[[Expr], Code] | None = None
    lane: Expr | None = None  #: the variable of a loop over lanes, of which the compiler makes vectors

    def __post_init__(self) -> None:
        self.helpers = Helpers(self.dialect)
        self.in_float = HALF_NATIVE if self.native_half else HALF_EMULATED

    # -- types --------------------------------------------------------------------------------
    def register(self, of: DType) -> DType:
        """The type in which values of type `of` are computed."""
        return dtype("float32").with_lanes(of.lanes) if self.half(of) else of

    def half(self, of: DType) -> Half | None:
        """How numbers of a type are loaded and stored that are computed in float; of other types, None."""
        return self.dialect.halves.get(of.scalar) if of.scalar != "float16" or not self.native_half else None

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
        """C text of the scalar `e`."""
        found = self.temporaries.get(e)
        if found is not None:
            return self.cast(found, e.dtype) if found.ctype == INDEX else found
        if e.op != "const" and is_index(e) and (e.op != "var" or self.variable(e)[1] == INDEX):
            self.ranges.note(e)
            code = self._index(e)
            return replace(code, ctype="int32", range=TRUTH) if e.dtype.is_bool else self.cast(code, e.dtype)
        if e.op in RING and e.dtype.is_integer:
            return self.exact(self.ring(e), e.dtype)
        plain = legal(e, self.in_float)
        return SCALAR[e.op](self, e) if plain is e else self.value(plain)

    def unrounded(self, e: Expr) -> Expr:
        """The operand of a store in place of `e`: storing an emulated half rounds by itself."""
        plain = legal(e, self.in_float)
        return plain.args[0] if plain.op == "cast" and e not in self.temporaries else e

    def ring(self, e: Expr) -> Code:
        """Text that equals the integer `e` modulo 2^bits of its type."""
        rule = RING.get(e.op)
        if rule is None or not e.dtype.is_integer or e in self.temporaries or is_index(e):
            return self.value(e)
        return rule(self, e)

    def values(self, e: Expr) -> list[Code]:
        """The operands of `e`."""
        return [self.value(a) for a in e.args]

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
                plain = Code(name, ATOM, ctype)
                return plain if ctype == INDEX or e.dtype.is_bool else self._call_cast(INDEX, plain)
            case "cast" | "likely":
                return self._index(e.args[0])
            case "not":
                return Code(f"!{self._index(e.args[0]).at(UNARY)}", UNARY, "int32", TRUTH)
            case "neg":
                return negate(self._index(e.args[0]), INDEX)
            case "select" | "if_then_else":
                condition, then, otherwise = (self._index(a) for a in e.args)
                return conditional(condition, then, otherwise, INDEX)
        a, b = (self._index(x) for x in e.args)
        if e.op in ("add", "sub", "mul"):
            return chain(SYMBOLS[e.op], a, b)
        if e.op in SYMBOLS:
            return infix(SYMBOLS[e.op], a, b, "int32", TRUTH)
        if e.op not in ("min", "max"):
            first, divisor = map(self.ranges.numbers.of, e.args)
            if divisor.low > 0 and (first.non_negative or e.op.startswith("trunc")):
                return infix("/" if e.op.endswith("div") else "%", a, b, INDEX)
        return self.function(self.helpers.name(e.op, INDEX), INDEX, a, b)

    # -- conversions --------------------------------------------------------------------------
    def _call_cast(self, type_name: str, x: Code) -> Code:
        return Code(f"({type_name}){x.at(UNARY)}", UNARY, type_name)

    def typed(self, x: Code, of: DType) -> Code:
        """`x` as any value of type `of`."""
        return replace(x, ctype=promoted(self.register(of)), range=x.range if of.is_float else of_type(of))

    def cast(self, x: Code, to: DType) -> Code:
        """`(to)x`, by C's rules."""
        return self.typed(self._call_cast(self.type_name(to), x), to)

    def exact(self, x: Code, of: DType) -> Code:
        """`x`, right modulo 2^bits, as the number of type `of`."""
        fits = x.range.within(of_type(of)) and x.ctype in _HOLDS[promoted(of)]
        return x if fits else self.cast(x, of)

    def common(self, a: Code, b: Code, of: DType) -> tuple[Code, Code, str]:
        """The exact operands of type `of`, with casts so that C's conversions keep both values."""
        if a.ctype == b.ctype:
            return a, b, a.ctype
        return self.compute_in(promoted(of), a, b)

    def compute_in(self, ctype: str, a: Code, b: Code) -> tuple[Code, Code, str]:
        """The operands with a cast on one of them if C would not compute in `ctype` by itself."""
        if ctype not in (a.ctype, b.ctype):
            a, b = (self.cast(a, dtype(ctype)), b) if not is_literal(a) else (a, self.cast(b, dtype(ctype)))
        return a, b, ctype

    def function(self, name: str, ctype: str, *args: Code) -> Code:
        return Code(f"{name}({', '.join(a.text for a in args)})", ATOM, ctype)

    def helper(self, op: str, of: DType, *args: Code) -> Code:
        """The function that computes `op` on operands of the integer type `of`."""
        return self.typed(self.function(self.helpers.name(op, of), "", *args), of)

    # -- memory -------------------------------------------------------------------------------
    def element(self, buffer: Buffer, offset: Expr) -> str:
        return f"{self.buffers[buffer]}[{self.index(offset).text}]"

    def pointer(self, buffer: Buffer, offset: Expr) -> str:
        """The address of an element, as the argument of a load or store function."""
        name = self.buffers[buffer]
        d = self.dialect
        of = d.types[buffer.dtype.scalar]
        if self.half(buffer.dtype) and buffer.scope != "global" and of != d.types["uint16"]:
            scope = d.kernels.shared_scope if d.kernels and buffer.scope == "shared" else d.private_scope
            name = f"({d.pointer_type(scope, of)}){name}"
        index = self.index(offset)
        return name if index.text == "0" else f"{name} + {index.at(ADD)}"


# -- integers that wrap: right modulo 2^bits, free of signed overflow -----------------------------


def _place(of: DType, bounds: Interval, *operands: Code) -> str:
    """The C type in which a result within `bounds` is computed without overflow, or wraps."""
    ctypes = {c.ctype for c in operands}
    if ctypes == {"int32"} and bounds.within(of_type(INT32)):
        return "int32"
    if of.bits < 64:
        return "uint32"
    return "int64" if bounds.within(of_type(dtype("int64"))) and "uint64" not in ctypes else "uint64"


def _wrapped(code: Code, bounds: Interval) -> Code:
    """The range of a result: what was computed, or all of an unsigned type."""
    return replace(code, range=of_type(dtype(code.ctype)) if code.ctype.startswith("u") else bounds)


def _ring_binary(x: Expressions, e: Expr) -> Code:
    a, b = (x.ring(arg) for arg in e.args)
    bounds = RULES[e.op](a.range, b.range)
    a, b, ctype = x.compute_in(_place(e.dtype, bounds, a, b), a, b)
    return _wrapped(infix(SYMBOLS[e.op], a, b, ctype), bounds)


def _ring_neg(x: Expressions, e: Expr) -> Code:
    a = x.ring(e.args[0])
    bounds = RULES["neg"](a.range)
    ctype = _place(e.dtype, bounds, a)
    return _wrapped(negate(a if a.ctype == ctype else x.cast(a, dtype(ctype)), ctype), bounds)


def _ring_bitnot(x: Expressions, e: Expr) -> Code:
    a = x.value(e.args[0])
    if a.ctype.startswith("u") and a.ctype != promoted(e.dtype):
        a = x.cast(a, e.dtype)  # the bits above a narrower unsigned type count too
    return _wrapped(Code(f"~{a.at(UNARY)}", UNARY, a.ctype), RULES["sub"](Interval(-1, -1), a.range))


def _ring_shl(x: Expressions, e: Expr) -> Code:
    a, by = e.args
    if by.op != "const":
        return x.helper("shl", e.dtype, x.value(a), x.value(by))
    if not 0 <= by.value < e.dtype.bits:
        return literal(0, e.dtype, x.dialect)
    code, amount = x.ring(a), literal(by.value, e.dtype, x.dialect)
    bounds = RULES["shl"](code.range, amount.range)
    ctype = _place(e.dtype, bounds, code)
    if code.range.low < 0 and not ctype.startswith("u"):
        ctype = "uint64" if e.dtype.bits == 64 else "uint32"  # shifting a negative number is undefined in C
    if code.ctype != ctype:
        code = x.cast(code, dtype(ctype))
    return _wrapped(infix("<<", code, amount, ctype), bounds)


def _ring_cast(x: Expressions, e: Expr) -> Code:
    (arg,) = e.args
    source, to = arg.dtype, e.dtype
    if source.is_float:
        return x.typed(x.function(x.helpers.saturate(to, x.register(source)), "", x.value(arg)), to)
    code = x.ring(arg) if to.bits <= source.bits and source.is_integer else x.value(arg)
    return x.cast(code, to) if to.bits < 64 and code.ctype in ("int64", "uint64") else code


#: operators whose result modulo 2^bits follows from their operands' modulo 2^bits
RING: dict[str, Callable[[Expressions, Expr], Code]] = {
    "add": _ring_binary,
    "sub": _ring_binary,
    "mul": _ring_binary,
    "neg": _ring_neg,
    "bitnot": _ring_bitnot,
    "shl": _ring_shl,
    "cast": _ring_cast,
}


# -- all operators --------------------------------------------------------------------------------


def _load(x: Expressions, e: Expr) -> Code:
    buffer: Buffer = e.value
    half = x.half(buffer.dtype)
    if half is not None:
        return Code(half.load.format(pointer=x.pointer(buffer, e.args[0])), ATOM, "float32")
    code = x.typed(Code(x.element(buffer, e.args[0]), ATOM, ""), e.dtype)
    return _is_nonzero(x, code, INT32) if e.dtype.is_bool else code


def _is_nonzero(x: Expressions, a: Code, of: DType) -> Code:
    return infix("!=", a, literal(0, of, x.dialect), "int32", TRUTH)


def _float_binary(x: Expressions, e: Expr) -> Code:
    a, b = x.values(e)
    return infix(SYMBOLS[e.op], a, b, a.ctype)


def _neg(x: Expressions, e: Expr) -> Code:
    (a,) = x.values(e)
    return negate(a, a.ctype)


def _division(x: Expressions, e: Expr) -> Code:
    a, b = x.values(e)
    if e.dtype.is_float:
        return x.function(x.helpers.name(e.op, a.ctype), a.ctype, a, b)
    if x.lane is not None and x.lane in variables(e.args[1]) and e.dtype.bits <= 32:
        return x.typed(x.function(x.helpers.in_floats(e.op, e.dtype), "", a, b), e.dtype)
    if b.range.low > 0 and (a.range.low >= 0 or e.op.startswith("trunc")):  # C's own division rounds to zero
        a, b, ctype = x.common(a, b, e.dtype)
        return infix("%" if e.op.endswith("mod") else "/", a, b, ctype, RULES[e.op](a.range, b.range))
    return x.helper(e.op, e.dtype, a, b)


def _min_max(x: Expressions, e: Expr) -> Code:
    a, b = x.values(e)
    if e.dtype.is_bool:
        return infix("&" if e.op == "min" else "|", a, b, "int32", TRUTH)
    a, b, ctype = x.common(a, b, e.dtype)
    code = x.function(x.helpers.name(e.op, ctype), ctype, a, b)
    return code if e.dtype.is_float else replace(code, range=RULES[e.op](a.range, b.range))


def _abs(x: Expressions, e: Expr) -> Code:
    (a,) = x.values(e)
    if e.dtype.is_float:
        return x.function(x.dialect.function_name("abs", a.ctype), a.ctype, a)
    return a if a.range.low >= 0 else x.helper("abs", e.dtype, a)


def _bitwise(x: Expressions, e: Expr) -> Code:
    a, b = x.values(e)
    a, b, ctype = x.common(a, b, e.dtype)
    return infix(SYMBOLS[e.op], a, b, ctype, RULES[e.op](a.range, b.range) & of_type(e.dtype))


def _shr(x: Expressions, e: Expr) -> Code:
    a, by = x.value(e.args[0]), e.args[1]
    if by.op != "const":
        return x.helper("shr", e.dtype, a, x.value(by))
    amount = by.value if 0 <= by.value < e.dtype.bits else e.dtype.bits - 1
    if amount != by.value and e.dtype.kind == "uint":
        return literal(0, e.dtype, x.dialect)
    if amount >= 32 and a.ctype in ("int32", "uint32"):
        a = replace(x.cast(a, e.dtype), range=a.range)
    shift = literal(amount, INT32, x.dialect)
    return infix(">>", a, shift, a.ctype, RULES["shr"](a.range, shift.range))


def _compare(x: Expressions, e: Expr) -> Code:
    a, b = x.values(e)
    if not e.args[0].dtype.is_float:
        a, b, _ = x.common(a, b, e.args[0].dtype)
    return infix(SYMBOLS[e.op], a, b, "int32", TRUTH)


def _choice(x: Expressions, e: Expr) -> Code:
    condition, a, b = x.values(e)
    return conditional(condition, *x.common(a, b, e.dtype))


def _cast(x: Expressions, e: Expr) -> Code:
    (arg,) = e.args
    a = x.value(arg)
    if e.dtype.is_bool:
        return _is_nonzero(x, a, x.register(arg.dtype))
    half = x.half(e.dtype)
    if half is not None:
        return x.function(x.helpers.round_half(half, e.dtype, a.ctype), "float32", a)
    return a if e.dtype == x.register(arg.dtype) else x.cast(a, e.dtype)


def _math(x: Expressions, e: Expr) -> Code:
    args = x.values(e)
    ctype, half = args[0].ctype, x.half(e.dtype)
    if e.op == "reinterpret":
        name = x.helpers.reinterpret(e.dtype, e.args[0].dtype, half, x.half(e.args[0].dtype))
    elif e.op == "nextafter" and half is not None:
        return x.function(x.helpers.next_half(half, e.dtype), ctype, *args)
    else:
        name = x.helpers.math(e.op, dtype(ctype), len(args))
    return x.typed(x.function(name, ctype, *args), e.dtype)


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
    for a, code in zip(e.args, x.values(e), strict=True):
        exact = code.ctype == str(x.register(a.dtype))
        args.append(code if exact else x.cast(code, a.dtype))  # the type chooses among overloads
    return x.typed(x.function(name, "", *args), e.dtype)


def _no_scalar(x: Expressions, e: Expr) -> Code:
    raise BuildError(f"{e.op!r} is no scalar operator of a lowered program", asked=f"code for {e!r}")


_MATH = [op for op, info in OPS.items() if info.kind == "math"]
#: One row per operator of `ir.expr.OPS`; `RING` overrides the rows of wrapping integer operators.
SCALAR: dict[str, Callable[[Expressions, Expr], Code]] = {
    "const": lambda x, e: literal(e.value, x.register(e.dtype), x.dialect),
    "var": lambda x, e: x.typed(Code(x.variable(e)[0], ATOM, ""), e.dtype),
    **dict.fromkeys(("add", "sub", "mul", "div"), _float_binary),
    **dict.fromkeys(("truncdiv", "truncmod", "floordiv", "floormod"), _division),
    **dict.fromkeys(("min", "max"), _min_max),
    "neg": _neg,
    "abs": _abs,
    **dict.fromkeys(("bitand", "bitor", "bitxor"), _bitwise),
    "bitnot": _ring_bitnot,
    "shl": _ring_shl,
    "shr": _shr,
    **dict.fromkeys(
        ("popcount", "clz"),
        lambda x, e: replace(x.helper(e.op, e.dtype, *x.values(e)), range=Interval(0, e.dtype.bits)),
    ),
    **dict.fromkeys((*COMPARISONS, "and", "or"), _compare),
    "not": lambda x, e: Code(f"!{x.value(e.args[0]).at(UNARY)}", UNARY, "int32", TRUTH),
    "likely": lambda x, e: x.value(e.args[0]),
    **dict.fromkeys(CHOICES, _choice),
    "cast": _cast,
    **dict.fromkeys(("reinterpret", *_MATH), _math),
    "load": _load,
    "address": _address,
    "call": _call,
    # tensor reads and reductions are lowered away; vectors are the other table's, or taken apart by lane
    **dict.fromkeys(("view", "read", "reduce", "scatter"), _no_scalar),
    "combine_lanes": lambda x, e: x.combined(e) if x.combined else _no_scalar(x, e),
    **dict.fromkeys(("ramp", "broadcast", "dot", "to_line"), _no_scalar),
}
