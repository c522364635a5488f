"""A genetic algorithm: generations, parents chosen by fitness, single-point crossover, mutation.

It is AutoTVM's `GATuner` (tvm/autotvm/tuner/ga_tuner.py), with two differences. Its population is
smaller, because with 100 the first 100 trials are all random. And the sketch is a gene: parents are
of one sketch, and a mutation of that gene gives a random point of another.

Source: J. H. Holland, Adaptation in Natural and Artificial Systems, 1975; fitness-proportional
selection of D. E. Goldberg, Genetic Algorithms, 1989, section 1.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.model.protocol import CostModel, FloatArray, IntArray
from autosched.search.base import PointStrategy, at_least, within
from autosched.search.protocol import Candidate, SpaceLike, Trial

#: A generation is bred at most this often to have all its children new; the rest is random.
LITTERS = 8


class GeneticSearch(PointStrategy):
    """Generation after generation, each bred from the one before and from the elite.

    `population`  points in a generation.
    `elite`       best points of all so far that are parents of every generation.
    `mutation`    chance of each gene of a child to become any value, in [0, 1].
    `pressure`    fitness is throughput to this power: how much more often the faster ones breed.

    `model` is not used. Raises UsageError for an option out of range.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        population: int = 24,
        elite: int = 3,
        mutation: float = 0.1,
        pressure: float = 2.0,
    ) -> None:
        del model
        at_least("genetic", 1, population=population)
        at_least("genetic", 0, elite=elite, pressure=pressure)
        within("genetic", 0, 1, mutation=mutation)
        self._population, self._elite, self._mutation, self._pressure = population, elite, mutation, pressure
        super().__init__(space, seed)
        self._generation: list[Candidate] = []  # the youngest, proposed or not
        self._unborn: list[Candidate] = []  # those of it that are still to be proposed

    def propose(self, n: int) -> list[Candidate]:
        """Up to `n` points of this generation and of those that follow."""
        found: list[Candidate] = []
        while len(found) < n:
            if not self._unborn:
                self._generation = self._breed()
                self._unborn = list(self._generation)
                if not self._unborn:
                    break
            missing = n - len(found)
            found += self._unborn[:missing]
            del self._unborn[:missing]
        return found

    def _take_in(self, trials: list[Trial]) -> None:
        told = {trial.candidate for trial in trials}
        self._unborn = [child for child in self._unborn if child not in told]

    def _breed(self) -> list[Candidate]:
        """The next generation, all of it new; random points where the parents have nothing new to give."""
        parents, fitness = self._parents()
        children: list[Candidate] = []
        for _ in range(LITTERS if len(parents) > 1 else 0):
            missing = self._population - len(children)
            if missing == 0:
                break
            litter = self._litter(parents, fitness, missing)
            strangers = int(self._rng.binomial(len(litter), self._mutation)) if len(self._points.sketches) > 1 else 0
            children += self._points.mark(litter[strangers:]) + self._space_filling(strangers)
        return children + self._space_filling(self._population - len(children))

    def _parents(self) -> tuple[list[Candidate], FloatArray]:
        """Candidates that may breed, with their fitness, best first.

        They are the generation as far as it is measured, and the elite. Where little of it is
        measured, as at the start of a resumed run, the best of all are.
        """
        ranked = self._history.ranked()
        members = set(self._generation)
        known = [row for row in ranked if row[0] in members]
        if 2 * len(known) < self._population:
            known = ranked[: self._population]
        chosen = dict(ranked[: self._elite] + known)
        seconds = np.array(list(chosen.values()))
        fitness = (seconds.min(initial=np.inf) / seconds) ** self._pressure
        return list(chosen), fitness

    def _litter(self, parents: Sequence[Candidate], fitness: FloatArray, n: int) -> list[Candidate]:
        """Up to `n` feasible children that were not seen, in random order."""
        sketches = np.array([parent.sketch for parent in parents])
        mothers = self._rng.choice(len(parents), size=n, p=fitness / fitness.sum())
        children: list[Candidate] = []
        for number, points in enumerate(self._points.sketches):
            ours = np.flatnonzero(sketches == number)
            count = int((sketches[mothers] == number).sum())
            if not count:
                continue
            rows = points.as_rows([parents[i].indices for i in ours.tolist()])
            bred = self._cross(rows, fitness[ours] / fitness[ours].sum(), count)
            mutate = self._rng.random(bred.shape) < self._mutation
            bred = np.where(mutate, self._rng.integers(0, np.maximum(points.radices, 1), size=bred.shape), bred)
            children += [Candidate(number, tuple(row)) for row in points.fresh(bred).tolist()]
        return [children[i] for i in self._rng.permutation(len(children))]

    def _cross(self, rows: IntArray, chances: FloatArray, count: int) -> IntArray:
        """`count` children [count, k]: a mother's genes up to a random knob, a father's from there on."""
        mothers, fathers = (rows[self._rng.choice(len(rows), size=count, p=chances)] for _ in range(2))
        width = rows.shape[1]
        cuts = self._rng.integers(0, max(width, 1), size=(count, 1))
        return np.where(np.arange(width) < cuts, mothers, fathers)
