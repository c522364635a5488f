"""Operators that change shapes and move elements, without arithmetic on values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import Expr, as_expr, ceildiv, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import (
    Dim,
    Dims,
    axes_of,
    axis_of,
    broadcast_shapes,
    number,
    product,
    quotient,
    same,
    unravel,
)
from autosched.topi.elementwise import stretched


def _injective(shape: Sequence[Dim], body: Callable[..., object], name: str) -> Tensor:
    made: Tensor = te.compute(tuple(shape), body, name=f"T_{name}", tag="injective")
    return made


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert dimensions of 1 in front of `axis`; a negative one counts from the end of the result."""
    if num_newaxis not in range(65):
        raise UsageError(f"{num_newaxis} new dimensions", asked="topi.expand_dims(num_newaxis=..)", legal="0 to 64")
    at = axis + a.ndim + 1 if axis < 0 else axis
    if not 0 <= at <= a.ndim:
        raise UsageError(f"{a.name} has {a.ndim} dimensions", asked=f"topi.expand_dims(axis={axis})", legal="0 to that")
    shape: list[Dim] = [*a.shape[:at], *[1] * num_newaxis, *a.shape[at:]]
    return _injective(shape, lambda *i: a(*i[:at], *i[at + num_newaxis :]), "expand_dims")


def squeeze(a: Tensor, axis: object = None) -> Tensor:
    """Leave out dimensions of 1: those of `axis`, or all."""
    asked = f"topi.squeeze(axis={axis!r})"
    gone = [k for k, d in enumerate(a.shape) if is_const(d, 1)] if axis is None else axes_of(a, axis, asked)
    wrong = [k for k in gone if not is_const(a.shape[k], 1)]
    if wrong:
        raise UsageError(f"axis {wrong[0]} has length {a.shape[wrong[0]]!r}", asked=asked, legal="axes of length 1")

    def body(*i: Expr) -> object:
        left = iter(i)
        return a(*(0 if k in gone else next(left) for k in range(a.ndim)))

    return _injective([d for k, d in enumerate(a.shape) if k not in gone], body, "squeeze")


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Reorder the axes; without `axes`, reverse them."""
    asked = f"topi.transpose(axes={axes!r})"
    order = [axis_of(a, k, asked) for k in (reversed(range(a.ndim)) if axes is None else axes)]
    if sorted(order) != list(range(a.ndim)):
        raise UsageError("it is not a permutation of the axes", asked=asked, legal=f"each of 0 to {a.ndim - 1} once")
    place = [order.index(k) for k in range(a.ndim)]
    return _injective([a.shape[k] for k in order], lambda *i: a(*(i[p] for p in place)), "transpose")


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverse an axis."""
    at = axis_of(a, axis, "topi.flip")
    return _injective(
        a.shape, lambda *i: a(*(a.shape[k] - 1 - x if k == at else x for k, x in enumerate(i))), "reverse"
    )


