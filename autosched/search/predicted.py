"""The point of a whole space that a cost model likes best, with nothing measured.

Looking at a sketch lowers it, which takes a part of a second, and there may be hundreds. So sketches are
opened one after the other, always one that is most like the best so far: a descent along the choices that
make sketches differ, as their names tell. In each, a population of points evolves: the best have children,
neighbours and mixtures of two, and all are scored in one batch.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.model.protocol import FloatArray, IntArray
from autosched.search.moves import crossover, neighbours
from autosched.search.points import Points, SketchPoints
from autosched.search.protocol import Candidate, SpaceLike

__all__ = ["Predicted", "best_predicted"]

#: Points drawn at random in a sketch, the best that have children, and children in a generation.
DRAWN, PARENTS, CHILDREN = 1024, 64, 512
#: Generations of a first look, and of a second one at the sketches that came out best.
FIRST, SECOND = 3, 12
#: Sketches that get the second look.
FINALISTS = 3


@dataclass(frozen=True)
class Predicted:
    """A choice: the candidate, the seconds predicted for it, and how many sketches and points were looked at."""

    candidate: Candidate
    seconds: float
    sketches: int
    points: int


@dataclass
class _Look:
    """What is known of one sketch: its best points int64 [n, k] with seconds, the best first."""

    points: SketchPoints
    rows: IntArray
    seconds: FloatArray
    met: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def best(self) -> float:
        return float(self.seconds[0]) if len(self.seconds) else np.inf


def best_predicted(
    space: SpaceLike,
    seconds: Callable[[FloatArray], FloatArray],
    *,
    seed: int = 0,
    sketches: int = 16,
    patience_s: float = 8.0,
) -> Predicted | None:
    """The point for which `seconds` of its features, float64 [n, F] -> [n], is least; None if there is no point.

    At most so many `sketches` are looked at that have points, and none is begun after `patience_s` seconds of work. The
    answer depends on the seed, and on the speed of this machine only where that ends it.
    """
    begun, rng = time.thread_time(), np.random.default_rng(seed)
    points = Points(space).sketches
    words = [_words(sketch.name) for sketch in space.sketches]
    looks: dict[int, _Look] = {}
    left = set(range(len(points)))
    while left and sum(len(x.rows) > 0 for x in looks.values()) < sketches:
        if looks and time.thread_time() - begun > patience_s and any(len(x.rows) for x in looks.values()):
            break
        number = _next(left, looks, words)
        left.remove(number)
        looks[number] = _begin(points[number], rng)
        _evolve(looks[number], seconds, FIRST, rng)
    ranked = sorted((x.best, number) for number, x in looks.items() if len(x.rows))
    for _, number in ranked[:FINALISTS]:
        _evolve(looks[number], seconds, SECOND, rng)
    if not ranked:
        return None
    best = min((x.best, number) for number, x in looks.items() if len(x.rows))[1]
    row = tuple(int(i) for i in looks[best].rows[0])
    return Predicted(Candidate(best, row), looks[best].best, len(ranked), sum(len(x.met) for x in looks.values()))


def _words(name: str) -> frozenset[str]:
    """The choices in the name of a sketch, `template[a=1, b=left]`, and that of its template."""
    return frozenset(word for word in re.split(r"\[|\]|, ", name) if word)


def _next(left: set[int], looks: dict[int, _Look], words: Sequence[frozenset[str]]) -> int:
    """The sketch to look at next: the one most like the best so far, and of those the first."""
    known = [(x.best, number) for number, x in looks.items() if len(x.rows)]
    if not known:
        return min(left)
    best = min(known)[1]
    return min(left, key=lambda number: (len(words[number] ^ words[best]), number))


def _begin(points: SketchPoints, rng: np.random.Generator) -> _Look:
    return _Look(points, points.find(DRAWN, rng), np.empty(0))


def _evolve(look: _Look, seconds: Callable[[FloatArray], FloatArray], generations: int, rng: np.random.Generator) -> None:
    """Score what was not scored yet, and let the best have children, until no child is among the best any more."""
    idle = 0
    for _ in range(generations):
        if len(look.seconds):
            parents = look.rows[:PARENTS]
            # Squared, so that the better ones, which come first, have more children.
            picked = parents[(len(parents) * rng.random(CHILDREN) ** 2).astype(np.int64)]
            mixed = crossover(parents, CHILDREN // 2, rng)
            new = np.concatenate([neighbours(picked, look.points.radices, rng), mixed])
            new = look.points.fresh(new)
        else:
            new = look.rows
        new = look.points.as_rows([row for row in map(tuple, new.tolist()) if row not in look.met])
        look.met.update(map(tuple, new.tolist()))
        if not len(new):
            if not len(look.seconds) or idle:
                break
            idle += 1
            continue
        idle = 0
        found = np.asarray(seconds(look.points.sketch.features(new)), dtype=np.float64)
        old = look.rows[: len(look.seconds)]
        rows, times = np.concatenate([old, new]), np.concatenate([look.seconds, found])
        order = np.argsort(times, kind="stable")[: 2 * PARENTS]
        look.rows, look.seconds = rows[order], times[order]
