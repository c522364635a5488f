"""Congruences: for an integer expression, the numbers `coeff` and `base` with `value = coeff*k + base`.

    modular_of((x*4 + 2)*3, ...)    ->    12*k + 6

`coeff == 1` says nothing, `coeff == 0` that the value is `base`. The rules are those of the integers,
so they hold for negative values as well; arithmetic that wraps around keeps what its type keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from autosched.ir.expr import Expr
from autosched.ir.visit import post_order


@dataclass(frozen=True, slots=True)
class ModularSet:
    """The integers `coeff*k + base`; `0 <= base < coeff`, or one integer if `coeff` is 0."""

    coeff: int
    base: int

    @staticmethod
    def of(coeff: int, base: int) -> ModularSet:
        coeff = abs(coeff)
        return ModularSet(coeff, base % coeff if coeff else base)

    def __or__(self, other: ModularSet) -> ModularSet:
        """Return the smallest of these sets with all numbers of both."""
        return ModularSet.of(gcd(self.coeff, other.coeff, self.base - other.base), self.base)

    def __and__(self, other: ModularSet) -> ModularSet:
        """Return the numbers in both, by the Chinese remainder theorem; either set where there are none."""
        if self.coeff == 0 or other.coeff == 0:
            return self if self.coeff == 0 else other
        common = gcd(self.coeff, other.coeff)
        if (self.base - other.base) % common:
            return self
        step = other.coeff // common
        k = (other.base - self.base) // common * pow(self.coeff // common, -1, step) if step > 1 else 0
        return ModularSet.of(self.coeff * step, self.base + self.coeff * k)

    def __contains__(self, value: int) -> bool:
        return value == self.base if self.coeff == 0 else value % self.coeff == self.base


ANY = ModularSet(1, 0)


def modular_of(e: Expr, variable: Callable[[Expr], ModularSet]) -> ModularSet:
    """Return the congruence of `e`, given those of its variables."""
    known: dict[Expr, ModularSet] = {}
    for node in post_order(e):
        found = _rule(node, [known[a] for a in node.args], variable)
        if found != ANY and not node.index:  # it wraps: it is so modulo 2^bits
            found = found | ModularSet.of(1 << node.dtype.bits, found.base)
        known[node] = found
    return known[e]


def _rule(e: Expr, args: list[ModularSet], variable: Callable[[Expr], ModularSet]) -> ModularSet:
    if e.dtype.is_float or e.dtype.is_bool or any(a.dtype.is_float for a in e.args):
        return ANY
    match e.op:
        case "const":
            return ModularSet(0, int(e.value))
        case "var":
            return variable(e)
        case "cast" if not e.args[0].dtype.is_bool:
            return args[0]
        case "broadcast":
            return args[0]
        case "min" | "max":
            return args[0] | args[1]
        case "select" | "if_then_else":
            return args[1] | args[2]
    rule = _RULES.get(e.op)
    return ANY if rule is None else rule(*args)


def _mul(a: ModularSet, b: ModularSet) -> ModularSet:
    """(p*k + r)*(q*l + s) = p*q*k*l + p*s*k + q*r*l + r*s."""
    return ModularSet.of(gcd(a.coeff * b.coeff, a.coeff * b.base, b.coeff * a.base), a.base * b.base)


def _floordiv(a: ModularSet, b: ModularSet) -> ModularSet:
    d = b.base
    if b.coeff or d == 0:
        return ModularSet(0, 0) if b == ModularSet(0, 0) else ANY
    if a.coeff % d:
        return ANY
    return ModularSet.of(a.coeff // d, a.base // d)  # (d*p*k + r)//d = p*k + r//d


def _floormod(a: ModularSet, b: ModularSet) -> ModularSet:
    d = b.base
    if b.coeff:  # a - (multiple of b), or 0 where b is
        return (ModularSet.of(gcd(a.coeff, b.coeff, b.base), a.base)) | ModularSet(0, 0)
    if d == 0:
        return ModularSet(0, 0)
    if a.coeff % d == 0:
        return ModularSet(0, a.base % d)
    return ModularSet.of(gcd(a.coeff, d), a.base)


def _truncdiv(a: ModularSet, b: ModularSet) -> ModularSet:
    d = b.base
    if b.coeff or d == 0:
        return ModularSet(0, 0) if b == ModularSet(0, 0) else ANY
    if a.coeff == 0:
        return ModularSet(0, abs(a.base) // abs(d) * (1 if (a.base < 0) == (d < 0) else -1))
    return ModularSet.of(a.coeff // d, a.base // d) if a.coeff % d == 0 and a.base % d == 0 else ANY


def _truncmod(a: ModularSet, b: ModularSet) -> ModularSet:
    """The dividend less a multiple of the divisor; 0 where that is 0."""
    found = ModularSet.of(gcd(a.coeff, b.coeff, b.base), a.base)
    return found if b.coeff == 0 and b.base else found | ModularSet(0, 0)


def _shift(rule: Callable[[ModularSet, ModularSet], ModularSet]) -> Callable[[ModularSet, ModularSet], ModularSet]:
    """Shifts are products with, or quotients by, powers of two."""
    return lambda a, b: rule(a, ModularSet(0, 1 << b.base)) if b.coeff == 0 and 0 <= b.base < 32 else ANY


def _bitand(a: ModularSet, b: ModularSet) -> ModularSet:
    """`a & (2^k - 1)` is `a % 2^k`, in two's complement."""
    for value, mask in ((a, b), (b, a)):
        if mask.coeff == 0 and mask.base >= 0 and mask.base & (mask.base + 1) == 0:
            return _floormod(value, ModularSet(0, mask.base + 1))
    return ANY


_RULES: dict[str, Callable[..., ModularSet]] = {
    "neg": lambda a: ModularSet.of(a.coeff, -a.base),
    "add": lambda a, b: ModularSet.of(gcd(a.coeff, b.coeff), a.base + b.base),
    "sub": lambda a, b: ModularSet.of(gcd(a.coeff, b.coeff), a.base - b.base),
    "mul": _mul,
    "floordiv": _floordiv,
    "floormod": _floormod,
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
    "shl": _shift(_mul),
    "shr": _shift(_floordiv),
    "bitand": _bitand,
}
