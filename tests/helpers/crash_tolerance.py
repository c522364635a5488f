"""A test that crashes or hangs its process costs that test, and never the run.

Drivers crash, and compiled code may. Under pytest-xdist a crash ends a worker, which is replaced; what is
needed beyond that is here:

- `CrashTolerantScheduling` hands the crashed worker's other tests to the rest. xdist's own scheduler gives the
  crashing test out again, and may give the new worker a file whose tests have all run, for which it waits for ever.
- `CrashStacks` prints where Python was when a process crashed, whatever a driver has done to the handlers of signals.
- `RunLimit` ends a run that takes too long, and names the tests that had begun and not ended.

A test that hangs in native code, where no Python runs, is ended by `faulthandler_timeout` (pyproject.toml).
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

__all__ = ["CrashStacks", "CrashTolerantScheduling", "RunLimit"]

#: The exit status of a run that was ended: no other of pytest's.
RAN_TOO_LONG = 70


class CrashTolerantScheduling(LoadFileScheduling):
    """One file's tests on one worker, and a crash that is reported once."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker work: two tests at least, for it begins one only when it knows what comes after."""
        super()._assign_work_unit(node)
        while self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out; the test that it was running, None if all its tests were done."""
        workload = self.assigned_work.pop(node)
        unfinished = [(unit, test) for unit in workload.values() for test, done in unit.items() if not done]
        if not unfinished:
            return None
        print(f"\n{node.gateway.id} {_status_of(node)}", file=sys.stderr, flush=True)
        unit, crashed = unfinished[0]
        unit[crashed] = True
        self.workqueue.update({scope: unit for scope, unit in workload.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed


def _status_of(node: WorkerController) -> str:
    """How a worker's process ended, which tells a signal from a connection that broke."""
    process = getattr(getattr(node.gateway, "_io", None), "popen", None)  # of execnet, which has no public name for it
    if process is None:
        return "is gone"
    try:
        return f"ended with status {process.wait(1)}"
    except subprocess.TimeoutExpired:
        return "does not answer, though its process runs"


class CrashStacks:
    """Keeps Python's handlers of crashes: LLVM, as part of PoCL, puts its own in their place and prints no stack."""

    def __init__(self) -> None:
        self._errors = os.dup(2)  # not yet captured

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        faulthandler.disable()
        faulthandler.enable(self._errors)


class RunLimit:
    """Ends the run `seconds` after its first test began, unless it ends by itself."""

    def __init__(self, seconds: float, stop: Callable[[int], None] = os._exit) -> None:
        self._running: dict[str, None] = {}
        self._seconds, self._stop = seconds, stop
        self._timer = threading.Timer(seconds, self.expire)
        self._timer.daemon = True

    def expire(self) -> None:
        """Say what runs, and end the process."""
        names = "".join(f"\n  {name}" for name in self._running) or " none"
        print(
            f"\nthe run was ended after {self._seconds:g} s; tests that had begun:{names}", file=sys.stderr, flush=True
        )
        self._stop(RAN_TOO_LONG)

    @pytest.hookimpl
    def pytest_runtestloop(self) -> None:
        self._timer.start()

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = None

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        self._timer.cancel()
