"""Schedules measured one batch after the other, for programs that search for themselves.

`autosched.tune` measures what it proposes; a `Bench` measures what it is given, in the same way: each candidate is
compiled and run in processes of its own, and its results are compared with the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autosched.measure import MeasureOptions
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, Measurement
from autosched.runtime.device import resolve_target
from autosched.space.workload import Workload
from autosched.target import Target

#: Times the limits of a first candidate: its processes have libraries to load
PATIENCE = 6.0


class Bench:
    """Measures schedules of one workload on one target. A context manager: it keeps worker processes.

    inputs: arrays to run and verify on; by default the workload's own
    """

    def __init__(
        self, workload: Workload, target: Target, options: MeasureOptions, inputs: Sequence[np.ndarray] | None = None
    ) -> None:
        to = workload.compiled_for(resolve_target(target))
        arrays = list(inputs) if inputs is not None else workload.sample_inputs()
        self._count = 0
        self._measurer = Measurer(
            workload.graph, to, {}, arrays, workload.reference(arrays), replace(workload.adjusted(options), race=False),
            initial=workload.initial(arrays), roundings=workload.roundings(to),
        )  # fmt: skip

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._measurer.close()

    def measure(self, traces: Sequence[Any]) -> list[Measurement]:
        """Measure schedules, given as traces without knobs, in JSON. Return an outcome for each, in order."""
        first = self._count
        self._count += len(traces)
        jobs = [
            Job(first + i, f"given {first + i}", {}, 1.0 if first + i else PATIENCE, trace)
            for i, trace in enumerate(traces)
        ]
        found = {m.job.id: m for m in self._measurer.measure(jobs)}
        return [found[job.id] for job in jobs]


class KeptBench:
    """The bench of the last workload that was measured, so that its processes serve one batch after the other."""

    def __init__(self) -> None:
        self._key: Any = None
        self._bench: Bench | None = None

    def of(self, key: Any, make: Callable[[], Bench]) -> Bench:
        """Return the bench of a key, made anew unless it is that of the last call."""
        if self._bench is None or self._key != key:
            if self._bench is not None:
                self._bench.close()
            self._bench, self._key = make(), key
        return self._bench

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptBench, ()  # processes stay where they are
