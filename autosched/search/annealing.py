"""Simulated annealing on the cost model: many chains walk where the model predicts speed.

It is AutoTVM's XGBTuner with its SimulatedAnnealingOptimizer (tvm/autotvm/tuner/xgboost_tuner.py and
sa_model_optimizer.py). The chains are as many and persist from plan to plan, the temperature falls
linearly to 0, and of what the chains came across the best are proposed. They walk fewer steps than
AutoTVM's 500: with the trials of one run the model is no better than that. At each step a chain looks
at several neighbours and goes for the best of them, because looking at many points of a sketch at once
costs little more than looking at one.

Source: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by Simulated Annealing",
Science 220, 1983; T. Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.model.protocol import CostModel, FloatArray, IntArray
from autosched.search.base import PointStrategy, at_least, within
from autosched.search.model_scorer import ModelScorer
from autosched.search.moves import neighbours, pick_best
from autosched.search.points import Points, feasible
from autosched.search.protocol import Candidate, SpaceLike

#: Times as many of the best points met are kept as are asked for, for the diversity filter to choose from.
KEPT = 4


class AnnealingSearch(PointStrategy):
    """Proposes the best points that annealing chains meet on the model's predictions.

    `model`         judges points; without it, and until it is ready, the points are random.
    `plan`          trials after which the model is asked first, and proposals in one call at most.
    `chains`        points that walk side by side.
    `steps`         how far each walks for a plan, at most.
    `tries`         neighbours that a chain chooses from at a step.
    `patience`      a walk ends after this many steps in which no chain met one of the best.
    `temperature`   at the start, in units of the standard deviation of the chains' scores; 0 at the end.
    `random_share`  of the proposals are random, in [0, 1].
    `diverse`       whether points that are nearly the same are kept apart in a plan.

    Raises UsageError for an option out of range, or a model with other features than the space.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        plan: int = 16,
        chains: int = 128,
        steps: int = 12,
        tries: int = 5,
        patience: int = 4,
        temperature: float = 1.0,
        random_share: float = 0.05,
        diverse: bool = True,
    ) -> None:
        at_least("annealing", 1, plan=plan, chains=chains, steps=steps, tries=tries, patience=patience)
        at_least("annealing", 0, temperature=temperature)
        within("annealing", 0, 1, random_share=random_share)
        self._plan, self._count, self._steps, self._patience = plan, chains, steps, patience
        self._tries = tries
        self._temperature, self._random_share, self._diverse = temperature, random_share, diverse
        super().__init__(space, seed)
        self._scorer = ModelScorer(space, self._points, self._history, model, name="annealing")
        self._chains: list[Candidate] = []  # where the last walk ended, best first

    @property
    def model_error(self) -> str:
        """The model's last error, for reports; empty if there was none."""
        return self._scorer.error

    def propose(self, n: int) -> list[Candidate]:
        """Up to `min(n, plan)` candidates."""
        n = min(n, self._plan)
        found: list[Candidate] = []
        by_chance = self._by_chance(n, self._random_share)
        if n > by_chance and (self._scorer.primed or len(self._history) >= self._plan) and self._scorer.learn():
            found = self._points.mark(self._anneal(n - by_chance))
        return found + self._space_filling(n - len(found))

    def _anneal(self, n: int) -> list[Candidate]:
        """Up to `n` points: walk all chains, and choose from the best points they met."""
        at = self._start()
        scores = self._scorer.predict(at)
        if scores is None or not len(scores):
            return []
        met = _Best(self._points, KEPT * n)
        met.add(at, scores)
        scale = self._temperature * float(scores.std())
        idle = 0
        for step in range(self._steps):
            around = [
                neighbours(np.repeat(r, self._tries, axis=0), p.radices, self._rng)
                for r, p in zip(at, self._points.sketches, strict=True)
            ]
            looked = self._scored(around)
            if looked is None:
                break
            moved, offered = _best_of_each(around, looked, self._tries)
            # Metropolis' rule: a better score always, a worse one the less often the colder it is.
            heat = scale * (1.0 - step / self._steps)
            accepted = offered - scores > heat * np.log(1.0 - self._rng.random(len(scores)))
            at, scores = _where(accepted, moved, at), np.where(accepted, offered, scores)
            idle = 0 if met.add(around, looked) else idle + 1
            if idle == self._patience:
                break
        self._chains = [candidate for _, candidate in _ranked(at, scores)]
        return met.choose(n, self._diverse)

    def _start(self) -> list[IntArray]:
        """A matrix of points for each sketch: the better half of where the last walk ended, some of
        the best trials, and random points of all sketches.
        """
        chosen = dict.fromkeys(self._chains[: self._count // 2])
        chosen.update(dict.fromkeys([candidate for candidate, _ in self._history.ranked()[: self._count // 4]]))
        shares = self._points.shares(self._count - len(chosen), self._rng)
        rows = []
        for number, (points, share) in enumerate(zip(self._points.sketches, shares, strict=True)):
            known = feasible(points.sketch, points.as_rows([c.indices for c in chosen if c.sketch == number]))
            rows.append(np.concatenate([known, points.find(self._points.due(points, share), self._rng)]))
        return rows

    def _scored(self, rows: Sequence[IntArray]) -> FloatArray | None:
        """Scores of the points, -inf where infeasible; None when the model fails."""
        sound = [np.asarray(p.sketch.mask(r), dtype=np.bool_) for p, r in zip(self._points.sketches, rows, strict=True)]
        keep = np.concatenate(sound)
        scores = np.full(len(keep), -np.inf)
        if not keep.any():
            return scores
        known = self._scorer.predict([r[passed] for r, passed in zip(rows, sound, strict=True)])
        if known is None:
            return None
        scores[keep] = known
        return scores


class _Best:
    """The `size` best points met that nobody has tried."""

    def __init__(self, points: Points, size: int) -> None:
        self._points, self._size = points, size
        self._found: dict[Candidate, float] = {}
        self._floor = -np.inf

    def add(self, rows: Sequence[IntArray], scores: FloatArray) -> bool:
        """Whether one of them is new and among the best."""
        new = {
            candidate: score
            for score, candidate in _ranked(rows, scores, above=self._floor)
            if candidate not in self._found and candidate.indices not in self._points.sketches[candidate.sketch]
        }
        if new:
            best = sorted({**self._found, **new}.items(), key=lambda one: (-one[1], one[0]))[: self._size]
            self._found = dict(best)
            self._floor = best[-1][1] if len(best) == self._size else -np.inf
        return bool(new)

    def choose(self, n: int, diverse: bool) -> list[Candidate]:
        """`n` of them, the best; where `diverse`, those that are nearly the same only if need be."""
        found = list(self._found)
        return pick_best(found, np.array([*self._found.values()]), n) if diverse else found[:n]


def _ranked(rows: Sequence[IntArray], scores: FloatArray, above: float = -np.inf) -> list[tuple[float, Candidate]]:
    """The points with a score above that, the best first."""
    sketches = np.concatenate([np.full(len(part), number) for number, part in enumerate(rows)])
    places = np.concatenate([np.arange(len(part)) for part in rows])
    order = np.argsort(-scores, kind="stable")
    return [
        (float(scores[i]), Candidate(int(sketches[i]), tuple(rows[sketches[i]][places[i]].tolist())))
        for i in order[scores[order] > above]
    ]


def _best_of_each(rows: Sequence[IntArray], scores: FloatArray, tries: int) -> tuple[list[IntArray], FloatArray]:
    """Of every `tries` points in a row the one that scores best, and these scores."""
    best = scores.reshape(-1, tries).argmax(axis=1)
    parts = np.split(best, np.cumsum([len(part) // tries for part in rows])[:-1]) if len(rows) else []
    chosen = [part[np.arange(len(at)) * tries + at] for part, at in zip(rows, parts, strict=True)]
    return chosen, scores.reshape(-1, tries).max(axis=1)


def _where(take: NDArray[np.bool_], some: Sequence[IntArray], others: Sequence[IntArray]) -> list[IntArray]:
    """For each point, that of `some` where `take`, else that of `others`."""
    parts = np.split(take, np.cumsum([len(part) for part in some])[:-1]) if len(some) else []
    return [np.where(t[:, None], s, o) for t, s, o in zip(parts, some, others, strict=True)]
