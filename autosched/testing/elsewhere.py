"""Kinds of stages that read elements at computed places: at quotients and remainders, and there under a condition."""

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
