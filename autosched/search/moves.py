"""Operators on matrices of points: neighbours, crossover, and picking a diverse batch.

Points are rows of knob indices, int64 [n, k]. Neighbouring indices of a knob are similar values.
Nothing here knows feasibility; `SketchPoints.fresh` sorts that out afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.model.protocol import FloatArray, IntArray
from autosched.search.protocol import Candidate

#: How many knobs a neighbour differs in -> how often.
KNOBS_MOVED = ((1, 0.6), (2, 0.3), (3, 0.1))

#: Share of moved knobs that go to any value at all instead of a near one.
JUMPS = 0.25


def neighbours(parents: IntArray, radices: IntArray, rng: np.random.Generator) -> IntArray:
    """One neighbour for each parent, [n, k]: one to three knobs moved by a step or two, or anywhere.

    Knobs with one value stay. A step past either end stops there, so a row may equal its parent.
    """
    count, width = parents.shape
    movable = radices > 1
    if count == 0 or not movable.any():
        return parents.copy()
    amounts, shares = zip(*KNOBS_MOVED, strict=True)
    moved = np.minimum(rng.choice(amounts, size=count, p=shares), movable.sum())
    # The knobs with the lowest of these numbers move; a knob with one value never does.
    rank = np.argsort(np.argsort(np.where(movable, rng.random((count, width)), 2.0), axis=1), axis=1)
    steps = rng.choice([-2, -1, -1, 1, 1, 2], size=(count, width))
    near = np.clip(parents + steps, 0, radices - 1)
    anywhere = rng.integers(0, radices, size=(count, width))
    target = np.where(rng.random((count, width)) < JUMPS, anywhere, near)
    return np.where(rank < moved[:, None], target, parents)


def crossover(parents: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """`count` children [count, k]: each knob from one or the other of two parents."""
    if len(parents) == 0:
        return parents
    mothers, fathers = (parents[rng.integers(0, len(parents), size=count)] for _ in range(2))
    return np.where(rng.random(mothers.shape) < 0.5, mothers, fathers)


def distinct(rows: IntArray) -> IntArray:
    """The rows [n, k] sorted, each once."""
    return np.unique(rows, axis=0) if rows.shape[1] else rows[:1]


def spread(rows: IntArray, n: int, used: Sequence[IntArray]) -> list[int]:
    """Positions of up to `n` of the rows that together use as many values of each knob as they can.

    `used[j][v]` counts how often value `v` of knob `j` was chosen; it is updated. Greedy: the next
    row is the one whose values were used least.
    """
    chosen: list[int] = []
    free = np.ones(len(rows), dtype=np.bool_)
    for _ in range(min(n, len(rows))):
        wear = np.zeros(len(rows))
        for column, counts in enumerate(used):
            # A share of the knob's uses, so that a knob with few values does not outweigh others.
            wear += counts[rows[:, column]] / (counts.sum() + 1) * len(counts)
        best = int(np.argmin(np.where(free, wear, np.inf)))
        free[best] = False
        chosen.append(best)
        for column, counts in enumerate(used):
            counts[rows[best, column]] += 1
    return chosen


def is_close(one: Candidate, other: Candidate) -> bool:
    """Whether they are of one sketch and differ in one knob at most."""
    return one.sketch == other.sketch and sum(a != b for a, b in zip(one.indices, other.indices, strict=True)) < 2


def pick_best(candidates: Sequence[Candidate], scores: FloatArray, n: int) -> list[Candidate]:
    """`n` with high scores, best first, that are not all alike.

    Of two that are close only the better one is taken at first: measuring it will say enough about the other. Those
    passed over fill what then is missing. Equal scores are taken in the order given.
    """
    chosen: list[Candidate] = []
    passed: list[Candidate] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if len(chosen) == n:
            return chosen
        candidate = candidates[i]
        (passed if any(is_close(candidate, other) for other in chosen) else chosen).append(candidate)
    return chosen + passed[: n - len(chosen)]
