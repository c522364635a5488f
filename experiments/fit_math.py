"""Fits the polynomials of autosched/codegen/formulas.py and prints the module that holds them.

Each has the smallest largest weighted error, found by Remez's exchange in 60 digits (mpmath), and is then
rounded to the type it is for:

    python experiments/fit_math.py > autosched/codegen/math_tables.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Function = Callable[[Any], Any]
TYPES = {32: np.float32, 64: np.float64}
ERF_SPLIT = 0.921875
_INDENT = " " * 8
LOG10_2 = mp.log(2, 10) * mp.mpf("1.00001")
ONE, TINY = mp.mpf(1), mp.mpf("1e-40")


def remez(target: Function, powers: list[int], low: Any, high: Any, weight: Function) -> tuple[list[Any], Any]:
    """Coefficients of `powers` and the largest |weight * (polynomial - target)| on [low, high]."""
    n = len(powers)
    low, high = mp.mpf(low), mp.mpf(high)
    nodes = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / n) for i in range(n + 1)]
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (20 * n)) for i in range(20 * n + 1)]
    table = [(x, target(x), weight(x)) for x in grid]
    best: tuple[list[Any], Any] = ([], mp.inf)
    for _ in range(30):
        rows = [[*(weight(x) * x**p for p in powers), (-1) ** i] for i, x in enumerate(nodes)]
        *coefficients, level = mp.lu_solve(mp.matrix(rows), mp.matrix([weight(x) * target(x) for x in nodes]))
        errors = [w * (sum(c * x**p for c, p in zip(coefficients, powers, strict=True)) - g) for x, g, w in table]
        best = min(best, (coefficients, max(map(abs, errors))), key=lambda found: found[1])
        if best[1] < abs(level) * mp.mpf("1.001"):
            return best
        nodes = [grid[i] for i in _alternation(errors, n + 1)]
    raise ArithmeticError(f"the exchange does not end: {best[1]} is not {level}")


def _alternation(errors: list[Any], count: int) -> list[int]:
    """Positions of `count` extrema of alternating sign, the largest there are."""
    extrema: list[int] = []
    for i, e in enumerate(errors):  # the largest of each run of one sign
        if extrema and (errors[extrema[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[extrema[-1]]):
                extrema[-1] = i
        else:
            extrema.append(i)
    while len(extrema) > count:
        least = min(range(len(extrema)), key=lambda k: abs(errors[extrema[k]]))
        ends = (0, len(extrema) - 1)
        if len(extrema) == count + 1:
            least = min(ends, key=lambda k: abs(errors[extrema[k]]))
        del extrema[least]
        if 0 < least < ends[1]:  # its neighbours have one sign
            worse = least if abs(errors[extrema[least]]) < abs(errors[extrema[least - 1]]) else least - 1
            del extrema[worse]
    return extrema


def power(base: Any, degree: int, bound: Any) -> tuple[list[Any], Any]:
    """base^r = 1 + r*P(r) for |r| <= bound."""
    rate = mp.log(base)

    def ratio(r: Any) -> Any:
        return mp.expm1(r * rate) / r if r else rate

    # the weight is that of r*P(r), which says nothing about P(0)
    return remez(ratio, list(range(degree)), -bound, bound, lambda r: abs(r) * mp.exp(-r * rate) + TINY)


def exponential(degree: int) -> tuple[list[Any], Any]:
    """e^r = 1 + r + r^2*P(r) for |r| <= log(2)."""

    def ratio(r: Any) -> Any:
        return (mp.expm1(r) - r) / r**2 if r else ONE / 2

    bound = mp.log(2) * mp.mpf("1.00001")
    return remez(ratio, list(range(degree - 1)), -bound, bound, lambda r: r**2 * mp.exp(-r) + TINY)


def expm1(degree: int) -> tuple[list[Any], Any]:
    """e^r - 1 = r + r^2*P(r) for |r| <= log(2)/2."""
    bound = mp.log(2) / 2 * mp.mpf("1.00001")

    def ratio(r: Any) -> Any:
        return (mp.expm1(r) - r) / r**2 if r else ONE / 2

    return remez(ratio, list(range(degree - 1)), -bound, bound, lambda r: abs(r**2 / mp.expm1(r)) if r else TINY)


def log1p(degree: int) -> tuple[list[Any], Any]:
    """log(1 + f) = f - f^2/2 + f^3*P(f) for |f| <= 1/3."""

    def ratio(f: Any) -> Any:
        return (mp.log1p(f) - f + f**2 / 2) / f**3 if f else ONE / 3

    return remez(ratio, list(range(degree - 2)), -ONE / 3, ONE / 3, lambda f: abs(f**3 / mp.log1p(f)) if f else TINY)


def atanh(terms: int) -> tuple[list[Any], Any]:
    """2*atanh(s) = 2s + s*z*P(z) with z = s^2, for 1 + f = (1 + s)/(1 - s) in [sqrt(1/2), sqrt(2)]."""
    bound = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2

    def ratio(z: Any) -> Any:
        return 2 * (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z else ONE * 2 / 3

    return remez(ratio, list(range(terms)), 0, bound, lambda z: z if z else TINY)


def sine(terms: int) -> tuple[list[Any], Any]:
    """sin(r) = r + r^3*P(r^2) for |r| <= pi/4."""

    def ratio(z: Any) -> Any:
        return (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z else -ONE / 6

    return remez(ratio, list(range(terms)), 0, (mp.pi / 4 * mp.mpf("1.001")) ** 2, lambda z: z if z else TINY)


def cosine(terms: int) -> tuple[list[Any], Any]:
    """cos(r) = 1 + r^2*P(r^2) for |r| <= pi/4."""

    def ratio(z: Any) -> Any:
        return (mp.cos(mp.sqrt(z)) - 1) / z if z else -ONE / 2

    return remez(ratio, list(range(terms)), 0, (mp.pi / 4 * mp.mpf("1.001")) ** 2, lambda z: z if z else TINY)


def erf_near(terms: int, bound: float) -> tuple[list[Any], Any]:
    """erf(x)/x - 1 = P(x^2) for |x| <= bound."""

    def ratio(z: Any) -> Any:
        return mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z else 2 / mp.sqrt(mp.pi)

    return remez(lambda z: ratio(z) - 1, list(range(terms)), 0, mp.mpf(bound) ** 2, lambda z: 1 / ratio(z))


def erf_far(degree: int, bound: float) -> tuple[list[Any], Any]:
    """log2(1 - erf(x)) = P(x) for bound <= x <= 4, such that erf is as exact as can be."""
    return remez(
        lambda x: mp.log(mp.erfc(x), 2), list(range(degree + 1)), bound, 4, lambda x: mp.erfc(x) * mp.log(2) / mp.erf(x)
    )


def split(number: Any, bits: int, of: type) -> list[float]:
    """`number` as the sum of two: the first has `bits` bits, so that its products with small integers are exact."""
    exponent = mp.floor(mp.log(number, 2)) + 1
    high = mp.nint(mp.ldexp(number, bits - int(exponent))) * mp.ldexp(1, int(exponent) - bits)
    return [float(high), float(of(float(number - high)))]


def polynomials() -> dict[str, dict[int, tuple[list[Any], Any]]]:
    """name -> bits of the type -> (coefficients, largest error); each fit's docstring is the formula."""
    near = mp.mpf(ERF_SPLIT)
    return {
        "EXP": {32: exponential(7), 64: exponential(13)},
        "EXP2": {32: power(mp.mpf(2), 7, ONE), 64: power(mp.mpf(2), 13, ONE)},
        "EXP10": {32: power(mp.mpf(10), 7, LOG10_2), 64: power(mp.mpf(10), 13, LOG10_2)},
        "EXPM1": {32: expm1(6), 64: expm1(11)},
        "LOG1P": {32: log1p(10)},
        "ATANH": {64: atanh(7)},
        "ERF_NEAR": {32: erf_near(6, near)},
        "ERF_FAR": {32: erf_far(6, near)},
        "SIN": {32: sine(3)},
        "COS": {32: cosine(4)},
        "EXP2_HALF": {32: power(mp.mpf(2), 6, ONE / 2)},
    }


