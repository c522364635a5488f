"""Bounds of index expressions while code is emitted: which divisions need no sign fix-up, which
vectors may stay narrow.

A bound is an int or None for "unknown". Everything here is sound and cheap, not sharp.
"""

from __future__ import annotations

from autosched.ir.expr import Expr, is_index

__all__ = ["Interval", "Ranges"]

Interval = tuple[int | None, int | None]

ANY: Interval = (None, None)


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _negate(a: Interval) -> Interval:
    return (None if a[1] is None else -a[1], None if a[0] is None else -a[0])


def _times(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        corners = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(corners), max(corners)
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None
    return ANY


def _divide(a: Interval, b: Interval) -> Interval:
    """Floor division by something positive; truncation gives the same bounds, moved toward zero."""
    if b[0] is None or b[0] < 1:
        return ANY
    lo = None if a[0] is None else a[0] // b[0] if a[0] < 0 else (0 if b[1] is None else a[0] // b[1])
    hi = None if a[1] is None else a[1] // b[0] if a[1] >= 0 else 0
    return lo, hi


def _remainder(a: Interval, b: Interval, *, floors: bool) -> Interval:
    if b[0] is None or b[0] < 1 or b[1] is None:
        return ANY
    top = b[1] - 1
    if a[0] is not None and a[0] >= 0:
        return 0, top if a[1] is None else min(a[1], top)
    return (0, top) if floors else (-top, top)


def _extreme(op: str, a: Interval, b: Interval) -> Interval:
    known = [[x for x in pair if x is not None] for pair in zip(a, b, strict=True)]
    if op == "min":  # one known upper bound is enough, but both lower bounds are needed
        return min(known[0]) if len(known[0]) == 2 else None, min(known[1], default=None)
    return max(known[0], default=None), max(known[1]) if len(known[1]) == 2 else None


def _union(a: Interval, b: Interval) -> Interval:
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lo, hi


class Ranges:
    """Bounds of the variables in scope and of the index expressions over them."""

    def __init__(self) -> None:
        self._variables: dict[Expr, Interval] = {}
        self._known: dict[Expr, Interval] = {}

    def bind(self, variable: Expr, bounds: Interval) -> None:
        """Note the bounds of a loop variable or a let. A second binding widens the first."""
        before = self._variables.get(variable)
        self._variables[variable] = bounds if before is None else _union(before, bounds)
        if before is not None:
            self._known.clear()

    def of(self, e: Expr) -> Interval:
        """Bounds of every lane of `e`; of anything but index arithmetic, what its type can hold."""
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._compute(e)
        return found

    def fits(self, e: Expr) -> bool:
        """Whether the exact value of `e` is one of its type's."""
        lo, hi = self.of(e)
        return lo is not None and hi is not None and lo >= e.dtype.min and hi <= e.dtype.max

    def non_negative(self, e: Expr) -> bool:
        lo = self.of(e)[0]
        return lo is not None and lo >= 0

    def _compute(self, e: Expr) -> Interval:
        if e.dtype.is_float:
            return ANY
        if not is_index(e):
            return int(e.dtype.min), int(e.dtype.max)
        match e.op:
            case "const":
                return int(e.value), int(e.value)
            case "var":
                return self._variable(e)
            case "cast" | "broadcast" | "likely":
                return self.of(e.args[0])
            case "ramp":
                steps: Interval = (0, e.dtype.lanes - 1)
                span = _times(self.of(e.args[1]), steps)
                base = self.of(e.args[0])
                return _add(base[0], span[0]), _add(base[1], span[1])
            case "select" | "if_then_else":
                return _union(self.of(e.args[1]), self.of(e.args[2]))
            case _ if e.dtype.is_bool:
                return 0, 1
        return self._arithmetic(e.op, [self.of(a) for a in e.args])

    def _variable(self, e: Expr) -> Interval:
        lo, hi = self._variables.get(e, ANY)
        info = e.value
        if e.dtype.bits < 32:  # a let of a narrow type holds a value of that type
            lo, hi = (int(e.dtype.min) if lo is None else lo), (int(e.dtype.max) if hi is None else hi)
        if info.role == "size" and lo is None:
            lo = 0
        lo = info.lower if lo is None else lo if info.lower is None else max(lo, info.lower)
        hi = info.upper if hi is None else hi if info.upper is None else min(hi, info.upper)
        return lo, hi

    @staticmethod
    def _arithmetic(op: str, args: list[Interval]) -> Interval:
        match op:
            case "add":
                return _add(args[0][0], args[1][0]), _add(args[0][1], args[1][1])
            case "sub":
                minus = _negate(args[1])
                return _add(args[0][0], minus[0]), _add(args[0][1], minus[1])
            case "neg":
                return _negate(args[0])
            case "mul":
                return _times(*args)
            case "floordiv" | "truncdiv":
                return _divide(*args)
            case "floormod" | "truncmod":
                return _remainder(*args, floors=op == "floormod")
            case "min" | "max":
                return _extreme(op, *args)
        return ANY
