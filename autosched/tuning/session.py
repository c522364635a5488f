"""`Session`: one search, whoever measures: a space, a strategy that says what to try, and a log of the outcomes.

`tuning.run.Run` is a session with a measurer, `study.Study` one whose candidates its caller measures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from autosched.choosing import machine_model
from autosched.errors import AutoschedError
from autosched.model import AnalyticalModel, PrimedCostModel, make_model
from autosched.records import PREDICTED, Record, RecordLog, Task, is_own, new_id, read_transfer, sealed
from autosched.runtime.device import describe_device, versions, with_machine
from autosched.schedule.renaming import names_of, renamed
from autosched.search import Candidate, SearchStrategy, Trial, make_strategy
from autosched.search_options import SearchOptions
from autosched.space.space import DEFAULT, SearchSpace
from autosched.space.tunable import Objective, Tunable
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.tuning.arguments import plain
from autosched.tuning.events import Event, Note


class Costs:
    """The number that a search minimises: seconds, or one that stands for the user's objective."""

    def __init__(self, objective: Objective | None) -> None:
        self.objective = objective

    def samples(self, knobs: dict[str, int], seconds: Sequence[float]) -> list[float]:
        """A cost for each sample in seconds."""
        return list(seconds) if self.objective is None else list(self.objective.costs(knobs, seconds))

    def of(self, r: Record) -> float:
        """The cost of a record; `inf` for a failure."""
        if self.objective is None or not r.ok or not r.samples:
            return r.seconds
        return statistics.median(self.samples(r.knobs, r.samples))

    def trial(self, candidate: Candidate, r: Record) -> Trial:
        """A record as strategies see it: one whose objective is no number is a failure."""
        if self.objective is None or not r.ok:
            return Trial(candidate, r.status, r.seconds, r.samples)
        costs = tuple(self.samples(r.knobs, r.samples))
        good = bool(costs) and all(map(math.isfinite, costs))
        return Trial(candidate, r.status, self.of(r), costs) if good else Trial(candidate, "runtime")


