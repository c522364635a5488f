"""Operators that choose elements by places, which other tensors may tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, axes_of, axis_of, broadcast_shapes, number, product, same, unravel
from autosched.topi.elementwise import stretched
from autosched.topi.transform import _injective


def expand_like(a: Tensor, shape_like: Tensor, axis: object) -> Tensor:
    """Repeat `a` along new axes, so that it gets the shape of another tensor.

    axis: the axes that `a` does not have, one or a list
    """
    asked = f"topi.expand_like(axis={axis!r})"
    new = axes_of(shape_like, axis, asked)
    if a.ndim == 1 and is_const(a.shape[0], 1) and len(new) == shape_like.ndim:
        return _injective(shape_like.shape, lambda *_: a(0), "expand_like")
    kept = [d for k, d in enumerate(shape_like.shape) if k not in new]
    if len(kept) != a.ndim or not all(map(same, kept, a.shape)):
        raise UsageError(f"{a!r} does not have the other axes of {shape_like!r}", asked=asked, legal=f"{kept}")
    return _injective(shape_like.shape, lambda *i: a(*(e for k, e in enumerate(i) if k not in new)), "expand_like")


def reverse_sequence(a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """Reverse the first elements along an axis, as many as the batch's length says; the rest stays."""
    at, batch = (axis_of(a, k, "topi.reverse_sequence") for k in (seq_axis, batch_axis))
    if seq_lengths.ndim != 1 or not same(seq_lengths.shape[0], a.shape[batch]):
        why = f"{seq_lengths!r} for {a.shape[batch]!r} batches"
        raise UsageError(why, asked="topi.reverse_sequence(seq_lengths=..)", legal="a number for each batch")

    def body(*i: Expr) -> object:
        length = te.min(te.max(seq_lengths(i[batch]).astype("int32"), te.const(1)), a.shape[at])
        place = te.select(i[at] < length, length - 1 - i[at], i[at])
        return a(*(place if k == at else e for k, e in enumerate(i)))

    return _injective(a.shape, body, "reverse_sequence")


def _numbers(given: Any, count: int, otherwise: Sequence[Any]) -> list[Any]:
    """A number for each of `count` axes: a tensor's elements, or listed ones, or the usual ones."""
    if given is None:
        return list(otherwise)
    if isinstance(given, Tensor):
        known = number(given.shape[0], "topi.strided_slice")
        listed: list[Any] = [given(k).astype("int32") for k in range(known)]
    else:
        listed = [as_expr(x) for x in given]
    return [*listed, *otherwise[len(listed) :]][:count]


def _bounded(place: Any, extent: Expr) -> Any:
    return te.select(as_expr(place) < 0, place + extent, place)


def strided_slice(
    a: Tensor, begin: Any, end: Any, strides: Any = None, axes: object = None, slice_mode: str = "end"
) -> Tensor:
    """Slice `a[begin:end:stride]` along each of `axes` (without, the first ones), as NumPy does.

    Numbers may be None, and begins and ends sizes that a call knows, which count from the front. `slice_mode` size:
    `end` says how many elements there are, -1 all, and strides are 1. Where tensors tell the places, each dimension of
    the result is a size of its own, which a call reads off the array it is given.
    """
    if isinstance(begin, Tensor) or isinstance(end, Tensor) or isinstance(strides, Tensor):
        sizes = [te.size_var(f"slice_{k}") for k in range(a.ndim)]
        return dynamic_strided_slice(a, begin, end, strides, sizes)
    asked = f"topi.strided_slice({list(begin)}, {list(end)}, {strides})"
    chosen = list(range(max(len(begin), len(end)))) if axes is None else axes_of(a, axes, asked)
    first, last, steps = ([*x, *[None] * (len(chosen) - len(x))] for x in (begin, end, strides or []))
    if len(first) != len(chosen) or len(last) != len(chosen) or len(chosen) > a.ndim or 0 in steps:
        raise UsageError(
            f"{a.name} has {a.ndim} dimensions", asked=asked, legal="a number for each axis, strides other than 0"
        )
    first, last = ([_known(x) for x in ends] for ends in (first, last))
    if slice_mode == "size":
        steps, counts = [], zip(first, last, strict=True)
        last = [None if n is None or (isinstance(n, int) and n < 0) else (0 if b is None else b) + n for b, n in counts]
    steps += [None] * (len(chosen) - len(steps))
    shape, start = list(a.shape), [0] * a.ndim
    step = [1] * a.ndim
    for k, b, e, stride in zip(chosen, first, last, steps, strict=True):
        step[k] = 1 if stride is None else int(stride)
        start[k], shape[k] = _span(b, e, step[k], _known(a.shape[k]))
    return _injective(shape, lambda *i: a(*(x * t + s for x, s, t in zip(i, start, step))), "strided_slice")


