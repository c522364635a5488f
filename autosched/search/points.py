"""The points of a space that are left: drawing them, checking them, remembering them.

A sketch that can count and number its valid points (`valid_points`) is drawn from by number: nothing
is rejected, however rare they are, and the last point is found like the first. Of another, feasible
points are found by drawing and masking, so that a space of billions costs nothing; a small one is
enumerated at the first draw, a middling one when so many draws were made on it that enumerating
costs no more. What nothing was drawn from yet is not looked at: there may be thousands of sketches,
and looking at one lowers it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.model.protocol import IntArray
from autosched.search.protocol import Candidate, SketchLike, SpaceLike, ValidPointsLike, valid_points_of

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
        """The number of numbers left."""
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


#: Rows given to `mask` at a time.
CHUNK = 1 << 13

#: A sketch of at most this many points is enumerated at the first draw.
SMALL = 1 << 13

#: A sketch of at most this many points may be enumerated. A larger one in which this many draws
#: in a row found nothing new is given up.
LIMIT = 1 << 20

#: `Points.take` stops after this many draws if it has found something, even if fewer than asked.
PATIENCE = 1 << 17

#: `SketchPoints.find` stops after this many draws, even if it has found nothing.
SHORT_PATIENCE = 1 << 14

#: This many sketches that nothing was drawn from yet may be looked at together.
NEW = 16

#: Seconds of computing after which, in one round, no other sketch is looked at for the first time.
OPENING_S = 0.5

#: Weights are floats; this is as good as any larger number.
MOST = 10**300

Row = tuple[int, ...]


def feasible(sketch: SketchLike, rows: IntArray) -> IntArray:
    """The points, of int64 [n, k], that the sketch's mask lets pass, in order."""
    parts = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
    kept = [part[np.asarray(sketch.mask(part), dtype=np.bool_)] for part in parts]
    return np.concatenate(kept) if kept else rows


