"""`ask_and_tell`: a search whose candidates the caller measures, in whatever way."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autosched.building import as_workload
from autosched.errors import UsageError, expect
from autosched.lowering.pipeline import lower_structure
from autosched.planning import Plan
from autosched.records import Record, RecordLog
from autosched.records.record import of_records
from autosched.runtime.device import resolve_target
from autosched.runtime.module import Module
from autosched.schedule.schedule import replay
from autosched.schedule.trace import Trace
from autosched.search import DEFAULT, Candidate, Trial
from autosched.search_options import SearchOptions
from autosched.space.space import SearchSpace
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target, TargetLike
from autosched.tuning.session import Session


@dataclass(frozen=True)
class Asked:
    """A candidate to try: the name of its sketch and the values of its knobs."""

    sketch: str
    knobs: Mapping[str, int] = field(hash=False)
    candidate: Candidate = field(repr=False)
    study: Study = field(repr=False, compare=False)

    @property
    def trace(self) -> list[Any]:
        """The sketch's trace, with the knobs open, as records keep it."""
        return self.study.space.sketches[self.candidate.sketch].trace

    def as_python(self) -> str:
        """The schedule as Python source, with the knobs' values in it."""
        return Trace.from_json(self.trace).as_python(knobs=dict(self.knobs))

    def build(self) -> Module:
        """Compile it. Raises what `autosched.build` raises for a schedule."""
        w, target = self.study.workload, self.study.target
        schedule = replay(self.trace, w.args)
        structure = lower_structure(schedule, w.args, target, w.name)
        about = {"kind": "asked", "record": None, "sketch": self.sketch, "knobs": dict(self.knobs), "note": "asked"}
        return Plan(w.name, w.args, schedule, dict(self.knobs), structure, target, about).compile()


def ask_and_tell(
    what: Workload | WorkloadFunction[...],
    target: TargetLike = None,
    *,
    space: str = "",
    rules: Sequence[Any] = (),
    strategy: str = DEFAULT,
    strategy_options: Mapping[str, Any] | None = None,
    model: str = "xgb",
    seed: int = 0,
    sizes: dict[str, int] | None = None,
    warm_start: RecordLog | Iterable[Record] = (),
    records: str | Path | None = None,
) -> Study:
    """A search for the fastest schedule that measures nothing: ask it for candidates, tell it their times.

    space:      `templates`, `auto` or `all`, and `rules`: as `tune` takes them
    sizes:      lengths of the dimensions that the workload leaves open; by default its own
    warm_start: records to learn from first; those of another workload, size, target or device are not used
    records:    a file to append a record of everything told to, which `warm_start` and `tune` can read

    Raises UsageError for an unknown strategy or option, WorkloadError when there is no template for
    the target.
    """
    expect(what, "a workload", hasattr(as_workload(what), "search_space"), "ask_and_tell")
    options = SearchOptions(
        strategy=strategy, strategy_options=strategy_options, model=model, space=space, rules=rules, transfer=False,
        seed=seed,
    )  # fmt: skip
    options.check("ask_and_tell")
    is_log = isinstance(warm_start, (RecordLog, Iterable))
    expect(warm_start, "a RecordLog, or records", is_log, "ask_and_tell(warm_start=..)")
    is_path = records is None or isinstance(records, (str, Path))
    expect(records, "the path of a file", is_path, "ask_and_tell(records=..)")
    workload = as_workload(what)
    at, to = workload.sizes_of(workload.sample_inputs(sizes)), workload.compiled_for(resolve_target(target))
    study = Study(workload, to, options, at, None if records is None else RecordLog(Path(records)))
    study.choose_strategy()
    known = warm_start.read().records if isinstance(warm_start, RecordLog) else warm_start
    study.learn(of_records(known, "ask_and_tell(warm_start=..)"))
    return study


class Study(Session):
    """A search of `ask_and_tell`. `trials` has all that is known, `best` the fastest."""

    workload: Workload
    space: SearchSpace

    def __init__(
        self, workload: Workload, target: Target, options: SearchOptions, sizes: dict[str, int], log: RecordLog | None
    ) -> None:
        super().__init__(workload, target, options, sizes, lambda note: None)
        self.log = log
        self.trials: list[Trial] = []

    def ask(self, n: int = 1) -> list[Asked]:
        """Up to `n` candidates to try, none of them known; none at all when the space is exhausted."""
        expect(n, "a number of candidates, 1 or more", isinstance(n, int) and not isinstance(n, bool), "ask")
        if n < 1:
            raise UsageError(f"{n} is not a number of candidates", asked="ask", legal="1 or more")
        return [self._asked(candidate) for candidate in self.strategy.propose(n)]

    def tell(self, asked: Asked, outcome: float | Sequence[float] | str, *, verified: bool = False) -> None:
        """Report an outcome: seconds, several samples of them, or the status of a failure, such as "timeout".

        `verified` goes to the record: whether the output was compared with a reference. `build`
        applies only records where it was. Raises UsageError for times that are no times, and
        for anything but a candidate that this study gave.
        """
        if not isinstance(asked, Asked) or asked.study is not self:
            raise UsageError("it was not asked of this study", asked=f"tell {asked!r}", legal="what `ask` returned")
        samples: tuple[float, ...] = ()
        if not isinstance(outcome, str):
            samples = _seconds(outcome)
            if not samples or not all(0 < s < math.inf for s in samples):
                raise UsageError(
                    f"{outcome!r} is no time",
                    asked=f"tell {asked!r}",
                    legal='seconds, more than 0, or several; or the status of a failure, such as "timeout"',
                )
        elif outcome in ("", "ok"):
            raise UsageError(f"{outcome!r} is no failure", asked=f"tell {asked!r}", legal="seconds where it worked")
        status = outcome if isinstance(outcome, str) else "ok"
        seconds = statistics.median(samples) if samples else math.inf
        self.observe([Trial(asked.candidate, status, seconds, samples)])
        if self.log is not None:
            found = {"status": status, "samples": samples, "verified": "full" if verified else "no"}
            self.log.append(self.record(asked.sketch, asked.trace, asked.knobs, len(self.trials), **found))

    def learn(self, records: Iterable[Record]) -> int:
        """Learn from records of this workload, sizes, target and device; returns their number."""
        return len(self.resume(records))

    @property
    def best(self) -> tuple[Asked, float] | None:
        """The fastest candidate and its seconds; of equal ones the first told. None before one has worked."""
        times = [trial for trial in self.trials if trial.ok]
        if not times:
            return None
        fastest = min(times, key=lambda trial: trial.seconds)
        return self._asked(fastest.candidate), fastest.seconds

    def observe(self, trials: Sequence[Trial]) -> None:
        self.trials += trials
        super().observe(trials)

    def _asked(self, candidate: Candidate) -> Asked:
        sketch = self.space.sketches[candidate.sketch]
        return Asked(sketch.name, sketch.values(candidate.indices), candidate, self)


def _seconds(outcome: Any) -> tuple[float, ...]:
    """One time or several, from a number or any sequence or array of numbers; none for anything else."""
    try:
        return tuple(float(s) for s in np.atleast_1d(np.asarray(outcome, dtype=np.float64)))
    except (TypeError, ValueError):
        return ()