class Session:
    """A workload at some sizes on a target: its space, a strategy, and records.

    target:   as the workload is compiled for it
    say:      is called with each `Note`, which `notes` keeps

    Raises WorkloadError where there is nothing to search.
    """

    log: RecordLog | None = None
    strategy: SearchStrategy  #: that of `choose_strategy`

    def __init__(
        self,
        workload: Tunable,
        target: Target,
        options: SearchOptions,
        sizes: dict[str, int],
        say: Callable[[Event], None],
    ) -> None:
        self.workload, self.target, self.options, self.sizes, self.say = workload, target, options, sizes, say
        self.space = workload.search_space(with_machine(target), sizes, space=options.space, rules=options.rules)
        self.costs = Costs(workload.objective)
        self.run_id = new_id()
        self.notes: list[str] = []
        self._primed: PrimedCostModel | None = None
        if cut := getattr(self.space, "cut", ""):
            self.note(cut, "warning")

    @cached_property
    def device(self) -> dict[str, Any]:
        """The device that the target is on this machine, as records keep it."""
        return describe_device(self.target)

    @cached_property
    def versions(self) -> dict[str, str]:
        return versions()

    @cached_property
    def task(self) -> Task:
        """The task that this session's records have in common."""
        sizes = tuple(sorted(self.sizes.items()))
        return Task(self.workload.name, self.workload.key, sizes, str(self.target), self.device["name"])

    @cached_property
    def prior(self) -> AnalyticalModel | None:
        """The analytical model of this machine; None where there is none, or where the objective is not time."""
        return None if self.costs.objective is not None else machine_model(self.space.feature_names, self.target)

    # -- the strategy -----------------------------------------------------------------------------
    def choose_strategy(self) -> None:
        """Make the strategy that the options name. Raises UsageError where it cannot be made."""
        o = self.options
        model = make_model(o.model, self.space.feature_names, seed=o.seed, prior=self.prior)

        def make() -> SearchStrategy:
            return make_strategy(o.strategy, self.space, seed=o.seed, model=model, **(o.strategy_options or {}))

        self.strategy = make()
        if o.transfer and self.costs.objective is None and isinstance(model, PrimedCostModel):  # it learns of times
            self._primed = model
            self.learn_from_others()
            self.strategy = make()  # what a primed model knows decides how a strategy begins

    def learn_from_others(self) -> None:
        """Let the model learn from what is recorded by now of other shapes and devices; where there is no analytical
        model, of other operators, too.

        It learns from the features that records keep: computing those of 500 records took 4 to 5 s, and no later trial
        was better for it. Whoever changes features computes those of the packaged records anew
        (`experiments/record_features.py`).
        """
        if self._primed is None:
            return
        folder = None if self.options.records is None else str(self.options.records)
        version, width = self.space.feature_version, len(self.space.feature_names)
        # What records of other programs teach, the analytical model knows: in replay they gained nothing beyond it.
        alike = self.prior is not None
        found = read_transfer(self.task, self.target.kind, version=version, width=width, folder=folder, alike=alike)
        said = []
        if len(found.seconds):
            self._primed.prime(found.features, found.seconds, found.groups)
            said.append(f"the cost model is primed with {found.describe(self.task)}")
        if found.passed_over:
            said.append(f"records passed over, because they have no features of this version: {found.passed_over}")
        if said and "; ".join(said) not in self.notes:
            self.note("; ".join(said))

    def observe(self, trials: Sequence[Trial]) -> None:
        """Tell the strategy of trials."""
        self.strategy.observe(trials)

    def as_named_here(self, records: Iterable[Record]) -> list[Record]:
        """Records of this workload under the names that its program has now; records of others as they are."""
        w, space = self.workload, self.space
        if not isinstance(w, Workload) or not isinstance(space, SearchSpace):
            return list(records)
        own = names_of(w.args)
        return [_renamed(r, own, space) if r.key == w.key and r.names not in (None, own) else r for r in records]

    def resume(self, records: Iterable[Record]) -> list[Record]:
        """Tell the strategy of the records that are trials of this task at points of the space; returns these."""
        ours = [r for r in self.as_named_here(records) if Task.of(r) == self.task and r.status != PREDICTED]
        known = [(c, r) for r in ours if (c := self.candidate_of(r)) is not None]
        if known:
            self.observe([self.costs.trial(c, r) for c, r in known])
        return [r for _, r in known]

    def candidate_of(self, r: Record) -> Candidate | None:
        """The point of the space that a record is of; None where the space no longer has it."""
        at = self.space.find(r.trace)
        indices = None if at is None else self.space.sketches[at].indices_of(r.knobs)
        return None if at is None or indices is None else Candidate(at, indices)

    # -- records ----------------------------------------------------------------------------------
    def record(self, sketch: str, trace: Any, knobs: Mapping[str, int], trial: int, **found: Any) -> Record:
        """The record of a candidate; `found` has the fields of the outcome, and the strategy where it is another."""
        w = self.workload
        about = {
            "name": w.name,
            "key": w.key,
            "params": {k: plain(v) for k, v in w.params.items()},
            "args": w.describe_args(),
            "sizes": self.sizes,
        }
        if isinstance(w, Workload):
            about["names"] = names_of(w.args)
        made = {"strategy": self.options.strategy, "seed": self.options.seed, "trial": trial, "run": self.run_id}
        return Record(
            workload=about, target=str(self.target), device=self.device, versions=self.versions, sketch=sketch,
            trace=trace, knobs=dict(knobs), **{**made, **found},
        )  # fmt: skip

    def note(self, text: str, level: str = "info") -> None:
        """Tell the user, and keep the text for the result."""
        self.notes.append(text)
        self.say(Note(text, level))


def _renamed(r: Record, own: list[list[str]], space: SearchSpace) -> Record:
    """A record of a program that was called otherwise, with our seal if it had one; as it is, if its trace is none."""
    try:
        trace = renamed(r.trace, r.names or [], own)
        found = space.find_alike(trace)
    except (AutoschedError, LookupError, TypeError):
        return r
    sketch, knobs = r.sketch, r.knobs
    if found is not None:
        here, names = space.sketches[found[0]], found[1]
        trace, knobs = here.trace, {names.get(k, k): v for k, v in knobs.items()}
        sketch = here.name if sketch != DEFAULT else DEFAULT
    made = replace(r, trace=trace, sketch=sketch, knobs=knobs, workload={**r.workload, "names": own})
    return sealed(made) if is_own(r) else made
