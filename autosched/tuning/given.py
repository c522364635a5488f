"""`try_candidate`: the way of one trial of `tune`, for a candidate that somebody chose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autosched.measure.protocol import MeasureOptions
from autosched.records import Record
from autosched.runtime.device import resolve_target
from autosched.search import Candidate, Trial
from autosched.search_options import SearchOptions
from autosched.space.workload import Workload
from autosched.target import TargetLike
from autosched.tuning.arguments import listener
from autosched.tuning.events import Event, TuneResult
from autosched.tuning.proposals import Proposals
from autosched.tuning.run import Run

#: The strategy that records of such trials name.
BY_HAND = "by hand"


class _One:
    """A strategy that proposes one candidate, once."""

    def __init__(self, candidate: Candidate) -> None:
        self._left = [candidate]

    def propose(self, n: int) -> Sequence[Candidate]:
        found, self._left = self._left[:n], self._left[n:]
        return found

    def observe(self, trials: Sequence[Trial]) -> None:
        """Nothing is learnt."""


class _Given(Run):
    candidate: Candidate

    def choose_strategy(self) -> None:
        self.strategy = _One(self.candidate)
        self.proposals = Proposals(self.strategy, False)

    def _foreseen(self) -> list[Candidate]:
        return []


def try_candidate(
    workload: Workload,
    target: TargetLike,
    candidate: Candidate,
    *,
    space: str = "",
    rules: Sequence[Any] = (),
    sizes: dict[str, int] | None = None,
    records: str | Path | None = None,
    measure: MeasureOptions | None = None,
    progress: Callable[[Event], None] | None = None,
) -> tuple[Record | None, TuneResult]:
    """Build, verify and time one candidate of a search space beside the default schedule and the best on record, and
    record it. (Its record, the result of the play-off).

    Arguments are those of `tune`, which raises the same errors.
    """
    to = workload.compiled_for(resolve_target(target))
    options = SearchOptions(strategy=BY_HAND, space=space, rules=rules, records=records, measure=measure)
    run = _Given(workload, to, options, sizes=sizes, trials=1, say=listener(progress))
    run.candidate = candidate
    run.choose_strategy()
    result = run.go()
    return (run.measured[0] if run.measured else None), result
