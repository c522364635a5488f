"""Intervals of integers, and the rule of each operator for them.

    bounds_of((x*3 + y) // 4, {x: Interval(0, 7), y: Interval(0, inf)}.__getitem__)      [0, inf]
    RULES["mul"](Interval(-2, 3), Interval(0, 5))                                          [-10, 15]

Ends may be infinite. Rules hold for negative numbers and for divisors of either sign; a division by zero gives 0, as
everywhere. A rule never looks at two occurrences of one variable together.

What needs more than numbers has a domain of its own: the table in `docs/architecture.md` says which answers what. The
import shim hands out sets with expressions as ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, is_index
from autosched.ir.ops import CHOICES, CONDITIONS
from autosched.ir.simplify import to_poly
from autosched.ir.visit import post_order

#: an integer, or an infinity
End = int | float


@dataclass(frozen=True, slots=True)
class Interval:
    """`low <= value <= high`; both ends may be infinite. Empty if `low > high`."""

    low: End
    high: End

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def __or__(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    @property
    def constant(self) -> int | None:
        """The only value, if there is one."""
        return int(self.low) if self.low == self.high else None

    @property
    def non_negative(self) -> bool:
        return self.low >= 0

    def within(self, other: Interval) -> bool:
        return other.low <= self.low and self.high <= other.high


EVERYTHING = Interval(-inf, inf)
_TRUTH = Interval(0, 1)


def of_type(of: DType) -> Interval:
    """The values of a type; those of floats are not bounded."""
    return EVERYTHING if of.is_float else Interval(int(of.min), int(of.max))


def bounds_of(e: Expr, variable: Callable[[Expr], Interval]) -> Interval:
    """The interval of `e`, given those of its variables."""
    known: dict[Expr, Interval] = {}
    for node in post_order(e):
        known[node] = _rule(node, [known[a] for a in node.args], variable)
    return known[e]


class Ranges:
    """The intervals of the variables in scope, and of index arithmetic over them.

    Index arithmetic alone is looked into: of any other value this says what its type can hold.
    """

    def __init__(self) -> None:
        self._variables: dict[Expr, Interval] = {}
        self._known: dict[Expr, Interval] = {}

    def bind(self, variable: Expr, interval: Interval) -> None:
        """Let a loop variable or a let lie in `interval` from here on, whatever it was bound to before."""
        if self._variables.get(variable) not in (None, interval):
            self._known.clear()
        self._variables[variable] = interval

    def widen(self, variable: Expr, interval: Interval) -> None:
        """Let it lie in `interval` as well as where it lay: for code that is made later than the next binding."""
        self.bind(variable, self._variables.get(variable, interval) | interval)

    def of(self, e: Expr) -> Interval:
        """The interval of every lane of `e`."""
        found = self._known.get(e)
        if found is None:
            args = [self.of(a) for a in e.args] if e.index else []
            found = self._known[e] = _rule(e, args, self._variable) if e.index else of_type(e.dtype)
        return found

    def of_loop(self, start: Expr, extent: Expr) -> Interval:
        """The values of the variable of a loop over [start, start + extent), whose end may be a simpler number."""
        first, count = self.of(start), self.of(extent)
        end = self.of((to_poly(start) + to_poly(extent)).expr()).high if is_index(start) and is_index(extent) else inf
        return Interval(first.low, min(first.high + count.high, end) - 1)

    def fits(self, e: Expr) -> bool:
        """Whether the exact value of `e` is one of its type's."""
        return self.of(e).within(of_type(e.dtype))

    def _variable(self, v: Expr) -> Interval:
        found, info = self._variables.get(v, EVERYTHING), v.value
        if v.dtype.bits < 32:  # a let of a narrow type holds a value of that type
            found &= of_type(v.dtype)
        least = 0 if info.role == "size" and info.lower is None else info.lower
        return found & Interval(-inf if least is None else least, inf if info.upper is None else info.upper)


