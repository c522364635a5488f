"""Pieces of C: text with its type and precedence, literals, and names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.codegen.dialects import Dialect
from autosched.ir.dtype import INT32, INT64, DType, dtype
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


def unsigned(of: DType) -> DType:
    """The unsigned integer type of the same width and lanes."""
    return dtype(f"uint{of.bits}").with_lanes(of.lanes)
