"""Constant bounds of integer expressions: interval arithmetic over the integers, with infinite ends.

    bounds((x*3 + y) // 4, ranges)      ranges: variable -> Bound

An interval rule never looks at two occurrences of one variable together: `x - x//2*2` is the job of the
polynomials in `ir.simplify`. What a rule says holds for negative numbers and for divisors of either
sign; a division by zero gives 0, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr
from autosched.ir.visit import post_order

__all__ = ["EVERYTHING", "Bound", "bound_of", "of_type"]

#: an integer, or an infinity
End = int | float


@dataclass(frozen=True, slots=True)
class Bound:
    """`low <= value <= high`; both ends may be infinite. Empty if `low > high`."""

    low: End
    high: End

    def __and__(self, other: Bound) -> Bound:
        return Bound(max(self.low, other.low), min(self.high, other.high))

    def __or__(self, other: Bound) -> Bound:
        return Bound(min(self.low, other.low), max(self.high, other.high))

    @property
    def constant(self) -> int | None:
        """The only value, if there is one."""
        return int(self.low) if self.low == self.high else None

    def within(self, other: Bound) -> bool:
        return other.low <= self.low and self.high <= other.high


EVERYTHING = Bound(-inf, inf)
_TRUTH = Bound(0, 1)
_CONDITIONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "likely"))


def of_type(of: DType) -> Bound:
    """The values of a type; those of floats are not bounded."""
    return EVERYTHING if of.is_float else Bound(int(of.min), int(of.max))


def bound_of(e: Expr, variable: Callable[[Expr], Bound]) -> Bound:
    """The bound of `e`, given those of its variables."""
    known: dict[Expr, Bound] = {}
    for node in post_order(e):
        known[node] = _rule(node, [known[a] for a in node.args], variable)
    return known[e]


def _rule(e: Expr, args: list[Bound], variable: Callable[[Expr], Bound]) -> Bound:
    if e.op == "const":
        return Bound(int(e.value), int(e.value)) if not e.dtype.is_float else EVERYTHING
    if e.op == "var":
        return variable(e)
    if e.op in _CONDITIONS:
        return _TRUTH
    if e.dtype.is_float or any(a.dtype.is_float for a in e.args):
        return of_type(e.dtype)
    if e.op in ("select", "if_then_else"):
        chosen = args[0].constant
        found = args[1] | args[2] if chosen is None else args[1 if chosen else 2]
    elif e.op in ("cast", "broadcast"):
        found = args[0]
    elif e.op in _RULES:
        found = _RULES[e.op](*args)
    else:
        return of_type(e.dtype)
    if e.index or found.within(of_type(e.dtype)):
        return found
    return of_type(e.dtype)  # value arithmetic, which wraps around


def _times(a: End, b: End) -> End:
    if a == 0 or b == 0:
        return 0
    if abs(a) == inf or abs(b) == inf:
        return inf if (a > 0) == (b > 0) else -inf
    return a * b


def _add(a: Bound, b: Bound) -> Bound:
    return Bound(a.low + b.low, a.high + b.high)


def _sub(a: Bound, b: Bound) -> Bound:
    return Bound(a.low - b.high, a.high - b.low)


def _mul(a: Bound, b: Bound) -> Bound:
    corners = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Bound(min(corners), max(corners))


def _neg(a: Bound) -> Bound:
    return Bound(-a.high, -a.low)


def _signs(b: Bound) -> list[Bound]:
    """The negative and the positive part of a divisor."""
    parts = (b & Bound(-inf, -1), b & Bound(1, inf))
    return [p for p in parts if p.low <= p.high]


def _quotient(a: End, b: End, floors: bool) -> End:
    if abs(a) == inf:
        return 0 if abs(b) == inf else (inf if (a > 0) == (b > 0) else -inf)
    if abs(b) == inf:
        return -1 if floors and a != 0 and (a > 0) != (b > 0) else 0
    if floors:
        return a // b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _division(a: Bound, b: Bound, floors: bool) -> Bound:
    """A quotient is monotonic in both operands where the divisor has one sign: its extremes are corners."""
    corners: list[End] = [0] if b.low <= 0 <= b.high else []
    for part in _signs(b):
        corners += [_quotient(x, y, floors) for x in (a.low, a.high) for y in (part.low, part.high)]
    return Bound(min(corners), max(corners)) if corners else EVERYTHING


def _floormod(a: Bound, b: Bound) -> Bound:
    d = b.constant
    if d is not None and d > 0 and abs(a.low) != inf and abs(a.high) != inf and a.low // d == a.high // d:
        return Bound(a.low % d, a.high % d)
    found = Bound(0, 0) if b.low <= 0 <= b.high else None
    for part in _signs(b):
        inside = Bound(0, part.high - 1) if part.low > 0 else Bound(part.low + 1, 0)
        if part.low > 0 and a.low >= 0:
            inside = Bound(a.low if a.high < part.low else 0, min(a.high, inside.high))
        found = inside if found is None else found | inside
    return found or EVERYTHING


def _truncmod(a: Bound, b: Bound) -> Bound:
    """The remainder has the sign of the dividend, and is smaller than either operand's magnitude."""
    largest = max(abs(b.low), abs(b.high)) - 1
    if largest < 0:
        return Bound(0, 0)
    return Bound(max(-largest, min(a.low, 0)), min(largest, max(a.high, 0)))


def _min(a: Bound, b: Bound) -> Bound:
    return Bound(min(a.low, b.low), min(a.high, b.high))


def _max(a: Bound, b: Bound) -> Bound:
    return Bound(max(a.low, b.low), max(a.high, b.high))


def _shr(a: Bound, b: Bound) -> Bound:
    by = b.constant
    if by is None or not 0 <= by < 64:
        return EVERYTHING
    return _division(a, Bound(1 << by, 1 << by), floors=True)


def _shl(a: Bound, b: Bound) -> Bound:
    by = b.constant
    return _mul(a, Bound(1 << by, 1 << by)) if by is not None and 0 <= by < 32 else EVERYTHING


def _bitand(a: Bound, b: Bound) -> Bound:
    highs = [x.high for x in (a, b) if x.low >= 0]
    return Bound(0, min(highs)) if highs else EVERYTHING


def _bitor(a: Bound, b: Bound) -> Bound:
    if a.low < 0 or b.low < 0 or max(a.high, b.high) == inf:
        return EVERYTHING
    return Bound(0, (1 << int(max(a.high, b.high)).bit_length()) - 1)


_RULES: dict[str, Callable[..., Bound]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "floordiv": lambda a, b: _division(a, b, floors=True),
    "truncdiv": lambda a, b: _division(a, b, floors=False),
    "floormod": _floormod,
    "truncmod": _truncmod,
    "min": _min,
    "max": _max,
    "shr": _shr,
    "shl": _shl,
    "bitand": _bitand,
    "bitor": _bitor,
    "bitxor": _bitor,
}
