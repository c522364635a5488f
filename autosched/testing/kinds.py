"""The kinds of stages of random programs: each adds one stage, or several, to a program in the making.

A new kind of operation joins here: a function of the `Maker` that returns the last tensor it made, or
None where what it drew does not fit. Values must stay exact: see `Maker.stage`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autosched import te
from autosched.ir.dtype import SCALAR_DTYPES
from autosched.ir.expr import Expr, const, is_const
from autosched.te.tensor import Tensor
from autosched.testing.elsewhere import chosen, divided, looked_up, looked_up_sum
from autosched.testing.externs import opaque
from autosched.testing.logic import logical
from autosched.testing.maker import LENGTHS, MAX_ELEMENTS, Maker, clamp
from autosched.testing.reductions import (
    mask_of,
    narrow_product,
    of_one_input,
    product_with,
    so_far,
    summed_states,
    sums_so_far,
    two_states,
    weighted_rows,
)
from autosched.testing.tiles import dot

#: Element-wise operations on two values at an index of a shape.
_ELEMENTWISE: tuple[Callable[[Expr, Expr, Sequence[Expr], Sequence[Expr]], Expr], ...] = (
    lambda x, y, i, shape: x + y,
    lambda x, y, i, shape: x - y,
    lambda x, y, i, shape: x * y,
    lambda x, y, i, shape: te.min(x, y),
    lambda x, y, i, shape: te.max(x, y),
    lambda x, y, i, shape: x > y,
    lambda x, y, i, shape: te.select(te.floormod(i[-1], 2) == 0, x, y),
    lambda x, y, i, shape: te.select(x >= y, y, x + 1),
    lambda x, y, i, shape: te.if_then_else(x < y, x, y * 2),
    lambda x, y, i, shape: x + i[0].astype(y.dtype),
    lambda x, y, i, shape: y + shape[0].astype(x.dtype),
)


def elementwise(m: Maker) -> Tensor | None:
    """Arithmetic on one tensor and a number, or on two tensors of the same shape."""
    a = m.pick()
    same = [t for t in [*m.inputs, *m.stages] if t.ndim == a.ndim and t.shape == a.shape and t is not a]
    b = m.rng.choice(same) if same and m.rng.random() < 0.6 else None
    k, operation = m.rng.choice((1, 2, 3, -1)), m.rng.choice(_ELEMENTWISE)

    def body(*i: Expr) -> object:
        return operation(m.read(a, i), const(k, a.dtype) if b is None else m.read(b, i), i, a.shape)

    x, y = m.size_of(a), 3 if b is None else m.size_of(b)
    return m.stage(a.shape, body, max(x * y, x + 2 * y + MAX_ELEMENTS))


def converted(m: Maker) -> Tensor | None:
    """Another element type."""
    a = m.pick()
    to = m.rng.choice(SCALAR_DTYPES)
    bound = m.size_of(a) if a.dtype.is_float else 2.0**a.dtype.bits
    return m.stage(a.shape, lambda *i: m.read(a, i).astype(to), bound, is_cast=True)


def clamped_stencil(m: Maker) -> Tensor | None:
    """A sum of neighbours along one or two dimensions, borders repeated."""
    a = m.pick()
    axes = m.rng.sample(range(a.ndim), m.rng.choice((1, 1, 2)) if a.ndim > 1 else 1)
    offsets = [[m.rng.choice((-2, -1, 0, 1, 2)) if d in axes else 0 for d in range(a.ndim)] for _ in range(3)]

    def body(*i: Expr) -> object:
        def at(shift: Sequence[int]) -> Expr:
            return m.read(
                a, [clamp(x + o, d) if k in axes else x for k, (x, o, d) in enumerate(zip(i, shift, a.shape))]
            )

        return at(offsets[0]) + at(offsets[1]) + at(offsets[2])

    return m.stage(a.shape, body, 3 * m.size_of(a))


def padded(m: Maker) -> Tensor | None:
    """Zeros around one dimension."""
    a = m.pick()
    axis, before, after = m.rng.randrange(a.ndim), m.rng.choice((0, 1, 2)), m.rng.choice((1, 2))
    shape = [d + (before + after) if k == axis else d for k, d in enumerate(a.shape)]

    def body(*i: Expr) -> object:
        x = i[axis] - before
        inside = te.all(x >= 0, x < a.shape[axis])
        return te.if_then_else(inside, m.read(a, [x if k == axis else e for k, e in enumerate(i)]), const(0, a.dtype))

    return m.stage(shape, body, m.size_of(a))


def blur(m: Maker) -> Tensor | None:
    """Two stages: borders repeated explicitly, then a window that reads inside only."""
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    shape = [d + 2 if k == axis else d for k, d in enumerate(a.shape)]

    def around(*i: Expr) -> object:
        return m.read(a, [clamp(x - 1, a.shape[axis]) if k == axis else x for k, x in enumerate(i)])

    wide = m.stage(shape, around, m.size_of(a)) if m.lengths(a.shape)[axis] else None
    if wide is None:
        return None

    def window(*i: Expr) -> object:
        def at(o: int) -> Expr:
            return m.read(wide, [x + o if k == axis else x for k, x in enumerate(i)])

        return at(0) + at(1) + at(2)

    return m.stage(a.shape, window, 3 * m.size_of(wide))


def transposed(m: Maker) -> Tensor | None:
    a = m.pick(least_rank=2)
    order = m.rng.sample(range(a.ndim), a.ndim)
    place = [order.index(k) for k in range(a.ndim)]
    return m.stage([a.shape[k] for k in order], lambda *i: m.read(a, [i[p] for p in place]), m.size_of(a))


def mirrored(m: Maker) -> Tensor | None:
    a = m.pick()
    axis = m.rng.randrange(a.ndim)

    def body(*i: Expr) -> object:
        return m.read(a, [a.shape[k] - 1 - x if k == axis else x for k, x in enumerate(i)])

    return m.stage(a.shape, body, m.size_of(a))


def every_second(m: Maker) -> Tensor | None:
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    shape = [te.floordiv(d + 1, 2) if k == axis else d for k, d in enumerate(a.shape)]
    return m.stage(shape, lambda *i: m.read(a, [2 * x if k == axis else x for k, x in enumerate(i)]), m.size_of(a))


def flattened(m: Maker) -> Tensor | None:
    """The last two dimensions as one: indices are a quotient and a remainder."""
    a = m.pick(least_rank=2)
    width = a.shape[-1]
    shape = [*a.shape[:-2], a.shape[-2] * width]

    def body(*i: Expr) -> object:
        return m.read(a, [*i[:-1], te.floordiv(i[-1], width), te.floormod(i[-1], width)])

    return m.stage(shape, body, m.size_of(a))


def gathered(m: Maker) -> Tensor | None:
    """One tensor indexed by the values of another, sometimes by their neighbours, kept in range."""
    a, b = m.pick(), m.pick()
    if b.dtype.is_float or not m.lengths(a.shape)[0]:
        return None
    rest, beside = a.shape[1:], m.rng.choice((None, None, 1, -2, "axis"))

    def body(*i: Expr) -> object:
        place = b(*i[: b.ndim]).astype("int32")
        if beside is not None:
            place = place + (i[-1] if beside == "axis" else beside)
        return m.read(a, [clamp(place, a.shape[0]), *i[b.ndim :]])

    return m.stage([*b.shape, *rest], body, m.size_of(a)) if b.ndim + len(rest) <= 3 else None


def row_reduced(m: Maker) -> Tensor | None:
    """A reduction over one dimension, sometimes over all of them, sometimes over part of the points."""
    a = m.pick()
    every = a.ndim == 1 or m.rng.random() < 0.15
    axes = list(range(a.ndim)) if every else [m.rng.randrange(a.ndim)]
    combine = m.rng.choice((te.sum, te.sum, te.max, te.min, te.sum if a.dtype.is_float else te.prod))
    is_sum = combine is te.sum  # the least and the greatest of nothing are infinite
    where, begin = m.rng.random() < 0.2 and is_sum, m.rng.choice((0, 0, 1)) if is_sum else 0
    over = {k: te.reduce_axis((0 if is_const(a.shape[k], 0) else begin, a.shape[k]), f"r{k}") for k in axes}
    mask = mask_of(m)

    def body(*i: Expr) -> object:
        left = iter(i)
        indices = [over[k] if k in over else next(left) for k in range(a.ndim)]
        condition = mask(over[axes[0]].var, i) if where else None
        return combine(m.read(a, indices), axis=list(over.values()), where=condition)

    shape = [d for k, d in enumerate(a.shape) if k not in over]
    count = int(np.prod([m.lengths(a.shape)[k] for k in axes]))
    return m.stage(shape, body, count * m.size_of(a))


def several(m: Maker) -> Tensor | None:
    """Two or three functions of the same element."""
    a = m.pick()
    count, operations = m.rng.choice((2, 2, 3)), m.rng.sample(_ELEMENTWISE, 3)

    def body(*i: Expr) -> tuple[Expr, ...]:
        x = m.read(a, i)
        return tuple(f(x, const(k + 1, a.dtype), i, a.shape) for k, f in enumerate(operations[:count]))

    return m.together(a.shape, body, [4 * m.size_of(a) + MAX_ELEMENTS] * count)


def extreme(m: Maker) -> Tensor | None:
    """The place of a row's least or greatest element, and the element."""
    a = m.pick()
    axis, find = m.rng.randrange(a.ndim), m.rng.choice((te.argmax, te.argmin))
    k = te.reduce_axis((0, a.shape[axis]), "k")
    if a.dtype.is_bool:
        return None

    def body(*i: Expr) -> tuple[Expr, ...]:
        return find(m.read(a, [*i[:axis], k, *i[axis:]]), axis=k)

    return m.together([*a.shape[:axis], *a.shape[axis + 1 :]], body, [MAX_ELEMENTS, m.size_of(a)])