def constants() -> dict[str, dict[int, list[float]]]:
    """Logarithms of 2 in two parts, of which the first has a few bits less than the type; pi/2 in three."""
    bits = {32: 15, 64: 41}
    quarter = mp.pi / 2
    parts = [float(np.float32(float(quarter)))]
    for _ in range(2):
        parts.append(float(np.float32(float(quarter - sum(map(mp.mpf, parts))))))
    return {
        "QUARTER_TURN": {32: parts},
        "LOG_2": {b: split(mp.log(2), n, TYPES[b]) for b, n in bits.items()},
        "LOG10_2": {b: split(mp.log(2, 10), n, TYPES[b]) for b, n in bits.items()},
    }


def main() -> None:
    """Print the tables as a Python module."""
    print(
        '"""Polynomials of `formulas`, lowest power first, by bits of the type. Made by experiments/fit_math.py."""\n'
    )
    print(f"#: where the two polynomials of erf meet\nERF_SPLIT = {ERF_SPLIT}")
    for name, parts in constants().items():
        print(f"{name} = {parts!r}".replace("[", "(").replace("]", ")"))
    print("# fmt: off")
    for name, by_bits in polynomials().items():
        print(f"{name} = {{")
        for bits, (coefficients, error) in by_bits.items():
            numbers = ", ".join(repr(float(TYPES[bits](float(c)))) for c in coefficients)
            print(f"    {bits}: (  # error 2**{mp.nstr(mp.log(error, 2), 4)}")
            print(
                textwrap.fill(
                    f"{numbers},", 120, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
                )
            )
            print("    ),")
        print("}")


if __name__ == "__main__":
    main()
