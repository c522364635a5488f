"""Populations of a task's space: states drawn by chance, and bred from others by a model's scores.

A generation is scored, its best are kept, and the next one is made of it: parents by chance in proportion to their
scores, most of them with some lengths changed.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.search import Candidate
from autosched.search.moves import neighbours
from autosched.search.points import Points
from autosched.space.space import SearchSpace
from autosched.tvm.auto_scheduler.loop_state import Base, State, StateObject, in_order, object_of
from autosched.tvm.tuning_common import one_for_each

#: Members of a generation unless a program says otherwise: Ansor's 2,048 take a model written in Python minutes.
MEMBERS = 256


class Population:
    """States of a search space, by chance and by descent."""

    def __init__(self, task: Any, space: SearchSpace, rng: np.random.Generator) -> None:
        self.task, self.space, self._rng = task, space, rng
        self._names: dict[int, tuple[str, ...]] = {}

    @staticmethod
    def most(params: Mapping[str, Any]) -> int:
        """The members of a generation."""
        given = int(params["evolutionary_search_population"])
        return MEMBERS if given == 2048 else given

    def state(self, candidate: Candidate) -> State:
        """Return the state that a point of the space is."""
        sketch, dag = self.space.sketches[candidate.sketch], self.task.compute_dag
        if candidate.sketch not in self._names:
            self._names[candidate.sketch] = tuple(x.name for x in in_order(sketch.schedule(), dag))
        knobs = tuple(sorted(sketch.values(candidate.indices).items()))
        base = Base(json.dumps(sketch.trace), self._names[candidate.sketch], knobs, sketch.name)
        return State(StateObject(base=base, point=(self.space, candidate)), dag)

    def draw(self, n: int) -> list[State]:
        """Return n states by chance, or all there are."""
        return [self.state(c) for c in Points(self.space).take(n, self._rng)]

    def candidate(self, state: Any) -> Candidate:
        """Return the point that a state is. Raises UsageError for one that is not of the space."""
        given = object_of(state, self.task.compute_dag)
        point = given.point
        if point is not None and point[0] is self.space:
            return point[1]  # type: ignore[no-any-return]
        base = given.base
        at = None if base is None else self.space.find(json.loads(base.trace))
        indices = None if at is None or base is None else self.space.sketches[at].indices_of(dict(base.knobs))
        if at is None or indices is None:
            raise UsageError(
                "a state is not of the policy's space",
                asked="evolutionary_search",
                legal="states of sample_initial_population, or of records of the same task",
            )
        return Candidate(at, indices)

    def bred(
        self, begin: Sequence[Any], n: int, model: Any, params: Mapping[str, Any], known: Container[Candidate] = ()
    ) -> list[State]:
        """Return the n best that the model has seen in some generations after these, less those that are known."""
        members = [self.candidate(state) for state in begin]
        best: dict[Candidate, float] = {}
        for generation in range(int(params["evolutionary_search_num_iters"]) + 1):
            if not members:
                break
            unique = list(dict.fromkeys(members))
            scored = model.predict(self.task, [self.state(c) for c in unique])
            rated = dict(zip(unique, one_for_each(scored, len(unique), "predict of the cost model"), strict=True))
            best.update({c: float(score) for c, score in rated.items() if c not in known and score > float("-inf")})
            if generation < int(params["evolutionary_search_num_iters"]):
                scores = np.array([float(rated[c]) for c in members])
                members = self._children(members, scores, self.most(params), params)
        ranked = sorted(best, key=lambda c: -best[c])
        by_chance = min(n - 1, int(float(params["eps_greedy"]) * n)) if known else 0
        chosen = ranked[: n - by_chance]
        chosen += [c for c in Points(self.space).take(by_chance, self._rng) if c not in known and c not in chosen]
        return [self.state(c) for c in chosen]

    def _children(
        self, members: Sequence[Candidate], scores: np.ndarray, count: int, params: Mapping[str, Any]
    ) -> list[Candidate]:
        weights = np.maximum(np.nan_to_num(scores, neginf=0.0), 0.0)
        shares = weights / weights.sum() if weights.sum() > 0 else None
        drawn = self._rng.choice(len(members), size=count, p=shares)
        changed = self._rng.random(count) < float(params["evolutionary_search_mutation_prob"])
        children = [members[i] for i in drawn[~changed]]
        parents: dict[int, list[tuple[int, ...]]] = {}
        for i in drawn[changed]:
            parents.setdefault(members[i].sketch, []).append(members[i].indices)
        for number, rows in parents.items():
            sketch = self.space.sketches[number]
            radices = np.array([len(k.values) for k in sketch.knobs], dtype=np.int64)
            moved = neighbours(np.array(rows, dtype=np.int64).reshape(len(rows), -1), radices, self._rng)
            children += [Candidate(number, tuple(row)) for row in moved[sketch.mask(moved)].tolist()]
        return children