def reshape(a: Tensor, newshape: Sequence[Dim]) -> Tensor:
    """Put the elements, in row-major order, into another shape; one dimension may be -1."""
    asked = f"topi.reshape of {list(a.shape)} to {list(newshape)}"
    open_ = [k for k, d in enumerate(newshape) if isinstance(d, int) and d == -1]
    if len(open_) > 1:
        raise UsageError("two dimensions are left open", asked=asked, legal="-1 once")
    shape = [as_expr(d) for d in newshape]
    if open_:
        shape[open_[0]] = quotient(a.shape, (d for k, d in enumerate(shape) if k not in open_))
    if not same(product(a.shape), product(shape)):
        why = f"{product(a.shape)!r} elements are not {product(shape)!r}"
        raise UsageError(why, asked=asked, legal="a shape of as many elements")
    return _injective(shape, lambda *i: a(*unravel(row_major_offset(i, shape), a.shape)) if a.ndim else a(), "reshape")


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis."""
    if not a_tuple:
        raise UsageError("there is nothing to join", asked="topi.concatenate([])", legal="one tensor at least")
    first, at = a_tuple[0], axis_of(a_tuple[0], axis, "topi.concatenate")
    for t in a_tuple[1:]:
        if t.ndim != first.ndim or not all(k == at or same(d, e) for k, (d, e) in enumerate(zip(t.shape, first.shape))):
            raise UsageError(
                f"{t!r} does not go with {first!r}", asked="topi.concatenate", legal=f"shapes equal but for axis {at}"
            )
    ends = [t.shape[at] for t in a_tuple]

    def body(*i: Expr) -> object:
        offset = sum(ends[:-1], te.const(0))
        result = a_tuple[-1](*(x - offset if k == at else x for k, x in enumerate(i)))
        for n in reversed(range(len(a_tuple) - 1)):
            before, end = sum(ends[:n], te.const(0)), sum(ends[: n + 1], te.const(0))
            here = a_tuple[n](*(x - before if k == at else x for k, x in enumerate(i)))
            result = te.if_then_else(i[at] < end, here, result)
        return result

    shape = [simplify(sum(ends, te.const(0))) if k == at else d for k, d in enumerate(first.shape)]
    return _injective(shape, body, "concat")


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    return concatenate([expand_dims(t, axis) for t in tensors], axis)


def split(ary: Tensor, indices_or_sections: Dims, axis: int = 0) -> list[Tensor]:
    """Cut a tensor along an axis: into so many equal pieces, or at the given places."""
    at = axis_of(ary, axis, "topi.split")
    extent = ary.shape[at]
    if isinstance(indices_or_sections, (int, Expr)):
        length, sections = number(extent, "topi.split"), number(indices_or_sections, "topi.split")
        if sections < 1 or length % sections:
            why = f"{length} elements do not make {sections} equal pieces"
            raise UsageError(why, asked="topi.split", legal="a divisor of the length, or a list of places")
        cuts: list[Dim] = [k * (length // sections) for k in range(sections)]
    else:
        cuts = [0, *indices_or_sections]
    made = []
    for begin, end in zip(cuts, [*cuts[1:], extent], strict=True):
        shape = [simplify(as_expr(end) - begin) if k == at else d for k, d in enumerate(ary.shape)]
        made.append(
            _injective(shape, lambda *i, b=begin: ary(*(x + b if k == at else x for k, x in enumerate(i))), "split")
        )
    return made


def _wrapped(index: Expr, extent: Expr, mode: str, asked: str) -> Expr:
    """An index from data, kept inside."""
    index = index.astype("int32") if index.dtype.bits < 32 or index.dtype.kind == "uint" else index
    if mode == "clip":
        return te.max(te.min(index, extent - 1), te.const(0, index.dtype))
    if mode == "wrap":
        return te.floormod(index, extent)
    if mode == "fast":
        return index
    raise UsageError(f"no mode {mode!r}", asked=asked, legal="clip, wrap, fast")


def take(a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Tensor:
    """Take the elements, or with `axis` the slices, at the places in `indices`.

    mode: places outside are moved to the nearest one (`clip`) or around (`wrap`), or must not occur (`fast`)
    """
    if batch_dims:
        raise UsageError("batch dimensions are not supported", asked="topi.take", legal="batch_dims=0; see topi.gather")
    if axis is None:
        total = product(a.shape)
        return _injective(
            indices.shape, lambda *i: a(*unravel(_wrapped(indices(*i), total, mode, "topi.take"), a.shape)), "take"
        )
    at = axis_of(a, axis, "topi.take")

    def body(*i: Expr) -> object:
        middle = i[at : at + indices.ndim]
        place = _wrapped(indices(*middle), a.shape[at], mode, "topi.take")
        return a(*i[:at], place, *i[at + indices.ndim :])

    return _injective([*a.shape[:at], *indices.shape, *a.shape[at + 1 :]], body, "take")


def _whole(place: Expr) -> Expr:
    """A place; of floats, the whole number that they are."""
    return place if place.dtype.is_integer else place.astype("int32")


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Compute `out[i, j, k] = data[i, indices[i, j, k], k]`, for axis 1; places must lie inside."""
    at = axis_of(data, axis, "topi.gather")
    if indices.ndim != data.ndim:
        raise UsageError(
            f"{indices.name} has {indices.ndim} dimensions, {data.name} {data.ndim}",
            asked="topi.gather",
            legal="as many",
        )
    return _injective(
        indices.shape, lambda *i: data(*(_whole(indices(*i)) if k == at else x for k, x in enumerate(i))), "gather"
    )


