"""Where intermediates lie in one block of memory: those that are never alive together share bytes.

Greedy by size (arXiv:2001.03288): the largest first, each at the lowest end of the tightest gap between those that
are alive with it and have their places already.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

#: bytes: each tensor begins at a multiple of this
ALIGNMENT = 64


def padded(size: int) -> int:
    """`size` bytes, rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(sizes: Sequence[int], first: Sequence[int], last: Sequence[int]) -> tuple[list[int], int]:
    """The offset of each tensor, and the bytes of the whole block.

    sizes:       bytes of each tensor
    first, last: the numbers of the first and the last call, inclusive, between which its bytes are its own

    Tensors that share memory on purpose, because one is computed in place of the other, are passed as one.

    >>> plan([100, 60, 100], [0, 1, 2], [1, 2, 3])
    ([0, 128, 0], 192)
    """
    best: tuple[list[int], int] = [0] * len(sizes), 0
    least = lower_bound(sizes, first, last)
    for number, order in enumerate(_ORDERS):
        ranked = sorted(range(len(sizes)), key=lambda i: order(sizes[i], last[i] - first[i] + 1), reverse=True)
        found = _placed(ranked, sizes, first, last)
        if number == 0 or found[1] < best[1]:
            best = found
        if best[1] == least:
            break
    return best


def lower_bound(sizes: Sequence[int], first: Sequence[int], last: Sequence[int]) -> int:
    """The most bytes that are alive at once: no plan takes fewer."""
    change: dict[int, int] = {}
    for size, a, b in zip(sizes, first, last, strict=True):
        change[a] = change.get(a, 0) + padded(size)
        change[b + 1] = change.get(b + 1, 0) - padded(size)
    alive = most = 0
    for at in sorted(change):
        alive += change[at]
        most = max(most, alive)
    return most


def total(sizes: Sequence[int]) -> int:
    """The bytes of a block in which nothing is shared."""
    return sum(map(padded, sizes))


#: which tensor comes first, by its bytes and the calls that it lives for: none of these is always the best
_ORDERS: tuple[Callable[[int, int], tuple[int, int]], ...] = (
    lambda size, lasts: (size, lasts),
    lambda size, lasts: (size * lasts, size),
    lambda size, lasts: (lasts, size),
)


def _placed(
    order: Sequence[int], sizes: Sequence[int], first: Sequence[int], last: Sequence[int]
) -> tuple[list[int], int]:
    offsets = [0] * len(sizes)
    placed: list[tuple[int, int, int]] = []  # offset, end, tensor: in the order of offsets
    whole = 0
    for i in order:
        size = padded(sizes[i])
        if size == 0:
            continue
        free, tightest, at = 0, None, 0
        for offset, end, other in placed:
            if first[i] > last[other] or first[other] > last[i]:
                continue
            gap = offset - free
            if gap >= size and (tightest is None or gap < tightest):
                tightest, at = gap, free
            free = max(free, end)
        offsets[i] = free if tightest is None else at
        insort(placed, (offsets[i], offsets[i] + size, i))
        whole = max(whole, offsets[i] + size)
    return offsets, whole
