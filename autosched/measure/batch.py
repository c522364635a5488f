"""The way of a job through a measuring session: `BuildQueue`, builders, the runner, `Batch`.

    Job -> QueuedJob -> request to a builder -> digest, artifact -> request to the runner -> RunAnswer -> Measurement

`MeasureContext` is what batches and play-offs (`playoff.py`) of a session share.
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autosched.errors import DeviceError, Malformed
from autosched.measure.jobs import PHASES
from autosched.measure.pool import Event, Slot, WorkerPool
from autosched.measure.proc import CpuSeconds
from autosched.measure.process import KILLED, REPLY, TIMEOUT, Outcome
from autosched.measure.protocol import Job, Measurement, MeasureOptions, RunAnswer, read_build, read_run
from autosched.measure.verify import AFTER, FIRST, Inspection
from autosched.measure.workers import SessionFolder, Workers
from autosched.target import Target

#: A job whose worker died is tried once more: an earlier job, or the system, may have been the cause.
MAX_ATTEMPTS = 2

_MAX_DEVICE_ERRORS = 3  # in a row, before the device itself is suspected
_LEAST_RUN_S = 2.0
_SLACK = 10.0  # a candidate may be this much slower than the best before it is cut off
#: A candidate may take this many times as long to compile as others, and this part of the time left to its batch, but
#: always so many seconds: what takes longer is made of far more code than they are.
_BUILD_SLACK, _ONE_SHARE, _LEAST_BUILD_S = 8.0, 0.25, 4.0
#: Candidates that tell how long compiling takes: the latest, and at least so many.
_TELLING, _FEW = 16, 4
_CHECK_S = 30.0  # comparing outputs is our own code; this only bounds a damaged process
_LOG_SHOWN = 400  # characters
_BUILD_SHARE = 0.7  # of the time until a batch has to end, after which what is built is run
_DIGEST = re.compile(r"[0-9a-f]{64}")

_WHILE = {
    "build": "while it was built",
    "load": "while it was loaded",
    "first": "in its first run",
    "check": "after its first run",
    "time": "while it was timed",
    "recheck": "after it was timed",
}


@dataclass
class QueuedJob:
    """A job on its way. `place` is its position in the batch.

    `attempts` counts the builds, then the runs, in which the worker died. `is_control` marks a job that is run again
    to see whether the device still works.
    """

    job: Job
    place: int = 0
    path: Path = Path()
    attempts: int = 0
    digest: str = ""
    build_s: float = 0.0
    is_control: bool = False

    def ended(self, status: str, error: str = "", **more: Any) -> Measurement:
        return Measurement(self.job, status, error=error, build_s=self.build_s, digest=self.digest, **more)

    def may_try_again(self, event: Event) -> bool:
        """Count an attempt; whether another is due, because an earlier candidate or the system may be to blame."""
        self.attempts += 1
        return self.attempts < MAX_ATTEMPTS and (event.outcome.kind == KILLED or not event.fresh)


@dataclass(frozen=True)
class KnownCode:
    """The measurement of some code; `name` is its origin, such as "job 17"."""

    name: str
    samples: tuple[float, ...]
    verified: str
    raced: bool


@dataclass
class MeasureContext:
    """One measuring session: its workers, the requests to them and their time limits.

    best_s:     the best median so far, in seconds; it shortens the limits of later candidates
    known:      digest of code -> its measurement (`remember`)
    control:    a job that worked, its artifact kept: it tells a lost device from bad candidates
    inspection: the caller's own check of outputs
    remembers:  whether later jobs with the code of one of this session take over its samples
    builds, loads: seconds that the latest candidates took to build, and to load with what drivers do at a first launch
    """

    target: Target
    options: MeasureOptions
    workers: Workers
    best_s: float | None = None
    known: dict[str, KnownCode] = field(default_factory=dict)
    control: QueuedJob | None = None
    inspection: Inspection | None = None
    remembers: bool = True
    builds: deque[float] = field(default_factory=lambda: deque(maxlen=_TELLING))
    loads: deque[float] = field(default_factory=lambda: deque(maxlen=_TELLING))

    @property
    def session(self) -> SessionFolder:
        return self.workers.session

    @property
    def pool(self) -> WorkerPool:
        return self.workers.pool

    def remember(self, digest: str, known: KnownCode) -> None:
        """Spare candidates with this code compiling and running. A text that is no digest is ignored."""
        if self.remembers and digest not in self.known and _DIGEST.fullmatch(digest):
            self.known[digest] = known
            with suppress(OSError):  # on a full disk it is compiled once more
                (self.session.known / digest).touch()

    @property
    def at_work(self) -> str:
        """What a worker is busy with, such as "while it was loaded"; empty where none is."""
        phases = [slot.worker.phase for slot in self.pool.slots if slot.worker.busy]
        return next((_WHILE[phase] for phase in phases if phase in _WHILE), "")

    # -- time limits and requests -----------------------------------------------------------------

    @property
    def sample_s(self) -> float:
        """Seconds that a sample lasts; 0 for one piece of as many calls as the options say."""
        return 0.0 if self.options.number else self.options.min_repeat_ms / 1000

    def run_limit_s(self, patience: float = 1.0) -> float:
        """Limit of a candidate's first run, and again of all its timed calls together, in seconds."""
        limit = self.options.timeout_s
        if self.best_s is None:
            return patience * limit
        calls = self.options.number or max(1.0, self.sample_s / self.best_s)
        return min(limit, max(_LEAST_RUN_S, _SLACK * self.best_s * calls * self.options.repeat))

    def compile_limit_s(self, others: Sequence[float], left: float = math.inf) -> float:
        """Seconds that a candidate may be compiled where others took so long, `left` seconds before its batch ends.

        A search spends no time on what has lost: code that takes far longer than all others. Until something has been
        measured, and a few have told how long it takes, it is what the options say.
        """
        most = self.options.build_timeout_s
        if self.best_s is None or len(others) < _FEW:
            return most
        return min(most, max(_LEAST_BUILD_S, min(_BUILD_SLACK * statistics.median(others), _ONE_SHARE * left)))

    def run_limits(self, run: float, load: float | None = None) -> list[tuple[str, float]]:
        """The limit of each phase of a run that may take `load` seconds to compile, as the options say by default, and
        whose timed calls may take `run` seconds."""
        load = self.options.build_timeout_s if load is None else load
        # A device's driver may compile again at the first launch.
        first = run + (load if self.target.kind == "opencl" else 0.0)
        seconds = (CpuSeconds(load), first, _CHECK_S, run, _CHECK_S)
        return list(zip(PHASES, seconds, strict=True))

    def time_limits(self) -> list[tuple[str, float]]:
        return [("time", self.options.timeout_s), ("recheck", _CHECK_S)]

    def run_request(self, path: Path, **changes: Any) -> dict[str, Any]:
        options = self.options
        return {
            "op": "run",
            "path": str(path),
            "number": options.number,
            "repeat": options.repeat,
            "min_s": self.sample_s,
            "best_s": self.best_s,
            "race": options.race,
            "on_cpu": self.target.is_cpu,
            "budget_s": min(self.run_limit_s(), options.timeout_s) / 2,
            "full": False,
            "key": "",
            "show": self.shown,
            **changes,
        }

    @property
    def shown(self) -> str:
        """The place where the runner writes outputs for the inspection; empty where there is none."""
        return "" if self.inspection is None else self.inspection.place

    def answered(self, event: Event, read: Callable[[Any], RunAnswer], *calls: str) -> RunAnswer | tuple[str, str]:
        """The runner's answer, after the caller's own check of these calls; (status, error) where there is none that is
        valid. A runner that is not to be trusted any more is replaced."""
        if event.outcome.kind != REPLY:
            return self.failure(event.outcome)
        try:
            answer = self._inspected(read(event.outcome.reply), calls)
        except Malformed as error:
            self.pool.recycle(event.slot)
            return "crash", f"it sent an invalid answer: {error}"
        if answer.recycle:
            self.pool.recycle(event.slot)
        return answer

    def _inspected(self, answer: RunAnswer, calls: Sequence[str]) -> RunAnswer:
        if answer.status != "ok" or self.inspection is None or not calls:
            return answer
        wrong = self.inspection.verdict(calls)
        # what leaves wrong outputs may have damaged the process
        return replace(answer, status="correctness", error=wrong, samples=(), recycle=True) if wrong else answer

    # -- outcomes as statuses -----------------------------------------------------------------------

    def failure(self, outcome: Outcome) -> tuple[str, str]:
        """(status, error) of a job whose worker did not answer."""
        where = _WHILE.get(outcome.phase, "")
        words = last_words(outcome.log)
        error = f"{outcome.error} {where}{f'; it printed: {words}' if words else ''}"
        if outcome.kind == TIMEOUT:
            device_build = outcome.phase == "load" and self.target.kind == "opencl"
            return ("build_timeout" if outcome.phase == "build" or device_build else "timeout"), error
        if outcome.kind == KILLED:
            return "lost", error
        if outcome.phase == "build":
            return "compile", f"the compiler died: {error}"
        return "crash", error


