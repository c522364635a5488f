"""Random reductions under masks over indices, several reductions of one input, and sums in and of recurrences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched import te
from autosched.ir.expr import Expr, const
from autosched.te.tensor import Tensor
from autosched.testing.maker import Maker, clamp


def mask_of(m: Maker) -> Callable[[Expr, Sequence[Expr]], Expr]:
    """A condition on a reduce axis, and on a spatial one if there is one: every second point, a triangle, a band, or a
    part whose ends are data."""
    which, at, p, q, d = m.rng.randrange(6), m.rng.random(), *(m.rng.randint(1, 3) for _ in range(3))
    ends = m.placeholder([5], m.rng.choice(("int32", "int32", "int8"))) if which > 3 else None

    def holds(r: Expr, i: Sequence[Expr]) -> Expr:
        if which == 0 or not i:
            return te.floormod(r, 2) == 0
        x = i[int(at * len(i))]
        if ends is not None:
            begin, end = (ends[clamp(x + more, 5)].astype("int32") for more in (0, 1))
            return te.all(r >= begin - d, r < end + q) if which == 4 else begin + r < end + p + q
        return (p * r <= q * x + d - 2, p * r > q * x - d, te.all(r >= x - d, r < x + p))[which - 1]

    return holds


def of_one_input(m: Maker) -> Tensor | None:
    """Two reductions of the same rows, and their difference."""
    a = m.pick()
    axis, n = m.rng.randrange(a.ndim), a.shape
    if a.dtype.is_bool or not m.lengths(n)[axis]:
        return None
    shape, bound = [*n[:axis], *n[axis + 1 :]], m.lengths(n)[axis] * m.size_of(a)
    made = []
    for combine in m.rng.sample((te.sum, te.max, te.min), 2):
        k = te.reduce_axis((0, n[axis]), "k")
        made.append(m.stage(shape, lambda *i, f=combine, k=k: f(m.read(a, [*i[:axis], k, *i[axis:]]), axis=k), bound))
    if None in made:
        return made[0]
    return m.stage(shape, lambda *i: m.read(made[0], i) - m.read(made[1], i), 2 * bound)  # type: ignore[arg-type]


def so_far(m: Maker) -> Tensor | None:
    """Reductions over all that is before each place of an axis, or behind it, with it or without."""
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    if a.dtype.is_bool or not m.lengths(a.shape)[axis]:
        return None
    asked: list[Callable[[Expr, Expr], Expr]] = [lambda k, j: k <= j, lambda k, j: j <= k]
    combine = m.rng.choice((te.sum, te.sum, te.max, te.min))
    if combine is te.sum:  # the least and the greatest of nothing are infinite
        asked += [lambda k, j: k < j, lambda k, j: k > j]
    takes, k = m.rng.choice(asked), te.reduce_axis((0, a.shape[axis]), "k")

    def body(*i: Expr) -> object:
        return combine(m.read(a, [*i[:axis], k, *i[axis + 1 :]]), axis=k, where=takes(k.var, i[axis]))

    return m.stage(a.shape, body, m.lengths(a.shape)[axis] * m.size_of(a))


def product_with(m: Maker, x: Tensor, name: str) -> Tensor:
    """The product of a matrix and another input of three columns."""
    k, w = te.reduce_axis((0, x.shape[1]), "k"), m.placeholder([x.shape[1], 3], x.dtype)
    return te.compute((x.shape[0], 3), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name=name)


def sums_so_far(state: Tensor, name: str) -> Tensor:
    """The sums of all times of a state before each."""
    k = te.reduce_axis((0, state.shape[0]), "k")
    return te.compute(state.shape, lambda t, *i: te.sum(state(te.min(k, t - 1), *i), axis=k, where=k < t), name=name)


def weighted_rows(m: Maker, a: Tensor, state: Tensor) -> Tensor | None:
    """Sometimes a matrix, or its transposition, times the row of a state one time before."""
    if m.rng.random() < 0.75 or a.dtype.bits < 32 or m.size_of(a) >= 64:  # sums are exact
        return None
    w, k = m.placeholder([a.shape[-1]] * 2, a.dtype), te.reduce_axis((0, a.shape[-1]), "k")
    turned = m.rng.random() < 0.5

    def body(t: Expr, *i: Expr) -> object:
        return te.sum((w[k, i[-1]] if turned else w[i[-1], k]) * state(t - 1, *i[:-1], k), axis=k)

    return te.compute(a.shape, body, name=f"w{len(m.stages)}")


def narrow_product(m: Maker) -> Tensor | None:
    """A product of matrices of all numbers that 8 or 16 bits have, which is summed up in more bits."""
    a = m.pick(least_rank=2)
    if a.ndim != 2 or a.dtype.is_float or a.dtype.is_bool:
        return None
    left, right = m.rng.choice((("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int16", "int16")))
    to, turned = m.rng.choice(("int32", "int32", "int64")), m.rng.random() < 0.5
    b, k = m.placeholder([m.dim(), a.shape[1]] if turned else [a.shape[1], m.dim()], right), m.rng.choice((37, 51, 127))
    r = te.reduce_axis((0, a.shape[1]), "r")

    def body(i: Expr, j: Expr) -> object:
        x, y = m.read(a, [i, r]).astype(left), m.read(b, [j, r] if turned else [r, j])
        return te.sum((x * const(k, left)).astype(to) * (y * const(k, right)).astype(to), axis=r)

    return m.stage([a.shape[0], b.shape[0 if turned else 1]], body, 2.0**32)


def two_states(m: Maker) -> Tensor | None:
    """A recurrence of two states, each of which needs the other one, a neighbour of it, or its row backwards."""
    a = m.pick(least_rank=2)
    if a.dtype.is_bool or not m.fits(a.shape) or not m.lengths(a.shape[:1])[0]:
        return None
    n, rest, name, of = a.shape[-1], a.shape[1:], len(m.stages), a.dtype
    x, y = (te.placeholder(a.shape, of, f"s{name}{c}") for c in "xy")
    shared, beside, chooses = (m.rng.random() < p for p in (0.5, 0.5, 0.5))
    low, high = const(1 if of.kind == "uint" else -8, of), const(8, of)
    both = te.compute(a.shape, lambda t, *i: te.min(x(t - 1, *i) + y(t - 1, *i), high), name=f"b{name}")

    def first(t: Expr, *i: Expr) -> object:
        near = y(t - 1, *i[:-1], te.max(i[-1] - 1, 0) if beside else n - 1 - i[-1])
        sum_ = both(t, *i) if shared else te.min(x(t - 1, *i) + near, high)
        return te.max(sum_, low) + m.read(a, [t, *i])

    def second(t: Expr, *i: Expr) -> object:
        sum_ = both(t, *i) if shared else te.max(x(t - 1, *i), low)
        return te.select(sum_ > y(t - 1, *i), m.read(a, [t, *i]), sum_) if chooses else te.max(sum_, low)

    inits = [
        te.compute((1, *rest), lambda t, *i, k=k: m.read(a, [t, *i]) + const(k, of), name=f"i{name}{k}") for k in (0, 1)
    ]
    updates = [te.compute(a.shape, f, name=f"u{name}{k}") for k, f in enumerate((first, second))]
    made = te.scan(inits, updates, [x, y], inputs=[a], name=f"t{name}")
    for t in made:
        m.stages.append(t)
        m.bound[t] = 2 * m.size_of(a) + 17
    if m.rng.random() < 0.5:
        return made[1]
    way = m.rng.random() < 0.5
    bound = sum(m.size_of(t) for t in made)
    if way:
        return m.stage(
            rest, lambda *i: m.read(made[0], [a.shape[0] - 1, *i]) + m.read(made[1], [a.shape[0] - 1, *i]), bound
        )
    return m.stage(a.shape, lambda *i: m.read(made[0], i) + m.read(made[1], i), bound)


def summed_states(m: Maker) -> Tensor | None:
    """A few states for each place, kept in a small range, and for each time their sum, as models of state spaces have
    it."""
    a, count = m.pick(least_rank=2), m.rng.choice((3, 4, 8))
    shape, k = [*a.shape, count], te.reduce_axis((0, count), "k")
    if a.dtype.is_bool or not m.fits(shape) or not m.lengths(a.shape[:1])[0]:
        return None
    state = te.placeholder(shape, a.dtype, f"s{len(m.stages)}")
    init = te.compute((1, *shape[1:]), lambda t, *i: m.read(a, [t, *i[:-1]]), name=f"i{len(m.stages)}")

    def step(t: Expr, *i: Expr) -> object:
        return te.min(state(t - 1, *i), const(8, a.dtype)) // 2 + m.read(a, [t, *i[:-1]])

    update = te.compute(shape, step, name=f"u{len(m.stages)}")
    made = te.scan(init, update, state, inputs=[a], name=f"h{len(m.stages)}")
    m.bound[made] = m.size_of(a) + 8
    of_all = m.stage(a.shape, lambda *i: te.sum(m.read(made, [*i, k]), axis=k), count * m.size_of(made))
    if of_all is None:
        return None
    return m.stage(a.shape, lambda *i: m.read(of_all, i) + m.read(a, i), m.size_of(of_all) + m.size_of(a))
