"""Other shapes of the same elements: views, which read them elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autosched import topi
from autosched.te.tensor import Tensor
from autosched.tracing.functions.table import axis_number, tensor, traces
from autosched.tracing.traced import Traced, computed, element, refuse, value


def view(x: Any, t: Tensor) -> Traced:
    return Traced(t, whole=x if isinstance(x, Traced) else None)


@traces(np.reshape)
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Traced:
    if order != "C":
        refuse("np.reshape", f"the order {order!r}", "C")
    sizes = [shape] if isinstance(shape, (int, np.integer)) else list(shape)
    given = value(a, "np.reshape")
    known = math.prod(d for d in sizes if d != -1)
    if -1 in sizes:
        if sizes.count(-1) > 1 or known == 0 or given.size % known:
            refuse("np.reshape", f"{list(given.shape)} does not become {sizes}")
        sizes[sizes.index(-1)] = given.size // known
    if math.prod(sizes) != given.size:
        refuse("np.reshape", f"{given.size} elements do not fill {sizes}")
    if not sizes or not given.ndim:
        t = given.__te_tensor__()
        return computed(sizes, lambda *i: t(*[0] * t.ndim), "reshape", whole=given)
    return view(a, topi.reshape(given.__te_tensor__(), [int(d) for d in sizes]))


@traces(np.ravel)
def ravel(a: Any, order: str = "C") -> Traced:
    return reshape(a, -1, order)


@traces(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Traced:
    t = tensor(a)
    order = list(reversed(range(t.ndim))) if axes is None else [axis_number(k, t.ndim, "np.transpose") for k in axes]
    if sorted(order) != list(range(t.ndim)):
        refuse("np.transpose", f"{axes} is no order of {t.ndim} axes")
    return view(a, t if order == list(range(t.ndim)) else topi.transpose(t, order))


@traces(np.matrix_transpose)
def matrix_transpose(x: Any) -> Traced:
    return swapaxes(x, -1, -2)


@traces(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Traced:
    n = value(a, "np.swapaxes").ndim
    order = list(range(n))
    p, q = axis_number(axis1, n, "np.swapaxes"), axis_number(axis2, n, "np.swapaxes")
    order[p], order[q] = order[q], order[p]
    return transpose(a, order)


@traces(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Traced:
    n = value(a, "np.moveaxis").ndim
    lists = [[v] if isinstance(v, int) else list(v) for v in (source, destination)]
    sources, places = ([axis_number(k, n, "np.moveaxis") for k in v] for v in lists)
    order = [k for k in range(n) if k not in sources]
    for place, k in sorted(zip(places, sources, strict=True)):
        order.insert(place, k)
    return transpose(a, order)


@traces(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Traced:
    x = value(a, "np.squeeze")
    axes = [k for k, d in enumerate(x.shape) if d == 1] if axis is None else [axis] if isinstance(axis, int) else axis
    gone = {axis_number(k, x.ndim, "np.squeeze") for k in axes}
    if any(x.shape[k] != 1 for k in gone):
        refuse("np.squeeze", f"an axis of {list(x.shape)} that is not 1")
    return reshape(a, [d for k, d in enumerate(x.shape) if k not in gone])


@traces(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Traced:
    x = value(a, "np.expand_dims")
    axes = [axis] if isinstance(axis, int) else list(axis)
    n = x.ndim + len(axes)
    new = {axis_number(k, n, "np.expand_dims") for k in axes}
    rest = iter(x.shape)
    return reshape(a, [1 if k in new else next(rest) for k in range(n)])


@traces(np.atleast_1d)
def atleast_1d(a: Any) -> Traced:
    x = value(a, "np.atleast_1d")
    return x if x.ndim else reshape(a, [1])


@traces(np.atleast_2d)
def atleast_2d(a: Any) -> Traced:
    x = value(a, "np.atleast_2d")
    return x if x.ndim > 1 else reshape(a, [1, *x.shape] if x.ndim else [1, 1])


@traces(np.broadcast_to)
def broadcast_to(array: Any, shape: Any) -> Traced:
    x = value(array, "np.broadcast_to")
    wide = tuple([shape] if isinstance(shape, int) else shape)
    try:
        fits = np.broadcast_shapes(x.shape, wide) == wide
    except ValueError:
        fits = False
    if not fits:
        refuse("np.broadcast_to", f"{list(x.shape)} does not stretch to {list(wide)}")
    return computed(wide, lambda *i: element(x, i, wide, str(x.dtype)), "broadcast", whole=x)


@traces(np.broadcast_arrays)
def broadcast_arrays(*args: Any) -> tuple[Traced, ...]:
    shape = np.broadcast_shapes(*(value(a, "np.broadcast_arrays").shape for a in args))
    return tuple(broadcast_to(a, shape) for a in args)


@traces(np.flip)
def flip(m: Any, axis: Any = None) -> Traced:
    x = value(m, "np.flip")
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    gone = {axis_number(k, x.ndim, "np.flip") for k in axes}
    return x[tuple(slice(None, None, -1) if k in gone else slice(None) for k in range(x.ndim))]  # type: ignore[no-any-return]


@traces(np.fliplr)
def fliplr(m: Any) -> Traced:
    return flip(m, 1)


@traces(np.flipud)
def flipud(m: Any) -> Traced:
    return flip(m, 0)


@traces(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Traced:
    p, q = axes
    match k % 4:
        case 1:
            return swapaxes(flip(m, q), p, q)
        case 2:
            return flip(flip(m, p), q)
        case 3:
            return flip(swapaxes(m, p, q), q)
    return value(m, "np.rot90")


@traces(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    x = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    t = x.__te_tensor__()
    return computed(
        (*x.shape[:-2], n), lambda *i: t(*i[:-1], i[-1] - min(offset, 0), i[-1] + max(offset, 0)), "diagonal", whole=x
    )


@traces(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Traced:
    v, asked = value(x, "sliding_window_view"), "np.lib.stride_tricks.sliding_window_view"
    sizes = [window_shape] if isinstance(window_shape, (int, np.integer)) else list(window_shape)
    axes = range(v.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    along = [axis_number(k, v.ndim, asked) for k in axes]
    if len(along) != len(sizes):
        refuse(asked, f"{len(sizes)} sizes of windows for {len(along)} axes")
    shape = list(v.shape)
    for k, n in zip(along, sizes, strict=True):
        shape[k] -= int(n) - 1
        if n < 1 or shape[k] < 1:
            refuse(asked, f"windows of {sizes} in {list(v.shape)}")
    t = v.__te_tensor__()

    def body(*i: Any) -> Any:
        at = list(i[: v.ndim])
        for k, inside in zip(along, i[v.ndim :], strict=True):
            at[k] = at[k] + inside
        return t(*at)

    return computed([*shape, *map(int, sizes)], body, "windows", whole=v)


@traces(np.shape)
def shape_of(a: Any) -> tuple[int, ...]:
    return value(a, "np.shape").shape


@traces(np.ndim)
def ndim_of(a: Any) -> int:
    return value(a, "np.ndim").ndim


@traces(np.size)
def size_of(a: Any, axis: int | None = None) -> int:
    x = value(a, "np.size")
    return x.size if axis is None else x.shape[axis]


@traces(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    return np.result_type(*(x.dtype if isinstance(x, Traced) else x for x in arrays_and_dtypes))