def last_words(log: str) -> str:
    """The end of what a worker printed, on one line."""
    text = " ".join(log.split())
    return text if len(text) <= _LOG_SHOWN else "..." + text[-_LOG_SHOWN:]


class BuildQueue:
    """Jobs that wait for a builder, are being built, or wait for the runner.

    With `reuse`, a job whose code was measured before is not compiled, and has no file.
    """

    def __init__(self, context: MeasureContext, jobs: Iterable[Job], *, reuse: bool) -> None:
        self._context = context
        self._known = str(context.session.known) if reuse else ""
        self.pending = deque(QueuedJob(job, place) for place, job in enumerate(jobs))
        self.building = 0
        self.built: deque[QueuedJob] = deque()

    def dispatch(self, ahead: int, limit_s: float | None = None) -> None:
        """Keep builders busy while fewer than `ahead` jobs are built or being built, each for `limit_s` at most where
        its sketch need not be lowered first."""
        pool, options = self._context.pool, self._context.options
        room = min(len(self.pending), ahead - len(self.built) - self.building)
        if room <= 0:
            return
        pool.ensure("builder", min(options.builders, room + self.building))
        while room > 0 and (slot := pool.free("builder")) is not None:
            task = self._next_for(slot)
            task.path = self._context.session.new_artifact()
            request = {"op": "build", "job": task.job.to_json(), "path": str(task.path), "known": self._known}
            is_lowered = task.job.sketch in slot.knows
            most = limit_s if limit_s is not None and is_lowered else options.build_timeout_s
            if pool.submit(slot, request, [("build", CpuSeconds(task.job.patience * most))], task):
                self.pending.remove(task)
                slot.knows.add(task.job.sketch)
                self.building += 1
                room -= 1

    def _next_for(self, slot: Slot) -> QueuedJob:
        """The first job of a sketch that this builder has lowered, else of one that none has, else the first."""
        others = {name for s in self._context.pool.slots for name in s.knows}
        return min(self.pending, key=lambda task: (task.job.sketch not in slot.knows, task.job.sketch in others))

    def sort(self) -> None:
        """Put the built jobs into the order in which they were asked for, whichever builder was quicker."""
        self.built = deque(sorted(self.built, key=lambda task: task.place))

    def finish(self, event: Event) -> Measurement | None:
        """Handle a builder's event; returns the measurement of a job that has ended."""
        self.building -= 1
        task: QueuedJob = event.token
        outcome = event.outcome
        if outcome.kind == REPLY:
            return self._answered(task, event)
        task.path.unlink(missing_ok=True)
        task.build_s += outcome.seconds
        status, error = self._context.failure(outcome)
        if outcome.kind != TIMEOUT and task.may_try_again(event):
            self.pending.appendleft(task)
            return None
        return task.ended(status, error)

    def _answered(self, task: QueuedJob, event: Event) -> Measurement | None:
        try:
            answer = read_build(event.outcome.reply)
        except Malformed as error:
            self._context.pool.recycle(event.slot)
            return task.ended("compile", f"the compiler sent an invalid answer: {error}")
        task.build_s += answer.build_s
        if answer.status != "ok":
            task.path.unlink(missing_ok=True)
            return task.ended(answer.status, answer.error)
        self._context.builds.append(answer.build_s)
        task.digest, task.attempts = answer.digest, 0
        self.built.append(task)
        return None


