"""Blocks of space as batches, and tensors that keep the last elements of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import axis_of, product, same, unravel
from autosched.topi.nn.padding import pad


def _checked(data: Tensor, lists: Sequence[Sequence[int]], asked: str) -> int:
    count = len(lists[0])
    if not 0 < count < data.ndim or any(len(x) != count for x in lists):
        raise UsageError(f"{[list(x) for x in lists]} for {data!r}", asked=asked, legal="numbers for axes 1, 2, ...")
    return count


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Divide the dimensions after the first into blocks; the elements at one place of each block become a batch.

    A border of `pad_value` is added before, so that blocks divide. Result b * batches + n is of data's batch n.

    >>> from autosched import te, topi
    >>> topi.nn.space_to_batch_nd(te.placeholder((1, 4, 4, 3), name="A"), [2, 2], [0, 0], [0, 0]).shape
    (4, 2, 2, 3)
    """
    asked = "topi.nn.space_to_batch_nd"
    m = _checked(data, (block_shape, pad_before, pad_after), asked)
    rest = [0] * (data.ndim - m - 1)
    wide = pad(data, [0, *pad_before, *rest], [0, *pad_after, *rest], pad_value)
    shape = [simplify(te.floordiv(d, b)) for d, b in zip(wide.shape[1:], block_shape)]
    for d, n, b in zip(wide.shape[1:], shape, block_shape):
        if not same(n * b, d):
            raise UsageError(
                f"{d!r} elements, with the border, do not make blocks of {b}", asked=asked, legal="a multiple"
            )

    def body(*i: Expr) -> object:
        inside = unravel(te.floordiv(i[0], data.shape[0]), block_shape)
        places = [x * b + r for x, b, r in zip(i[1:], block_shape, inside)]
        return wide(te.floormod(i[0], data.shape[0]), *places, *i[m + 1 :])

    dims = (simplify(data.shape[0] * product(block_shape)), *shape, *wide.shape[m + 1 :])
    return te.compute(dims, body, name="space_to_batch_nd", tag="injective")


def batch_to_space_nd(
    data: Tensor, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Tensor:
    """Put batches back as the elements of blocks, and cut off a border: undoes `space_to_batch_nd`."""
    asked = "topi.nn.batch_to_space_nd"
    m = _checked(data, (block_shape, crop_begin_list, crop_end_list), asked)
    batches = simplify(te.floordiv(data.shape[0], product(block_shape)))
    if not same(batches * product(block_shape), data.shape[0]):
        raise UsageError(
            f"{data.shape[0]!r} batches do not fill blocks of {list(block_shape)}", asked=asked, legal="a multiple"
        )
    rows = zip(data.shape[1:], block_shape, crop_begin_list, crop_end_list)
    shape = [simplify(d * b - first - last) for d, b, first, last in rows]

    def body(*i: Expr) -> object:
        full = [x + first for x, first in zip(i[1:], crop_begin_list)]
        block: Expr = te.const(0)
        for x, b in zip(full, block_shape):
            block = block * b + te.floormod(x, b)
        places = [te.floordiv(x, b) for x, b in zip(full, block_shape)]
        return data(block * batches + i[0], *places, *i[m + 1 :])

    return te.compute((batches, *shape, *data.shape[m + 1 :]), body, name="batch_to_space_nd", tag="injective")


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """Append `data` to `buffer` along an axis, and leave out as many elements at its beginning."""
    at = axis_of(buffer, axis, "topi.nn.fifo_buffer")
    if data.ndim != buffer.ndim or not all(
        k == at or same(d, e) for k, (d, e) in enumerate(zip(data.shape, buffer.shape))
    ):
        raise UsageError(
            f"{data!r} and {buffer!r}", asked="topi.nn.fifo_buffer", legal=f"shapes equal but for axis {at}"
        )
    new, length = data.shape[at], buffer.shape[at]

    def body(*i: Expr) -> object:
        def place(x: Expr) -> list[Expr]:
            return [x if k == at else e for k, e in enumerate(i)]

        kept = i[at] < length - new
        return te.if_then_else(kept, buffer(*place(i[at] + new)), data(*place(i[at] - (length - new))))

    return te.compute(buffer.shape, body, name="new_buffer", tag="injective")
