"""Reductions over some axes of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched import te
from autosched.ir import expr as ir
from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import IterVar, Tensor
from autosched.topi.arguments import Dim, accumulator, axes_of, narrowed, product, same

COMM_REDUCE = "comm_reduce"


class _Axes:
    """The axes to reduce over, and where they stand."""

    def __init__(self, x: Tensor, axis: object, keepdims: bool, name: str) -> None:
        self.x, self.keepdims = x, keepdims
        self.chosen = axes_of(x, axis, f"topi.{name}(axis={axis!r})")
        self.over: list[IterVar] = [te.reduce_axis((0, x.shape[k]), f"k{k}") for k in self.chosen]

    @property
    def shape(self) -> list[Any]:
        if self.keepdims:
            return [1 if k in self.chosen else d for k, d in enumerate(self.x.shape)]
        return [d for k, d in enumerate(self.x.shape) if k not in self.chosen]

    def element(self, i: Sequence[Expr]) -> Expr:
        left = [e for k, e in enumerate(i) if k not in self.chosen] if self.keepdims else list(i)
        places = iter(left)
        over = dict(zip(self.chosen, self.over, strict=True))
        return self.x(*(over[k] if k in over else next(places) for k in range(self.x.ndim)))

    def position(self) -> Expr:
        """Return the place of an element among those that are reduced, in row-major order."""
        return row_major_offset([a.var for a in self.over], [self.x.shape[k] for k in self.chosen])


_OVER_AXES = """`{name}` over `axis`: one, several, or all of them for None.

    With `keepdims`, what was reduced stays as a dimension of 1.{more}

    >>> from autosched import te, topi
    >>> A = te.placeholder((4, 8), name="A")
    >>> topi.{name}(A, axis=1).shape
    (4,)
    """


def _reduction(
    name: str, reducer: Callable[..., Expr], of: Callable[[Expr], Expr] = lambda e: e
) -> Callable[..., Tensor]:
    def operator(data: Tensor, axis: object = None, keepdims: bool = False) -> Tensor:
        axes = _Axes(data, axis, keepdims, name)

        def body(*i: Expr) -> Expr:
            return reducer(of(axes.element(i)), axis=axes.over) if axes.over else of(data(*i))

        return te.compute(axes.shape if axes.over else data.shape, body, name=f"{data.name}_red", tag=COMM_REDUCE)

    operator.__name__ = name
    operator.__doc__ = _OVER_AXES.format(name=name, more="")
    return operator


def _accumulated(name: str, reducer: Callable[..., Expr]) -> Callable[..., Tensor]:
    def operator(data: Tensor, axis: object = None, keepdims: bool = False, dtype: object = None) -> Tensor:
        result = data.dtype if dtype is None else dtype
        sums = accumulator(result)
        return narrowed(_reduction(name, reducer, lambda e: ir.cast(sums, e))(data, axis, keepdims), result)

    more = " `dtype` is the result's type, by default\n    that of `data`; float16 is accumulated in float32."
    operator.__name__ = name
    operator.__doc__ = _OVER_AXES.format(name=name, more=more)
    return operator


sum = _accumulated("sum", te.sum)
prod = _accumulated("prod", te.prod)
max = _reduction("max", te.max)
min = _reduction("min", te.min)


def _of_truths(name: str, combine: Callable[..., Expr]) -> Callable[..., Tensor]:
    numbers = _reduction(name, combine, lambda e: (e if e.dtype.is_bool else e != 0).astype("uint8"))

    def operator(data: Tensor, axis: object = None, keepdims: bool = False) -> Tensor:
        found = numbers(data, axis, keepdims)
        return te.compute(found.shape, lambda *i: found(*i) != 0, name=f"{data.name}_{name}", tag="elemwise")

    operator.__name__ = name
    operator.__doc__ = f"Return whether {name} of the elements along `axis` are true, or not zero; a bool tensor."
    return operator


all = _of_truths("all", te.min)
any = _of_truths("any", te.max)


def mean(data: Tensor, axis: object = None, keepdims: bool = False, dtype: object = None) -> Tensor:
    """Average over `axis`. The result is of `dtype` (by default that of `data`); float16 is summed in float32."""
    result = data.dtype if dtype is None else dtype
    axes = _Axes(data, axis, keepdims, "mean")
    sums = accumulator(result)
    total = sum(data, axis, keepdims, sums)
    count: Expr = te.const(1)
    for k in axes.chosen:
        count = count * data.shape[k]

    def body(*i: Expr) -> Expr:
        return ir.cast(result, total(*i) / count.astype(sums))

    return te.compute(total.shape, body, name="T_mean", tag="elemwise")


def _index_of(name: str, reducer: Callable[..., Any]) -> Callable[..., Tensor]:
    def operator(data: Tensor, axis: object = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
        axes = _Axes(data, axis, keepdims, name)
        last = product(data.shape[k] for k in axes.chosen) - 1

        def body(*i: Expr) -> Any:
            at = axes.position()
            return reducer((last - at if select_last_index else at, axes.element(i)), axis=axes.over)  # the least wins

        found, _ = te.compute(axes.shape, body, name=f"{data.name}_red_temp", tag="comm_reduce_idx")
        if not select_last_index:
            return found
        return te.compute(found.shape, lambda *i: last - found(*i), name=f"{data.name}_red", tag="elemwise")

    operator.__name__ = name
    operator.__doc__ = f"""Find the place of the {name[3:]} along `axis`, as int32; the first one, or the last.

    For several axes, or None, places count in row-major order.
    """
    return operator


argmax = _index_of("argmax", te.argmax)
argmin = _index_of("argmin", te.argmin)


def collapse_sum(data: Tensor, target_shape: Sequence[Dim]) -> Tensor:
    """Sum over the axes that `broadcast_to` stretches: compute its gradient."""
    lead = data.ndim - len(target_shape)
    ones = [
        lead + k
        for k, d in enumerate(target_shape)
        if is_const(te.const(d) if isinstance(d, int) else d, 1) and not same(data.shape[lead + k], d)  # type: ignore[arg-type]
    ]
    folded = sum(data, list(range(lead)), False) if lead else data
    return sum(folded, [k - lead for k in ones], True) if ones else folded
