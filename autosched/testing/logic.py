"""Random stages of truths: logic on conditions and on tensors of truths, and boolean products."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.testing.maker import Maker

_OF_TWO: tuple[Callable[[Expr, Expr], Expr], ...] = (
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ y,
    lambda x, y: ~x,
    lambda x, y: te.all(x, y),
    lambda x, y: te.any(~x, y),
    lambda x, y: te.select(x, y, ~y),
    lambda x, y: te.if_then_else(y, x, x ^ y),
)
_OVER: tuple[Callable[..., Expr], ...] = (
    te.any,
    te.all,
    te.comm_reducer(lambda x, y: te.any(x, y), lambda t: te.const(False, t), "some"),
    te.comm_reducer(lambda x, y: te.all(y, x), lambda t: te.const(True, t), "every"),
    te.comm_reducer(lambda x, y: x ^ y, lambda t: te.const(False, t), "odd"),
    te.comm_reducer(lambda x, y: te.select(x, x, y), lambda t: te.const(False, t), "first"),
)


def _truths(m: Maker, t: Tensor) -> Callable[..., Expr]:
    """The elements of a tensor of truths, or what asks something of those of another."""
    k, turned = m.rng.choice((0, 1, 2)), m.rng.random() < 0.5

    def at(*i: object) -> Expr:
        x = m.read(t, i)
        found = x if t.dtype.is_bool else x > k
        return ~found if turned else found

    return at


def logical(m: Maker) -> Tensor | None:
    """Logic on truths of one or two tensors, element by element, or over rows and columns of two."""
    a = m.pick()
    if m.rng.random() < 0.4:
        a = m.placeholder(a.shape, "bool")
    x, operation, over = _truths(m, a), m.rng.choice(_OF_TWO), m.rng.choice(_OVER)
    if m.rng.random() < 0.5:
        same = [t for t in [*m.inputs, *m.stages] if t.ndim == a.ndim and t.shape == a.shape]
        y = _truths(m, m.rng.choice(same))
        return m.stage(a.shape, lambda *i: operation(x(*i), y(*i)), 1)
    k, n = te.reduce_axis((0, a.shape[-1]), "k"), m.rng.choice((1, 5, 16, 33))
    y = _truths(m, m.placeholder([a.shape[-1], n], m.rng.choice(("bool", "uint8"))))
    shape = [*a.shape[:-1], n]
    return m.stage(shape, lambda *i: over(operation(x(*i[:-1], k), y(k, i[-1])), axis=k), 1)
