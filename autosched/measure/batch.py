"""`Batch`: one call of `Measurer.measure`. Jobs go in, measurements come out, whatever the candidates do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from autosched.errors import DeviceError, Malformed
from autosched.measure.context import MAX_ATTEMPTS, BuildQueue, KnownCode, MeasureContext, Task, last_words
from autosched.measure.pool import Event
from autosched.measure.process import REPLY, TIMEOUT
from autosched.measure.protocol import Job, Measurement, RunAnswer, read_run
from autosched.measure.verify import AFTER, FIRST

_MAX_DEVICE_ERRORS = 3  # in a row, before the device itself is suspected


class Batch:
    """Builds several jobs ahead and runs one at a time.

    Unless `options.overlap`, building and running alternate: some jobs are built by all builders, then run while no
    builder works, and nothing runs while the caller handles a measurement. On a CPU, which both would use whole, that
    costs no time, and the timing is not disturbed.
    """

    def __init__(self, context: MeasureContext, jobs: Iterable[Job], quiet: Callable[[], object] | None = None) -> None:
        self._context = context
        self._quiet = quiet
        self._queue = BuildQueue(context, jobs, reuse=True)
        self._running: Task | None = None
        self._is_running_phase = False
        self._results: deque[Measurement] = deque()
        self._ahead = max(8, 2 * context.options.builders)
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
            if not (queue.pending or queue.building or queue.built or self._running):
                return
            self._dispatch()
            if not self._results:
                for event in pool.wait(1.0):
                    self._handle(event)

    # -- dispatching -------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        queue, pool = self._queue, self._context.pool
        pool.ensure("runner", 1)
        if self._context.options.overlap:
            queue.dispatch(self._ahead)
            self._run_next()
            return
        if not self._is_running_phase:
            queue.dispatch(self._ahead)
            is_enough = not queue.pending or len(queue.built) >= self._ahead
            self._is_running_phase = is_enough and not queue.building and not pool.is_starting("builder")
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
            limits = self._context.run_limits(self._context.run_limit_s(task.job.patience))
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

    def _judge(self, task: Task, event: Event) -> Measurement | None:
        """The measurement of a run, or None where it has to be repeated on a new worker."""
        outcome = event.outcome
        if outcome.kind != REPLY:
            status, error = self._context.failure(outcome)
            if outcome.kind != TIMEOUT and task.may_try_again(event):
                return None
            return task.ended(status, error, run_s=outcome.seconds)
        try:
            answer = self._context.inspect(read_run(outcome.reply), FIRST, AFTER)
        except Malformed as error:
            self._context.pool.recycle(event.slot)
            if task.may_try_again(event):
                return None
            return task.ended("crash", f"it sent an invalid answer: {error}", run_s=outcome.seconds)
        if answer.recycle:
            self._context.pool.recycle(event.slot)
        if answer.device_error:
            task.attempts += 1
            self._device_errors += task.attempts >= MAX_ATTEMPTS
            if task.attempts < MAX_ATTEMPTS:
                return None
        else:
            self._device_errors = 0
        return _measured(task, answer, outcome.log)

    def _end(self, task: Task, ended: Measurement) -> None:
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


def _measured(task: Task, answer: RunAnswer, log: str) -> Measurement:
    error = answer.error
    if answer.status == "compile" and (words := last_words(log)) and words not in error:
        error = f"{error}\n{words}"  # a device's compiler may say more on its standard error
    found = {"samples": answer.samples, "verified": answer.verified, "raced": answer.raced}
    found["strain"] = answer.strain
    return task.ended(answer.status, error, run_s=answer.run_s, **found)


def _device_lost(ended: Measurement) -> DeviceError:
    return DeviceError(
        f"the device stopped working: {ended.error}",
        legal="what was measured is kept; `autosched doctor` looks at the device",
    )
