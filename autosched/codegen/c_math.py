"""The formulas of `formulas.py` as functions of vectors in GNU C, which compilers inline.

What must be fused is one expression `a * b + c`, which gcc and clang contract unless a source is strict. They may
contract a product and a sum elsewhere, too, which no formula minds. Scalars call C's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autosched.codegen.formulas import FORMULAS, Formula
from autosched.ir.dtype import DType, dtype

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "xor": "^", "shl": "<<"}
_PREDICATES = {"ogt": "{a} > {b}", "olt": "{a} < {b}", "oeq": "{a} == {b}", "uge": "~({a} < {b})"}


class Writer(Protocol):
    """What a formula asks of the one who writes the source."""

    def type_of(self, of: DType) -> str:
        """The name of a type."""

    def literal(self, x: int | float, of: DType) -> str:
        """A number, which operators of vectors take as it is."""

    def splat(self, x: str, of: DType) -> str:
        """A vector of one number."""

    def either(self, mask: str, a: str, b: str) -> str:
        """The lanes of `a` where the mask is set, else those of `b`."""

    def any(self, mask: str, of: DType) -> str:
        """Whether a lane of a mask is set."""

    def rare(self, name: str, of: DType, count: int) -> str:
        """A function that calls C's function of that name in the lanes of its first operand, a mask, and takes those
        of its second elsewhere."""


@dataclass(frozen=True)
class _Name:
    """A constant of the function."""

    text: str


class _C(Formula[_Name]):
    """A formula as declarations of constants."""

    def __init__(self, w: Writer, of: DType) -> None:
        super().__init__(of)
        self.w = w
        self.lines: list[str] = []
        self.signed, self.ring = (dtype(f"{kind}{of.bits}").with_lanes(of.lanes) for kind in ("int", "uint"))

    def _named(self, text: str, of: DType) -> _Name:
        name = f"t{len(self.lines)}"
        self.lines.append(f"const {self.w.type_of(of)} {name} = {text};")
        return _Name(name)

    def _float(self, x: _Name | float) -> str:
        return x.text if isinstance(x, _Name) else self.w.literal(float(x), self.of)

    def _vector(self, x: _Name | float) -> str:
        return x.text if isinstance(x, _Name) else self.w.splat(self._float(x), self.of)

    def _integer(self, x: _Name | int) -> str:
        if isinstance(x, _Name):
            return x.text
        return self.w.literal(x & ((1 << self.of.bits) - 1), self.ring)

    def _cast(self, x: str, to: DType) -> str:
        return f"({self.w.type_of(to)}){x}"

    def binary(self, op: str, a: _Name | float, b: _Name | float) -> _Name:
        return self._named(f"{self._float(a)} {_SYMBOLS[op]} {self._float(b)}", self.of)

    def fma(self, a: _Name | float, b: _Name | float, c: _Name | float) -> _Name:
        return self._named(f"{self._float(a)} * {self._float(b)} + {self._float(c)}", self.of)

    def unary(self, op: str, x: _Name) -> _Name:
        if op == "abs":
            return self.from_bits(self.integer("and", self.bits(x), (1 << (self.of.bits - 1)) - 1))
        return _OF_ONE[op](self, x)

    def copysign(self, x: _Name, sign: _Name) -> _Name:
        top = 1 << (self.of.bits - 1)
        size, signs = self.bits(self.abs(x)), self.integer("and", self.bits(sign), top)
        return self.from_bits(self._named(f"{size.text} | {signs.text}", self.ring))

    def compare(self, predicate: str, a: _Name, b: _Name | float) -> _Name:
        return self._named(_PREDICATES[predicate].format(a=a.text, b=self._float(b)), self.signed)

    def both(self, a: _Name, b: _Name) -> _Name:
        return self._named(f"{a.text} & {b.text}", self.signed)

    def select(self, condition: _Name, a: _Name | float, b: _Name | float) -> _Name:
        return self._named(self.w.either(condition.text, self._vector(a), self._vector(b)), self.of)

    def bits(self, x: _Name) -> _Name:
        return self._named(self._cast(x.text, self.ring), self.ring)

    def from_bits(self, x: _Name) -> _Name:
        return self._named(self._cast(x.text, self.of), self.of)

    def integer(self, op: str, a: _Name | int, b: _Name | int) -> _Name:
        return self._named(f"{self._integer(a)} {_SYMBOLS[op]} {self._integer(b)}", self.ring)

    def shifted(self, a: _Name, by: int) -> _Name:
        above = f"{self._cast(a.text, self.signed)} >> {by}"
        return self._named(f"__builtin_convertvector({above}, {self.w.type_of(self.of)})", self.of)

    def is_odd(self, a: _Name) -> _Name:
        return self._named(f"({a.text} & {self._integer(1)}) != {self._integer(0)}", self.signed)

    def rarely(self, condition: _Name, name: str, args: Sequence[_Name], usual: _Name) -> _Name:
        passed = ", ".join([condition.text, usual.text, *(a.text for a in args)])
        called = f"{self.w.rare(name, self.of, len(args))}({passed})"
        some = self.w.any(condition.text, self.signed)
        return self._named(f"__builtin_expect({some}, 0) ? {called} : {usual.text}", self.of)


# -- whole numbers: gcc and clang have no common word for them in vectors -----------------------------
# A float of 2^mantissa or more is whole. The sum of a smaller one and that has no digits behind the point.


def _rounded(f: _C, x: _Name, move: Callable[[_Name, _Name], _Name]) -> _Name:
    """An integer next to x, with its sign: what `move` makes of |x| and the even one of those nearest to it."""
    size, whole = f.abs(x), 2.0**f.mantissa
    near = f.sub(f.add(size, whole), whole)
    return f.select(f.compare("olt", size, whole), f.copysign(move(size, near), x), x)


def _to_even(f: _C, x: _Name) -> _Name:
    return _rounded(f, x, lambda size, near: near)


def _to_zero(f: _C, x: _Name) -> _Name:
    return _rounded(f, x, lambda size, near: f.select(f.compare("ogt", near, size), f.sub(near, 1.0), near))


def _down(f: _C, x: _Name) -> _Name:
    even = _to_even(f, x)
    return f.select(f.compare("ogt", even, x), f.sub(even, 1.0), even)


def _up(f: _C, x: _Name) -> _Name:
    even = _to_even(f, x)
    return f.select(f.compare("olt", even, x), f.copysign(f.add(even, 1.0), x), even)


_OF_ONE: dict[str, Callable[[_C, _Name], _Name]] = {
    "abs": _C.abs,
    "nearbyint": _to_even,
    "trunc": _to_zero,
    "floor": _down,
    "ceil": _up,
}


def body(op: str, of: DType, operands: Sequence[str], w: Writer, fuses: bool) -> list[str] | None:
    """The statements of a function that computes the operator `op` of vectors of type `of`; None where there is no
    formula. Some need `a * b + c` to be rounded once."""
    found = (FORMULAS.get((op, of.bits)) if fuses else None) or _OF_ONE.get(op) or {"copysign": _C.copysign}.get(op)
    if found is None:
        return None
    f = _C(w, of)
    result = found(f, *map(_Name, operands))
    return [*f.lines, f"return {result.text};"]