def _known(x: Any) -> Any:
    """A number as Python's, also where it is an expression; None and sizes as they are."""
    if isinstance(x, Expr):
        return int(x.value) if x.op == "const" else x
    return None if x is None else int(x)


def _span(begin: Any, end: Any, step: int, extent: Any) -> tuple[Any, Expr]:
    """Where a slice of a dimension starts, and how many elements it has."""
    if not any(isinstance(x, Expr) for x in (begin, end, extent)):
        span = range(*slice(begin, end, step).indices(extent))
        return span.start, as_expr(len(span))
    low, high = (as_expr(0), as_expr(extent)) if step > 0 else (as_expr(-1), as_expr(extent) - 1)

    def inside(x: Any) -> Expr:
        if isinstance(x, int) and x < 0:
            return te.max(high + (x if step > 0 else x + 1), low)
        return te.max(te.min(as_expr(x), high), low)

    first, last = (low, high) if step > 0 else (high, low)
    start, stop = (default if x is None else inside(x) for x, default in ((begin, first), (end, last)))
    apart = stop - start if step > 0 else start - stop
    return simplify(start), simplify(te.max(te.floordiv(apart + abs(step) - 1, abs(step)), 0))


def strided_set(a: Tensor, v: Tensor, begin: Any, end: Any, strides: Any = None) -> Tensor:
    """Return `a` with `v` in place of `a[begin:end:stride]`. Places and strides are numbers, or elements of tensors."""
    n = a.ndim
    step = _numbers(strides, n, [te.const(1)] * n)
    far = [te.select(as_expr(s) > 0, as_expr(d), -d - 1) for s, d in zip(step, a.shape, strict=True)]
    first = _numbers(begin, n, [te.select(as_expr(s) > 0, te.const(0), d - 1) for s, d in zip(step, a.shape)])
    first = [_bounded(b, d) for b, d in zip(first, a.shape, strict=True)]
    last = [_bounded(e, d) for e, d in zip(_numbers(end, n, far), a.shape, strict=True)]

    def body(*i: Expr) -> object:
        inside, at = [], []
        for x, b, e, s, d in zip(i, first, last, step, a.shape, strict=True):
            if not is_const(as_expr(s)):
                start = te.select(as_expr(s) > 0, b, te.min(b, d - 1))
            else:
                start = b if s.value > 0 else te.min(b, d - 1)
            off = te.select(as_expr(s) > 0, x - start, start - x)
            size = te.abs(as_expr(s))
            beyond = te.select(as_expr(s) > 0, x < e, x > e)
            inside += [off >= 0, te.floormod(off, size) == 0, beyond]
            at.append(te.floordiv(off, size))
        return te.if_then_else(te.all(*inside), v(*at) if v.ndim else v(), a(*i))

    return _injective(a.shape, body, "strided_set")


def dynamic_strided_slice(a: Tensor, begin: Any, end: Any, strides: Any, output_shape: Sequence[Dim]) -> Tensor:
    """Slice `a[begin::stride]`, with places that tensors may tell; the result has `output_shape`."""
    step = _numbers(strides, a.ndim, [te.const(1)] * a.ndim)
    first = _numbers(begin, a.ndim, [te.const(0)] * a.ndim)

    def body(*i: Expr) -> object:
        starts = [te.max(te.min(_bounded(b, d), d - 1), te.const(0)) for b, d in zip(first, a.shape, strict=True)]
        return a(*(x * s + b for x, s, b in zip(i, step, starts, strict=True)))

    return _injective(output_shape, body, "strided_slice")