#: Reductions of pairs, and the identity of each part; the parts of the last one need each other.
_PAIRS: tuple[tuple[Callable[..., object], tuple[int, int]], ...] = (
    (lambda x, y: (x[0] + y[0], x[1] * y[1]), (0, 1)),
    (lambda x, y: (x[0] + y[0], x[1] + y[1]), (0, 0)),
    (lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]), (1, 0)),
)


def of_pairs(m: Maker) -> Tensor | None:
    """A reduction of pairs along one dimension, sometimes begun with an element of the input."""
    a = m.pick()
    axis, (combine, identity) = m.rng.randrange(a.ndim), m.rng.choice(_PAIRS)
    if not a.dtype.is_integer or not m.lengths(a.shape)[axis]:  # products of floats would round
        return None
    pairs = te.comm_reducer(combine, lambda s, t: (const(identity[0], s), const(identity[1], t)), "pairs")
    k, begins, where = te.reduce_axis((0, a.shape[axis]), "k"), m.rng.random() < 0.4, m.rng.random() < 0.3

    def body(*i: Expr) -> tuple[Expr, ...]:
        x, first = m.read(a, [*i[:axis], k, *i[axis:]]), m.read(a, [*i[:axis], a.shape[axis] - 1, *i[axis:]])
        condition = te.floormod(k.var, 2) == 0 if where else None
        return pairs((x, x + 1), k, condition, (first, first) if begins else None)

    return m.together([*a.shape[:axis], *a.shape[axis + 1 :]], body, [0, 0])


