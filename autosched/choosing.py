"""What a model of this machine chooses from a space, at usual sizes and where one of them is short.

Vectors along rows of three elements are loops of their own for each row: such rows are better left to other schedules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from autosched.errors import RecordError
from autosched.ir.expr import Expr, compare, floormod, logical_and, logical_or
from autosched.runtime.device import with_machine
from autosched.schedule.schedule import replay
from autosched.space.space import DEFAULT, SearchSpace, Sketch, make_sketch, sketching_until, with_default
from autosched.space.workload import Workload
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.model import AnalyticalModel

#: Seconds of computing after which no more sketches are made, those that are looked at, and seconds after which no look
#: is begun.
SKETCHING_S, SKETCHES, PATIENCE_S = 0.75, 12, 1.5
#: How many times as fast the default schedule has to look to be chosen: the model counts many stages beside each other
#: too dear, which the default has in plain nests.
AHEAD = 1.3
#: A short dimension: less than any vector, and no power of two.
SHORT = 3
#: How many times as fast a schedule has to look where a dimension is short, to be compiled beside the usual one.
WORTH_A_VERSION = 1.5
#: Lanes that the vectors of a schedule may have: at multiples, it is better from another length on than at odd lengths.
LANES = (8, 16, 32, 64, 128)
#: How much longer a schedule takes where its vectors have a rest, by which their lanes are told.
DEAR_REST = 1.25
#: Dimensions that are tried short, sketches that are looked at for each, and seconds after which none is begun.
MOST_SHORT, SHORT_SKETCHES, SHORT_PATIENCE_S = 3, 6, 0.4


@dataclass(frozen=True)
class Foreseen:
    """A model's choice: the name of a sketch, its trace, knob values, and the seconds that it expects."""

    sketch: str
    trace: list[Any]
    knobs: dict[str, int]
    seconds: float
    short: tuple[Short, ...] = ()


@dataclass(frozen=True)
class Short:
    """What is better while the dimension `size` has less than `below` elements; of multiples of `lanes`, which leave
    no rest of vectors, less than `whole`."""

    size: str
    below: int
    lanes: int
    whole: int
    choice: Foreseen

    def condition(self, size: Expr) -> Expr:
        """Whether a dimension of that length is short."""
        if self.whole >= self.below:
            return size < self.below
        has_rest = compare("ne", floormod(size, self.lanes), 0)
        return logical_and(size < self.below, logical_or(size < self.whole, has_rest))

    def __str__(self) -> str:
        text = f"{self.size} < {self.below}"
        return text if self.whole >= self.below else f"{text}, but for multiples of {self.lanes} from {self.whole} on"


#: a choice that is made already: its trace, and the values of its knobs
Usual = tuple[list[Any], Mapping[str, int]]


def machine_model(feature_names: Sequence[str], target: Target) -> AnalyticalModel | None:
    """The analytical model of a target on this machine; None where there is none of its device, or of these
    features."""
    from autosched.model import prior_for  # a build that finds a record needs no model

    limits = with_machine(target).limits
    return prior_for(feature_names, is_gpu_style=target.is_gpu_style, units=target.num_threads, limits=limits)


class _Point(NamedTuple):
    """A sketch with values of its knobs."""

    sketch: Sketch
    indices: tuple[int, ...]

    def seconds(self, prior: AnalyticalModel, sizes: Mapping[str, int]) -> float:
        """What the model expects at some sizes."""
        rows = np.array([self.indices], dtype=np.int64)
        return float(prior.seconds(self.sketch.at(sizes).features(rows))[0])

    def named(self, seconds: float) -> Foreseen:
        return Foreseen(self.sketch.name, self.sketch.trace, self.sketch.values(self.indices), seconds)