def matrix_set_diag(data: Tensor, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Replace diagonals of the last two dimensions: the k-th, or those from k[0] to k[1].

    Diagonals above the main one come first in `diagonal`; shorter ones lie at its right or left end, as `align` says
    of those above the main one and of the others.
    """
    low, high = (k[0], k[-1]) if isinstance(k, (list, tuple)) else (k, k)
    sides = align.split("_")
    if low > high or len(sides) != 2 or set(sides) - {"LEFT", "RIGHT"} or data.ndim < 2:
        why = f"k={k!r}, align={align!r}"
        raise UsageError(why, asked="topi.matrix_set_diag", legal="k[0] <= k[1]; LEFT or RIGHT, _, LEFT or RIGHT")
    rows, columns = data.shape[-2:]
    width = diagonal.shape[-1]

    def body(*i: Expr) -> object:
        row, column = i[-2:]
        d = column - row
        length = te.min(columns - te.max(d, te.const(0)), rows + te.min(d, te.const(0)))
        right = [width - length if side == "RIGHT" else te.const(0) for side in sides]
        shift = te.select(d >= 0, right[0], right[1])
        place = te.select(d >= 0, row, column) + shift
        value = diagonal(*i[:-2], place) if low == high else diagonal(*i[:-2], high - d, place)
        return te.if_then_else(te.all(d >= low, d <= high), value, data(*i))

    return _injective(data.shape, body, "matrix_set_diag")


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Take elements as NumPy's `data[i, j]` does: indices of the first dimensions, stretched to one shape."""
    if not 0 < len(indices) <= data.ndim:
        raise UsageError(
            f"{len(indices)} indices of {data!r}", asked="topi.adv_index", legal="1, or as many as dimensions"
        )
    shape: Sequence[Expr] = indices[0].shape
    for t in indices[1:]:
        shape = broadcast_shapes(shape, t.shape, "topi.adv_index")
    n = len(shape)

    def body(*i: Expr) -> object:
        places: list[Any] = [stretched(t, i[:n], shape) for t in indices]
        return data(*(p.astype("int32") if not p.dtype.is_integer else p for p in places), *i[n:])

    return _injective([*shape, *data.shape[len(indices) :]], body, "adv_index")


def invert_permutation(data: Tensor) -> Tensor:
    """Return the permutation that undoes another: `out[data[i]] = i`."""
    k = te.reduce_axis((0, data.shape[0]), "k")
    found = te.scatter_reduce(
        data.shape, lambda: (data(k.var), k.var.astype(data.dtype)), k, "max", name="T_invert_permutation"
    )
    return found


def unravel_index(indices: Tensor, shape: Any) -> Tensor:
    """Return the indices of elements at places in row-major order: [dimensions, ...]."""
    dims = (
        [shape(k) for k in range(number(shape.shape[0], "topi.unravel_index"))] if isinstance(shape, Tensor) else shape
    )

    def body(k: Expr, *i: Expr) -> object:
        parts = unravel(indices(*i), [as_expr(d).astype(indices.dtype) for d in dims])
        found = parts[-1]
        for n in reversed(range(len(parts) - 1)):
            found = te.select(k == n, parts[n], found)
        return found

    return _injective((len(dims), *indices.shape), body, "unravel_index")


def sliding_window(data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return the windows over `axis` and all following ones: [.., positions.., elements of a window..]."""
    at = axis_of(data, axis, "topi.sliding_window")
    if not len(window_shape) == len(strides) == data.ndim - at:
        why = f"windows {list(window_shape)}, strides {list(strides)}"
        raise UsageError(why, asked="topi.sliding_window", legal=f"{data.ndim - at} numbers each")
    count = [te.floordiv(d - w, s) + 1 for d, w, s in zip(data.shape[at:], window_shape, strides, strict=True)]

    def body(*i: Expr) -> object:
        position, inside = i[at : data.ndim], i[data.ndim :]
        return data(*i[:at], *(p * s + w for p, s, w in zip(position, strides, inside, strict=True)))

    return _injective([*data.shape[:at], *map(simplify, count), *window_shape], body, "sliding_window")


def shape(array: Tensor, dtype: object = "int32") -> Tensor:
    """Return the dimensions, as a vector."""

    def body(k: Expr) -> object:
        found: Expr = te.const(1)
        for n, d in enumerate(array.shape):
            found = te.select(k == n, d, found)
        return found.astype(dtype)

    return _injective((array.ndim,), body, "shape")


def ndarray_size(array: Tensor, dtype: object = "int32") -> Tensor:
    """Return the number of elements, without dimensions."""
    return _injective((), lambda: product(array.shape).astype(dtype), "ndarray_size")