def gather_nd(a: Tensor, indices: Tensor) -> Tensor:
    """Compute `out[y..., x...] = a[indices[0, y...], ..., indices[M-1, y...], x...]`."""
    count = number(indices.shape[0], "topi.gather_nd")
    if count > a.ndim:
        raise UsageError(
            f"{count} indices for {a.ndim} dimensions", asked="topi.gather_nd", legal="at most one for each"
        )
    rest = indices.ndim - 1

    def body(*i: Expr) -> object:
        return a(*(_whole(indices(m, *i[:rest])) for m in range(count)), *i[rest:])

    return _injective([*indices.shape[1:], *a.shape[count:]], body, "gather_nd")


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """Choose `x` where the condition holds, else `y`; shapes go together as NumPy's."""
    shape: Sequence[Expr] = condition.shape
    for t in (x, y):
        if isinstance(t, Tensor):
            shape = broadcast_shapes(shape, t.shape, "topi.where")

    def body(*i: Expr) -> object:
        c: Any = stretched(condition, i, shape)
        return te.select(c if c.dtype.is_bool else c != 0, stretched(x, i, shape), stretched(y, i, shape))

    return te.compute(tuple(shape), body, name="T_where", tag="broadcast")


def one_hot(
    indices: Tensor, on_value: object, off_value: object, depth: int, axis: int = -1, dtype: object = "float32"
) -> Tensor:
    """Put `on_value` where the place along the new axis is the index, `off_value` elsewhere."""
    at = number(indices.ndim if axis == -1 else axis, "topi.one_hot(axis=..)")
    shape: list[Dim] = [*indices.shape[:at], depth, *indices.shape[at:]]

    def body(*i: Expr) -> object:
        hit = ir.compare("eq", indices(*i[:at], *i[at + 1 :]), i[at])
        return te.select(hit, te.const(on_value, dtype), te.const(off_value, dtype))

    return _injective(shape, body, "one_hot")