def choices_by_model(
    w: Workload, target: Target, at: dict[str, int], unknown: Sequence[str] = (), usual: Usual | None = None
) -> Iterator[tuple[Foreseen | None, str]]:
    """Better and better choices; or None once, and why there is none. The last has those for `unknown` sizes that are
    short, the shortest first: where two are short, that one is taken which ends earlier. Where the `usual` choice is
    known, those are all that is looked for."""
    with sketching_until(computing_s=SKETCHING_S):
        space = w.search_space(with_machine(target), at)
    prior = machine_model(space.feature_names, target)
    if prior is None:
        yield None, "no prediction: there is no model of this device"
        return
    best, expected, points = None, math.inf, _choices(space, prior, SKETCHES, PATIENCE_S)
    if usual is not None:
        known = _known(w, target, at, *usual)
        points = iter([(known, known.seconds(prior, at))])
    for best, expected in points:
        yield best.named(expected), ""
    if best is None:
        yield None, "no prediction: its search space has no valid point"
        return
    found: list[Short] = []
    for name in unknown[:MOST_SHORT]:
        sizes = _with_one_short(at, name, unknown)
        space = with_default(space.at(sizes), sizes)
        if (one := _where_short(space, prior, best, name, at[name])) is not None:
            found.append(one)
            yield replace(best.named(expected), short=tuple(sorted(found, key=lambda x: x.below))), ""


def _known(w: Workload, target: Target, at: dict[str, int], trace: Any, knobs: Mapping[str, int]) -> _Point:
    """The point that a trace with values is. Raises AutoschedError for what does not replay."""
    sketch = make_sketch("recorded", w, replay(trace, w.args), with_machine(target), at)
    indices = sketch.indices_of(knobs)
    if indices is None:
        raise RecordError("its knobs have other values", asked=f"record of {w.name}")
    return _Point(sketch, indices)


def _with_one_short(at: dict[str, int], name: str, unknown: Sequence[str]) -> dict[str, int]:
    """Sizes of which one is short and the other unknown ones are longer, so that there are as many points."""
    others = [x for x in unknown if x != name]
    longer = (at[name] / SHORT) ** (1 / max(1, len(others)))
    return {**at, **{x: round(at[x] * longer) for x in others}, name: SHORT}


def _choices(
    space: SearchSpace, prior: AnalyticalModel, sketches: int, patience_s: float
) -> Iterator[tuple[_Point, float]]:
    """Better and better points of a space at its sizes, and the seconds that each takes."""
    from autosched.search.predicted import outlooks  # as above

    for outlook in outlooks(space, prior.seconds, sketches=sketches, patience_s=patience_s):
        first = outlook.choices[0]
        close = (c for c in outlook.choices if c.seconds <= AHEAD * first.seconds)
        one = next((c for c in close if space.sketches[c.candidate.sketch].name != DEFAULT), first)
        yield _Point(space.sketches[one.candidate.sketch], one.candidate.indices), one.seconds


def _where_short(
    space: SearchSpace, prior: AnalyticalModel, usual: _Point, name: str, usual_length: int
) -> Short | None:
    """The choice at the sizes of a space, of which `name` is short, if that is worth a version of its own; and the
    lengths from which on the usual one is better: an odd one, and a multiple of its lanes."""
    sizes = space.sketches[0].sizes
    points = [point for point, _ in _choices(space, prior, SHORT_SKETCHES, SHORT_PATIENCE_S)]
    points += [_Point(sketch, ()) for sketch in space.sketches if sketch.name == DEFAULT]

    def seconds(point: _Point, length: int) -> float:
        return point.seconds(prior, {**sizes, name: length})

    best = min(points, key=lambda point: seconds(point, SHORT), default=None)
    if best is None or WORTH_A_VERSION * seconds(best, SHORT) > seconds(usual, SHORT):
        return None
    lanes = next((n for n in LANES if seconds(usual, 3 * n + 1) > DEAR_REST * seconds(usual, 3 * n)), 1)

    def is_over(length: int) -> bool:
        return length >= usual_length or seconds(usual, length) <= seconds(best, length)

    below = min(first_length(is_over, 4) + 1, usual_length)
    whole = min(first_length(lambda n: is_over(n - 1), lanes), usual_length) if lanes > 1 else below
    return Short(name, below, lanes, whole, best.named(seconds(best, SHORT)))


def first_length(is_over: Callable[[int], bool], unit: int) -> int:
    """The first of some multiples of a unit, about an eighth apart, whose next length is over an end.

    >>> first_length(lambda n: n > 290, 4)
    320
    """
    end = next(n for n in (unit << power for power in count()) if is_over(n + 1))
    between = range(end // 2, end, max(unit, end // 16))
    return next((n for n in between if n > end // 2 and is_over(n + 1)), end)
