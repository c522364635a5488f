"""`tune`: the loop that proposes, builds, verifies, times, records and learns.

    space -> strategy.propose -> build in parallel, run isolated, verify, time -> one record a trial
          -> strategy.observe -> ... until the budget ends -> play-off against the default schedule

The driver owns the loop: it alone sees budgets, files and the measurer. Everything it does is
reported through `progress`, as the events of `autosched.tuning.events`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autosched.building import as_workload
from autosched.errors import MeasureError, RecordError, UsageError, check_positive
from autosched.measure import early
from autosched.measure.context import Workers
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, Measurement, MeasureOptions
from autosched.model import PrimedCostModel, make_model
from autosched.records import (
    PREDICTED,
    Record,
    RecordLog,
    Task,
    default_path,
    find_folder,
    is_own,
    latest,
    new_id,
    ranked,
    read_workload,
    sealed,
    trials,
)
from autosched.runtime.device import describe_device, resolve_target, versions, with_machine
from autosched.search import DEFAULT as STRATEGY
from autosched.search import Candidate, Trial, make_strategy
from autosched.search.guard import GuardedStrategy
from autosched.space.space import SearchSpace
from autosched.space.tunable import Tunable
from autosched.space.workload import WorkloadFunction
from autosched.target import Target, TargetLike
from autosched.tuning import playoff
from autosched.tuning.arguments import check_options, check_writable, listener, plain, too_large
from autosched.tuning.budget import BATCHES, Budget
from autosched.tuning.costs import Costs
from autosched.tuning.events import Event, Note, PlayoffDone, Preflight, Started, TrialDone, TuneResult
from autosched.tuning.neighbours import Neighbours
from autosched.tuning.playoff import DEFAULT, Outcome, label
from autosched.tuning.predict import predict, prior_of
from autosched.tuning.priming import prime
from autosched.tuning.proposals import Proposals

__all__ = ["Run", "tune"]

#: How many times the time limit the default schedule may take.
PATIENCE = 6.0


def tune(
    what: Tunable | WorkloadFunction[...] | str,
    target: TargetLike = None,
    *,
    space: str = "",
    rules: Sequence[Any] = (),
    trials: int | None = 200,
    budget_s: float | None = None,
    patience: int | None = None,
    strategy: str = STRATEGY,
    strategy_options: dict[str, Any] | None = None,
    model: str = "xgb",
    transfer: bool = True,
    seed: int = 0,
    records: str | Path | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    sizes: dict[str, int] | None = None,
    measure: MeasureOptions | None = None,
    ahead: bool | None = None,
    progress: Callable[[Event], None] | bool | None = None,
) -> TuneResult:
    """Search for the fastest schedule of a workload on a target, and record what is learnt.

    what:     a workload, or the name of one, such as `box_blur` or `file.py:function`
    space:    `templates` that someone wrote, `auto` for sketches that rules generate, or `all`; by default
              templates, and rules where the workload has none for the target
    rules:    sketch rules (`docs/rules.md`) that are asked before the built-in ones
    trials:   candidates to have measured in all, those in earlier records included; None for no limit, 0 for the
              choice of a model, of which nothing is timed (`docs/search.md`)
    budget_s: seconds this run may take; the first limit reached ends it
    patience: end after so many trials in a row of which none is faster than the best before
    strategy_options: see `docs/search.md`
    transfer: whether the model also learns from records of other shapes, operators and devices
    records:  folder of the log; running again with the same log resumes
    inputs:   arrays to verify and time on; by default the workload's own, at `sizes`
    ahead:    propose the next candidates, and train the model, while the present ones are built
              (`proposals.Proposals` tells what that costs); by default with `measure.overlap`
    progress: a function that is called with each event. `autosched.tune` shows how the run gets on where none is given:
              a live display in a terminal, else some lines on standard error; False shows nothing

    Raises UsageError for arguments that cannot be meant, WorkloadError when there is no template
    for the target, MeasureError when not even the default schedule runs. Ctrl-C ends the run with
    what was found so far and `interrupted` set; every finished trial is in the log.
    """
    check_positive("tune", or_zero=("trials",), trials=trials, budget_s=budget_s, patience=patience)
    if trials is None and budget_s is None:
        raise UsageError("neither trials nor budget_s is limited", asked="tune", legal="give at least one")
    workload = as_workload(what)
    check_options(
        "tune", [workload], seed=seed, options=strategy_options, rules=rules, inputs=[inputs], measure=measure,
        progress=progress,
    )  # fmt: skip
    run = Run(workload, resolve_target(target), trials, budget_s, listener(progress))
    run.space_of = partial(run.workload.search_space, space=space, rules=rules)
    with run.early_workers(measure or MeasureOptions()):
        run.prepare(inputs, sizes, records, measure or MeasureOptions())
        run.ahead = run.options.overlap if ahead is None else ahead
        if trials == 0 and (prior := prior_of(run)) is not None:
            return predict(run, prior, seed)
        run.choose_strategy(strategy, strategy_options or {}, model, seed, transfer)
        run.patience = patience
        return run.go()


class Run:
    """One call of `tune`."""

    def __init__(
        self,
        workload: Tunable,
        target: Target,
        limit: int | None,
        budget_s: float | None,
        tell: Callable[[Event], None],
    ) -> None:
        self.workload, self.target = workload, workload.compiled_for(target)
        self.limit, self.budget_s, self.tell = limit, budget_s, tell
        self.space_of: Callable[..., Any] = workload.search_space
        self.begun = time.monotonic()
        self.run_id = new_id()
        self.failures: Counter[str] = Counter()
        self.measured: list[Record] = []  # this run's records, in order
        self.notes: list[str] = []
        self.impossible: set[str] = set()  # names of sketches that a note was written about
        self.reasons_told: set[str] = set()
        self.unsaved = 0
        self.taken_over = 0  # trials that have the time of another with the same code
        self.neighbours = Neighbours()
        self.workers: Workers | None = None
        self.default_seconds = float("inf")
        self.default_record: Record | None = None
        self.costs = Costs(workload.objective)
        self.patience: int | None = None
        self.ahead = False
        self.batch = BATCHES[-1]  # candidates built together, at most
        self.batches_begun = 0
        self.primed: PrimedCostModel | None = None
        self._batches = self.batches()
        self.is_settled = False  # there is no choice but the default schedule
        self.is_unsearchable = False  # because no other sketch could be made
        self.since_best = 0  # trials since the last that was the fastest so far

    # -- before the first trial -----------------------------------------------------------------
    @contextmanager
    def early_workers(self, options: MeasureOptions) -> Iterator[None]:
        """Start processes at once: they load the compiler while this one prepares the search."""
        self.workers = early.take(self.target, self.workload.adjusted(options), self.workload.backend)
        try:
            yield
        finally:
            self.workers.close()

    def prepare(
        self,
        inputs: Sequence[np.ndarray] | None,
        sizes: dict[str, int] | None,
        records: str | Path | None,
        options: MeasureOptions,
    ) -> None:
        """Inputs, reference, space, earlier records."""
        w = self.workload
        self.options = w.adjusted(options)
        self.budget = Budget(self.budget_s, self.options.builders, self.options.min_repeat_ms / 1000)
        try:
            self.inputs = list(inputs) if inputs is not None else w.sample_inputs(sizes)
        except MemoryError as error:
            raise too_large(w, error) from None
        self.sizes = w.sizes_of(self.inputs)
        self.space = self.space_of(with_machine(self.target), self.sizes)
        self.device = describe_device(self.target)
        self.versions = versions()
        folder = find_folder(records)
        self.log = RecordLog(default_path(w.name, self.target.kind, folder))
        check_writable(self.log.path)
        explicit = None if records is None else str(records)
        contents = read_workload(w.name, self.target.kind, explicit, key=w.key, packaged=False)
        for problem in contents.problems:
            self.note(f"a record was passed over: {problem}", "warning")
        others = contents.others
        if others:
            self.note(
                f"{others} records belong to another version or variant of {w.name}, so this run does not continue them"
            )
        self.records = explicit
        self.task = Task(w.name, w.key, tuple(sorted(self.sizes.items())), str(self.target), self.device["name"])
        self.earlier = [r for r in contents.records if Task.of(r) == self.task and r.status != PREDICTED]
        before = time.monotonic()
        try:
            self.expected = w.reference(self.inputs)
        except MemoryError as error:
            raise too_large(w, error) from None
        self.reference_s = time.monotonic() - before

    def choose_strategy(self, strategy: str, options: dict[str, Any], model: str, seed: int, transfer: bool) -> None:
        """The strategy, told of every earlier trial of a sketch that is still in the space."""
        # One thread: on some hundred rows more of them mostly wait for each other, spinning. On a machine
        # where others are at work, too, training took 20 s instead of 0.1 s.
        made = make_model(model, self.space.feature_names, seed=seed, threads=1, prior=prior_of(self))
        if transfer and self.costs.objective is None and isinstance(made, PrimedCostModel):  # it learns of times
            make_strategy(
                strategy, self.space, seed=seed, model=made, **options
            )  # what is wrong with it is told at once
            self.primed = made
            self.learn_from_others()
        self.strategy_name, self.seed = strategy, seed
        self.strategy = make_strategy(strategy, self.space, seed=seed, model=made, **options)
        self.proposals = Proposals(self.strategy, self.ahead)
        past = [(self.candidate_of(r), r) for r in trials(self.earlier)]
        known = [self.costs.trial(c, r) for c, r in past if c is not None]
        self.resumed = sum(r.sketch != DEFAULT for c, r in past if c is not None)
        if known:
            self.strategy.observe(known)

    def learn_from_others(self) -> None:
        """Let the model learn from what is recorded by now of other shapes, operators and devices."""
        if self.primed is not None:
            said = prime(self.primed, self.task, self.space, records=self.records)
            if said and said not in self.notes:
                self.note(said)

    def candidate_of(self, r: Record) -> Candidate | None:
        """The point of the space that a record is of; None where the space has it no more."""
        at = self.space.find(r.trace)
        indices = None if at is None else self.space.sketches[at].indices_of(r.knobs)
        return None if at is None or indices is None else Candidate(at, indices)

    # -- the run ----------------------------------------------------------------------------------
    def go(self) -> TuneResult:
        """Pre-flight, trials, play-off."""
        self.tell(self.started())
        interrupted = False
        with self.session():
            try:
                while self.advance():
                    pass
                result = self.playoff()
            except KeyboardInterrupt:
                interrupted = True
                self.note("interrupted before the play-off, which would have confirmed the result", "warning")
                result = self.without_playoff()
            finally:
                self.proposals.close()
        return self.finish(result, interrupted)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Workers for this run. Those of a run that goes on later may be dismissed in between."""
        with self.open_measurer() as self.measurer:
            if not np.isfinite(self.default_seconds):
                self.preflight()
            self.remember()
            yield

    def advance(self) -> bool:
        """Propose, measure and learn from one batch. False when there is nothing left to do."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self.proposals.observe(list(self.measure(batch)))
        return True

    @property
    def best_seconds(self) -> float:
        """Of this run's trials and earlier ones; the default schedule's, where none is known."""
        found = [x.seconds for x in (*self.measured, *self.earlier) if x.ok]
        return min(found, default=self.default_seconds)

    def finish(self, result: TuneResult, interrupted: bool = False) -> TuneResult:
        """What is said at the end, and the result with all that is known by then."""
        self.note_faults(last=True)
        if self.taken_over:
            self.note(f"{self.taken_over} trials have the same code as an earlier one, and share its time")
        if self.unsaved:
            self.note(f"{self.unsaved} records could not be written", "warning")
        result = replace(result, interrupted=interrupted, notes=list(self.notes), elapsed_s=self.elapsed)
        result = replace(result, points=self.space.size, valid=self.space.valid, strain=self.neighbours.strain)
        self.tell(PlayoffDone(result))
        return result

    def started(self) -> Started:
        return Started(
            repr(self.workload),
            str(self.target),
            self.device["name"],
            self.sizes,
            [(s.name, s.size) for s in self.space.sketches],
            self.space.size,
            self.resumed,
            self.log.path,
            self.limit,
            self.budget_s,
            self.space.valid,
        )

    def open_measurer(self) -> Measurer:
        self.default_trace, self.defaults = self.workload.defaults(self.target, self.space)
        self.default_knobs = self.defaults[0]
        sketches = {s.name: s.trace for s in self.space.sketches}
        sketches[DEFAULT] = self.default_trace
        self.former_best = self._former_best()
        if self.former_best is not None:
            sketches[self.name_of(self.former_best)] = self.former_best.trace
        options = replace(self.options, imports=(*self.options.imports, *self.workload.files))
        w = self.workload
        return Measurer(
            w.graph, self.target, sketches, self.inputs, self.expected, options,
            backend=w.backend, initial=w.initial(self.inputs), inspector=w.inspector,
            roundings=w.roundings(self.target), workers=self.workers,
        )  # fmt: skip

    def _former_best(self) -> Record | None:
        """The best earlier record, if its sketch is in the space no more: it still plays off."""
        choices = ranked(self.earlier, key=self.workload.key, target=self.target, device=self.device["name"])
        best = choices[0].record if choices else None
        return best if best is not None and best.sketch != DEFAULT and self.candidate_of(best) is None else None

    def name_of(self, r: Record) -> str:
        """The name under which the measurer knows the sketch of a candidate's record, or of `former_best`."""
        candidate = self.candidate_of(r)
        return f"{r.sketch} (record {r.id})" if candidate is None else self.space.sketches[candidate.sketch].name

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    @property
    def _is_patience_over(self) -> bool:
        return self.patience is not None and self.since_best >= self.patience

    def note(self, text: str, level: str = "info") -> None:
        """Tell the user, and keep it for the result."""
        self.notes.append(text)
        self.tell(Note(text, level))

    def preflight(self) -> None:
        """Not even the default schedule? Then no candidate will do, and the reason is here.

        The strategy chooses the first candidates while it is built, unless it is one of them.
        """
        if self.space.find(self.default_trace) is None and (self.limit is None or self.limit > self.resumed):
            self.proposals.begin(self.next_size(self.resumed))
        failed: list[Measurement] = []
        for knobs in self.defaults:
            job = Job(0, DEFAULT, knobs, patience=PATIENCE)
            (m,) = self.measurer.measure([job], quiet=self.proposals.join)
            if m.ok:
                break
            failed.append(m)
        else:
            raise MeasureError(
                f"the default schedule fails ({failed[0].status}): {failed[0].error}",
                asked=f"tune {self.workload!r} on {self.target}",
                legal="`autosched doctor` shows what works on this machine",
            )
        if failed:
            self.note(f"{label(failed[0].job)} fails ({failed[0].status}): {failed[0].error}", "warning")
        self.default_knobs = dict(m.job.knobs)
        self.default_seconds = m.seconds
        self.budget.default(m)
        self.neighbours.add(m)
        r = self.record(m, self.default_trace, self.default_knobs, trial=0)
        self.save(r)
        self.default_record = r
        if (candidate := self.candidate_of(r)) is not None:  # a point of the space: it need not be tried again
            self.proposals.observe([self.costs.trial(candidate, r)])
        self.tell(Preflight(self.default_seconds, self.reference_s))

    def remember(self) -> None:
        """Candidates with the code of an earlier record take over its time, where times are comparable:
        on the same device, with the same software. Not the default schedule's, which shows that all works.
        """
        this_run = {r.id for r in self.measured}
        for r in latest([*self.earlier, *self.measured]):
            trusted = (r.verified != "no" if r.id in this_run else is_own(r)) or not self.options.verify
            if r.ok and r.code and trusted and (r.device, r.versions) == (self.device, self.versions):
                self.measurer.remember(r.code, r.samples, verified=r.verified, raced=r.raced, name=f"record {r.id}")

    def next_size(self, done: int) -> int:
        """How many candidates the next batch has, before the budget is asked."""
        at = min(self.batches_begun, len(BATCHES) - 1)
        size = min(self.batch, BATCHES[at])
        return size if self.limit is None else min(size, self.limit - done)

    def batches(self) -> Iterator[list[Candidate]]:
        """What to measure next, until a limit is reached or the space is exhausted."""
        done = self.resumed
        if (why := self._nothing_to_search()) is not None:
            self.is_settled = True
            self.note_failures()
            self.note(why, "warning" if self.is_unsearchable else "info")
            return
        while self.limit is None or done < self.limit:
            is_first = done == self.resumed
            if self.budget.is_over(self.elapsed, is_first):
                if is_first:
                    self.note(self.budget.too_short(self.elapsed), "warning")
                return
            if self._is_patience_over:
                self.note(f"the last {self.since_best} trials found nothing faster, so the search ends (patience)")
                return
            n = self.budget.batch(self.next_size(done), self.elapsed)
            begun = time.monotonic()
            batch = self.proposals.take(n)
            self.budget.proposed(time.monotonic() - begun)
            self.note_failures()
            self.note_faults()
            if not batch:
                impossible = None if done else self.space.impossible()
                if impossible is not None:
                    raise impossible
                self.note("every candidate of the search space has been measured")
                return
            done += len(batch)
            self.batches_begun += 1
            self.proposals.prepare(self.next_size(done))
            yield batch

    def _nothing_to_search(self) -> str | None:
        """Why no schedule can be better than the default one, where that is so."""
        if self.expected and all(x is not None and x.size == 0 for x in self.expected):
            return "the outputs have no elements at these sizes, so there is nothing to make faster"
        if not (isinstance(self.space, SearchSpace) and self.space.is_default_alone):
            return None
        if self.space.is_unsearchable:
            self.is_unsearchable = True
            return f"there was nothing to search: no sketch of {', '.join(self.space.untraced)} could be made"
        reasons = "".join(f"; {stage}: {why}" for stage, _, why, _ in self.space.remarks)
        return f"the default schedule is the only one, so there is nothing to search{reasons}"

    def note_faults(self, *, last: bool = False) -> None:
        """Tell what a strategy that is not ours did wrong; at the end, how often."""
        if isinstance(self.strategy, GuardedStrategy):
            told, self.strategy.messages = self.strategy.messages, []
            for text in [*told, *([self.strategy.summary()] if last and self.strategy.dropped else [])]:
                self.note(text, "warning")

    def note_failures(self) -> None:
        """Tell of sketches that turned out not to be possible, each reason once."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.space.failures.items():
            if name not in self.impossible:
                by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            self.impossible.update(names)
            if reason not in self.reasons_told:
                others = f" and {len(names) - 1} others" if len(names) > 1 else ""
                self.note(
                    f"sketch {names[0]}{others} cannot be built, so the search leaves it out: {reason}", "warning"
                )
            self.reasons_told.add(reason)

    def measure(self, batch: list[Candidate]) -> Iterator[Trial]:
        """Measure a batch, one record each; what is left over when time runs out is not observed."""
        jobs, first = [], self.resumed + len(self.measured) + 1
        for i, c in enumerate(batch, start=first):
            sketch = self.space.sketches[c.sketch]
            jobs.append(Job(i, sketch.name, sketch.values(c.indices)))
        for m in self.measurer.measure(jobs, quiet=self.proposals.join):
            candidate = batch[m.job.id - first]
            sketch = self.space.sketches[candidate.sketch]
            (features,) = sketch.features(np.array([candidate.indices], dtype=np.int64).reshape(1, -1))
            r = self.record(m, sketch.trace, m.job.knobs, m.job.id).with_features(self.space.feature_version, features)
            self.measured.append(r)
            self.budget.measured(m)
            self.neighbours.add(m)
            if news := self.neighbours.news():
                self.note(news, "warning")
            self.taken_over += m.ok and bool(m.error)
            if not r.ok:
                self.failures[r.status] += 1
            is_best = self.costs.of(r) < min(map(self.costs.of, self.measured[:-1]), default=float("inf"))
            self.since_best = 0 if is_best else self.since_best + 1
            self.save(r)
            self.tell(self._progress(r))
            yield self.costs.trial(candidate, r)
            if self.budget.left(self.elapsed) <= 0 or self._is_patience_over:
                return

    def _progress(self, r: Record) -> TrialDone:
        best = min((*self.measured, *self.earlier), key=self.costs.of)
        return TrialDone(
            self.resumed + len(self.measured),
            r,
            best.seconds,
            self.default_seconds,
            dict(self.failures),
            self.elapsed,
            self.limit,
            self.budget_s,
        )

    # -- records ----------------------------------------------------------------------------------
    def record(self, m: Measurement, trace: Any, knobs: dict[str, int], trial: int) -> Record:
        """The record of one measurement."""
        w = self.workload
        made = Record(
            workload={
                "name": w.name,
                "key": w.key,
                "params": {k: plain(v) for k, v in w.params.items()},
                "args": w.describe_args(),
                "sizes": self.sizes,
            },
            target=str(self.target),
            device=self.device,
            versions=self.versions,
            sketch=m.job.sketch,
            trace=trace,
            knobs=dict(knobs),
            status=m.status,
            samples=m.samples,
            error=m.error,
            build_s=m.build_s,
            verified=m.verified,
            strategy=self.strategy_name,
            seed=self.seed,
            trial=trial,
            run=self.run_id,
            extra=({"raced": True} if m.raced else {}) | ({"code": m.digest} if m.digest else {}),
        ).with_strain(m.strain)
        return sealed(made)

    def save(self, r: Record) -> None:
        """Append to the log; a full disk loses the line, not the run."""
        try:
            self.log.append(r)
        except RecordError as error:
            if not self.unsaved:
                self.note(f"records cannot be written any more: {error}", "warning")
            self.unsaved += 1

    # -- the end ----------------------------------------------------------------------------------
    def playoff(self) -> TuneResult:
        """The best against the default schedule, interleaved, before anyone is called a winner."""
        entrants, rounds = self.budget.playoff(self.elapsed)
        return self.result(playoff.hold(self, playoff.finalists_of(self)[:entrants], rounds=rounds))

    def without_playoff(self) -> TuneResult:
        """The best single measurement, for what it is worth."""
        return self.result(playoff.without(self))

    def result(self, outcome: Outcome) -> TuneResult:
        """What is known of the run at this moment, and who won."""
        best = outcome.best
        trace, knobs = (self.default_trace, self.default_knobs) if best is None else (best.trace, best.knobs)
        return TuneResult(
            repr(self.workload),
            str(self.target),
            self.device["name"],
            self.sizes,
            self.default_seconds,
            best,
            outcome.seconds,
            outcome.speedup,
            outcome.interval,
            list(outcome.tied),
            len(self.measured),
            self.resumed,
            dict(self.failures),
            self.elapsed,
            self.log.path,
            False,
            self.workload.as_text(trace, knobs),
            dict(knobs),
            unsearchable=self.is_unsearchable,
        )
