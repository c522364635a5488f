"""`Playoff`: a few candidates timed against each other, round by round, so that noise meets all of them alike."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from autosched.measure.batch import MAX_ATTEMPTS, BuildQueue, MeasureContext, QueuedJob
from autosched.measure.pool import Event
from autosched.measure.process import KILLED, REPLY, TIMEOUT
from autosched.measure.protocol import UNLOADED, Job, RunAnswer, read_run, read_time
from autosched.measure.verify import AFTER, FIRST

#: why a candidate left that was not ready in time
LATE = "the time was over before its turn"
#: Seconds that a sample at work has when the time is over: with it the rounds of all others would be lost.
_SAMPLE_GRACE_S = 1.0


@dataclass
class _Entry:
    """One candidate. `number`, the calls in a piece of a sample, is fixed when it is first loaded."""

    job: Job
    key: str
    task: QueuedJob | None = None
    number: int = 0
    samples: list[float] = field(default_factory=list)
    strains: list[float] = field(default_factory=list)
    strikes: int = 0
    error: str = ""


class Playoff:
    """Builds, verifies and loads every job, then takes one sample of each in every round.

    A candidate that fails leaves with all its samples, so that samples `i` of any two that remain were taken in the
    same round. `errors` has the reasons, by job id.
    """

    def __init__(self, context: MeasureContext, jobs: Iterable[Job], rounds: int, until: float | None = None) -> None:
        """No round begins after `until`, a time of the monotonic clock, and who is not built and loaded then leaves."""
        self._context, self._rounds, self._until = context, rounds, until
        self._entries = [_Entry(job, f"{i}") for i, job in enumerate(jobs)]
        self._round_s = 0.0  # of the last round
        self._shuffle = random.Random(0)  # fixed: the order of measuring is no source of surprise

    @property
    def errors(self) -> dict[int, str]:
        return {e.job.id: e.error for e in self._entries if e.error}

    @property
    def strains(self) -> dict[int, float]:
        """The mean `Measurement.strain` of each candidate, by job id."""
        return {e.job.id: sum(e.strains) / len(e.strains) for e in self._entries if e.strains}

    def run(self) -> list[tuple[Job, list[float]]]:
        """Raises MeasureError when workers do not start."""
        try:
            self._build()
            for entry in self._entries:
                if not entry.error and self._is_in_time(entry):
                    self._load(entry)
            for r in range(self._rounds):
                begun = time.monotonic()
                is_last = r == self._rounds - 1 or self._is_over
                self._round(is_last=is_last)
                if is_last:
                    break
                self._round_s = time.monotonic() - begun
        finally:
            self._remove_files()
        return [(e.job, [] if e.error else e.samples) for e in self._entries]

    @property
    def _is_over(self) -> bool:
        """Whether there is no time for another round after the next one."""
        return self._until is not None and time.monotonic() + 2 * self._round_s > self._until

    def _is_in_time(self, entry: _Entry) -> bool:
        if self._until is None or time.monotonic() < self._until:
            return True
        entry.error = LATE
        return False

    def _build(self) -> None:
        queue = BuildQueue(self._context, [entry.job for entry in self._entries], reuse=False)
        # By identity: the same job may be entered twice.
        entry_of = {id(task): entry for task, entry in zip(queue.pending, self._entries, strict=True)}
        while queue.pending or queue.building:
            self._context.pool.ensure("runner", 1)
            queue.dispatch(len(self._entries))
            left = math.inf if self._until is None else self._until - time.monotonic()
            if left <= 0:
                break
            for event in self._context.pool.wait(min(1.0, left)):
                if (ended := queue.finish(event)) is not None:
                    entry_of[id(event.token)].error = f"{ended.status}: {ended.error}"
        for task in queue.built:
            entry_of[id(task)].task = task
        for entry in self._entries:
            if entry.task is None and not entry.error:
                entry.error = LATE

    def _round(self, *, is_last: bool) -> None:
        """Take a sample of each in a new order, so that none always follows one that empties the caches."""
        order = [entry for entry in self._entries if not entry.error]
        self._shuffle.shuffle(order)
        for entry in order:
            self._sample(entry, check=is_last)

    def _load(self, entry: _Entry) -> None:
        """Load a candidate and verify all its outputs whole. Its sample only serves to find `number`."""
        assert entry.task is not None
        while not entry.error:
            request = self._context.run_request(
                entry.task.path, key=entry.key, full=True, repeat=1, best_s=None, number=entry.number
            )
            # All the time there is: the default schedule may be a thousand times slower than the best.
            answer = self._ask(entry, request, self._context.run_limits(self._context.options.timeout_s))
            if answer is not None:
                entry.number = answer.number
                return

    def _sample(self, entry: _Entry, *, check: bool) -> None:
        context = self._context
        request = {
            "op": "time", "key": entry.key, "min_s": context.sample_s, "check": check, "show": context.shown,
        }  # fmt: skip
        while not entry.error:
            answer = self._ask(entry, request, self._context.time_limits())
            if answer is None:
                continue
            if answer.status != UNLOADED:
                entry.samples.extend(answer.samples)
                entry.strains.append(answer.strain)
                return
            self._load(entry)  # the runner was replaced, or holds no more than the others

    def _ask(self, entry: _Entry, request: dict[str, Any], limits: list[tuple[str, float]]) -> RunAnswer | None:
        """The answer; None where there is none. The question may be repeated unless `entry.error` is set."""
        is_run = request["op"] == "run"
        event = self._exchange(request, limits, 0.0 if is_run else _SAMPLE_GRACE_S)
        if event is None:
            entry.error = LATE
            return None
        if is_run:
            answer = self._context.answered(event, read_run, FIRST, AFTER)
        else:
            answer = self._context.answered(event, read_time, *((AFTER,) if request["check"] else ()))
        if isinstance(answer, tuple):
            kind = event.outcome.kind
            is_blamed = kind == TIMEOUT or (event.fresh and kind not in (KILLED, REPLY))
            self._strike(entry, ": ".join(answer), is_final=is_blamed)
            return None
        if answer.status in ("ok", UNLOADED):
            return answer
        self._strike(entry, f"{answer.status}: {answer.error}", is_final=not answer.device_error)
        return None

    def _strike(self, entry: _Entry, error: str, *, is_final: bool = False) -> None:
        entry.strikes += 1
        if is_final or entry.strikes >= MAX_ATTEMPTS:
            entry.error = error

    def _exchange(self, request: dict[str, Any], limits: list[tuple[str, float]], grace_s: float) -> Event | None:
        """Ask the runner and wait for the outcome; None where there is none so many seconds after `until`."""
        pool = self._context.pool
        end = math.inf if self._until is None else self._until + grace_s
        while True:
            pool.ensure("runner", 1)
            slot = pool.free("runner")
            if slot is not None:
                pool.submit(slot, request, limits, None)
            for event in pool.wait(min(1.0, max(end - time.monotonic(), 0.01))):
                return event
            if time.monotonic() >= end:
                pool.stop_busy()
                return None

    def _remove_files(self) -> None:
        for entry in self._entries:
            if entry.task is not None:
                entry.task.path.unlink(missing_ok=True)