def arange(start: float, stop: float | None = None, step: float = 1, dtype: object = "float32") -> Tensor:
    """Count from `start` up to `stop`, by `step`, as `numpy.arange` does."""
    begin, end = (0, start) if stop is None else (start, stop)
    if step == 0 or not all(map(math.isfinite, (begin, end, step))):
        asked = f"topi.arange({start!r}, {stop!r}, {step!r})"
        raise UsageError("it never ends", asked=asked, legal="finite numbers, and a step other than 0")
    count = max(0, -int(-(end - begin) // step))
    return _injective((count,), lambda i: te.const(begin, dtype) + i.astype(dtype) * te.const(step, dtype), "arange")


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Turn vectors into grids of coordinates."""
    if indexing not in ("ij", "xy"):
        raise UsageError(f"no indexing {indexing!r}", asked="topi.meshgrid", legal="ij, xy")
    shape = [t.shape[0] for t in a_tuple]
    order = list(range(len(shape)))
    if indexing == "xy" and len(shape) > 1:
        order[:2] = [1, 0]
    return [
        _injective([shape[k] for k in order], lambda *i, n=n, t=t: t(i[order.index(n)]), "meshgrid")
        for n, t in enumerate(a_tuple)
    ]


def repeat(a: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """Repeat every element along an axis."""
    at = axis_of(a, axis, "topi.repeat")
    shape = [simplify(d * repeats) if k == at else d for k, d in enumerate(a.shape)]
    return _injective(
        shape, lambda *i: a(*(te.floordiv(x, repeats) if k == at else x for k, x in enumerate(i))), "repeat"
    )


def tile(a: Tensor, reps: Sequence[int]) -> Tensor:
    """Repeat the whole tensor `reps` times along each axis, as `numpy.tile` does."""
    rank = max(a.ndim, len(reps))
    shape = [te.const(1)] * (rank - a.ndim) + list(a.shape)
    times = [1] * (rank - len(reps)) + list(reps)

    def body(*i: Expr) -> object:
        last = i[rank - a.ndim :]
        return a(*(0 if is_const(d, 1) else te.floormod(x, d) for x, d in zip(last, a.shape, strict=True)))

    return _injective([simplify(d * n) for d, n in zip(shape, times, strict=True)], body, "tile")


def trilu(data: Tensor, k: int = 0, upper: bool = True) -> Tensor:
    """Keep the upper, or lower, triangle of the last two dimensions; zeros elsewhere. `k` shifts the diagonal."""
    if data.ndim < 2:
        raise UsageError(f"{data.name} has {data.ndim} dimensions", asked="topi.trilu", legal="two at least")

    def body(*i: Expr) -> object:
        row, column = i[-2:]
        keep = column >= row + k if upper else column <= row + k
        return te.select(keep, data(*i), te.const(0, data.dtype))

    return _injective(data.shape, body, "trilu")


def sequence_mask(data: Tensor, valid_length: Tensor, mask_value: object = 0, axis: int = 0) -> Tensor:
    """Put `mask_value` where the step (axis 0 or 1) is not before the valid length of its batch (the other)."""
    if axis not in (0, 1) or data.ndim < 2:
        raise UsageError(f"axis {axis} of {data!r}", asked="topi.sequence_mask", legal="axis 0 or 1 of two at least")

    def body(*i: Expr) -> object:
        inside = i[axis] < valid_length(i[1 - axis]).astype("int32")
        return te.select(inside, data(*i), te.const(mask_value, data.dtype))

    return _injective(data.shape, body, "sequence_mask")


# -- layouts ------------------------------------------------------------------------------------------


def _parse_layout(layout: str) -> list[tuple[str, int]]:
    """`NCHW16c` as N, C, H, W and 16 of c."""
    return [(letter, int(block or 0)) for block, letter in re.findall(r"(\d*)(\D)", layout)]


def layout_transform(array: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """Reorder axes by name: `layout_transform(x, "NCHW", "NCHW16c")` splits the channels into blocks of 16.

    A lower-case letter is the inner part of the axis of that name. Blocks that are not full get zeros.
    """
    asked = f"topi.layout_transform({src_layout!r}, {dst_layout!r})"
    source, target = _parse_layout(src_layout), _parse_layout(dst_layout)
    primal = {name for name, _ in source if name.isupper()}
    if len(source) != array.ndim or primal != {name for name, _ in target if name.isupper()}:
        raise UsageError(f"they do not name the axes of {array!r}", asked=asked, legal="the same letters in both")
    inner = {name.upper(): block for name, block in source if name.islower()}
    new = {name.upper(): block for name, block in target if name.islower()}
    extent = {name: d for (name, _), d in zip(source, array.shape, strict=True) if name.isupper()}
    whole = {name: simplify(d * inner[name]) if name in inner else d for name, d in extent.items()}
    shape = [as_expr(block) if name.islower() else ceildiv(whole[name], new.get(name, 1)) for name, block in target]

    def body(*i: Expr) -> object:
        at = {name: x for (name, _), x in zip(target, i, strict=True)}
        place = {n: at[n] * new[n] + at[n.lower()] if n in new else at[n] for n in primal}
        index = [_part(name, place, inner) for name, _ in source]
        padded = [n for n in new if not _divides(whole[n], new[n])]
        if not padded:
            return array(*index)
        inside = te.all(*(place[n] < whole[n] for n in padded))
        return te.if_then_else(inside, array(*index), te.const(0, array.dtype))

    return _injective([simplify(d) for d in shape], body, "layout_trans")


def _part(name: str, place: dict[str, Expr], inner: dict[str, int]) -> Expr:
    upper = name.upper()
    if upper not in inner:
        return place[upper]
    return te.floormod(place[upper], inner[upper]) if name.islower() else te.floordiv(place[upper], inner[upper])


def _divides(extent: Dim, block: int) -> bool:
    return is_const(simplify(te.floormod(as_expr(extent), block)), 0)