class SketchPoints:
    """The points of one sketch that are feasible and were not seen yet."""

    def __init__(self, sketch: SketchLike) -> None:
        self.sketch = sketch
        self.radices: IntArray = np.array([len(knob.values) for knob in sketch.knobs], dtype=np.int64)
        self.size = math.prod(int(radix) for radix in self.radices)
        self._seen: set[Row] = set()
        self._valid: ValidPointsLike | None = None  # numbers a superset of the valid points
        self._left: Remaining | None = None  # of their numbers, where those are the valid points alone
        self._gone: list[Row] = []  # seen since `_left` was computed
        self.opened = False  # whether anything was drawn
        self._draws = 0
        self._misses = 0
        self._given_up = self.size == 0

    def __contains__(self, row: Row) -> bool:
        return row in self._seen

    def valid(self, row: Row) -> bool:
        """Whether these are indices of a point at all, feasible or not."""
        return len(row) == len(self.radices) and all(
            0 <= index < radix for index, radix in zip(row, self.radices.tolist(), strict=True)
        )

    def mark(self, row: Row) -> None:
        """Remember a point as seen: it is not given out again."""
        if row not in self._seen:
            self._seen.add(row)
            if self._left is not None:
                self._gone.append(row)

    def fresh(self, rows: IntArray) -> IntArray:
        """The points, of [n, k], that are feasible and not seen; each once, in order."""
        kept: dict[Row, None] = {}
        for row in map(tuple, feasible(self.sketch, rows).tolist()):
            if row not in self._seen:
                kept[row] = None
        return self.as_rows(list(kept))

    def as_rows(self, points: Sequence[Row]) -> IntArray:
        """Points as a matrix [n, k], also if there are no points or no knobs."""
        return np.array(points, dtype=np.int64).reshape(len(points), len(self.radices))

    def weight(self) -> float:
        """For drawing uniformly: how many points are left, at most; 0 if there are none."""
        if self._left is not None:
            self._settle()
            return float(min(self._left.left, MOST))
        if self._given_up or len(self._seen) >= self.size:
            return 0.0
        if self._valid is not None:
            return float(min(self._valid.count, MOST))
        return float(min(getattr(self.sketch, "most_points", self.size), MOST))

    def open(self) -> None:
        """Find out what can be known of the points before the first one is drawn."""
        if self.opened:
            return
        self.opened = True
        self._valid = valid_points_of(self.sketch)
        if self._valid is None and self.size <= SMALL:
            self._enumerate()
        elif self._valid is not None and self._valid.exact:
            self._number(self._valid)
        elif self._valid is not None and not self._valid.count:
            self._given_up = True

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Points [m, k], m <= count, each feasible, unseen and different: `count` tries.

        Every point that is left is equally likely. Does not mark them.
        """
        if count <= 0 or self.weight() == 0:
            return self.as_rows([])
        self.open()
        if self._left is not None and self._valid is not None:
            return self._valid.rows(self._left.draw(count, rng))
        if self._given_up:
            return self.as_rows([])
        if self._valid is None:
            rows = self.fresh(rng.integers(0, self.radices, size=(count, len(self.radices))))
        else:
            rows = self.fresh(self._valid.rows(Remaining(self._valid.count).draw(count, rng)))
        self._draws += count
        self._misses = 0 if len(rows) else self._misses + count
        if self._valid is None and self.size <= LIMIT and self._draws >= self.size:
            self._enumerate()
        elif self._misses >= LIMIT:
            self._given_up = True
        return rows

    def find(self, n: int, rng: np.random.Generator) -> IntArray:
        """Up to `n` points [m, k] as of `draw`, at a bounded cost: it may miss rare ones."""
        found: dict[Row, None] = {}
        tries, spent = 2 * n + 64, 0
        while len(found) < n and self.weight() > 0 and spent < SHORT_PATIENCE:
            last = self._left is not None
            # Among what is left are the points already found: this many give n different ones.
            rows = self.draw(len(found) + n if last else tries, rng)
            found.update(dict.fromkeys(map(tuple, rows.tolist())))
            spent += tries
            tries = min(2 * tries, CHUNK)
            if last:
                break
        return self.as_rows(list(found)[:n])

    def _enumerate(self) -> None:
        numbers = []
        for start in range(0, self.size, CHUNK):
            flat = np.arange(start, min(start + CHUNK, self.size), dtype=np.int64)
            numbers.append(flat[np.asarray(self.sketch.mask(_unflatten(flat, self.radices)), dtype=np.bool_)])
        self._number(_Listed(np.concatenate(numbers), self.radices))

    def _number(self, valid: ValidPointsLike) -> None:
        """Draw from these from now on: they are the valid points, and no others."""
        self._valid, self._left = valid, Remaining(valid.count)
        self._gone = list(self._seen)
        self._settle()

    def _settle(self) -> None:
        if self._gone and self._left is not None and self._valid is not None:
            self._left.remove(self._valid.numbers(self.as_rows(self._gone)))
            self._gone = []


class _Listed:
    """The valid points of a sketch that was enumerated, by their sorted flat numbers."""

    exact = True

    def __init__(self, flat: IntArray, radices: IntArray) -> None:
        self._flat, self._radices = flat, radices
        self.count = len(flat)

    def rows(self, numbers: Any) -> IntArray:
        return _unflatten(self._flat[np.asarray(numbers, dtype=np.int64)], self._radices)

    def numbers(self, rows: IntArray) -> list[int]:
        if not self.count:
            return [-1] * len(rows)
        flat = flattened(rows, self._radices)
        place = np.minimum(np.searchsorted(self._flat, flat), self.count - 1)
        found: list[int] = np.where(self._flat[place] == flat, place, -1).tolist()
        return found


def flattened(rows: IntArray, radices: IntArray) -> IntArray:
    """The number of each of the points [n, k] in lexicographic order."""
    flat = np.zeros(len(rows), dtype=np.int64)
    for column, radix in enumerate(radices.tolist()):
        flat = flat * radix + rows[:, column]
    return flat


def _unflatten(flat: IntArray, radices: IntArray) -> IntArray:
    rows = np.empty((len(flat), len(radices)), dtype=np.int64)
    for column in reversed(range(len(radices))):
        flat, rows[:, column] = np.divmod(flat, radices[column])
    return rows


class Points:
    """The points of all sketches of a space."""

    def __init__(self, space: SpaceLike) -> None:
        self.sketches = [SketchPoints(sketch) for sketch in space.sketches]
        self._round = time.thread_time()

    def valid(self, candidate: Candidate) -> bool:
        """Whether this is a point of the space, feasible or not."""
        return 0 <= candidate.sketch < len(self.sketches) and self.sketches[candidate.sketch].valid(candidate.indices)

    def mark(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Remember these as seen, and return them; those that are no points of the space are dropped."""
        points = [candidate for candidate in candidates if self.valid(candidate)]
        for candidate in points:
            self.sketches[candidate.sketch].mark(candidate.indices)
        return points

    def take(self, n: int, rng: np.random.Generator) -> list[Candidate]:
        """Up to `n` points, uniformly from all that are left in all sketches; none if none is left.

        A draw picks a sketch by how many points it has, at most, and then a point of it, and is rejected
        if that is none, infeasible or seen; so all feasible points are equally likely, whatever sketch they are in.
        """
        found: list[Candidate] = []
        # Few tries at first where each may open another sketch.
        tries, spent = 4 * n + 64 if self._unopened() <= NEW else n, 0
        while len(found) < n and not (found and spent >= PATIENCE):
            weights = np.array([points.weight() for points in self.sketches])
            if weights.sum() == 0:
                break
            counts = rng.multinomial(tries, weights / weights.sum()).tolist()
            for number, count in enumerate(counts):
                points = self.sketches[number]
                if count and not points.opened:
                    points.open()  # it was chosen for the most that it might have; keep its share of what it has
                    counts[number] = int(rng.binomial(count, min(1.0, points.weight() / weights[number])))
            batch = [
                Candidate(number, row)
                for number, count in enumerate(counts)
                for row in map(tuple, self.sketches[number].draw(count, rng).tolist())
            ]
            chosen = [batch[i] for i in rng.permutation(len(batch))[: n - len(found)]]
            found += self.mark(chosen)
            spent += tries
            tries = min(2 * tries, 8 * CHUNK)
        return found

    def _unopened(self) -> int:
        return sum(not points.opened for points in self.sketches)

    def shares(self, n: int, rng: np.random.Generator) -> list[int]:
        """`n` divided evenly over the sketches that have points left; the remainder goes by chance.

        Of those that nothing was drawn from yet, `NEW` take part, by chance. A round begins with this call.
        """
        self._round = time.thread_time()
        live = [number for number, points in enumerate(self.sketches) if points.weight() > 0]
        if self._unopened() > NEW:
            new = [number for number in live if not self.sketches[number].opened]
            chosen = {new[i] for i in rng.permutation(len(new))[:NEW]}
            live = [number for number in live if self.sketches[number].opened or number in chosen]
        shares = [0] * len(self.sketches)
        for number in live:
            shares[number] = n // len(live)
        for position in rng.permutation(len(live))[: n % len(live)] if live else ():
            shares[live[position]] += 1
        return shares

    def due(self, points: SketchPoints, share: int) -> int:
        """The share of a sketch: 0 for one that nothing was drawn from yet, once the time to look at such is over."""
        return share if points.opened or time.thread_time() - self._round <= OPENING_S else 0
