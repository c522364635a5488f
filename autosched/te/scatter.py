"""Histograms and their like: values added up at places that the data say.

    image = te.placeholder((h, w), "uint8", name="image")
    y, x = te.reduce_axis((0, h), "y"), te.reduce_axis((0, w), "x")
    counts = te.scatter_reduce((256,), lambda: (image[y, x], te.const(1, "int32")), axis=[y, x], name="counts")

It is a reduction turned around: `counts[b]` is the sum of 1 over the points where `image[y, x]` is b,
but the loops go over the points, and each point finds its element. A point whose place lies outside
the tensor takes no part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.expr import Expr, as_expr, const, make
from autosched.te.reduction import Reduction
from autosched.te.tag import tag_of
from autosched.te.tensor import ComputeOp, IterVar, Tensor, _as_shape, _axis_names


def scatter_reduce(
    shape: object,
    fscatter: Callable[..., tuple[object, object]],
    axis: IterVar | Sequence[IterVar],
    combiner: str = "sum",
    name: str = "scatter",
    tag: str = "",
) -> Tensor:
    """The tensor of that shape in which each point of the reduce axes has been combined at its place.

    `fscatter` takes the tensor's leading axes, as many as it has parameters, and returns (place,
    value): an integer expression for each of the dimensions that are left (a tuple where there are
    several), and what to combine there. `combiner` is `sum`, `prod`, `min` or `max`; an element
    where no point falls is its identity. Like `numpy.add.at`, except that places outside the tensor,
    negative ones among them, are dropped. Raises UsageError for another combiner, an axis that is
    no reduce axis, or places that are not integers or of another number.

    The leading axes are independent of one another and can be computed in parallel. Where there are
    none, `rfactor` makes one: a histogram for each part of the points, and then their sum.

    >>> import numpy as np
    >>> from autosched import te
    >>> n = te.var("n")
    >>> data = te.placeholder((n,), "int32", name="data")
    >>> i = te.reduce_axis((0, n), "i")
    >>> counts = te.scatter_reduce((3,), lambda: (data[i], te.const(1, "int32")), axis=i, name="counts")
    >>> te.reference([data, counts], [np.array([2, 0, 2, 7, -1], "int32")])
    [array([1, 0, 2], dtype=int32)]
    """
    asked = f"scatter_reduce {name}"
    over = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if not over or not all(isinstance(a, IterVar) and a.kind == "reduce" for a in over):
        raise UsageTypeError(f"{axis!r} is no reduce axis", asked=asked, legal="te.reduce_axis, or a list of them")
    if combiner not in ("sum", "prod", "min", "max"):
        raise UsageError(f"no combiner {combiner!r}", asked=asked, legal="sum, prod, min, max")
    dims = _as_shape(shape)
    leading = _leading(fscatter, dims, name)
    result: Any = fscatter(*(a.var for a in leading))
    if not isinstance(result, tuple) or len(result) != 2:
        raise UsageTypeError(
            "the function does not return (place, value)",
            asked=asked,
            legal="an index, or a tuple of them, and a value",
        )
    place = result[0] if isinstance(result[0], tuple) else (result[0],)
    indices, value = [as_expr(i) for i in place], as_expr(result[1])
    if len(indices) != len(dims) - len(leading):
        raise UsageError(
            f"{len(leading)} leading axes and {len(indices)} indices for {len(dims)} dimensions",
            asked=asked,
            legal="a parameter of the function, or an index that it returns, for each dimension",
        )
    for i in indices:
        if not i.dtype.is_integer or i.dtype.is_bool:
            raise UsageTypeError(f"index {i!r} is a {i.dtype}", asked=asked, legal="cast it to int32")
    return scatter_at(name, dims, leading, indices, value, over, combiner, tag_of(tag, asked))


def scatter_at(
    name: str,
    shape: Sequence[object],
    leading: Sequence[IterVar],
    place: Sequence[Expr],
    value: Expr,
    over: Sequence[IterVar],
    combiner: str = "sum",
    tag: str = "",
) -> Tensor:
    """`scatter_reduce` of expressions over axes that exist already."""
    axes = [*leading, *(IterVar(f"place{k}", d) for k, d in enumerate(shape[len(leading) :]))]
    body = make("scatter", value.dtype, (value, const(True), *place), Reduction(combiner, tuple(over)))
    return ComputeOp(name, shape, axes, (body,), tag).output_tensor


def _leading(fscatter: Callable[..., Any], dims: Sequence[object], name: str) -> list[IterVar]:
    """The axes that the function takes."""
    count = _parameters(fscatter, name)
    if count >= len(dims):
        raise UsageError(
            f"the function takes {count} axes of {len(dims)} dimensions, and leaves none to scatter over",
            asked=f"scatter_reduce {name}",
            legal="fewer parameters than dimensions",
        )
    names = _axis_names(fscatter, count, name)
    return [IterVar(n, d) for n, d in zip(names, dims, strict=False)]


def _parameters(fscatter: Callable[..., Any], name: str) -> int:
    try:
        return fscatter.__code__.co_argcount
    except AttributeError:
        raise UsageTypeError(
            f"{fscatter!r} is not a function", asked=f"scatter_reduce {name}", legal="for example lambda: (a[i], 1)"
        ) from None
