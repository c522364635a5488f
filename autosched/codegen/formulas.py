"""Mathematical functions as formulas of whole vectors: no table, and no call or branch but for far angles
and quotients.

Each formula is written once, in terms of a `Formula`, which is LLVM's (`llvm_math`) or GNU C's (`c_math`). The
same formula serves one lane and any number of them, so a loop's scalar rest gives the bits its vectors
give.

Arguments are reduced to a short interval (W. J. Cody, W. Waite, "Software Manual for the Elementary
Functions", 1980), where a polynomial is as exact as the type; `experiments/fit_math.py` fits it. Largest
errors seen, in units of the last place (every 64th float32, and float64 at random):

    exp 1.6, exp2 1.6, exp10 1.8, log 1.0, log2 1.7, log10 2.8, log1p 1.6, tanh 2.6, erf 1.2, sin 1.6, cos 1.5, fmod 0
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from autosched.codegen import math_tables as tables
from autosched.ir.dtype import DType
from autosched.ir.ranges import Interval

Numbers = Mapping[int, Sequence[float]]  #: bits of the type -> numbers
V = TypeVar("V")  #: a value of the language


class Formula(ABC, Generic[V]):
    """Arithmetic on values of one float type, with numbers standing for constants. Each operation rounds as written."""

    def __init__(self, of: DType, is_usual: bool = False) -> None:
        self.of = of
        self.is_usual = is_usual  #: whether arguments need nothing special
        info = np.finfo(of.scalar.numpy)
        self.mantissa = info.nmant  #: bits after the point: 23 or 52
        self.bias = info.maxexp - 1  #: exponent field of 1.0: 127 or 1023
        self.tiny = float(info.tiny)  #: the smallest number that is not denormal

    @abstractmethod
    def binary(self, op: str, a: V | float, b: V | float) -> V:
        """`add`, `sub`, `mul` or `div` of floats."""

    @abstractmethod
    def fma(self, a: V | float, b: V | float, c: V | float) -> V:
        """a * b + c, rounded once."""

    @abstractmethod
    def unary(self, op: str, x: V) -> V:
        """`abs`, or `trunc`: the integer next to it towards zero."""

    @abstractmethod
    def copysign(self, x: V, sign: V) -> V:
        """x with another's sign."""

    @abstractmethod
    def compare(self, predicate: str, a: V, b: V | float) -> V:
        """A condition: `ogt`, `olt`, `oeq`, false where one is NaN; `uge`, true there."""

    @abstractmethod
    def both(self, a: V, b: V) -> V:
        """Whether two conditions hold."""

    @abstractmethod
    def select(self, condition: V, a: V | float, b: V | float) -> V:
        """a where the condition holds, else b."""

    @abstractmethod
    def bits(self, x: V) -> V:
        """A float as an integer of its width."""

    @abstractmethod
    def from_bits(self, x: V) -> V:
        """What `bits` was made of."""

    @abstractmethod
    def integer(self, op: str, a: V | int, b: V | int) -> V:
        """`add`, `sub`, `and`, `xor` or `shl` of integers, which wrap."""

    @abstractmethod
    def shifted(self, a: V, by: int) -> V:
        """A signed integer without its lowest bits, as a float."""

    @abstractmethod
    def is_odd(self, a: V) -> V:
        """Whether an integer is odd."""

    @abstractmethod
    def rarely(self, condition: V, name: str, args: Sequence[V], usual: V) -> V:
        """C's function `name` in the few lanes where the condition holds, else `usual`."""

    def add(self, a: V | float, b: V | float) -> V:
        return self.binary("add", a, b)

    def sub(self, a: V | float, b: V | float) -> V:
        return self.binary("sub", a, b)

    def mul(self, a: V | float, b: V | float) -> V:
        return self.binary("mul", a, b)

    def div(self, a: V, b: V) -> V:
        return self.binary("div", a, b)

    def abs(self, x: V) -> V:
        return self.unary("abs", x)

    def polynomial(self, x: V, by_bits: Numbers) -> V:
        """The polynomial with these coefficients, lowest first, by Horner's rule."""
        *rest, second, first = by_bits[self.of.bits]
        result = self.fma(first, x, second)
        for c in reversed(rest):
            result = self.fma(result, x, c)
        return result

    def at_most(self, x: V, bound: float) -> V:
        """The smaller of the two; NaN stays NaN."""
        return self.select(self.compare("ogt", x, bound), bound, x)

    def nearest(self, x: V, rate: float) -> tuple[V, V]:
        """(n, 2^n): the integer nearest to x * rate, which must be an exponent that numbers have.

        Adding 1.5 * 2^mantissa leaves the integer in the lowest bits of the sum; with the bias added too,
        these are the exponent field of 2^n.
        """
        shift = 1.5 * 2.0**self.mantissa + self.bias
        shifted = self.fma(x, rate, shift)
        power = self.from_bits(self.integer("shl", self.bits(shifted), self.mantissa))
        return self.sub(shifted, shift), power

    def split(self, x: V, low: float) -> tuple[V, V, V]:
        """(e, e in the exponent's place, m): x = m * 2^e with m in [low, 2 * low), for a positive normal x."""
        start = int(np.array(low, self.of.scalar.numpy).view(f"i{self.of.bits // 8}"))
        above = self.integer("sub", self.bits(x), start)
        placed = self.integer("and", above, -1 << self.mantissa)
        m = self.from_bits(self.integer("sub", self.bits(x), placed))
        return self.shifted(above, self.mantissa), placed, m


