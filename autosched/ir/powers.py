"""Powers whose exponent is known: products, quotients and roots, in place of a function of two operands."""

from __future__ import annotations

import math

from autosched.ir.dtype import FLOAT32
from autosched.ir.expr import Expr, cast, compare, const, make, select

#: Powers of exponents between these are off by less than `pow` may be: each product rounds, and each quotient of
#: OpenCL by more.
LOWEST, HIGHEST = -4, 16


def repeated(a: Expr, n: int) -> Expr:
    """`a` to the power of `n`, a whole number, by squaring.

    >>> from autosched.ir.expr import var
    >>> repeated(var("x", "float32"), 3)
    x*x*x
    """
    if n < 2:
        return a if n else const(1, a.dtype)
    half = repeated(a, n // 2)
    return half * half * a if n % 2 else half * half


def known_power(e: Expr) -> Expr:
    """`pow(a, b)` by other operators where `b` is a whole number near 0, or one half, or either negative.

    Special values are those of C's `pow`: its root of -infinity is infinity, and that of -0 is 0.
    """
    a, b = e.args
    if b.op != "const" or not LOWEST <= b.value <= HIGHEST or b.value not in (0.5, -0.5, int(b.value)):
        return e
    x = cast(FLOAT32.with_lanes(a.dtype.lanes), a) if a.dtype.bits == 16 else a
    one, root = const(1, x.dtype), abs(b.value) == 0.5
    found = make("sqrt", x.dtype, (x,)) + const(0, x.dtype) if root else x
    found = one / found if b.value < 0 else found  # first: a product may leave the range where its inverse does not
    if root:
        far = compare("eq", x, const(-math.inf, x.dtype))
        found = select(far, const(math.inf if b.value > 0 else 0, x.dtype), found)
    else:
        found = repeated(found, abs(int(b.value)))
    return cast(e.dtype, found)
