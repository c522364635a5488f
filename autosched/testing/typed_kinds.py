"""Stages of random programs that go to the edges of types: conversions, wrapping, signs, NaN and infinities.

Integers wrap and comparisons are exact, so these stay exact however large their values are. Floats are only
compared, selected, negated and converted here: what rounds would depend on the order of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.ir.expr import Expr, const
from autosched.te.tensor import Tensor
from autosched.testing.maker import MAX_ELEMENTS, Maker, clamp

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_NARROW = ("int8", "uint8", "int16", "uint16")


def _wrap(k: int, of: str) -> Expr:
    """The number of an integer type that has the low bits of `k`."""
    bits = int(of.lstrip("uint"))
    low = k & ((1 << bits) - 1)
    return const(low - (1 << bits) if not of.startswith("u") and low >> (bits - 1) else low, of)


#: what depends on how a number is read: its sign, its width, what it wraps to
_INTEGER_OPERATIONS: tuple[Callable[[Expr, Expr], Expr], ...] = (
    te.floordiv,
    te.floormod,
    te.truncdiv,
    te.truncmod,
    te.max,
    te.min,
    lambda x, c: x + c,
    lambda x, c: c - x,
    lambda x, c: x * c,
    lambda x, c: x * x + c,
    lambda x, c: x & c,
    lambda x, c: x | c,
    lambda x, c: x ^ c,
    lambda x, c: x >> 3,
    lambda x, c: x << 2,
    lambda x, c: te.select(x < c, x, c),
    lambda x, c: (x >= c).astype(x.dtype),
    lambda x, c: ~x,
)
_NUMBERS = (-128, -7, -3, -1, 1, 2, 3, 7, 100, 127, 200, 255, 40_000, 2_654_435_761)


def in_two_types(m: Maker) -> Tensor | None:
    """One value converted to two integer types, each computed with, and the results brought together."""
    a = m.pick()
    if a.dtype.is_float:
        return None
    first, second = m.rng.sample(_INTEGERS, 2)
    if m.rng.random() < 0.5:  # the same width, read with and without a sign
        second = first.removeprefix("u") if first.startswith("u") else f"u{first}"
    f, g = m.rng.choices(_INTEGER_OPERATIONS, k=2)
    c, d = m.rng.choices(_NUMBERS, k=2)
    to = m.rng.choice((*_INTEGERS, "bool"))

    def body(*i: Expr) -> object:
        x = m.read(a, i)
        left, right = f(x.astype(first), _wrap(c, first)), g(x.astype(second), _wrap(d, second))
        return left.astype(to) ^ right.astype(to) if to == "bool" else left.astype(to) + right.astype(to)

    return m.stage(a.shape, body, 2.0**64, is_cast=True)


def narrow(m: Maker) -> Tensor | None:
    """Arithmetic on two tensors in 8 or 16 bits, which wraps, sometimes stored wider."""
    a = m.pick()
    if a.dtype.is_float or a.dtype.is_bool:
        return None
    of = m.rng.choice(_NARROW)
    f, g = m.rng.choices(_INTEGER_OPERATIONS, k=2)
    c, to = m.rng.choice(_NUMBERS), m.rng.choice((of, of, "int32", "float32"))

    def body(*i: Expr) -> object:
        x = m.read(a, i).astype(of)
        return f(g(x * x, _wrap(c, of)) + i[-1].astype(of), x).astype(to)

    return m.stage(a.shape, body, 2.0**16, is_cast=True)


def narrow_index(m: Maker) -> Tensor | None:
    """An element at a place that is computed in 8 or 16 bits from data and from where the reader stands."""
    a, b = m.pick(), m.pick()
    if b.dtype.is_float or b.dtype.is_bool or b.shape != a.shape or not m.lengths(a.shape)[0]:
        return None
    of, c = m.rng.choice(_NARROW), m.rng.choice((3, 7, 37, 100))

    def body(*i: Expr) -> object:
        place = m.read(b, i).astype(of) * const(c, of) + i[0].astype(of)
        return m.read(a, [clamp(place.astype("int32"), a.shape[0]), *i[1:]])

    return m.stage(a.shape, body, m.size_of(a))


def special(m: Maker) -> Tensor | None:
    """NaN, infinities and zeros of either sign: compared, selected, combined by `min` and `max`, told apart."""
    shape = m.pick().shape
    a = m.placeholder(shape, m.rng.choice(("float32", "float64", "float16")), special=True)
    b = m.placeholder(shape, a.dtype, special=True)
    operation = m.rng.choice(_SPECIAL)
    return m.stage(shape, lambda *i: operation(a(*i), b(*i)), 2.0**64, is_cast=True)


_SPECIAL: tuple[Callable[[Expr, Expr], Expr], ...] = (
    te.min,
    te.max,
    lambda x, y: te.select(x < y, x, y),
    lambda x, y: te.select(x >= y, te.abs(x), -y),
    lambda x, y: te.isnan(x) | (x == y),
    lambda x, y: (x != y) & ~(x <= y),
    lambda x, y: te.floor(x) + te.ceil(y),
    lambda x, y: x.astype("int32") + y.astype("uint8").astype("int32"),
    lambda x, y: x.astype("int64") - y.astype("int16").astype("int64"),
    lambda x, y: x.astype("float64"),
    lambda x, y: te.max(te.min(x, const(2, x.dtype)), const(-2, x.dtype)),
)


def _product(m: Maker, x: Tensor, name: str) -> Tensor:
    k, w = te.reduce_axis((0, x.shape[1]), "k"), m.placeholder([x.shape[1], 3], x.dtype)
    return te.compute((x.shape[0], 3), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name=name)


def _window(m: Maker, x: Tensor, name: str) -> Tensor:
    n = x.shape[0]
    return te.compute(x.shape, lambda i, j: x[i, j] * x[clamp(i + 1, n), j] + te.max(x[i, j], 0.0), name=name)


def _rows_of(m: Maker, x: Tensor, name: str) -> Tensor:
    """Rows at places that the data say: their slope is a scatter."""
    at = m.placeholder([x.shape[0]], "int32")
    return te.compute(x.shape, lambda i, j: x[clamp(at[i], x.shape[0]), j], name=name)


def _convolution(m: Maker, x: Tensor, name: str) -> Tensor:
    r, n = te.reduce_axis((0, 3), "r"), x.shape[0]

    def body(i: Expr, j: Expr) -> Expr:
        return te.sum(x[i + r - 1, j] * x[i, j], axis=r, where=te.all(i + r - 1 >= 0, i + r - 1 < n))

    return te.compute(x.shape, body, name=name)


def _strided(m: Maker, x: Tensor, name: str) -> Tensor:
    half = te.floordiv(x.shape[1] + 1, 2)
    doubled = te.compute((x.shape[0], half), lambda i, j: x[i, 2 * j] * x[i, 0], name=f"{name}d")
    return te.compute(doubled.shape, lambda i, j: te.select(j > 0, doubled[i, half - 1 - j], x[i, 0]), name=name)


def _squares(m: Maker, x: Tensor, name: str) -> Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * te.abs(x[i, k]), axis=k), name=name)


_SLOPES = (_product, _window, _rows_of, _convolution, _strided, _squares)


def slope(m: Maker) -> Tensor | None:
    """The gradient of some computation with respect to its input."""
    x = m.placeholder([m.dim(), m.rng.choice((3, 4, 7))], m.rng.choice(("float32", "float64")))
    if not all(m.lengths(x.shape)) or not m.fits(x.shape):
        return None
    y = m.rng.choice(_SLOPES)(m, x, f"y{len(m.stages)}")
    whole = m.rng.random() < 0.2 and m.fits([*y.shape, *x.shape])  # the Jacobian
    head = None if whole else m.placeholder(y.shape, x.dtype)
    (made,) = te.gradient(y, [x], head)
    m.stages.append(made)
    m.bound[made] = 4.0**4 * MAX_ELEMENTS
    return made


#: What a stage of a random program may be besides `kinds.KINDS`.
TYPED_KINDS: tuple[Callable[[Maker], Tensor | None], ...] = (
    in_two_types, in_two_types, in_two_types, narrow, narrow, narrow_index, special, special, slope, slope, slope,
)  # fmt: skip
