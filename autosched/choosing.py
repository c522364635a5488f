"""What a model of this machine chooses from a space, at usual sizes and where one of them is short.

Vectors along rows of three elements are loops of their own for each row: such rows are better left to other schedules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.runtime.device import with_machine
from autosched.space.space import DEFAULT, SearchSpace
from autosched.space.workload import Workload
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.model import AnalyticalModel
    from autosched.search.predicted import Predicted

#: Sketches that are looked at, and seconds after which none is begun.
SKETCHES, PATIENCE_S = 12, 1.5
#: How many times as fast the default schedule has to look to be chosen: the model counts many stages beside each other
#: too dear, which the default has in plain nests.
AHEAD = 1.5
#: A short dimension: less than any vector, and no power of two.
SHORT = 3
#: How many times as fast a schedule has to look where a dimension is short, to be compiled beside the usual one.
WORTH_A_VERSION = 1.5
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
    """What is better while the dimension `size` has less than `below` elements."""

    size: str
    below: int
    choice: Foreseen


def machine_model(feature_names: Sequence[str], target: Target) -> AnalyticalModel | None:
    """The analytical model of a target on this machine; None where there is none of its device, or of these
    features."""
    from autosched.model import prior_for  # a build that finds a record needs no model

    limits = with_machine(target).limits
    return prior_for(feature_names, is_gpu_style=target.is_gpu_style, units=target.num_threads, limits=limits)


def choices_by_model(
    w: Workload, target: Target, at: dict[str, int], unknown: Sequence[str] = ()
) -> Iterator[tuple[Foreseen | None, str]]:
    """Better and better choices; or None once, and why there is none. The last has those for `unknown` sizes that are
    short, the shortest first: where two are short, that one is taken which ends earlier."""
    space = w.search_space(with_machine(target), at)
    prior = machine_model(space.feature_names, target)
    if prior is None:
        yield None, "no prediction: there is no model of this device"
        return
    best = None
    for best in _choices(space, prior, SKETCHES, PATIENCE_S):
        yield _named(space, best), ""
    if best is None:
        yield None, "no prediction: its search space has no valid point"
        return
    found: list[Short] = []
    for name in unknown[:MOST_SHORT]:
        space = space.at(_with_one_short(at, name, unknown))
        if (one := _where_short(space, prior, best, name, at[name])) is not None:
            found.append(one)
            yield replace(_named(space, best), short=tuple(sorted(found, key=lambda x: x.below))), ""


def _with_one_short(at: dict[str, int], name: str, unknown: Sequence[str]) -> dict[str, int]:
    """Sizes of which one is short and the other unknown ones are longer, so that there are as many points."""
    others = [x for x in unknown if x != name]
    longer = (at[name] / SHORT) ** (1 / max(1, len(others)))
    return {**at, **{x: round(at[x] * longer) for x in others}, name: SHORT}


def _choices(space: SearchSpace, prior: AnalyticalModel, sketches: int, patience_s: float) -> Iterator[Predicted]:
    """Better and better points of a space at its sizes."""
    from autosched.search.predicted import outlooks  # as above

    for outlook in outlooks(space, prior.seconds, sketches=sketches, patience_s=patience_s):
        first = outlook.choices[0]
        close = (c for c in outlook.choices if c.seconds <= AHEAD * first.seconds)
        yield next((c for c in close if space.sketches[c.candidate.sketch].name != DEFAULT), first)


def _named(space: SearchSpace, found: Predicted) -> Foreseen:
    sketch = space.sketches[found.candidate.sketch]
    return Foreseen(sketch.name, sketch.trace, sketch.values(found.candidate.indices), found.seconds)


def _plain(space: SearchSpace) -> list[Predicted]:
    """The default schedule, where that is in a space; nothing is predicted for it yet."""
    from autosched.search.predicted import Predicted  # as above
    from autosched.search.protocol import Candidate

    named = (number for number, sketch in enumerate(space.sketches) if sketch.name == DEFAULT)
    return [Predicted(Candidate(number, ()), math.inf) for number in named]


def _where_short(
    space: SearchSpace, prior: AnalyticalModel, usual: Predicted, name: str, usual_length: int
) -> Short | None:
    """The choice at the sizes of a space, of which `name` is short, if that is worth a version of its own; and the
    length from which on the usual one is better, odd ones of which each vector's end is another."""

    def seconds(one: Predicted, length: int) -> float:
        sketch = space.sketches[one.candidate.sketch].at({name: length})
        return float(prior.seconds(sketch.features(np.array([one.candidate.indices], dtype=np.int64)))[0])

    better = list(_choices(space, prior, SHORT_SKETCHES, SHORT_PATIENCE_S))
    better += (replace(x, seconds=seconds(x, SHORT)) for x in _plain(space))
    best = min(better, key=lambda one: one.seconds, default=None)
    if best is None or WORTH_A_VERSION * best.seconds > seconds(usual, SHORT):
        return None
    lengths = takewhile(lambda n: n < usual_length, (2**power + 1 for power in count(2)))
    below = next((n for n in lengths if seconds(usual, n) <= seconds(best, n)), usual_length)
    return Short(name, below, _named(space, best))
