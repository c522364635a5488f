"""A search space made of formulas: it needs no compiler, no device and no time.

It has what a strategy needs of a space (`SpaceLike`), and `measure` in place of a device. Its optimum
is known, so a test can count the trials that a strategy needs to come close to it.

A sketch's time is 1 at its optimum, plus terms that are zero there and positive elsewhere: a bowl
in each knob, valleys in pairs of knobs (as a tile's area has to fit a cache), and a ripple, so that
one step at a time gets stuck. Some feasible points fail when measured, as kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autosched.model.protocol import FloatArray, IntArray
from autosched.search.protocol import Candidate, Trial


@dataclass(frozen=True, slots=True)
class SyntheticKnob:
    """A knob by its name and values."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class SyntheticSketch:
    """Knobs, a constraint on their values, and a formula for the time.

    `optimum` holds the index of the best value of each knob; it must be feasible. `cost` is the
    time there in seconds. `constraint` takes values int64 [n, k] and returns bool [n].
    `number` (its position) and `names` (all knobs of the space) are set by the space.
    """

    name: str
    knobs: tuple[SyntheticKnob, ...]
    optimum: tuple[int, ...]
    cost: float = 1e-3
    constraint: Callable[[IntArray], NDArray[np.bool_]] | None = None
    number: int = 0
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of points, feasible or not."""
        return math.prod(len(knob.values) for knob in self.knobs)

    def values(self, indices: IntArray) -> IntArray:
        """Knob values int64 [n, k] of the points [n, k]. Raises IndexError for a point out of range."""
        columns = [np.array(knob.values, dtype=np.int64)[indices[:, j]] for j, knob in enumerate(self.knobs)]
        return np.stack(columns, axis=1) if columns else np.empty((len(indices), 0), dtype=np.int64)

    def mask(self, indices: IntArray) -> NDArray[np.bool_]:
        """bool [n]: which points satisfy the constraint."""
        if self.constraint is None:
            return np.ones(len(indices), dtype=np.bool_)
        return np.asarray(self.constraint(self.values(indices)), dtype=np.bool_)

    def features(self, indices: IntArray) -> FloatArray:
        """float64 [n, F]: the sketch's number, log2 of each knob by name, and of neighbouring products."""
        logs = np.log2(self.values(indices).astype(np.float64))
        table = np.zeros((len(indices), 1 + 2 * len(self.names)))
        table[:, 0] = self.number
        for j, knob in enumerate(self.knobs):
            column = 1 + 2 * self.names.index(knob.name)
            table[:, column] = logs[:, j]
            table[:, column + 1] = logs[:, j] + logs[:, (j + 1) % len(self.knobs)]
        return table

    def seconds(self, indices: IntArray) -> FloatArray:
        """float64 [n]: the time of each point, `cost` at the optimum and more everywhere else."""
        spans = np.maximum([len(knob.values) - 1 for knob in self.knobs], 1)
        away = (indices - np.array(self.optimum, dtype=np.int64)) / spans
        pairs = away + np.roll(away, 1, axis=1)
        ripple = np.sin(7.0 * indices + np.arange(len(self.knobs))) ** 2 * (away != 0)
        slower = (4.0 * away**2).sum(axis=1) + np.abs(pairs).sum(axis=1) + 0.1 * ripple.sum(axis=1)
        return np.asarray(self.cost * (1.0 + slower), dtype=np.float64)

    def fails(self, indices: IntArray) -> NDArray[np.bool_]:
        """bool [n]: which points are feasible but fail: about one in fifteen, never the optimum."""
        mixed = (indices * (2 * np.arange(len(self.knobs)) + 3)).sum(axis=1) % 15
        elsewhere = (indices != np.array(self.optimum, dtype=np.int64)).any(axis=1)
        return np.asarray((mixed == 7) & elsewhere)


