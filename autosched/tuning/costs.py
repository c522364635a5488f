"""What a search makes small: the seconds of a trial, or what stands for the objective of its user."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autosched.records import Record
from autosched.search import Candidate, Trial
from autosched.space.tunable import Objective

__all__ = ["Costs"]


class Costs:
    """Without an objective, costs are seconds."""

    def __init__(self, objective: Objective | None) -> None:
        self.objective = objective

    def samples(self, knobs: dict[str, int], seconds: Sequence[float]) -> list[float]:
        """A cost for each sample in seconds."""
        return list(seconds) if self.objective is None else list(self.objective.costs(knobs, seconds))

    def of(self, r: Record) -> float:
        """A record's; `inf` for a failure."""
        if self.objective is None or not r.ok or not r.samples:
            return r.seconds
        return statistics.median(self.samples(r.knobs, r.samples))

    def trial(self, candidate: Candidate, r: Record) -> Trial:
        """A record as strategies see it. One whose objective is no number is a failure to them."""
        if self.objective is None or not r.ok:
            return Trial(candidate, r.status, r.seconds, r.samples)
        costs = tuple(self.samples(r.knobs, r.samples))
        good = bool(costs) and all(map(math.isfinite, costs))
        return Trial(candidate, r.status, self.of(r), costs) if good else Trial(candidate, "runtime")
