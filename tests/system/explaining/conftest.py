"""A measurer without workers: how long a schedule takes is a function of its trace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from autosched.explaining import explanation as bench
from autosched.measure.protocol import Job, Measurement

Cost = Callable[[list[Any], dict[str, int]], "float | str"]


class PretendMeasurer:
    """Takes what `cost` says: seconds for a trace with knobs, or `status: reason`."""

    cost: Cost
    given: list[Any]

    def __init__(self, graph: Any, target: Any, sketches: dict[str, list[Any]], *rest: Any, **more: Any) -> None:
        self.sketches, self.playoff_errors = sketches, {}
        self.given.append((rest, more))

    def _of(self, job: Job) -> float | str:
        trace = self.sketches[job.sketch] if job.trace is None and job.sketch in self.sketches else job.trace
        return type(self).cost(trace, job.knobs)

    def measure(self, jobs: Sequence[Job]) -> Iterator[Measurement]:
        for job in jobs:
            found = self._of(job)
            if isinstance(found, str):
                status, error = found.split(": ", 1)
                yield Measurement(job, status, error=error)
                continue
            digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()
            yield Measurement(job, "ok", (found,) * 3, digest=digest, verified="full")

    def playoff(self, jobs: Sequence[Job], rounds: int) -> list[tuple[Job, list[float]]]:
        weather = [1 + 0.01 * (r % 3) for r in range(rounds)]
        return [(job, [float(self._of(job)) * w for w in weather]) for job in jobs]

    def close(self) -> None:
        pass


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cost], list[Any]]:
    """`pretend(cost)` replaces measuring; gives what measurers were made of."""

    def replace(cost: Cost) -> list[Any]:
        given: list[Any] = []
        pretended = type("Pretended", (PretendMeasurer,), {"cost": staticmethod(cost), "given": given})
        monkeypatch.setattr(bench, "Measurer", pretended)
        return given

    return replace
