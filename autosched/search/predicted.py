"""The point of a whole space that a cost model likes best, with nothing measured.

Looking at a sketch lowers it, which takes a part of a second, and there may be hundreds. So sketches are
opened one after the other, always one that is most like the best so far: a descent along the choices that
make sketches differ, as their names tell. In each, a population of points evolves: the best have children,
neighbours and mixtures of two, and all are scored in one batch.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.model.protocol import FloatArray, IntArray
from autosched.search.moves import crossover, neighbours
from autosched.search.points import Points, SketchPoints
from autosched.search.protocol import Candidate, SpaceLike

log = logging.getLogger("autosched.search")

#: Points drawn at random in a sketch, the best that have children, and children in a generation.
DRAWN, PARENTS, CHILDREN = 1024, 64, 512
#: Generations of a first look, and of a second one at the sketches that came out best.
FIRST, SECOND = 3, 12
#: Sketches that get the second look.
FINALISTS = 3


@dataclass(frozen=True)
class Predicted:
    """A candidate and the seconds that are predicted for it."""

    candidate: Candidate
    seconds: float


@dataclass(frozen=True)
class Outlook:
    """The best point of each sketch that was looked at, the best first, and how many points were scored in all."""

    choices: tuple[Predicted, ...]
    points: int


@dataclass
class _Look:
    """The best points of one sketch so far, int64 [n, k], with seconds, the best first."""

    points: SketchPoints
    rows: IntArray
    seconds: FloatArray
    met: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def best(self) -> float:
        return float(self.seconds[0]) if len(self.seconds) else np.inf


def look_ahead(
    space: SpaceLike,
    seconds: Callable[[FloatArray], FloatArray],
    *,
    seed: int = 0,
    sketches: int = 16,
    patience_s: float = 8.0,
) -> Outlook:
    """Points for which `seconds` of their features, float64 [n, F] -> [n], are least.

    At most so many `sketches` that have points are looked at, and none is begun after `patience_s` seconds of work. The
    answer depends on the seed, and on the speed of this machine only where that ends it.
    """
    found = Outlook((), 0)
    for found in outlooks(space, seconds, seed=seed, sketches=sketches, patience_s=patience_s):  # noqa: B007
        pass
    return found


def outlooks(
    space: SpaceLike,
    seconds: Callable[[FloatArray], FloatArray],
    *,
    seed: int = 0,
    sketches: int = 16,
    patience_s: float = 8.0,
) -> Iterator[Outlook]:
    """What `look_ahead` returns at the end, and before it what is known after each step."""
    begun, rng = time.thread_time(), np.random.default_rng(seed)
    points = Points(space).sketches
    choices = [_choices(sketch.name) for sketch in space.sketches]
    looks: dict[int, _Look] = {}
    left = set(range(len(points)))
    while left and len(looks) < sketches and not (looks and time.thread_time() - begun > patience_s):
        number = _next(left, looks, choices)
        left.remove(number)
        look = _Look(points[number], points[number].find(DRAWN, rng), np.empty(0))
        try:
            _evolve(look, seconds, FIRST, rng)
        except Exception as error:  # a program that has no features: other sketches may do
            log.warning("sketch %s is passed over: %s", space.sketches[number].name, error)
        if len(look.seconds):
            looks[number] = look
            yield _outlook(looks)
    for number in sorted(looks, key=lambda number: (looks[number].best, number))[:FINALISTS]:
        _evolve(looks[number], seconds, SECOND, rng)
        yield _outlook(looks)


def _choices(name: str) -> dict[str, str]:
    """The choices in the name of a sketch, `template[a=1, b=left]`, and that of its template."""
    words = list(filter(None, re.split(r"\[|\]|, ", name)))
    return {"": "".join(words[:1])} | dict(word.partition("=")[::2] for word in words[1:])


def _outlook(looks: Mapping[int, _Look]) -> Outlook:
    ranked = sorted(looks, key=lambda number: (looks[number].best, number))
    chosen = [Predicted(Candidate(n, tuple(looks[n].rows[0].tolist())), looks[n].best) for n in ranked]
    return Outlook(tuple(chosen), sum(len(look.met) for look in looks.values()))


def _next(left: set[int], looks: dict[int, _Look], choices: Sequence[Mapping[str, str]]) -> int:
    """The sketch to look at next: the one most like the best so far. Of those it is, by turns, the first one, and the
    one that differs in the earliest choice. A choice that only one of two sketches has is no difference.
    """
    if not looks:
        return min(left)
    best = choices[min(looks, key=lambda number: (looks[number].best, number))]
    order = {name: at for at, name in enumerate(best)}

    def unlike(number: int) -> tuple[int, int, int]:
        own = choices[number]
        differ = [order[name] for name in own.keys() & best.keys() if own[name] != best[name]]
        return len(differ), min(differ, default=-1) if len(looks) % 2 else 0, number

    return min(left, key=unlike)


def _evolve(
    look: _Look, seconds: Callable[[FloatArray], FloatArray], generations: int, rng: np.random.Generator
) -> None:
    """Score points and let the best have children, until there are no new ones any more."""
    for _ in range(generations):
        children = look.rows if not len(look.seconds) else _children(look, rng)
        new = look.points.as_rows([row for row in map(tuple, children.tolist()) if row not in look.met])
        if not len(new):
            return
        look.met.update(map(tuple, new.tolist()))
        found = np.asarray(seconds(look.points.sketch.features(new)), dtype=np.float64)
        rows = np.concatenate([look.rows[: len(look.seconds)], new])
        times = np.concatenate([look.seconds, found])
        order = np.argsort(times, kind="stable")[: 2 * PARENTS]
        look.rows, look.seconds = rows[order], times[order]


def _children(look: _Look, rng: np.random.Generator) -> IntArray:
    """Feasible neighbours and mixtures of the best points."""
    parents = look.rows[:PARENTS]
    # Squared, so that the better ones, which come first, have more children.
    picked = parents[(len(parents) * rng.random(CHILDREN) ** 2).astype(np.int64)]
    mixed = crossover(parents, CHILDREN // 2, rng)
    return look.points.fresh(np.concatenate([neighbours(picked, look.points.radices, rng), mixed]))
