"""Tensors that can be read outside of their bounds: boundary conditions, one line each.

    image = te.placeholder((h, w), "uint8", name="image")
    edge = te.repeat_edge(image)
    blur = te.compute((h, w), lambda y, x: (edge[y, x - 1] + edge[y, x] + edge[y, x + 1]) / 3)

The five conditions are Halide's (`BoundaryConditions`). With elements a b c d:

    repeat_edge         a a a | a b c d | d d d
    constant_exterior   v v v | a b c d | v v v
    repeat_image        b c d | a b c d | a b c
    mirror_image        c b a | a b c d | d c b
    mirror_interior     d c b | a b c d | c b a

Nothing is stored: a condition rewrites the index of every read. Loops are cut at the borders when
the program is lowered, so that an interior asks no questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.expr import Expr, as_expr, const, floormod, if_then_else, logical_and, maximum, minimum, select
from autosched.te.tensor import Tensor

#: (index, extent) -> the index that is read instead
Wrap = Callable[[Expr, Expr], Expr]


class BoundaryView:
    """A tensor that may be read at any integer index; index it as one does the tensor."""

    def __init__(self, tensor: Tensor, axes: Sequence[int] | None, wrap: Wrap | None, outside: object = None) -> None:
        if not isinstance(tensor, Tensor):
            raise UsageTypeError(f"{tensor!r} is not a tensor", asked="a boundary condition", legal="a te tensor")
        chosen = range(tensor.ndim) if axes is None else axes
        wrong = [a for a in chosen if not isinstance(a, int) or not -tensor.ndim <= a < tensor.ndim]
        if wrong:
            why = f"{tensor.name} has no axis {wrong[0]!r}"
            raise UsageError(why, asked=f"a boundary condition of {tensor.name}", legal=f"axes: 0 to {tensor.ndim - 1}")
        self.tensor = tensor
        self.axes = frozenset(a % tensor.ndim for a in chosen)
        self._wrap, self._outside = wrap, outside

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The shape of the tensor: where reads are not changed."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        return self.tensor.ndim

    @property
    def dtype(self) -> Any:
        return self.tensor.dtype

    def __getitem__(self, indices: object) -> Expr:
        return self(*(indices if isinstance(indices, tuple) else (indices,)))

    def __call__(self, *indices: object) -> Expr:
        if len(indices) != self.ndim:
            return self.tensor(*indices)  # which says what is wrong
        at = [as_expr(i) for i in indices]
        if self._wrap is not None:
            wrapped = [self._wrap(i, d) if k in self.axes else i for k, (i, d) in enumerate(zip(at, self.shape))]
            return self.tensor(*wrapped)
        inside = logical_and(*(_inside(at[k], self.shape[k]) for k in sorted(self.axes)))
        return if_then_else(inside, self.tensor(*at), as_expr(self._outside, self.dtype))

    def __repr__(self) -> str:
        return f"BoundaryView({self.tensor!r})"


def _inside(i: Expr, extent: Expr) -> Expr:
    return logical_and(i >= 0, i < extent)


def repeat_edge(tensor: Tensor, axes: Sequence[int] | None = None) -> BoundaryView:
    """Outside, the nearest element. `axes` are the dimensions that it is for; all of them without.

    >>> import numpy as np
    >>> from autosched import te
    >>> a = te.placeholder((3,), "int32", name="a")
    >>> b = te.compute((5,), lambda i: te.repeat_edge(a)[i - 1], name="b")
    >>> te.reference([a, b], [np.array([1, 2, 3], "int32")])
    [array([1, 1, 2, 3, 3], dtype=int32)]
    """
    return BoundaryView(tensor, axes, _clamped)


def constant_exterior(tensor: Tensor, value: object = 0, axes: Sequence[int] | None = None) -> BoundaryView:
    """Outside, `value`: a number, or an expression of the tensor's type."""
    return BoundaryView(tensor, axes, None, value)


def repeat_image(tensor: Tensor, axes: Sequence[int] | None = None) -> BoundaryView:
    """The tensor side by side with copies of itself."""
    return BoundaryView(tensor, axes, lambda i, n: select(_inside(i, n), i, _clamped(floormod(i, n), n)))


def mirror_image(tensor: Tensor, axes: Sequence[int] | None = None) -> BoundaryView:
    """Copies side by side, every other one mirrored: the element at the edge comes twice."""

    def wrap(i: Expr, n: Expr) -> Expr:
        m = floormod(i, 2 * n)
        return select(_inside(i, n), i, _clamped(minimum(m, 2 * n - 1 - m), n))

    return BoundaryView(tensor, axes, wrap)


def mirror_interior(tensor: Tensor, axes: Sequence[int] | None = None) -> BoundaryView:
    """Copies side by side, every other one mirrored about the element at the edge, which comes once."""

    def wrap(i: Expr, n: Expr) -> Expr:
        period = maximum(2 * n - 2, const(1))
        m = floormod(i, period)
        return select(_inside(i, n), i, _clamped(minimum(m, 2 * n - 2 - m), n))

    return BoundaryView(tensor, axes, wrap)


def _clamped(i: Expr, n: Expr) -> Expr:
    return maximum(minimum(i, n - 1), const(0))
