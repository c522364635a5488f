"""Scalar expressions as C text.

C computes narrow integers in `int`, and overflow of signed integers is undefined. Every integer
expression therefore carries the range of values that its C text can take. While a sum or product
stays within `int`, it is written plainly; where it might not, it is computed in the unsigned type.
`ring` returns a number that is right modulo 2^bits (`c_ring`), `value` the number itself
(`c_values`), cast back where the range says that it could be off:

    uint8 sum of three elements                 (uchar)(a[i] + b[i] + c[i])
    int32 sum of two                            (int)((uint)a[i] + b[i])

Index arithmetic (`ir.expr.is_index`) is exact by contract and computed in `index_t`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autosched.codegen.c_helpers import Helpers
from autosched.codegen.c_ring import RING
from autosched.codegen.c_text import (
    ADD,
    ATOM,
    INDEX,
    SYMBOLS,
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
from autosched.codegen.c_values import SCALAR
from autosched.codegen.dialects import Dialect
from autosched.codegen.index_range import IndexRanges
from autosched.errors import BuildError
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr, is_index
from autosched.ir.stmt import Buffer

__all__ = ["Expressions"]

#: operators on float16 whose result is a half already, whatever they were computed in
_HALF_EXACT = frozenset(
    [
        *("const", "var", "load", "select", "if_then_else", "likely"),
        *("min", "max", "neg", "abs", "floor", "ceil", "trunc", "round", "nearbyint"),
        *("nextafter", "reinterpret"),
    ]
)


#: C type -> the C types whose values it holds after C's conversions, for exact operands
_HOLDS = {
    "int32": ("int32",),
    "uint32": ("int32", "uint32"),
    "int64": ("int32", "uint32", "int64"),
    "uint64": ("int32", "uint32", "int64", "uint64"),
}


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
            return self.cast(found, e.dtype) if found.ctype == INDEX else found
        if e.op != "const" and is_index(e) and self._lives_in_index(e):
            self.ranges.note(e)
            code = self._index(e)
            return replace(code, ctype="int32", low=0, high=1) if e.dtype.is_bool else self.cast(code, e.dtype)
        if e.op in RING and e.dtype.is_integer:
            return self.exact(self.ring(e), e.dtype)
        return SCALAR[e.op](self, e)

    def ring(self, e: Expr) -> Code:
        """Text that equals the integer `e` modulo 2^bits of its type."""
        rule = RING.get(e.op)
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
                plain = Code(name, ATOM, ctype)
                return plain if ctype == INDEX or e.dtype.is_bool else self._call_cast(INDEX, plain)
            case "cast" | "likely":
                return self._index(e.args[0])
            case "not":
                return Code(f"!{self._index(e.args[0]).at(UNARY)}", UNARY, "int32", 0, 1)
            case "neg":
                return negate(self._index(e.args[0]), INDEX)
            case "select" | "if_then_else":
                condition, then, otherwise = (self._index(a) for a in e.args)
                return conditional(condition, then, otherwise, INDEX)
        a, b = (self._index(x) for x in e.args)
        if e.op in ("add", "sub", "mul"):
            return chain(SYMBOLS[e.op], a, b)
        if e.op in SYMBOLS:
            return infix(SYMBOLS[e.op], a, b, "int32").bounded(0, 1)
        if e.op in ("min", "max"):
            return self.function(self.helpers.name(e.op, INDEX), INDEX, a, b)
        first, divisor = map(self.ranges.numbers.of, e.args)
        if divisor.low > 0 and (first.non_negative or e.op.startswith("trunc")):
            return infix("/" if e.op.endswith("div") else "%", a, b, INDEX)
        return self.function(self.helpers.name(e.op, INDEX), INDEX, a, b)

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
            a, b = (self.cast(a, dtype(ctype)), b) if not is_literal(a) else (a, self.cast(b, dtype(ctype)))
        return a, b, ctype

    def round_half(self, x: Code) -> Code:
        return self.function(self.helpers.round_half(x.ctype), "float32", x)

    def function(self, name: str, ctype: str, *args: Code) -> Code:
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
        d = self.dialect
        if self.is_packed_half(buffer) and buffer.scope != "global" and d.types["float16"] != d.types["uint16"]:
            scope = d.shared_scope if buffer.scope == "shared" else d.private_scope
            name = f"({d.pointer_type(scope, d.types['float16'])}){name}"
        index = self.index(offset)
        return name if index.text == "0" else f"{name} + {index.at(ADD)}"
