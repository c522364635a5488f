"""What is left of the numbers 0 .. count - 1 when some are taken away: counted, and drawn uniformly.

Nothing is enumerated and nothing rejected, so the last number of a billion is found as quickly as the
first. A count may be larger than an int64 holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Remaining"]

#: Counts below this are handled in int64, others as Python integers.
FAR = 1 << 62

#: Of at most this many, distinct ones are drawn by shuffling.
SHUFFLED = 1 << 16


class Remaining:
    """The numbers from 0 to `count` - 1 that were not removed.

    >>> left = Remaining(5)
    >>> left.remove([1, 3])
    >>> left.left, sorted(left.draw(9, np.random.default_rng(0)).tolist())
    (3, [0, 2, 4])
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._type: Any = np.int64 if count < FAR else object
        self._gone: NDArray[Any] = np.array([], dtype=self._type)  # sorted

    @property
    def left(self) -> int:
        """How many there are."""
        return self.count - len(self._gone)

    def remove(self, numbers: Iterable[int]) -> None:
        """Take these away; those that are not there are ignored."""
        new = {n for n in numbers if 0 <= n < self.count}
        if new:
            self._gone = np.array(sorted(new | set(self._gone.tolist())), dtype=self._type)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Up to `n` different numbers, every one that is left equally likely; they are not removed."""
        ranks = _distinct(self.left, n, rng)
        # The rank-th number that is left has as many below it as were removed before it.
        before = self._gone - np.arange(len(self._gone))
        return np.asarray(ranks + np.searchsorted(before, ranks, side="right"))


def _distinct(limit: int, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Up to `n` different integers below `limit`."""
    if limit <= SHUFFLED or n > limit // 2:
        return rng.permutation(limit)[:n]
    found: dict[int, None] = {}
    while len(found) < n:
        found.update(dict.fromkeys(_below(limit, n - len(found), rng)))
    return np.array(list(found), dtype=np.int64 if limit < FAR else object)


def _below(limit: int, n: int, rng: np.random.Generator) -> list[int]:
    """Up to `n` integers below `limit`, fewer where too large ones were drawn and dropped."""
    if limit < FAR:
        drawn: list[int] = rng.integers(0, limit, n).tolist()
        return drawn
    bits = limit.bit_length()
    size = -(-bits // 8)
    raw = rng.bytes(size * n)
    numbers = (int.from_bytes(raw[i : i + size], "little") >> (8 * size - bits) for i in range(0, size * n, size))
    return [x for x in numbers if x < limit]