def _rule(e: Expr, args: list[Interval], variable: Callable[[Expr], Interval]) -> Interval:
    if e.op == "const":
        return Interval(int(e.value), int(e.value)) if not e.dtype.is_float else EVERYTHING
    if e.op == "var":
        return variable(e)
    if e.op in CONDITIONS:
        return _TRUTH
    if e.dtype.is_float or any(a.dtype.is_float for a in e.args):
        return of_type(e.dtype)
    if e.op in CHOICES:
        chosen = args[0].constant
        found = args[1] | args[2] if chosen is None else args[1 if chosen else 2]
    elif e.op in ("cast", "broadcast"):
        found = args[0]
    elif e.op == "ramp":
        found = _add(args[0], _mul(args[1], Interval(0, e.dtype.lanes - 1)))
    elif e.op in RULES:
        found = RULES[e.op](*args)
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


def _add(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def _mul(a: Interval, b: Interval) -> Interval:
    corners = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def _signs(b: Interval) -> list[Interval]:
    """The negative and the positive part of a divisor."""
    parts = (b & Interval(-inf, -1), b & Interval(1, inf))
    return [p for p in parts if p.low <= p.high]


def _quotient(a: End, b: End, floors: bool) -> End:
    if abs(a) == inf:
        return 0 if abs(b) == inf else (inf if (a > 0) == (b > 0) else -inf)
    if abs(b) == inf:
        return -1 if floors and a != 0 and (a > 0) != (b > 0) else 0
    if floors:
        return a // b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _division(a: Interval, b: Interval, floors: bool) -> Interval:
    """A quotient is monotonic in both operands where the divisor has one sign: its extremes are corners."""
    corners: list[End] = [0] if b.low <= 0 <= b.high else []
    for part in _signs(b):
        corners += [_quotient(x, y, floors) for x in (a.low, a.high) for y in (part.low, part.high)]
    return Interval(min(corners), max(corners)) if corners else EVERYTHING


def _floormod(a: Interval, b: Interval) -> Interval:
    d = b.constant
    if d is not None and d > 0 and abs(a.low) != inf and abs(a.high) != inf and a.low // d == a.high // d:
        return Interval(a.low % d, a.high % d)
    found = Interval(0, 0) if b.low <= 0 <= b.high else None
    for part in _signs(b):
        inside = Interval(0, part.high - 1) if part.low > 0 else Interval(part.low + 1, 0)
        if part.low > 0 and a.low >= 0:
            inside = Interval(a.low if a.high < part.low else 0, min(a.high, inside.high))
        found = inside if found is None else found | inside
    return found or EVERYTHING


def _truncmod(a: Interval, b: Interval) -> Interval:
    """The remainder has the sign of the dividend, and is smaller than either operand's magnitude."""
    largest = max(abs(b.low), abs(b.high)) - 1
    if largest < 0:
        return Interval(0, 0)
    return Interval(max(-largest, min(a.low, 0)), min(largest, max(a.high, 0)))


def _shift(by_power: Callable[[Interval, Interval], Interval]) -> Callable[[Interval, Interval], Interval]:
    """The rule of a shift: that of a power of two, where the number of bits is one that shifts can have."""

    def rule(a: Interval, b: Interval) -> Interval:
        by = b.constant
        return by_power(a, Interval(1 << by, 1 << by)) if by is not None and 0 <= by < 64 else EVERYTHING

    return rule


def _bitand(a: Interval, b: Interval) -> Interval:
    highs = [x.high for x in (a, b) if x.low >= 0]
    return Interval(0, min(highs)) if highs else EVERYTHING


def _bitor(a: Interval, b: Interval) -> Interval:
    if a.low < 0 or b.low < 0 or max(a.high, b.high) == inf:
        return EVERYTHING
    return Interval(0, (1 << int(max(a.high, b.high)).bit_length()) - 1)


#: operator -> the interval of its result
RULES: dict[str, Callable[..., Interval]] = {
    "add": _add,
    "sub": lambda a, b: Interval(a.low - b.high, a.high - b.low),
    "mul": _mul,
    "neg": lambda a: Interval(-a.high, -a.low),
    "floordiv": lambda a, b: _division(a, b, floors=True),
    "truncdiv": lambda a, b: _division(a, b, floors=False),
    "floormod": _floormod,
    "truncmod": _truncmod,
    "min": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    "shl": _shift(_mul),
    "shr": _shift(lambda a, b: _division(a, b, floors=True)),
    "bitand": _bitand,
    "bitor": _bitor,
    "bitxor": _bitor,
}