def reduced_otherwise(m: Maker) -> Tensor | None:
    """A reducer of `comm_reducer`, `any` or `all` along one dimension, sometimes begun with an element."""
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    begins = m.rng.random() < 0.5 and m.lengths(a.shape)[axis] > 0
    k = te.reduce_axis((0, a.shape[axis]), "k")
    either = te.comm_reducer(lambda x, y: x | y, lambda t: const(0, t), "either")
    added = te.comm_reducer(lambda x, y: y + x, lambda t: const(0, t), "added")
    options: list[Callable[..., Expr]] = [te.any, te.all]
    if not a.dtype.is_bool:
        options += [te.sum, te.max, added]
    if a.dtype.is_integer:
        options.append(either)
    combine = m.rng.choice(options)

    def body(*i: Expr) -> object:
        x, first = m.read(a, [*i[:axis], k, *i[axis:]]), m.read(a, [*i[:axis], 0, *i[axis:]])
        if combine in (te.any, te.all):
            x, first = x > 0, first > 1
        return combine(x, axis=k, init=first if begins else None)

    shape = [*a.shape[:axis], *a.shape[axis + 1 :]]
    return m.stage(shape, body, (m.lengths(a.shape)[axis] + 1) * m.size_of(a))


def matmul(m: Maker) -> Tensor | None:
    a = m.pick(least_rank=2)
    if a.ndim != 2:
        return None
    b = a if m.rng.random() < 0.3 else m.placeholder([a.shape[1], m.dim()], a.dtype)
    k = te.reduce_axis((0, a.shape[1]), "k")
    where, mask = m.rng.random() < 0.4, mask_of(m)

    def body(i: Expr, j: Expr) -> object:
        right = m.read(a, [j, k]) if b is a else m.read(b, [k, j])
        return te.sum(m.read(a, [i, k]) * right, axis=k, where=mask(k.var, (i, j)) if where else None)

    shape = [a.shape[0], a.shape[0] if b is a else b.shape[1]]
    return m.stage(shape, body, m.lengths(a.shape)[1] * m.size_of(a) * m.size_of(b))