class Batch:
    """Builds several jobs ahead and runs one at a time.

    Unless `options.overlap`, building and running alternate: some jobs are built by all builders, then run while no
    builder works, and nothing runs while the caller handles a measurement. On a CPU, which both would use whole, that
    costs no time, and the timing is not disturbed.

    With `until`, a time of the monotonic clock, it ends then: jobs that are not done by that time have no measurement.
    Where builds take most of the time, what has been built by then is run, while the others are still at work.
    """

    def __init__(
        self,
        context: MeasureContext,
        jobs: Iterable[Job],
        quiet: Callable[[], object] | None = None,
        until: float | None = None,
    ) -> None:
        self._context, self._until = context, until
        now = time.monotonic()
        self._build_until = None if until is None else now + _BUILD_SHARE * (until - now)
        self._quiet = quiet
        self._queue = BuildQueue(context, jobs, reuse=True)
        self._running: QueuedJob | None = None
        self._is_running_phase = False
        self._results: deque[Measurement] = deque()
        self._ahead = max(16, 2 * context.options.builders)
        self._device_errors = 0
        self._fatal: DeviceError | None = None

    def __iter__(self) -> Iterator[Measurement]:
        """Raises DeviceError when the device is lost, MeasureError when workers do not start."""
        pool = self._context.pool
        while True:
            while self._results:
                yield self._results.popleft()
                pool.extend_deadlines()
            if self._fatal is not None:
                raise self._fatal
            queue = self._queue
            if not (queue.pending or queue.building or queue.built or self._running) or _is_past(self._until):
                return
            self._dispatch()
            if not self._results:
                for event in pool.wait(_wait_s(self._until, self._build_until)):
                    self._handle(event)

    # -- dispatching -------------------------------------------------------------------------------

    @property
    def _left_s(self) -> float:
        return math.inf if self._until is None else self._until - time.monotonic()

    def _dispatch(self) -> None:
        queue, pool = self._queue, self._context.pool
        pool.ensure("runner", 1)
        limit_s = self._context.compile_limit_s(self._context.builds, self._left_s)
        if self._context.options.overlap:
            queue.dispatch(self._ahead, limit_s)
            self._run_next()
            return
        if not self._is_running_phase:
            queue.dispatch(self._ahead, limit_s)
            is_enough = not queue.pending or len(queue.built) >= self._ahead
            self._is_running_phase = is_enough and not queue.building and not pool.is_starting("builder")
            if queue.built and _is_past(self._build_until):
                queue.pending.clear()
                self._is_running_phase = True
            queue.sort()
            if self._is_running_phase and self._quiet is not None:
                self._quiet()
        if self._is_running_phase:
            self._run_next()
            self._is_running_phase = bool(queue.built or self._running)

    def _run_next(self) -> None:
        queue = self._queue
        while queue.built and self._running is None:
            task = queue.built[0]
            if (known := self._context.known.get(task.digest)) is not None and not task.is_control:
                queue.built.popleft()
                same = {"samples": known.samples, "verified": known.verified, "raced": known.raced}
                self._end(task, task.ended("ok", f"same code as {known.name}", **same))
                continue
            slot = self._context.pool.free("runner")
            if slot is None:
                return
            request = self._context.run_request(task.path)
            load_s = self._context.compile_limit_s(self._context.loads, self._left_s)
            limits = self._context.run_limits(self._context.run_limit_s(task.job.patience), load_s)
            if not self._context.pool.submit(slot, request, limits, task):
                return
            self._running = queue.built.popleft()

    # -- outcomes ---------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if event.slot.role == "builder":
            ended = self._queue.finish(event)
            if ended is not None:
                self._results.append(ended)
            return
        task, self._running = event.token, None
        ended = self._judge(task, event)
        if ended is None:
            self._queue.built.appendleft(task)
        elif task.is_control:
            self._device_errors = 0
            self._fatal = None if ended.ok else _device_lost(ended)
        else:
            self._end(task, ended)
            self._watch_device(ended)

    def _judge(self, task: QueuedJob, event: Event) -> Measurement | None:
        """The measurement of a run, or None where it has to be repeated on a new worker."""
        outcome = event.outcome
        answer = self._context.answered(event, read_run, FIRST, AFTER)
        if isinstance(answer, tuple):
            if outcome.kind != TIMEOUT and task.may_try_again(event):
                return None
            return task.ended(*answer, run_s=outcome.seconds)
        if answer.device_error:
            task.attempts += 1
            self._device_errors += task.attempts >= MAX_ATTEMPTS
            if task.attempts < MAX_ATTEMPTS:
                return None
        else:
            self._device_errors = 0
        if answer.status == "ok":
            self._context.loads.append(sum(outcome.spent.get(phase, 0.0) for phase in ("load", "first")))
        said = answer.error
        if answer.status == "compile" and (words := last_words(outcome.log)) and words not in said:
            said = f"{said}\n{words}"  # a device's compiler may say more on its standard error
        found = {"samples": answer.samples, "verified": answer.verified, "raced": answer.raced}
        return task.ended(answer.status, said, run_s=answer.run_s, strain=answer.strain, **found)

    def _end(self, task: QueuedJob, ended: Measurement) -> None:
        context = self._context
        if ended.ok:
            context.best_s = min(context.best_s or ended.seconds, ended.seconds)
            context.remember(ended.digest, KnownCode(f"job {ended.job.id}", ended.samples, ended.verified, ended.raced))
        if ended.ok and context.control is None:
            context.control = replace(task, is_control=True)  # and keep its file
        elif context.control is None or task.path != context.control.path:
            task.path.unlink(missing_ok=True)
        self._results.append(ended)

    # -- a lost device ----------------------------------------------------------------------------

    def _watch_device(self, ended: Measurement) -> None:
        """After several device errors in a row, run a job that worked before: the device may be lost."""
        if self._device_errors < _MAX_DEVICE_ERRORS:
            return
        if self._context.control is None:
            self._fatal = _device_lost(ended)
        else:
            self._queue.built.appendleft(replace(self._context.control, attempts=0))


def _is_past(moment: float | None) -> bool:
    return moment is not None and time.monotonic() >= moment


def _wait_s(*moments: float | None) -> float:
    """Seconds to wait for workers: not beyond any of these moments that is still to come."""
    now = time.monotonic()
    return min([1.0, *(max(m - now, 0.01) for m in moments if m is not None and m > now)])


def _device_lost(ended: Measurement) -> DeviceError:
    return DeviceError(
        f"the device stopped working: {ended.error}",
        legal="what was measured is kept; `autosched doctor` looks at the device",
    )
