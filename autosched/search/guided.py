"""Model-guided search: evolve around the best, let a cost model choose what to try.

Each round

1. fits the model to all trials so far (if there are new ones);
2. makes a pool: random points of every sketch, and children of the best ones (neighbours and
   crossover), all of them feasible and new;
3. scores the pool in one batch: predicted throughput plus a share of its uncertainty;
4. takes the best of the pool, but no two that are nearly the same, and some at random.

Until enough is known, and whenever the model cannot help, the points are random and spread out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.model.protocol import CostModel, IntArray
from autosched.search.base import PointStrategy, at_least, within
from autosched.search.model_scorer import ModelScorer
from autosched.search.moves import crossover, distinct, neighbours, pick_best
from autosched.search.protocol import Candidate, SpaceLike


class GuidedSearch(PointStrategy):
    """Evolution around the best trials, steered by a cost model.

    `model`         judges candidates; None: children of the best ones are tried unjudged.
    `initial`       trials to see before the model is asked; a primed model is asked at once.
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
        initial: int = 16,
        batch: int = 64,
        pool: int = 1024,
        parents: int = 32,
        random_share: float = 0.1,
        explore: float = 0.5,
    ) -> None:
        at_least("guided", 1, initial=initial, batch=batch, pool=pool, parents=parents)
        within("guided", 0, 1, random_share=random_share)
        at_least("guided", 0, explore=explore)
        self._initial, self._batch, self._pool, self._parents = initial, batch, pool, parents
        self._random_share = random_share
        super().__init__(space, seed)
        self._scorer = ModelScorer(space, self._points, self._history, model, name="guided", explore=explore)

    @property
    def model_error(self) -> str:
        """The model's last error, for reports; empty if there was none."""
        return self._scorer.error

    def propose(self, n: int) -> list[Candidate]:
        """Up to `min(n, batch)` candidates."""
        n = min(n, self._batch)
        if n < 1:
            return []
        ranked = [candidate for candidate, _ in self._history.ranked()]
        chosen: list[Candidate] = []
        if self._scorer.primed or (ranked and len(self._history) >= self._initial):
            by_chance = self._by_chance(n, self._random_share)
            chosen = self._points.mark(self._choose(self._make_pool(ranked), n - by_chance))
        return chosen + self._space_filling(n - len(chosen))

    def _make_pool(self, ranked: Sequence[Candidate]) -> list[IntArray]:
        """For each sketch, new feasible points [m, k]: some random, most of them children of the best."""
        parents = self._choose_parents(ranked)
        total = sum(len(rows) for rows in parents)
        shares = self._points.shares(self._pool // 4 if total else self._pool, self._rng)
        pool = []
        for points, share, rows in zip(self._points.sketches, shares, parents, strict=True):
            share = self._points.due(points, share)
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
        if n < 1 or not any(map(len, pool)):
            return []
        candidates = [Candidate(number, tuple(row)) for number, rows in enumerate(pool) for row in rows.tolist()]
        # Shuffled, so that equal scores favour nothing.
        order = self._rng.permutation(len(candidates))
        scores = self._scorer.predict(pool) if self._scorer.learn() else None
        if scores is None:
            scores = np.zeros(len(candidates))
        return pick_best([candidates[i] for i in order], scores[order], n)