# -- exponentials ---------------------------------------------------------------------------------


def _exponential(base: float) -> Callable[[Formula[V], V], V]:
    """base^x = 2^m * 2^m * base^r with x = 2m * log_base(2) + r, m an integer.

    One power of two cannot hold all exponents, from denormal results to infinity; its half, twice, can.
    Where the result is less than half the smallest denormal, it is 0 by choice: what the formula gives
    there means nothing, and a multiplication that underflows, which the choice hides from the CPU, would
    take it a hundred cycles.
    """
    fitted: dict[float, tuple[Numbers, Numbers]] = {
        math.e: (tables.EXP, tables.LOG_2),
        2.0: (tables.EXP2, {32: (1.0,), 64: (1.0,)}),
        10.0: (tables.EXP10, tables.LOG10_2),
    }
    coefficients, log_2 = fitted[base]

    def formula(f: Formula[V], x: V) -> V:
        log2 = math.log2(base)
        remains = None if f.is_usual else f.compare("uge", x, (1 - f.bias - f.mantissa - 1) / log2)
        x = x if f.is_usual else f.at_most(x, (f.bias + 2) / log2)
        m, power = f.nearest(x, log2 / 2)
        r = x
        for part in log_2[f.of.bits]:
            r = f.fma(m, -2 * part, r)
        slope = f.polynomial(r, coefficients)
        if base == math.e:
            slope = f.fma(r, slope, 1.0)
        result = f.mul(f.mul(f.fma(r, slope, 1.0), power), power)
        return result if remains is None else f.select(remains, result, 0.0)

    return formula


def _tanh(f: Formula[V], x: V) -> V:
    """sign(x) * t / (t + 2) with t = e^y - 1 and y = 2|x|.

    e^y - 1 = 2^n * (e^r - 1) + (2^n - 1) with y = n * log(2) + r, which is exact for small x as well,
    where n is 0. From |x| = 10 (float64: 20) on the quotient rounds to 1.
    """
    y = f.mul(f.at_most(f.abs(x), 10.0 if f.of.bits == 32 else 20.0), 2.0)
    n, power = f.nearest(y, 1 / math.log(2))
    r = y
    for part in tables.LOG_2[f.of.bits]:
        r = f.fma(n, -part, r)
    less_1 = f.fma(f.mul(r, r), f.polynomial(r, tables.EXPM1), r)
    t = f.fma(power, less_1, f.sub(power, 1.0))
    return f.copysign(f.div(t, f.add(t, 2.0)), x)


# -- logarithms -----------------------------------------------------------------------------------


def _log_of_sum(f: Formula[V], d: V, low_part: V | None) -> V:
    """log(1 + d) + low_part for 1 + d within a factor of 3/2 of 1.

    float32: d - d^2/2 + d^3*P(d). float64: with s = d/(2 + d), log(1 + d) = 2*atanh(s)
    = d - (d^2/2 - s*(d^2/2 + R(s^2))), as in FreeBSD's e_log.c (Sun Microsystems, 1993).
    """
    if f.of.bits == 32:
        square = f.mul(d, d)
        tail = f.fma(d, f.polynomial(d, tables.LOG1P), -0.5)
        return f.fma(square, tail, d if low_part is None else f.add(low_part, d))
    s = f.div(d, f.add(d, 2.0))
    half = f.mul(f.mul(d, d), 0.5)
    z = f.mul(s, s)
    rest = f.fma(z, f.polynomial(z, tables.ATANH), half)
    tail = f.mul(s, rest) if low_part is None else f.fma(s, rest, low_part)
    return f.sub(d, f.sub(half, tail))