class SyntheticSpace:
    """A space of synthetic sketches.

    >>> space = SyntheticSpace.small()
    >>> space.measure([space.best])[0].seconds == space.best_seconds
    True
    """

    def __init__(self, sketches: Sequence[SyntheticSketch]) -> None:
        names = tuple(dict.fromkeys(knob.name for sketch in sketches for knob in sketch.knobs))
        self.sketches = tuple(replace(sketch, number=i, names=names) for i, sketch in enumerate(sketches))
        self.feature_names = ("sketch", *(f"{kind}.{name}" for name in names for kind in ("log", "area")))

    @property
    def best(self) -> Candidate:
        """The fastest point of all."""
        number = min(range(len(self.sketches)), key=lambda i: self.sketches[i].cost)
        return Candidate(number, self.sketches[number].optimum)

    @property
    def best_seconds(self) -> float:
        """The time of the fastest point."""
        return min(sketch.cost for sketch in self.sketches)

    def is_feasible(self, candidate: Candidate) -> bool:
        """Whether the candidate is a point of the space and satisfies the constraint."""
        if not 0 <= candidate.sketch < len(self.sketches):
            return False
        sketch = self.sketches[candidate.sketch]
        inside = len(candidate.indices) == len(sketch.knobs) and all(
            0 <= i < len(knob.values) for i, knob in zip(candidate.indices, sketch.knobs, strict=True)
        )
        return inside and bool(sketch.mask(_row(candidate))[0])

    def measure(self, candidates: Sequence[Candidate]) -> list[Trial]:
        """The trial of each, in order, always the same. Raises IndexError for one that is no point."""
        trials = []
        for candidate in candidates:
            sketch, row = self.sketches[candidate.sketch], _row(candidate)
            if not self.is_feasible(candidate):
                trials.append(Trial(candidate, "constraints"))
            elif sketch.fails(row)[0]:
                trials.append(Trial(candidate, "runtime"))
            else:
                seconds = float(sketch.seconds(row)[0])
                trials.append(Trial(candidate, "ok", seconds, (seconds,)))
        return trials

    def points(self, feasible: bool = True) -> list[Candidate]:
        """All feasible (or all infeasible) points, in lexicographic order; for small spaces."""
        found = []
        for number, sketch in enumerate(self.sketches):
            shape = tuple(len(knob.values) for knob in sketch.knobs)
            rows = np.array(list(np.ndindex(shape)), dtype=np.int64).reshape(sketch.size, len(shape))
            kept = rows[sketch.mask(rows) == feasible]
            found += [Candidate(number, tuple(row)) for row in kept.tolist()]
        return found

    @staticmethod
    def single() -> SyntheticSpace:
        """One sketch with no knobs: one point."""
        return SyntheticSpace([SyntheticSketch("only", (), ())])

    @staticmethod
    def empty() -> SyntheticSpace:
        """A sketch none of whose points is feasible."""
        knobs = (_powers("tile", 4), _powers("vec", 3))
        return SyntheticSpace([SyntheticSketch("never", knobs, (0, 0), constraint=_never)])

    @staticmethod
    def small() -> SyntheticSpace:
        """Three sketches, one without knobs; 77 points, of which 53 are feasible."""
        tiled = (_powers("tile_y", 4), _powers("tile_x", 4), _powers("vec", 4))
        return SyntheticSpace(
            [
                SyntheticSketch("tiled", tiled, (2, 3, 2), 1e-3, lambda v: v[:, 1] % v[:, 2] == 0),
                SyntheticSketch("rows", (_powers("tile_y", 4), SyntheticKnob("parallel", (1, 2, 4))), (1, 2), 2e-3),
                SyntheticSketch("plain", (), (), 5e-3),
            ]
        )

    @staticmethod
    def standard() -> SyntheticSpace:
        """Three sketches, some 190,000 points: large enough to tell strategies apart."""
        tiles = (_powers("tile_y", 9), _powers("tile_x", 9), _powers("vec", 6), _powers("unroll", 5))
        both = (*tiles, SyntheticKnob("threads", (1, 2, 3, 4, 6, 8, 12, 16)), _powers("prefetch", 9))
        return SyntheticSpace(
            [
                SyntheticSketch("plain", (_powers("vec", 6), _powers("unroll", 5)), (3, 2), 4e-3),
                SyntheticSketch("tiled", tiles, (4, 6, 3, 1), 1.5e-3, _fits),
                SyntheticSketch("parallel", both, (3, 7, 3, 2, 5, 2), 1e-3, _fits),
            ]
        )

    @staticmethod
    def huge() -> SyntheticSpace:
        """More points than an int64 can number (10**24), one in five of them feasible."""
        knobs = tuple(SyntheticKnob(f"k{i}", tuple(range(1, 11))) for i in range(24))
        return SyntheticSpace(
            [SyntheticSketch("huge", knobs, (4,) * 24, 1e-3, lambda v: (v.sum(axis=1) + v[:, 0]) % 5 == 0)]
        )


def _powers(name: str, count: int) -> SyntheticKnob:
    return SyntheticKnob(name, tuple(2**i for i in range(count)))


def _fits(values: IntArray) -> NDArray[np.bool_]:
    """A vector divides its tile, and the tile fits a cache."""
    tile_y, tile_x, vec = values[:, 0], values[:, 1], values[:, 2]
    return np.asarray((tile_x % vec == 0) & (tile_y * tile_x <= 2**13))


def _never(values: IntArray) -> NDArray[np.bool_]:
    return np.zeros(len(values), dtype=np.bool_)


def _row(candidate: Candidate) -> IntArray:
    return np.array(candidate.indices, dtype=np.int64).reshape(1, len(candidate.indices))