def convolved(m: Maker) -> Tensor | None:
    """A sliding window as a reduction; the window is cut at the borders by its condition. So it is along the first
    dimension; along the last one the border is repeated."""
    a, points = m.pick(), m.rng.choice((3, 3, 8, 60))
    r, q = te.reduce_axis((0, points), "r"), te.reduce_axis((0, m.rng.choice((2, 5, 9))), "q")
    wide, step = a.ndim > 1 and points < 60 and m.rng.random() < 0.7, m.rng.choice((1, 1, 2))

    def body(*i: Expr) -> object:
        at = i[0] + r - 1
        rest = [*i[1:-1], clamp(i[-1] * step + q - 2, a.shape[-1])] if wide else i[1:]
        where = te.all(at >= 0, at < a.shape[0])
        return te.sum(m.read(a, [at, *rest]), axis=[r, q] if wide else r, where=where)

    return m.stage(a.shape, body, points * (9 if wide else 1) * m.size_of(a))


def bordered(m: Maker) -> Tensor | None:
    """A convolution with weights that reads across a border, where a number stands outside; of some channels."""
    a, outputs = m.pick(least_rank=2), m.rng.choice((1, 3, 8))
    width, step = m.rng.choice((2, 3)), m.rng.choice((1, 2))
    edge = te.constant_exterior(a, m.rng.choice((0, 1)), axes=(a.ndim - 1,))
    w = m.placeholder([outputs, width], a.dtype)
    r = te.reduce_axis((0, width), "r")

    def body(o: Expr, *i: Expr) -> object:
        inside = edge(*i[:-1], i[-1] + r * step - 1)
        return te.sum(te.max(te.min(inside, const(8, a.dtype)), const(0, a.dtype)) * w[o, r], axis=r)

    return m.stage([outputs, *a.shape], body, width * 8 * m.size_of(w))


def upsampled(m: Maker) -> Tensor | None:
    """Each element spread over a few places, some apart: a transposed convolution."""
    a, stride, taps = m.pick(), m.rng.choice((2, 3)), m.rng.choice((2, 3, 4))
    w, k = m.placeholder([taps], a.dtype), te.reduce_axis((0, taps), "k")

    def body(*i: Expr) -> object:
        at = i[0] + 1 - k
        value = m.read(a, [clamp(te.floordiv(at, stride), a.shape[0]), *i[1:]]) * w[k]
        return te.sum(value, axis=k, where=te.floormod(at, stride) == 0)

    return m.stage([a.shape[0] * stride, *a.shape[1:]], body, taps * m.size_of(a) * m.size_of(w))


def coloured(m: Maker) -> Tensor | None:
    """Pixels of a few channels, each made in a way of its own, or of the other channels by a matrix; or one channel of
    pixels, and then all."""
    a, channels, way = m.pick(), m.rng.choice((2, 3, 4)), m.rng.randrange(3)
    if way == 0:

        def body(*i: Expr) -> object:
            x = m.read(a, i[:-1])
            return te.select(i[-1] == 0, x, te.select(i[-1] == 1, x + 1, x * 2))

        return m.stage([*a.shape, channels], body, 2 * m.size_of(a) + 1)
    pixels, matrix = m.placeholder([*a.shape, channels], a.dtype), m.placeholder([channels, channels], a.dtype)
    if way == 1:
        first = m.rng.randrange(channels)
        if m.stage(a.shape, lambda *i: m.read(pixels, [*i, first]) + 1, 5) is None:
            return None
        return m.stage(a.shape, lambda *i: sum(m.read(pixels, [*i, c]) * (c + 1) for c in range(channels)), 40)
    k = te.reduce_axis((0, channels), "k")

    def mixed(*i: Expr) -> object:
        return te.sum(m.read(pixels, [*i[:-1], k]) * m.read(matrix, [i[-1], k]), axis=k)

    return m.stage([*a.shape, channels], mixed, channels * m.size_of(pixels) * m.size_of(matrix))


