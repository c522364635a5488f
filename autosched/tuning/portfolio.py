"""Which few schedules to keep for many sizes: the fewest that lose little at any of them.

The regret of a set of schedules at a size is what its best one is slower there than the best of all that
were measured, as a share: 0.03 is three percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

import numpy as np

Rows = tuple[int, ...]
Cost = Callable[[Rows], tuple[float, float, Rows]]

#: So many sets of schedules are all looked at; where there are more, a greedy choice is improved by exchanges.
ENOUGH = 20_000


@dataclass(frozen=True)
class Portfolio:
    """`chosen` rows of the table of times; `serves[j]` is the position in `chosen` of that for column j.

    `regrets` are those of the columns, each 0 or more.
    """

    chosen: Rows
    serves: tuple[int, ...]
    regrets: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.regrets)


def choose(seconds: np.ndarray, weights: Sequence[float], *, most: int, tolerance: float) -> list[Portfolio]:
    """The best portfolios of 1, 2, .. schedules, up to the first whose worst regret is within the tolerance, or
    to `most`: the last is the one to take.

    seconds: schedules x sizes; infinite where a schedule does not run. Every size has one that does.
    weights: how much each size counts in the mean, which decides between portfolios that are as good at their worst

    Raises ValueError where no schedule runs at some size.

    >>> import numpy as np
    >>> table = np.array([[1.0, 9.0], [2.0, 3.0], [1.5, 3.1]])
    >>> [p.chosen for p in choose(table, [1, 1], most=2, tolerance=0.05)]
    [(2,), (0, 1)]
    """
    best = seconds.min(axis=0)
    if not np.isfinite(best).all():
        raise ValueError(f"nothing runs at size {int(np.argmax(~np.isfinite(best)))}")
    regrets = seconds / best - 1.0
    share = np.asarray(weights, dtype=float) / np.sum(weights)

    def cost(rows: Rows) -> tuple[float, float, Rows]:
        least = regrets[list(rows)].min(axis=0)
        mean = float(np.log1p(least) @ share) if np.isfinite(least).all() else np.inf
        return max(float(least.max()), tolerance), mean, rows

    found: list[Portfolio] = []
    rows: Rows = ()
    for k in range(1, min(most, len(seconds)) + 1):
        rows = _best(len(seconds), k, cost, rows)
        table = regrets[list(rows)]
        serves = table.argmin(axis=0)
        used = sorted({int(i) for i in serves})
        portfolio = Portfolio(
            tuple(rows[i] for i in used),
            tuple(used.index(int(i)) for i in serves),
            tuple(float(x) for x in table.min(axis=0)),
        )
        found.append(portfolio)
        if portfolio.worst <= tolerance:
            break
    return found


def _best(n: int, k: int, cost: Cost, fewer: Rows) -> Rows:
    """The best k of n rows; `fewer` is the best choice of one less."""
    if comb(n, k) <= ENOUGH:
        return min(map(cost, combinations(range(n), k)))[2]
    rows = min(cost((*fewer, i)) for i in range(n) if i not in fewer)
    while True:
        others = [i for i in range(n) if i not in rows[2]]
        exchanged = ((*(r for r in rows[2] if r != out), i) for out, i in product(rows[2], others))
        better = min(map(cost, exchanged))
        if better[:2] >= rows[:2]:
            return rows[2]
        rows = better
