"""A pool of worker processes, by role: started when needed, configured, replaced when they die."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import MeasureError, clipped
from autosched.measure.process import REPLY, Outcome, WorkerProcess, wait

_STARTUP_S = 60.0  # importing a compiler on a busy machine
_MAX_FAILURES = 3  # starts in a row that may fail before we give up
_RECYCLE_AFTER = 500  # jobs: bounds what a driver or a candidate can leak
_GRACE_S = 0.25  # for workers nobody watched for a while

_AMPLE_MEMORY = 1 << 30  # no process fails to start for want of more
_DOWN, _STARTING, _IDLE, _BUSY = "down", "starting", "idle", "busy"


@dataclass
class Slot:
    """A place for one worker. `served` counts the jobs that its present process has finished, `knows` has the names of
    what it need not prepare again."""

    role: str
    worker: WorkerProcess
    state: str = _DOWN
    token: Any = None
    served: int = 0
    starts: int = 0
    knows: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Event:
    """The end of a job. `fresh`: the process had run no other job, so this one caused what happened."""

    slot: Slot
    token: Any
    outcome: Outcome
    fresh: bool


@dataclass
class WorkerPool:
    """Workers by role. `make(role)` gives one that is not started, `configuration(role)` its first message."""

    make: Callable[[str], WorkerProcess]
    configuration: Callable[[str], dict[str, Any]]
    memory: int = 0  #: bytes of address space that each of them may have; 0 is no limit
    slots: list[Slot] = field(default_factory=list)
    _failures: int = 0

    def ensure(self, role: str, count: int) -> None:
        """Have `count` workers of a role, starting or started. Raises MeasureError when they do not start."""
        present = [slot for slot in self.slots if slot.role == role]
        for _ in range(count - len(present)):
            slot = Slot(role, self.make(role))
            self.slots.append(slot)
            present.append(slot)
        for slot in present[:count]:
            if slot.state == _DOWN:
                self._start(slot)

    def spawn(self, role: str, count: int) -> None:
        """Begin to start `count` workers, which load what they need meanwhile; the first `ensure` configures them."""
        for _ in range(count - sum(slot.role == role for slot in self.slots)):
            slot = Slot(role, self.make(role))
            self.slots.append(slot)
            with suppress(OSError):  # `ensure` will find out
                slot.worker.start()

    def free(self, role: str) -> Slot | None:
        return next((slot for slot in self.slots if slot.role == role and slot.state == _IDLE), None)

    def is_starting(self, role: str) -> bool:
        return any(slot.role == role and slot.state == _STARTING for slot in self.slots)

    @property
    def restarts(self) -> int:
        """The number of workers that were replaced."""
        return sum(max(0, slot.starts - 1) for slot in self.slots)

    def submit(self, slot: Slot, message: dict[str, Any], limits: Sequence[tuple[str, float]], token: Any) -> bool:
        """Give an idle worker a job. False when it died while idle: `ensure` again and take another."""
        if not slot.worker.send(message, limits):
            self._mark_down(slot)
            return False
        slot.state, slot.token = _BUSY, token
        return True

    def wait(self, timeout: float) -> list[Event]:
        """Jobs that have ended; none when a worker became ready or `timeout` seconds passed."""
        by_worker = {slot.worker: slot for slot in self.slots}
        events = []
        for worker, outcome in wait(by_worker, timeout):
            slot = by_worker[worker]
            if slot.state == _STARTING:
                self._started(slot, outcome)
            else:
                events.append(self._finished(slot, outcome))
        return events

    def extend_deadlines(self) -> None:
        """Extend deadlines that passed while nobody called `wait`."""
        for slot in self.slots:
            slot.worker.extend(_GRACE_S)

    def recycle(self, slot: Slot) -> None:
        """End a worker that is no longer trusted; `ensure` starts a new one."""
        slot.worker.kill()
        self._mark_down(slot)

    def stop_busy(self) -> None:
        """End the workers that are at a job or that an interruption left in between; keep the others."""
        for slot in self.slots:
            if slot.state == _BUSY or slot.worker.busy != (slot.state == _STARTING):
                self.recycle(slot)

    def close(self) -> None:
        """End all workers, even when interrupted."""
        try:
            for slot in self.slots:
                self.recycle(slot)
        except BaseException:
            for slot in self.slots:
                self.recycle(slot)
            raise

    def _start(self, slot: Slot) -> None:
        slot.served, slot.knows = 0, set()
        slot.starts += 1
        try:
            if not (slot.starts == 1 and slot.worker.running):  # it was spawned
                slot.worker.start()
        except OSError as error:
            self._not_started(slot, str(error))
            time.sleep(0.1)  # out of processes or pipes: it may pass
            return
        if slot.worker.send(self.configuration(slot.role), [("startup", _STARTUP_S)]):
            slot.state = _STARTING
        else:
            self._not_started(slot, "it ended at once")

    def _started(self, slot: Slot, outcome: Outcome) -> None:
        if outcome.kind != REPLY:
            self._not_started(slot, f"{outcome.error} {outcome.log[-1000:]}".strip())
        elif outcome.reply.get("status") != "ok":
            self.recycle(slot)
            raise self._useless(
                f"the {slot.role} cannot work", str(outcome.reply.get("error")), legal=outcome.log[-1000:]
            )
        else:
            self._failures = 0
            slot.state = _IDLE

    def _not_started(self, slot: Slot, reason: str) -> None:
        self.recycle(slot)
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            self._failures = 0
            raise self._useless(f"the {slot.role} process does not start", reason)

    def _useless(self, what: str, reason: str, legal: str = "") -> MeasureError:
        """The error for a worker that does nothing, which names a low limit of memory."""
        if not 0 < self.memory < _AMPLE_MEMORY:
            return MeasureError(f"{what}: {reason}", legal=legal)
        why = f"{what} with so little memory: {clipped(reason.splitlines()[-1], 100)}"
        legal = "about 512 MiB or more: its libraries alone take 320"
        return MeasureError(why, asked=f"a memory limit of {self.memory >> 20} MiB", legal=legal)

    def _finished(self, slot: Slot, outcome: Outcome) -> Event:
        event = Event(slot, slot.token, outcome, slot.served == 0)
        slot.served += 1
        slot.token = None
        if slot.worker.running and slot.served < _RECYCLE_AFTER:
            slot.state = _IDLE
        else:
            self.recycle(slot)
        return event

    def _mark_down(self, slot: Slot) -> None:
        slot.state, slot.token = _DOWN, None