def spread(m: Maker) -> Tensor | None:
    """A vector, or a single number, added to every row of a matrix."""
    a = m.pick(least_rank=2)
    known = [t for t in [*m.inputs, *m.stages] if t.dtype == a.dtype]
    usable = [t for t in known if t.ndim == 0 or (t.ndim == 1 and t.shape[0] is a.shape[-1])]
    v = m.rng.choice(usable) if usable else m.placeholder([a.shape[-1]] * m.rng.randint(0, 1), a.dtype)
    return m.stage(a.shape, lambda *i: m.read(a, i) + m.read(v, i[-1:][: v.ndim]), m.size_of(a) + m.size_of(v))


def scanned(m: Maker) -> Tensor | None:
    """A recurrence along the first dimension, kept in a small range; sometimes over a whole row, of neighbours along
    one axis, of the sum of all earlier times, or of a matrix times the row before; sometimes the last time alone."""
    a = m.pick(least_rank=2)
    whole, near, far = (m.rng.random() < x for x in (0.3, 0.3 * (a.ndim - 1), 0.2))
    back, aside = m.rng.choice((1, 1, 2)), m.rng.randrange(a.ndim - 1)
    if a.dtype.is_bool or not m.fits(a.shape) or m.lengths(a.shape[:1])[0] < back:
        return None
    state = te.placeholder(a.shape, a.dtype, f"s{len(m.stages)}")
    sums = sums_so_far(state, f"h{len(m.stages)}")
    weighted = weighted_rows(m, a, state)

    def step(t: Expr, *i: Expr) -> object:
        before = state(t - back, *i[:-1], a.shape[-1] - 1 - i[-1] if whole else i[-1])
        if near:
            before = te.max(before, state(t - 1, *i[:aside], te.max(i[aside] - 1, 0), *i[aside + 1 :]))
        if far and a.dtype.bits >= 32 and m.size_of(a) < 64:  # sums are exact
            before = te.max(before, sums(t, *i))
        if weighted is not None:
            before = te.max(before, weighted(t, *i))
        return te.min(before, const(8, a.dtype)) + m.read(a, [t, *i])

    init = te.compute((back, *a.shape[1:]), lambda *i: m.read(a, i), name=f"i{len(m.stages)}")
    middle = te.compute(a.shape, step, name=f"m{len(m.stages)}")
    least = const(1 if a.dtype.kind == "uint" else -8, a.dtype)
    update = te.compute(a.shape, lambda *i: te.max(middle(*i), least), name=f"u{len(m.stages)}")
    made = te.scan(init, update, state, name=f"t{len(m.stages)}")
    m.stages.append(made)
    m.bound[made] = m.size_of(a) + 8
    wants_last = m.rng.random() < (0.8 if back == 1 else 0.4)
    return m.stage(a.shape[1:], lambda *i: made(a.shape[0] - 1, *i) + 1, m.bound[made] + 1) if wants_last else made


def scattered(m: Maker) -> Tensor | None:
    """Rows or all of a tensor counted, or combined, at the places that its own values say."""
    a = m.pick(least_rank=2)
    if a.dtype.is_float or a.dtype.is_bool:
        return None
    by_row, bins = m.rng.random() < 0.5, m.rng.choice((*a.shape, *LENGTHS))
    r = [te.reduce_axis((0, d), f"r{k}") for k, d in enumerate(a.shape) if k or not by_row]
    combiner, dropped = m.rng.choice(("sum", "sum", "max")), m.rng.choice((None, None, te.select, te.if_then_else))
    nowhere = te.max_value(str(a.dtype)) if a.dtype.kind == "uint" else const(-1, a.dtype)

    def count(*row: Expr) -> tuple[object, object]:
        place = m.read(a, [*row, *r]) + 1
        if dropped is not None:  # some points have no place: -1, or one that is large for an unsigned type
            place = dropped(te.floormod(r[0].var, 3) != 1, place, nowhere)
        return place, r[-1].var + 1

    shape = [a.shape[0], bins] if by_row else [bins]
    if not m.fits(shape):
        return None
    fscatter = (lambda i: count(i)) if by_row else (lambda: count())
    made = te.scatter_reduce(tuple(shape), fscatter, r, combiner, name=f"t{len(m.stages)}")
    m.stages.append(made)
    m.bound[made] = 2.0**31
    return made