def _mantissas_from(f: Formula[V]) -> float:
    """The lower end of the interval of mantissas on which the polynomial was fitted."""
    return 2 / 3 if f.of.bits == 32 else math.sqrt(0.5)


def _natural(f: Formula[V], e: V, d: V) -> V:
    """e * log(2) + log(1 + d)"""
    high, low = tables.LOG_2[f.of.bits]
    if f.of.bits == 32:  # the number next to log(2) happens to be exact to 28 bits
        return f.fma(e, high + low, _log_of_sum(f, d, None))
    return f.fma(e, high, _log_of_sum(f, d, f.mul(e, low)))


def _binary(f: Formula[V], e: V, d: V) -> V:
    """e + log(1 + d) / log(2)"""
    return f.fma(_log_of_sum(f, d, None), 1 / math.log(2), e)


def _decimal(f: Formula[V], e: V, d: V) -> V:
    """e * log10(2) + log(1 + d) / log(10)"""
    high, low = tables.LOG10_2[f.of.bits]
    return f.fma(e, high, f.fma(_log_of_sum(f, d, None), 1 / math.log(10), f.mul(e, low)))


def _off_domain(f: Formula[V], x: V, pole: float, result: V) -> V:
    """`result` between the pole and infinity; -inf at the pole, NaN below it, infinity and NaN as they are."""
    inside = f.both(f.compare("ogt", x, pole), f.compare("olt", x, math.inf))
    outside = f.select(f.compare("oeq", x, pole), -math.inf, f.select(f.compare("olt", x, pole), math.nan, x))
    return f.select(inside, result, outside)


def _logarithm(combine: Callable[[Formula[V], V, V], V]) -> Callable[[Formula[V], V], V]:
    """log(x) = e * log(2) + log(m) with x = m * 2^e, m near 1; denormals are scaled up first."""

    def formula(f: Formula[V], x: V) -> V:
        if f.is_usual:
            e, _, m = f.split(x, _mantissas_from(f))
            return combine(f, e, f.sub(m, 1.0))
        denormal = f.compare("olt", x, f.tiny)
        scaled = f.select(denormal, f.mul(x, 2.0**f.mantissa), x)
        e, _, m = f.split(scaled, _mantissas_from(f))
        e = f.sub(e, f.select(denormal, float(f.mantissa), 0.0))
        return _off_domain(f, x, 0.0, combine(f, e, f.sub(m, 1.0)))

    return formula


def _log1p(f: Formula[V], x: V) -> V:
    """log(1 + x) = e * log(2) + log(1 + d), where e is the exponent of the rounded 1 + x.

    d = x * 2^-e + (2^-e - 1), rounded once, keeps what rounding 1 + x loses (N. Juffa's `log1pf`).
    4 * 2^-e stands for 2^-e, which is denormal for the largest x.
    """
    e, placed, _ = f.split(f.add(x, 1.0), _mantissas_from(f))
    power = f.from_bits(f.integer("sub", (f.bias + 2) << f.mantissa, placed))
    scaled = f.from_bits(f.integer("sub", f.bits(x), placed))
    result = _natural(f, e, f.add(scaled, f.fma(power, 0.25, -1.0)))
    return f.select(f.compare("oeq", x, 0.0), x, _off_domain(f, x, -1.0, result))


# -- the error function ---------------------------------------------------------------------------


def _erf(f: Formula[V], x: V) -> V:
    """x + x*P(x^2) near 0, sign(x) * (1 - 2^Q(|x|)) elsewhere (the two forms of N. Juffa's `erff`).

    From |x| = 4 on the difference rounds to 1.
    """
    near = f.fma(x, f.polynomial(f.mul(x, x), tables.ERF_NEAR), x)
    size = f.abs(x)
    exponent = f.polynomial(f.at_most(size, 4.0), tables.ERF_FAR)
    n, power = f.nearest(exponent, 1.0)
    r = f.sub(exponent, n)
    away = f.fma(r, f.polynomial(r, tables.EXP2_HALF), 1.0)
    far = f.copysign(f.fma(away, f.mul(power, -1.0), 1.0), x)
    return f.select(f.compare("ogt", size, tables.ERF_SPLIT), far, near)


