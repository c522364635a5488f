"""Model-guided search, the default: evolve around the best, let a cost model choose what to try.

Each round

1. fits the model to all trials so far (if there are new ones);
2. makes a pool: random points of every sketch, and children of the best ones (neighbours and
   crossover), all of them feasible and new;
3. scores the pool in one batch: predicted throughput plus a share of its uncertainty;
4. takes the best of the pool, but no two that are nearly the same, and some at random.

Until enough is known, and whenever the model cannot help, the points are random and spread out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from autosched.errors import UsageError
from autosched.model.protocol import CostModel, FloatArray, IntArray, UncertainCostModel
from autosched.search.history import History
from autosched.search.moves import crossover, distinct, neighbours, pick_best, repeats, spread
from autosched.search.points import Points
from autosched.search.protocol import Candidate, SpaceLike, Trial

__all__ = ["GuidedSearch"]

log = logging.getLogger("autosched.search")


class GuidedSearch:
    """Evolution around the best trials, steered by a cost model.

    `model`         judges candidates; None: children of the best ones are tried unjudged.
    `initial`       trials to see before the model is asked.
    `batch`         proposals in one call at most, however many are asked for: each batch is
                    chosen with what the one before has taught.
    `pool`          candidates that are scored in a round.
    `parents`       best trials that have children, the better the more.
    `random_share`  of the proposals are random, in [0, 1]: the model cannot talk the search out
                    of a region for good.
    `explore`       weight of the model's standard deviation in a score.

    Raises UsageError for an option out of range, or a model with other features than the space.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        initial: int = 24,
        batch: int = 64,
        pool: int = 1024,
        parents: int = 32,
        random_share: float = 0.1,
        explore: float = 0.5,
    ) -> None:
        for option, value in (("initial", initial), ("batch", batch), ("pool", pool), ("parents", parents)):
            if value < 1:
                raise UsageError(f"{option}={value} is not a positive number", asked="strategy 'guided'")
        if not 0 <= random_share <= 1:
            raise UsageError(f"random_share={random_share} is not in [0, 1]", asked="strategy 'guided'")
        if explore < 0:
            raise UsageError(f"explore={explore} is negative", asked="strategy 'guided'")
        if model is not None and tuple(model.feature_names) != tuple(space.feature_names):
            raise UsageError(
                f"the cost model has {len(model.feature_names)} features, the space {len(space.feature_names)}, "
                "or other names",
                asked="strategy 'guided'",
                legal="make the model with the space's feature_names",
            )
        self._space = space
        self._model = model
        self._initial, self._batch, self._pool, self._parents = initial, batch, pool, parents
        self._random_share, self._explore = random_share, explore
        self._rng = np.random.default_rng(seed)
        self._points = Points(space)
        self._history = History()
        self._fitted = 0
        self._seen_features: FloatArray = np.empty((0, len(space.feature_names)))
        self._used = [[np.zeros(r, dtype=np.int64) for r in p.radices.tolist()] for p in self._points.sketches]
        #: What the model last failed with, for reports; empty if it did not.
        self.model_error = ""

    def propose(self, n: int) -> list[Candidate]:
        """Up to `min(n, batch)` candidates."""
        n = min(n, self._batch)
        if n < 1:
            return []
        ranked = [candidate for candidate, _ in self._history.ranked()]
        chosen: list[Candidate] = []
        if len(self._history) >= self._initial and ranked:
            by_chance = int(n * self._random_share + self._rng.random())
            chosen = self._points.mark(self._choose(self._make_pool(ranked), n - by_chance))
        chosen += self._spread_out(n - len(chosen))
        # An empty answer means that nothing is left, so make sure of it.
        return chosen or self._points.take(1, self._rng)

    def observe(self, trials: Sequence[Trial]) -> None:
        """Learn from trials; those that are not points of this space are ignored."""
        known = [trial for trial in trials if self._points.valid(trial.candidate)]
        self._points.mark(trial.candidate for trial in known)
        self._history.add(known)

    def _spread_out(self, n: int) -> list[Candidate]:
        """Up to `n` random points, the sketches in equal shares, the knob values in equal shares.

        Fewer than `n` where feasible points are rare: a sketch must not slow each round down.
        """
        found: list[Candidate] = []
        before = -1
        while before < len(found) < n:
            before = len(found)
            for number, share in enumerate(self._points.shares(n - before, self._rng)):
                points = self._points.sketches[number]
                rows = points.find(8 * share, self._rng)
                best = spread(rows, share, self._used[number])
                found += self._points.mark([Candidate(number, tuple(rows[i].tolist())) for i in best])
        return found

    def _make_pool(self, ranked: Sequence[Candidate]) -> list[IntArray]:
        """For each sketch, new feasible points [m, k]: some random, most of them children of the best."""
        parents = self._choose_parents(ranked)
        total = sum(len(rows) for rows in parents)
        shares = self._points.shares(self._pool // 4, self._rng)
        pool = []
        for points, share, rows in zip(self._points.sketches, shares, parents, strict=True):
            parts = [points.draw(4 * share, self._rng)[:share]]
            if len(rows):
                count = -(-self._pool * len(rows) // total)
                mixed = crossover(rows, count // 3, self._rng)
                # Squared, so that the better ones, which come first, have more children.
                picked = rows[(len(rows) * self._rng.random(count - len(mixed)) ** 2).astype(np.int64)]
                children = neighbours(np.concatenate([picked, mixed]), points.radices, self._rng)
                parts.append(points.fresh(np.concatenate([children, mixed])))
            pool.append(distinct(np.concatenate(parts)))
        return pool

    def _choose_parents(self, ranked: Sequence[Candidate]) -> list[IntArray]:
        """For each sketch its points among the best of all, and in any case its own two best."""
        by_sketch: list[list[tuple[int, ...]]] = [[] for _ in self._points.sketches]
        for place, candidate in enumerate(ranked):
            rows = by_sketch[candidate.sketch]
            if place < self._parents or len(rows) < 2:
                rows.append(candidate.indices)
        return [points.as_rows(rows) for points, rows in zip(self._points.sketches, by_sketch, strict=True)]

    def _choose(self, pool: Sequence[IntArray], n: int) -> list[Candidate]:
        """The `n` best of the pool by the model; without its help, any `n` of the pool."""
        sketches = np.concatenate([np.full(len(rows), number) for number, rows in enumerate(pool)])
        rows = [tuple(row) for part in pool for row in part.tolist()]
        if not rows or n < 1:
            return []
        # Shuffled, so that equal scores favour nothing.
        order = self._rng.permutation(len(rows))
        scores = self._scores(pool)
        if scores is None:
            scores = np.zeros(len(rows))
        best = pick_best([rows[i] for i in order], sketches[order], scores[order], n)
        return [Candidate(int(sketches[order[i]]), rows[order[i]]) for i in best]

    def _scores(self, pool: Sequence[IntArray]) -> FloatArray | None:
        """The model's scores of the whole pool, or None if it has none to give.

        A model is a plug-in and may fail in any way; that must not end a run, so everything it
        raises is caught, logged once and kept in `model_error`.
        """
        if self._model is None:
            return None
        try:
            self._fit(self._model)
            if not self._model.ready:
                return None
            features = self._features(pool)
            if isinstance(self._model, UncertainCostModel):
                mean, std = self._model.predict_with_std(features)
                scores = np.asarray(mean + self._explore * std, dtype=np.float64)
            else:
                scores = np.asarray(self._model.predict(features), dtype=np.float64)
            if scores.shape != (len(features),) or not np.isfinite(scores).all():
                raise ValueError(f"predict gave shape {list(scores.shape)} or values that are not finite")
            # Points that look alike to the model are most likely one program: try one of them,
            # and the others when nothing else is left.
            return scores - repeats(self._seen_features, features) * (np.ptp(scores) + 1.0)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if told != self.model_error:
                log.warning("the cost model failed, the search goes on without it: %s", told)
            self.model_error = told
            return None

    def _fit(self, model: CostModel) -> None:
        if self._fitted == self._history.version:
            return
        trials = self._history.rows()
        rows, times = [], []
        for number, points in enumerate(self._points.sketches):
            mine = [(candidate.indices, seconds) for candidate, seconds in trials if candidate.sketch == number]
            tried = points.as_rows([indices for indices, _ in mine])
            # An old record may be infeasible by now; then its features mean nothing.
            sound = np.asarray(points.sketch.mask(tried), dtype=np.bool_)
            rows.append(tried[sound])
            times.append(np.array([seconds for _, seconds in mine], dtype=np.float64)[sound])
        features, seconds = self._features(rows), np.concatenate(times)
        model.fit(features, seconds, np.zeros(len(seconds), dtype=np.int64))
        self._fitted, self._seen_features = self._history.version, features

    def _features(self, pool: Sequence[IntArray]) -> FloatArray:
        parts = [
            np.asarray(sketch.features(rows), dtype=np.float64)
            for sketch, rows in zip(self._space.sketches, pool, strict=True)
            if len(rows)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self._space.feature_names)))
