"""Aging evolution: the youngest trials compete, the winner of a small tournament has one child.

Unlike `genetic` it has no generations and no crossover. Each proposal is bred from what is known at
that moment, so nothing waits for a generation to be measured. And everyone dies of age: a point that
was lucky in its one noisy measurement is parent for a while only, unless its children do well.

Source: E. Real, A. Aggarwal, Y. Huang, Q. V. Le, "Regularized Evolution for Image Classifier
Architecture Search", AAAI 2019.
"""

from __future__ import annotations

import numpy as np

from autosched.model.protocol import CostModel
from autosched.search.base import PointStrategy, at_least, within
from autosched.search.moves import neighbours
from autosched.search.protocol import Candidate, SpaceLike

#: Children that are made for each one wanted: some are infeasible or known.
BROOD = 4


class EvolutionarySearch(PointStrategy):
    """Mutates winners of tournaments among the youngest trials.

    `initial`       random points before the first child.
    `population`    the youngest trials, so many, may be parents.
    `tournament`    of so many of them, drawn at random, the fastest is.
    `random_share`  of the proposals are random, in [0, 1].

    `model` is not used. Raises UsageError for an option out of range.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        initial: int = 16,
        population: int = 64,
        tournament: int = 16,
        random_share: float = 0.05,
    ) -> None:
        del model
        at_least("evolutionary", 1, initial=initial, population=population, tournament=tournament)
        within("evolutionary", 0, 1, random_share=random_share)
        self._initial, self._population, self._tournament = initial, population, tournament
        self._random_share = random_share
        super().__init__(space, seed)
        self._births: dict[Candidate, int] = {}  # when each was proposed

    def propose(self, n: int) -> list[Candidate]:
        """Up to `n` children of today's population, and random points."""
        by_chance = self._by_chance(n, self._random_share)
        found = self._children(n - by_chance) if len(self._history) >= self._initial else []
        found += self._space_filling(n - len(found))
        birth = len(self._births)  # one birthday for a batch: in it nobody is older
        self._births.update(dict.fromkeys(found, birth))
        return found

    def _children(self, n: int) -> list[Candidate]:
        """Up to `n` new points, each one move away from a winner."""
        ranked = self._history.ranked()
        # Trials that nobody asked for are the oldest. Of equal age, the faster ones live longer.
        young = sorted(range(len(ranked)), key=lambda place: (-self._births.get(ranked[place][0], -1), place))
        living = np.array(sorted(young[: self._population]), dtype=np.int64)
        if n < 1 or not len(living):
            return []
        # Places in the ranking: the lowest of those drawn is the fastest.
        drawn = self._rng.integers(0, len(living), size=(BROOD * n, self._tournament)).min(axis=1)
        winners = [ranked[place][0] for place in living[drawn].tolist()]
        children: list[Candidate] = []
        for number, points in enumerate(self._points.sketches):
            parents = points.as_rows([winner.indices for winner in winners if winner.sketch == number])
            rows = points.fresh(neighbours(parents, points.radices, self._rng))
            children += [Candidate(number, tuple(row)) for row in rows.tolist()]
        return self._points.mark(children[i] for i in self._rng.permutation(len(children))[:n])