# -- angles ---------------------------------------------------------------------------------------

#: from here on, pi/2 in three parts is no longer exact enough to reduce an angle
_FAR = 2.0**17


def _angle(name: str, ahead: int) -> Callable[[Formula[V], V], V]:
    """sin(x + ahead * pi/2): by the quadrant n of |x|, plus or minus the sine or cosine of |x| - n * pi/2.

    The difference is exact but for its last step (Cody and Waite); sin(r) = r + r^3*P(r^2) and
    cos(r) = 1 + r^2*Q(r^2) for |r| <= pi/4. Angles beyond 2^17 are left to the C library.
    """

    def formula(f: Formula[V], x: V) -> V:
        size = f.abs(x)
        shift = 1.5 * 2.0**f.mantissa  # leaves the nearest integer in the lowest bits: see `nearest`
        shifted = f.fma(size, 2 / math.pi, shift)
        n, quadrant = f.sub(shifted, shift), f.integer("add", f.bits(shifted), ahead)
        r = size
        for part in tables.QUARTER_TURN[f.of.bits]:
            r = f.fma(n, -part, r)
        z = f.mul(r, r)
        sine = f.fma(f.mul(r, z), f.polynomial(z, tables.SIN), r)
        cosine = f.fma(z, f.polynomial(z, tables.COS), 1.0)
        odd = f.is_odd(quadrant)
        sign = f.integer("and", f.integer("shl", quadrant, f.of.bits - 2), -1 << (f.of.bits - 1))
        if name == "sin":  # an odd function
            sign = f.integer("xor", sign, f.integer("and", f.bits(x), -1 << (f.of.bits - 1)))
        near = f.from_bits(f.integer("xor", f.bits(f.select(odd, cosine, sine)), sign))
        return near if f.is_usual else f.rarely(f.compare("ogt", size, _FAR), name, [x], near)

    return formula


# -- remainders -----------------------------------------------------------------------------------


def _fmod(f: Formula[V], a: V, b: V) -> V:
    """|a| - q * |b| with the sign of a, where q is the integer part of |a| / |b|. Exact, as C's.

    A quotient below 2^mantissa is rounded up to the next integer at most: the difference is below zero then, and in
    each case a multiple of b's last place between -|b| and |b|, which is a number. Larger ones, division by zero and
    what is not finite are left to the C library; `q = 0` stands for an infinite b, too.
    """
    size, by = f.abs(a), f.abs(b)
    q = f.unary("trunc", f.div(size, by))
    rest = f.fma(f.mul(q, -1.0), by, size)
    rest = f.select(f.compare("olt", rest, 0.0), f.add(rest, by), rest)
    near = f.copysign(f.select(f.compare("oeq", q, 0.0), size, rest), a)
    return f.rarely(f.compare("uge", q, 2.0**f.mantissa), "fmod", [a, b], near)


#: (operator, bits of the type) -> its formula
FORMULAS: dict[tuple[str, int], Callable[..., Any]] = {
    **{
        (name, bits): formula
        for bits in (32, 64)
        for name, formula in (
            ("exp", _exponential(math.e)),
            ("exp2", _exponential(2.0)),
            ("exp10", _exponential(10.0)),
            ("tanh", _tanh),
            ("log", _logarithm(_natural)),
            ("log2", _logarithm(_binary)),
            ("log10", _logarithm(_decimal)),
            ("log1p", _log1p),
            ("fmod", _fmod),
        )
    },
    ("erf", 32): _erf,
    ("sin", 32): _angle("sin", 0),
    ("cos", 32): _angle("cos", 1),
}


def usual(name: str, of: DType) -> Interval | None:
    """The operands of a function that need nothing special: no overflow, pole or denormal, no far angle."""
    if (name, of.bits) not in FORMULAS:
        return None
    info = np.finfo(of.scalar.numpy)
    bases = {"exp": math.e, "exp2": 2.0, "exp10": 10.0}
    if name in bases:  # all results are normal numbers
        return Interval((info.minexp + 1) / math.log2(bases[name]), (info.maxexp - 1) / math.log2(bases[name]))
    if name in ("log", "log2", "log10"):
        return Interval(float(info.tiny), float(info.max))
    return Interval(-_FAR, _FAR) if name in ("sin", "cos") else None
