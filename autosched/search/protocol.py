"""The protocol of search strategies, and of the spaces that they see.

The driver (`autosched.tune`) owns the loop. A strategy sees a space and finished trials. It never
sees devices, clocks, budgets or files:

    strategy = Strategy(space, seed=0, model=model)
    while batch := strategy.propose(16):
        strategy.observe([measure(candidate) for candidate in batch])

A space is a sequence of sketches. A sketch has knobs; a point of it is one *index* for each knob,
an index into that knob's values. Points come in batches: int64 matrices [n, k], a row for each
point and a column for each knob, so that checks, features and moves are NumPy one-liners.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from autosched.model.protocol import CostModel, FloatArray, IntArray


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A point of the space: the number of its sketch and an index into each knob's values."""

    sketch: int
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was tried.

    `status` is "ok" or says what failed ("compile", "timeout", "correctness", ...). `seconds` is
    the median of `samples`, in seconds; `inf` if not ok.
    """

    candidate: Candidate
    status: str
    seconds: float = math.inf
    samples: tuple[float, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether `seconds` is a time: the status is "ok", and it is positive and finite."""
        return self.status == "ok" and 0.0 < self.seconds < math.inf


class KnobLike(Protocol):
    """An open integer of a sketch."""

    @property
    def name(self) -> str:
        """Unique within its sketch; knobs of one name in two sketches mean the same thing."""

    @property
    def values(self) -> Sequence[int]:
        """Its possible values. Neighbours in this order are similar."""


class ValidPointsLike(Protocol):
    """The valid points of a sketch, numbered from 0 without gaps."""

    @property
    def count(self) -> int:
        """The number of valid points; possibly more than an int64 holds."""

    @property
    def exact(self) -> bool:
        """Whether those numbered are the feasible points alone. If not, some that `mask` refuses are among them."""

    def rows(self, numbers: Any) -> IntArray:
        """The points int64 [n, k] with these numbers: integers of any kind."""

    def numbers(self, rows: IntArray) -> list[int]:
        """The inverse; -1 for a row that has no number."""


class SketchLike(Protocol):
    """A schedule with open knobs.

    It may have two attributes more. `valid_points`: a `ValidPointsLike` with all feasible points, or None;
    strategies then draw from it instead of rejecting. `most_points`: how many feasible points there
    are at most, known before anything costly is done. Ask for the first by `valid_points_of`.
    """

    @property
    def name(self) -> str:
        """Unique within its space."""

    @property
    def knobs(self) -> Sequence[KnobLike]:
        """Its knobs, possibly none: then it has one point."""

    @property
    def size(self) -> int:
        """Number of points, feasible or not: the product of the numbers of values."""

    def mask(self, indices: IntArray) -> NDArray[np.bool_]:
        """bool [n]: which of the points int64 [n, k] are feasible."""

    def features(self, indices: IntArray) -> FloatArray:
        """float64 [n, F]: the features of the feasible points int64 [n, k]; F as in the space."""


class SpaceLike(Protocol):
    """All that a strategy may use of a search space."""

    @property
    def sketches(self) -> Sequence[SketchLike]:
        """The sketches; `Candidate.sketch` is a position in this sequence."""

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the F features, the same for all sketches."""


@runtime_checkable
class SearchStrategy(Protocol):
    """Chooses what to try next. Constructed as `Strategy(space, *, seed=0, model=None, **options)`.

    `autosched.testing.StrategyContract` is a test suite for what is promised here.
    """

    def propose(self, n: int) -> Sequence[Candidate]:
        """Up to `n` candidates to try next; an empty sequence means that nothing is left.

        Each is feasible, and was neither proposed nor observed before. May be called again before
        anything was observed. The same seed and the same trials give the same proposals.
        """

    def observe(self, trials: Sequence[Trial]) -> None:
        """Learn from finished trials, in whatever order and batches they arrive.

        They need not have been proposed: records of earlier runs come first of all. They may have
        failed, may repeat a candidate, and may be infeasible by now; they are points of this space.
        """


class StrategyFactory(Protocol):
    """A strategy class, or any callable that makes one."""

    def __call__(self, space: Any, *, seed: int = 0, model: CostModel | None = None) -> SearchStrategy:
        """A strategy that has seen nothing."""


def valid_points_of(sketch: SketchLike) -> ValidPointsLike | None:
    """The sketch's valid points, None if it does not number them. May take a while: it may be lowered."""
    found: ValidPointsLike | None = getattr(sketch, "valid_points", None)
    return found


def values_of(space: SpaceLike, candidate: Candidate) -> dict[str, int]:
    """Knob name -> value of a candidate."""
    knobs = space.sketches[candidate.sketch].knobs
    return {knob.name: int(knob.values[i]) for knob, i in zip(knobs, candidate.indices, strict=True)}
