"""Kinds of stages that read elements at computed places: at quotients and remainders, and there under a condition, or
where data say, if there is an element."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.ir.expr import Expr, const, variables
from autosched.te.tensor import Tensor
from autosched.testing.maker import MAX_ELEMENTS, Maker, clamp

_DIVISIONS: tuple[Callable[[Expr, object], Expr], ...] = (te.floordiv, te.floormod, te.truncdiv, te.truncmod)


def divided(m: Maker) -> Tensor | None:
    """Elements at quotients and remainders by numbers and sizes of either sign, with these added."""
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    if not m.lengths(a.shape)[axis]:
        return None
    divisor = m.rng.choice((1, -1, -1)) * _number(m, a)
    operation, scale, shift = m.rng.choice(_DIVISIONS), m.rng.choice((1, 1, 3, -1)), m.rng.choice((0, 0, 1, -4, 7))
    wraps, adds = m.rng.random() < 0.4, m.rng.random() < 0.4

    def body(*i: Expr) -> object:
        x = operation(scale * i[axis] + shift, divisor)
        at = te.floormod(x, a.shape[axis]) if wraps else clamp(x, a.shape[axis])
        element = m.read(a, [at if k == axis else e for k, e in enumerate(i)])
        return element + x.astype(a.dtype) if adds and not a.dtype.is_bool else element

    return m.stage(a.shape, body, m.size_of(a) + 3 * MAX_ELEMENTS)


def _number(m: Maker, a: Tensor) -> Expr:
    """What to divide by: a number, or one more than a size."""
    sizes = sorted({v for d in a.shape for v in variables(d)}, key=lambda v: v.name)
    return m.rng.choice([const(k) for k in (1, 2, 3, 5)] + [v + 1 for v in sizes])


def chosen(m: Maker) -> Tensor | None:
    """An element or one elsewhere, in a place that is perhaps the same for a whole row, as conditions on data say."""
    a, b = m.pick(), m.pick()
    axis, along = m.rng.randrange(a.ndim), m.rng.randrange(a.ndim)
    if not m.lengths(a.shape)[axis]:
        return None
    operation, by, shift = m.rng.choice(_DIVISIONS), _number(m, a), m.rng.choice((0, 1, 2, 5))
    choose, joins = m.rng.choice((te.select, te.if_then_else)), m.rng.choice(("", "", "and", "or"))
    beside = b if b.ndim == a.ndim and b.shape == a.shape else a

    def body(*i: Expr) -> object:
        place = clamp(operation(i[along] + shift, by), a.shape[axis])
        x, there = m.read(a, i), m.read(a, [place if k == axis else e for k, e in enumerate(i)])
        condition = x if a.dtype.is_bool else x > 0
        other = m.read(beside, i)
        asked = other if other.dtype.is_bool else other < 2
        if joins:
            condition = condition & asked if joins == "and" else condition | asked
        return choose(condition, x, there)

    return m.stage(a.shape, body, m.size_of(a))


def looked_up(m: Maker) -> Tensor | None:
    """Elements at places that are data, which may be outside: there a number stands, or the element at hand."""
    a, b = m.pick(), m.pick()
    if b.dtype.is_float or b.dtype.is_bool or b.ndim + a.ndim > 4:
        return None
    n, rest, way = a.shape[0], a.shape[1:], m.rng.randrange(4)
    scale, shift, own = m.rng.choice((1, 1, 2, -1)), m.rng.choice((0, 0, -1, 3)), m.rng.random() < 0.3

    def body(*i: Expr) -> object:
        j = b(*i[: b.ndim]).astype("int32") * scale + shift
        x, other = m.read(a, [j, *i[b.ndim :]]), const(1, a.dtype)
        if own and a.dtype == b.dtype:
            other = m.read(b, i[: b.ndim])
        if way == 0:
            return te.if_then_else(te.all(j >= 0, j < n), x, other)
        if way == 1:
            return te.if_then_else(te.any(j < 0, j >= n), other, x)
        if way == 2:
            return te.if_then_else(j >= 0, te.if_then_else(j < n, x, other), other)
        return te.if_then_else((j >= 0) & (j < n) & (i[-1] >= 1), x, other)

    return m.stage([*b.shape, *rest], body, m.size_of(a) + m.size_of(b))


def looked_up_sum(m: Maker) -> Tensor | None:
    """Sums of elements at places that are data, of those that are there, for each row of places."""
    a, b = m.pick(), m.pick(least_rank=2)
    if b.dtype.is_float or b.dtype.is_bool or b.ndim + a.ndim > 4:
        return None
    n, rest, guards = a.shape[0], a.shape[1:], m.rng.random() < 0.5
    k = te.reduce_axis((0, b.shape[-1]), "k")
    last = b.ndim - 1

    def body(*i: Expr) -> object:
        j = b(*i[:last], k).astype("int32")
        inside, x = te.all(j >= 0, j < n), m.read(a, [j, *i[last:]])
        if guards:
            return te.sum(te.if_then_else(inside, x, const(0, a.dtype)), axis=k)
        return te.sum(x, axis=k, where=inside)

    return m.stage([*b.shape[:-1], *rest], body, m.lengths(b.shape)[-1] * m.size_of(a))
