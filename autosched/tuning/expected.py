"""What outputs are compared with: the NumPy reference, or what a stand-in computes where that would take too long.

The reference shares no code with what it judges, but may take longer than a whole run may. Then a run with a budget
goes on with the plain loops, built and run like a candidate, for devices on this CPU: they share the compiler with what
they judge, and no schedule. Where they take too long as well it is the default schedule, on the target itself. That is
what `build` takes without a record, so no candidate is less certain than no tuning at all. Records say which it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autosched.deadline import TooLate, within
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import variables
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job
from autosched.records import PLAIN
from autosched.space.default import plain_schedule
from autosched.space.tunable import Tunable
from autosched.space.workload import Workload
from autosched.target import Target

#: The part of a budget in seconds that the reference may take, and again what stands in for it.
REFERENCE_SHARE = 0.25
#: Seconds that it may take in any case, and the part of a budget that these may be: a stand-in takes as long to build.
LEAST_REFERENCE_S, MOST_SHARE = 1.5, 0.5
#: Times as long is waited for it where nothing can stand in for it: it alone sees how far last bits move floats.
PATIENCE = 3.0
#: Seconds that a call of a stand-in may take in any case: on a busy machine a short one may wait for a core.
LEAST_S = 2.0


def reference_limit_s(budget_s: float | None) -> float | None:
    """Seconds that the reference may take in a run with this budget; None for no limit."""
    if budget_s is None:
        return None
    return max(REFERENCE_SHARE * budget_s, min(LEAST_REFERENCE_S, MOST_SHARE * budget_s))


@dataclass
class Expected:
    """The right outputs of a workload for some inputs, None for one that is not compared, and the errors allowed.

    `is_late`: the reference would have taken more than `limit_s` seconds; `by_stand_in` puts others in its place.
    `hopeless`: why nothing can be compared, because nothing can stand in for it; empty where something can.
    `reference_s`: the seconds that it took; None where it was stopped.
    """

    workload: Tunable
    target: Target
    inputs: Sequence[np.ndarray]
    limit_s: float | None
    is_late: bool = False

    def __post_init__(self) -> None:
        w = self.workload
        self.outputs: list[np.ndarray | None] = []
        self.reference_s: float | None = None
        self.roundings = w.roundings(self.target)
        self.hopeless = ""
        if self.limit_s is None or not isinstance(w, Workload):
            self._by_reference()
            return
        # How far floats that hang on the last bits of others move is seen by the reference alone.
        is_alone = any(r.undecided for r in self.roundings)
        limit_s = self.limit_s * (PATIENCE if is_alone else 1.0)
        try:
            with within(limit_s):
                self._by_reference()
        except TooLate:
            self.is_late = True
            self.outputs = [None] * len(self.roundings)
            if is_alone:
                why = "results hang on the last bits of floats, of which it alone tells how far they move them"
                self.hopeless = f"the NumPy reference takes more than {limit_s:.1f} s of the budget, and {why}"

    def _by_reference(self) -> None:
        before = time.monotonic()
        self.outputs = list(self.workload.reference(self.inputs))
        self.roundings = self.workload.roundings(self.target, self.inputs, self.outputs)
        self.reference_s = time.monotonic() - before

    @property
    def doubt(self) -> str:
        """Why equal outputs say little about a candidate; empty where they say enough."""
        names = [t.name for t in getattr(self.workload, "outputs", ())]
        blind = [n for n, x in zip(names, self.outputs, strict=False) if x is not None and _has_no_number(x)]
        if not blind:
            return ""
        of = " and ".join(blind)
        return f"no element of {of} is a finite number, so comparing shows little: give inputs, @workload(inputs=..)"

    @property
    def is_unknown(self) -> bool:
        """Whether `by_stand_in` has yet to be called."""
        return self.is_late and not self.hopeless and any(x is None for x in self.outputs)

    @property
    def initial(self) -> Sequence[np.ndarray | None]:
        """The outputs before a call; None for one that every call overwrites, where it is known what it must be."""
        return self._like() if self.is_unknown or self.hopeless else self.workload.initial(self.inputs)

    def _like(self) -> list[np.ndarray]:
        w = self.workload
        assert isinstance(w, Workload)
        sizes = w.sizes_of(self.inputs)
        values = {v: sizes[v.name] for t in w.outputs for d in t.shape for v in variables(d)}
        shapes = [[int(n) for n in evaluate(t.shape, values)] if t.shape else [] for t in w.outputs]
        return [np.zeros(shape, t.dtype.numpy) for shape, t in zip(shapes, w.outputs, strict=True)]

    def verdict(self, verified: str) -> str:
        """The `verified` of a record, for that of a measurement."""
        if self.hopeless:
            return "no"
        return PLAIN if self.is_late and verified != "no" else verified

    def by_stand_in(self, measurer: Measurer, default: Job, until: float | None) -> str:
        """Let a measurer, made with `initial`, compare with what the plain loops compute, or the `default` schedule.

        Nothing goes on after `until`, a time of the monotonic clock. Where neither ends in time it is `hopeless`.
        Returns a message; empty where it is.
        """
        w = self.workload
        assert isinstance(w, Workload) and self.limit_s is not None
        limit_s = max(LEAST_S, self.limit_s)
        much = f"the NumPy reference takes more than {self.limit_s:.1f} s, its part of the budget"
        by = "those of the plain loops, which share the compiler with them"
        found, why = self._by_plain_loops(measurer, limit_s, until)
        if why:
            by = f"those of the default schedule, as the plain loops fail: {why}"
            found, late = measurer.outputs_of(default, self._like(), limit_s, until)
            if late:
                others = f"nothing could stand in for it (plain loops: {why}; default schedule: {late})"
                self.hopeless = f"{much}, and {others}"
                return ""
        self.outputs = [*found]
        measurer.compare_with(self.outputs, w.initial(self.inputs), self.roundings)
        return f"{much}, so outputs are compared with {by}"

    def _by_plain_loops(self, measurer: Measurer, limit_s: float, until: float | None) -> tuple[list[np.ndarray], str]:
        """(what the plain loops compute, empty), or (nothing, why). A GPU would run them on one of its thousand lanes,
        so in place of a device it is this CPU."""
        w = self.workload
        assert isinstance(w, Workload)
        here = w.compiled_for(Target("llvm")) if self.target.is_gpu_style else self.target
        trace: list[Any] = plain_schedule(w.args, here).trace.to_json()
        job = Job(-1, "plain loops", trace=trace)
        if here is self.target:
            return measurer.outputs_of(job, self._like(), limit_s, until)
        options = replace(measurer.options, builders=1)
        with Measurer(w.graph, here, {}, self.inputs, self.outputs, options, initial=self._like()) as other:
            return other.outputs_of(job, self._like(), limit_s, until)


def _has_no_number(x: np.ndarray) -> bool:
    """Whether elements of a float type are NaN or infinite, all of them."""
    return x.size > 0 and x.dtype.kind not in "biu" and not np.isfinite(x).any()