# -- the edges of types ---------------------------------------------------------------------------
# Integers wrap and comparisons are exact, so these stay exact however large their values are. Floats are only
# compared, selected, negated and converted here: a sum that rounds would depend on the order of evaluation.

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_NARROW = ("int8", "uint8", "int16", "uint16")


def _wrap(k: int, of: str) -> Expr:
    """The number of an integer type that has the low bits of `k`."""
    bits = int(of.lstrip("uint"))
    low = k & ((1 << bits) - 1)
    return const(low - (1 << bits) if not of.startswith("u") and low >> (bits - 1) else low, of)


#: Operations whose result depends on the type: on its sign and its width.
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
    """An element at a place that is computed in 8 or 16 bits from data and from the reader's index."""
    a, b = m.pick(), m.pick()
    if b.dtype.is_float or b.dtype.is_bool or b.shape != a.shape or not m.lengths(a.shape)[0]:
        return None
    of, c = m.rng.choice(_NARROW), m.rng.choice((3, 7, 37, 100))

    def body(*i: Expr) -> object:
        place = m.read(b, i).astype(of) * const(c, of) + i[0].astype(of)
        return m.read(a, [clamp(place.astype("int32"), a.shape[0]), *i[1:]])

    return m.stage(a.shape, body, m.size_of(a))


def special(m: Maker) -> Tensor | None:
    """NaN, infinities and zeros of either sign: compared, selected, combined by `min` and `max`, rounded, converted."""
    shape = m.pick().shape
    a = m.placeholder(shape, m.rng.choice(("float32", "float64", "float16", "bfloat16")), special=True)
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
    lambda x, y: te.max(te.min(x, const(255, x.dtype)), const(0, x.dtype)).astype("uint8"),
    lambda x, y: te.select(te.max(x, const(2, x.dtype)) > 2, te.max(x, const(2, x.dtype)), const(2, x.dtype)),
)


def _window(m: Maker, x: Tensor, name: str) -> Tensor:
    n = x.shape[0]
    return te.compute(x.shape, lambda i, j: x[i, j] * x[clamp(i + 1, n), j] + te.max(x[i, j], 0.0), name=name)


def _rows_of(m: Maker, x: Tensor, name: str) -> Tensor:
    """Rows at places that are data: their slope is a scatter."""
    at = m.placeholder([x.shape[0]], "int32")
    return te.compute(x.shape, lambda i, j: x[clamp(at[i], x.shape[0]), j], name=name)


def _convolution(m: Maker, x: Tensor, name: str) -> Tensor:
    r, n = te.reduce_axis((0, 3), "r"), x.shape[0]

    def body(i: Expr, j: Expr) -> Expr:
        return te.sum(x[i + r - 1, j] * x[i, j], axis=r, where=te.all(i + r - 1 >= 0, i + r - 1 < n))

    return te.compute(x.shape, body, name=name)


def _strided(m: Maker, x: Tensor, name: str) -> Tensor:
    n, half = x.shape[0], te.floordiv(x.shape[1] + 1, 2)
    twice = te.compute((n, half), lambda i, j: x[i, 2 * j] * x[i, 0], name=f"{name}d")
    return te.compute((n, half), lambda i, j: te.select(j > 0, twice[i, half - 1 - j], x[i, 0]), name=name)


def _squares(m: Maker, x: Tensor, name: str) -> Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * te.abs(x[i, k]), axis=k), name=name)


_SLOPES = (product_with, _window, _rows_of, _convolution, _strided, _squares)


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


#: The kinds that stages are drawn from, each as often as it stands here.
KINDS: tuple[Callable[[Maker], Tensor | None], ...] = (
    elementwise, elementwise, elementwise, converted, clamped_stencil, clamped_stencil, clamped_stencil, padded,
    blur, transposed, mirrored, every_second, flattened, gathered, gathered, looked_up, looked_up, looked_up_sum,
    divided, chosen, narrow_product, row_reduced, so_far, matmul, matmul, of_one_input, of_one_input,
    *(convolved,) * 3, bordered, bordered, coloured, *(upsampled,) * 3, spread, scanned, two_states, summed_states,
    scattered, several, extreme, of_pairs, reduced_otherwise, *(dot,) * 9, opaque, opaque, opaque,
    in_two_types, in_two_types, in_two_types, narrow, narrow, narrow_index, special, special, slope, slope, slope,
    logical, logical,
)  # fmt: skip
