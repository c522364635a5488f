"""`tune`: the loop that proposes, builds, verifies, times, records and learns.

    space -> strategy.propose -> build in parallel, run isolated, verify, time -> one record a trial
          -> strategy.observe -> ... until the budget ends -> play-off against the default schedule

The run owns the loop: it alone sees budgets, files and the measurer. It reports all it does through `progress`, as
the events of `autosched.tuning.events`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from autosched import predicting
from autosched.building import as_workload
from autosched.errors import MeasureError, RecordError, UsageError, check_positive
from autosched.garbage import few_collections
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, Measurement, MeasureOptions
from autosched.measure.workers import Workers, take_workers
from autosched.records import (
    PREDICTED,
    Record,
    RecordLog,
    Task,
    default_path,
    find_folder,
    is_own,
    latest,
    ranked,
    read_workload,
    sealed,
    trials,
)
from autosched.runtime.device import resolve_target, with_machine
from autosched.search import DEFAULT as STRATEGY
from autosched.search import Candidate, Trial
from autosched.search.predicted import outlooks
from autosched.search_options import SearchKeywords, SearchOptions, spelled_out
from autosched.space.space import SearchSpace, sketching_until
from autosched.space.tunable import Tunable
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target, TargetLike
from autosched.tuning import blame, playoff
from autosched.tuning.arguments import check_tunable, check_writable, enough_memory, listener
from autosched.tuning.budget import BATCHES, SKETCHING_SHARE, Budget, Expectation, Neighbours, moment
from autosched.tuning.events import Event, Note, PlayoffDone, Preflight, Started, TrialDone, TuneResult
from autosched.tuning.expected import Expected, reference_limit_s
from autosched.tuning.playoff import DEFAULT, PlayoffOutcome, label
from autosched.tuning.predict import predict, untried
from autosched.tuning.proposals import Proposals
from autosched.tuning.session import Session

#: Times the time limit that the default schedule may take.
PATIENCE = 6.0


@spelled_out
def tune(
    what: Tunable | WorkloadFunction[...] | str,
    target: TargetLike = None,
    *,
    trials: int | None = 200,
    budget_s: float | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    sizes: dict[str, int] | None = None,
    ahead: bool | None = None,
    progress: Callable[[Event], None] | bool | None = None,
    **search: Unpack[SearchKeywords],
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
    options = SearchOptions.of("tune", search)
    check_positive("tune", or_zero=("trials",), trials=trials, budget_s=budget_s)
    if trials is None and budget_s is None:
        raise UsageError("neither trials nor budget_s is limited", asked="tune", legal="give at least one")
    workload = as_workload(what)
    check_tunable("tune", [workload], inputs=[inputs], progress=progress)
    to = workload.compiled_for(resolve_target(target))
    # Processes begin to load the compiler while this one prepares the search.
    workers = take_workers(to, workload.adjusted(options.measure or MeasureOptions()), workload.backend)
    try:
        with few_collections():
            run = Run(
                workload, to, options, inputs=inputs, sizes=sizes, trials=trials, budget_s=budget_s, ahead=ahead,
                workers=workers, say=listener(progress),
            )  # fmt: skip
            if trials == 0 and run.prior is not None:
                return predict(run, run.prior)
            run.choose_strategy()
            return run.go()
    finally:
        workers.close()


class Run(Session):
    """A session that measures, one call of `tune`.

    inputs, sizes:     what is measured on, as `tune` takes them
    trials, budget_s:  its limits, None where somebody else sees to them
    share_s:           then, the seconds of a budget that are its part, of which sketches and the reference have theirs
    workers:           processes that are there already
    """

    log: RecordLog
    measurer: Measurer
    proposals: Proposals

    def __init__(
        self,
        workload: Tunable,
        target: Target,
        options: SearchOptions,
        *,
        inputs: Sequence[np.ndarray] | None = None,
        sizes: dict[str, int] | None = None,
        trials: int | None = None,
        budget_s: float | None = None,
        share_s: float | None = None,
        ahead: bool | None = None,
        workers: Workers | None = None,
        say: Callable[[Event], None],
    ) -> None:
        self.begun = time.monotonic()
        self.measure_options = workload.adjusted(options.measure or MeasureOptions())
        self.limit, self.workers, self.patience = trials, workers, options.patience
        self.most = BATCHES[-1]  # candidates that the next batch may have
        self.ahead = self.measure_options.overlap if ahead is None else ahead
        self.budget = Budget(budget_s, self.measure_options.builders, self.measure_options.min_repeat_ms / 1000)
        with enough_memory(workload):
            self.inputs = list(inputs) if inputs is not None else workload.sample_inputs(sizes)
        self.ends_at = math.inf  # a time of the monotonic clock, set by who shares a budget among several
        self._share_s = budget_s if share_s is None else share_s
        with sketching_until(self.begun + SKETCHING_SHARE * (math.inf if self._share_s is None else self._share_s)):
            super().__init__(workload, target, options, workload.sizes_of(self.inputs), say)
        self.log = RecordLog(default_path(workload.name, target.kind, find_folder(options.records)))
        check_writable(self.log.path)
        self.earlier = self._earlier()
        self.measured: list[Record] = []  # this run's records, in order
        self.given_up: list[Candidate] = []  # of the last batch, as it was given up
        self.resumed = 0  # trials of earlier runs that the strategy was told of
        self.default_record: Record | None = None
        self.settled: Note | None = None  # why there is no choice but the default schedule
        self.neighbours = Neighbours()
        self.expectation: Expectation | None = None  # of more time, as of the last batch
        self._search_s = 0.0
        self._unsaved, self._saved = 0, {label(r) for r in self.earlier}
        self._impossible: set[str] = set()  # reasons why sketches cannot be built, as far as they were told
        self._begun_batches = 0
        self._batches = self._propose()

    def _earlier(self) -> list[Record]:
        """Records of this task in the log and in the files beside it."""
        w, folder = self.workload, self.options.records
        contents = read_workload(
            w.name, self.target.kind, None if folder is None else str(folder), key=w.key, packaged=False
        )
        for problem in contents.problems:
            self.note(f"a record was passed over: {problem}", "warning")
        # Kernels of models share their names with others in the same log.
        if (others := contents.others) and not (isinstance(w, Workload) and w.is_anonymous):
            self.note(
                f"{others} records belong to another version or variant of {w.name}, so this run does not continue them"
            )
        ours = [r for r in contents.records if Task.of(r) == self.task and r.status != PREDICTED]
        return self.as_named_here(ours)

    def choose_strategy(self) -> None:
        """Make the strategy, and tell it of every earlier trial of a sketch that is still in the space."""
        super().choose_strategy()
        self.proposals = Proposals(self.strategy, self.ahead, self._first_look, self._left_for_trials)
        self.resumed = sum(r.sketch != DEFAULT for r in self.resume(trials(self.earlier)))

    def observe(self, trials: Sequence[Trial]) -> None:
        self.proposals.observe(trials)

    @cached_property
    def expected(self) -> Expected:
        """The right outputs, which may take long to compute."""
        with enough_memory(self.workload):
            return Expected(self.workload, self.target, self.inputs, reference_limit_s(self._share_s))

    # -- the default schedule ---------------------------------------------------------------------
    @cached_property
    def defaults(self) -> tuple[list[Any], list[dict[str, int]]]:
        """Its trace, and choices of knob values, of which the first that works is taken."""
        return self.workload.defaults(with_machine(self.target), self.space)

    @property
    def default_knobs(self) -> dict[str, int]:
        return self.defaults[1][0] if self.default_record is None else self.default_record.knobs

    @property
    def default_seconds(self) -> float:
        return float("inf") if self.default_record is None else self.default_record.seconds

    # -- the run ----------------------------------------------------------------------------------
    def go(self) -> TuneResult:
        """Pre-flight, trials, play-off."""
        self.say(self.started())
        interrupted = False
        with self.measuring():
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
        return self.finish(result if self.measured else untried(self, result), interrupted)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Open the measurer; a run that goes on later closes it in between."""
        with self.open_measurer() as self.measurer:
            if self.default_record is None:
                self.preflight()
            self.remember()
            yield

    def advance(self) -> bool:
        """Propose, measure and learn from one batch. False when there is nothing left to do."""
        begun = time.monotonic()
        batch = next(self._batches, None)
        if batch is None:
            return False
        self.observe(list(self.measure(batch)))
        self._search_s += time.monotonic() - begun
        self.expectation = self._expectation()
        return True

    def _expectation(self) -> Expectation | None:
        """What as many seconds as the search has taken would bring; None where the goal is not time."""
        ours = len(self.measured)
        if not ours or self.costs.objective is not None:
            return None
        done, valid = self.resumed + ours, self.space.valid
        more = ours if valid is None else min(ours, valid - done)
        return Expectation.of(done, more, more * self._search_s / ours)

    @property
    def best_seconds(self) -> float:
        """The best time of this run and earlier ones; the default schedule's where none is known."""
        return min((r.seconds for r in (*self.measured, *self.earlier) if r.ok), default=self.default_seconds)

    @property
    def failures(self) -> dict[str, int]:
        """The numbers of trials that failed, by status."""
        return dict(Counter(r.status for r in self.measured if not r.ok))

    @property
    def in_vain(self) -> int:
        """Trials since the last that was the best so far."""
        costs = [self.costs.of(r) for r in self.measured]
        best = min(costs, default=float("inf"))
        return len(costs) if best == float("inf") else len(costs) - 1 - costs.index(best)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    def started(self) -> Started:
        sketches = [(s.name, s.size) for s in self.space.sketches]
        return Started(
            repr(self.workload), str(self.target), self.device["name"], self.sizes, sketches, self.space.size,
            self.resumed, self.log.path, self.limit, self.budget.seconds, self.space.valid,
        )  # fmt: skip

    def open_measurer(self) -> Measurer:
        w, trace = self.workload, self.defaults[0]
        sketches = {s.name: s.trace for s in self.space.sketches} | {DEFAULT: trace}
        if self.former_best is not None:
            sketches[self.name_of(self.former_best)] = self.former_best.trace
        return Measurer(
            w.graph, self.target, sketches, self.inputs, self.expected.outputs,
            replace(self.measure_options, imports=(*self.measure_options.imports, *w.files)),
            backend=w.backend, initial=self.expected.initial, inspector=w.inspector,
            roundings=self.expected.roundings, workers=self.workers,
        )  # fmt: skip

    @cached_property
    def former_best(self) -> Record | None:
        """The best earlier record, if its sketch is in the space no more: it still plays off."""
        choices = ranked(self.earlier, key=self.workload.key, target=self.target, device=self.device["name"])
        best = choices[0].record if choices else None
        return best if best is not None and best.sketch != DEFAULT and self.candidate_of(best) is None else None

    def name_of(self, r: Record) -> str:
        """The name under which the measurer knows the sketch of a candidate's record, or of `former_best`."""
        candidate = self.candidate_of(r)
        return f"{r.sketch} (record {r.id})" if candidate is None else self.space.sketches[candidate.sketch].name

    def preflight(self) -> None:
        """Measure the default schedule: where even that fails, no candidate will do, and the reason is raised.

        The strategy chooses the first candidates meanwhile. Where the default schedule is a point of the space, it may
        be one of them.
        """
        trace, some = self.defaults
        if self.expected.is_unknown:
            default, until = Job(-2, DEFAULT, some[0], patience=PATIENCE), moment(self._left_for_trials())
            if told := self.expected.by_stand_in(self.measurer, default, until):
                self.note(told, "warning")
        if doubt := self.expected.doubt:
            self.note(doubt, "warning")
        if self.limit is None or self.limit > self.resumed:
            self.proposals.begin(self._next_size(self.resumed))
        failed: list[Measurement] = []
        for knobs in some:
            job, until = Job(0, DEFAULT, knobs, patience=PATIENCE), moment(self._left_for_trials())
            m = next(iter(self.measurer.measure([job], quiet=self._settle, until=until)), None)
            if m is None:  # what is predicted is all that there will be
                if not self.expected.hopeless:
                    self.settled = Note(self.budget.too_short(self.elapsed, self.measurer.left_at), "warning")
                return
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
        self.budget.default(m)
        self.neighbours.add(m)
        self.default_record = r = self.measured_record(m, trace, trial=0)
        self.save(r)
        if (candidate := self.candidate_of(r)) is not None:  # a point of the space: it need not be tried again
            self.proposals.leave_out(candidate)
            self.observe([self.costs.trial(candidate, r)])
        self.say(Preflight(self.default_seconds, self.expected.reference_s))

    def _settle(self) -> None:
        """Wait, before the default schedule is timed, until nobody is proposing; not so long that there is no time."""
        self.proposals.join(self._left_for_trials() / 2)

    def remember(self) -> None:
        """Let candidates with the code of an earlier record take over its time, where times are comparable.

        They are on the same device, with the same software. The default schedule is measured in any case: it shows
        that all works.
        """
        this_run = {r.id for r in self.measured}
        for r in latest([*self.earlier, *self.measured]):
            trusted = (r.verified != "no" if r.id in this_run else is_own(r)) or not self.measure_options.verify
            if r.ok and r.code and trusted and (r.device, r.versions) == (self.device, self.versions):
                self.measurer.remember(r.code, r.samples, verified=r.verified, raced=r.raced, name=f"record {r.id}")

    # -- batches ----------------------------------------------------------------------------------
    def _next_size(self, done: int) -> int:
        """The number of candidates of the next batch, as far as the budget allows."""
        size = min(self.most, BATCHES[min(self._begun_batches, len(BATCHES) - 1)])
        return size if self.limit is None else min(size, self.limit - done)

    def _propose(self) -> Iterator[list[Candidate]]:
        """Batches to measure, until a limit is reached or the space is exhausted."""
        done = self.resumed
        if (settled := self._nothing_to_search()) is not None:
            self.settled = settled
            self.note_failures()
            self.note(settled.text, settled.level)
            return
        while self.limit is None or done < self.limit:
            is_first = not self.measured  # of a batch that was given up there is none, either
            if self.budget.is_over(self.elapsed, is_first):
                if is_first:
                    self.note(self.budget.too_short(self.elapsed), "warning")
                return
            if self._is_patience_over:
                self.note(f"the last {self.in_vain} trials found nothing faster, so the search ends (patience)")
                return
            n = self.budget.batch(self._next_size(done), self.elapsed)
            begun = time.monotonic()
            batch = self._foreseen() if not done else []
            batch += [c for c in self.proposals.take(n - len(batch)) if c not in batch] if n > len(batch) else []
            self.budget.proposed(time.monotonic() - begun)
            self.note_failures()
            blame.for_faults(self)
            if not batch and self.proposals.is_late:
                if is_first:
                    self.note(self.budget.too_short(self.elapsed), "warning")
                blame.for_being_late(self)
                return
            if not batch:
                impossible = None if done else self.space.impossible()
                if impossible is not None:
                    raise impossible
                self.note("every candidate of the search space has been measured")
                return
            done += len(batch)
            self._begun_batches += 1
            self.proposals.prepare(self._next_size(done))
            yield batch

    def _foreseen(self) -> list[Candidate]:
        """What `build` took without a search, where it did: no search may end with less."""
        w = self.workload
        if not isinstance(w, Workload) or not predicting.is_on():
            return []
        known = predicting.foreseen_before(w, self.target, self.device["name"], self.sizes)
        at = None if known is None else self.space.find(known.trace)
        if known is None or at is None:
            return []
        indices = self.space.sketches[at].indices_of(known.knobs)
        return [] if indices is None else [Candidate(at, indices)]

    def _first_look(self) -> list[Candidate]:
        """The best point of the first sketch by the analytical model, which is measured before the default strategy has
        looked at the others. None where there was a trial, or no model."""
        if self.options.strategy != STRATEGY or self.prior is None or self.resumed:
            return []
        found = next(outlooks(self.space, self.prior.seconds, seed=self.options.seed, sketches=1), None)
        return [] if found is None else [found.choices[0].candidate]

    @property
    def _is_patience_over(self) -> bool:
        return self.patience is not None and self.in_vain >= self.patience

    def _nothing_to_search(self) -> Note | None:
        """The reason why no schedule can beat the default one, if any; a warning where no sketch could be made."""
        if self.settled is not None:
            return self.settled
        if why := self.expected.hopeless:
            return Note(f"{why}, so nothing is searched: give a larger budget", "warning")
        if (found := self.expected.outputs) and all(x is not None and x.size == 0 for x in found):
            return Note("the outputs have no elements at these sizes, so there is nothing to make faster")
        if not (isinstance(self.space, SearchSpace) and self.space.is_default_alone):
            return None
        if self.space.is_unsearchable:
            names = ", ".join(self.space.untraced)
            return Note(f"there was nothing to search: no sketch of {names} could be made", "warning")
        reasons = "".join(f"; {stage}: {why}" for stage, _, why, _ in self.space.remarks)
        return Note(f"the default schedule is the only one, so there is nothing to search{reasons}")

    def note_failures(self) -> None:
        """Tell the user of sketches that turned out to be impossible, each reason once."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in list(self.space.failures.items()):
            by_reason.setdefault(reason, []).append(name)
        for reason in [x for x in by_reason if x not in self._impossible]:
            names = by_reason[reason]
            others = f" and {len(names) - 1} others" if len(names) > 1 else ""
            self.note(f"sketch {names[0]}{others} cannot be built, so the search leaves it out: {reason}", "warning")
        self._impossible.update(by_reason)

    def measure(self, batch: list[Candidate]) -> Iterator[Trial]:
        """Measure a batch, with a record for each candidate, until time runs out."""
        self.given_up = batch
        jobs, first = [], self.resumed + len(self.measured) + 1
        for i, c in enumerate(batch, start=first):
            sketch = self.space.sketches[c.sketch]
            jobs.append(Job(i, sketch.name, sketch.values(c.indices)))
        until = moment(self._left_for_trials())
        for m in self.measurer.measure(jobs, quiet=self.proposals.join, until=until):
            candidate = batch[m.job.id - first]
            sketch = self.space.sketches[candidate.sketch]
            (features,) = sketch.features(np.array([candidate.indices], dtype=np.int64).reshape(1, -1))
            r = self.measured_record(m, sketch.trace, m.job.id).with_features(self.space.feature_version, features)
            self.measured.append(r)
            self.budget.measured(m)
            self.neighbours.add(m)
            if news := self.neighbours.news():
                self.note(news, "warning")
            self.save(r)
            self.say(self._progress(r))
            yield self.costs.trial(candidate, r)
            if self.budget.left(self.elapsed) <= 0 or self._is_patience_over:
                return

    def _left_for_trials(self) -> float:
        """Seconds after which a batch is given up."""
        left = self.budget.left_for_trials(self.elapsed, not self.measured)
        return min(left, self.ends_at - time.monotonic())

    def _progress(self, r: Record) -> TrialDone:
        best = min((*self.measured, *self.earlier), key=self.costs.of)
        return TrialDone(
            self.resumed + len(self.measured),
            r,
            best.seconds,
            self.default_seconds,
            self.failures,
            self.elapsed,
            self.limit,
            self.budget.seconds,
            self.expectation,
        )

    # -- records ----------------------------------------------------------------------------------
    def measured_record(self, m: Measurement, trace: Any, trial: int, **more: Any) -> Record:
        """The record of one measurement."""
        extra = ({"raced": True} if m.raced else {}) | ({"code": m.digest} if m.digest else {})
        made = self.record(
            m.job.sketch, trace, m.job.knobs, trial, status=m.status, samples=m.samples, error=m.error,
            build_s=m.build_s, verified=self.expected.verdict(m.verified), extra=extra, **more,
        )  # fmt: skip
        return sealed(made.with_strain(m.strain))

    def save(self, r: Record) -> None:
        """Append to the log; on a full disk the line is lost, not the run."""
        try:
            self.log.append(r)
            self._saved.add(label(r))
        except RecordError as error:
            if not self._unsaved:
                self.note(f"records cannot be written any more: {error}", "warning")
            self._unsaved += 1

    # -- the end ----------------------------------------------------------------------------------
    def playoff(self) -> TuneResult:
        """Time the best against the default schedule, interleaved, and decide who won."""
        entrants, rounds = self.budget.playoff(self.elapsed)
        return self.result(playoff.hold(self, playoff.finalists_of(self)[:entrants], rounds=rounds))

    def without_playoff(self) -> TuneResult:
        """The best single measurement as the result."""
        return self.result(playoff.without(self))

    def result(self, outcome: PlayoffOutcome) -> TuneResult:
        """The result of the run as far as it is known now."""
        best = outcome.best
        trace, knobs = (self.defaults[0], self.default_knobs) if best is None else (best.trace, best.knobs)
        return TuneResult(
            repr(self.workload),
            str(self.target),
            self.device["name"],
            self.sizes,
            self.default_seconds if self.default_record is not None else math.nan,
            best,
            outcome.seconds,
            outcome.speedup,
            outcome.interval,
            list(outcome.tied),
            len(self.measured),
            self.resumed,
            self.failures,
            self.elapsed,
            self.log.path,
            False,
            self.workload.as_text(trace, knobs),
            dict(knobs),
            unsearchable=self.settled is not None and self.settled.level == "warning",
            expected=self.expectation,
            key=self.workload.key,
        )

    def finish(self, result: TuneResult, interrupted: bool = False) -> TuneResult:
        """Send the last notes; returns the result with all that is known by then."""
        blame.for_faults(self, last=True)
        if same := sum(r.ok and bool(r.error) for r in self.measured):
            have, share = ("1 trial has", "shares") if same == 1 else (f"{same} trials have", "share")
            self.note(f"{have} the same code as an earlier one, and {share} its time")
        if self._unsaved:
            self.note(f"{self._unsaved} records could not be written", "warning")
        result = replace(result, interrupted=interrupted, notes=list(self.notes), elapsed_s=self.elapsed)
        result = replace(result, points=self.space.size, valid=self.space.valid, strain=self.neighbours.strain)
        result = replace(result, is_recorded=result.best is None or label(result.best) in self._saved)
        self.say(PlayoffDone(result))
        return result
