"""Did other programs take the CPUs while something was timed?

Linux tells for each thread how long it was ready to run and had no core. A program that has the machine to itself waits
for some per mille of its time. Where the system does not tell that, involuntary context switches stand for it: each
is a core that was taken away, for about a slice of the scheduler's.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Strain"]

#: Seconds for which another program has a core that was taken away, about.
_SLICE_S = 4e-3


@dataclass(frozen=True)
class Strain:
    """What this process had waited for CPUs at a moment: seconds of all its threads together."""

    waited_s: float
    at: float

    @staticmethod
    def now() -> Strain:
        return Strain(_waited(), time.monotonic())

    def share(self) -> float:
        """How long threads have waited for CPUs since then, by the time that has passed: 0.5 where one of two threads
        had a core of its own and the other shared one."""
        passed = time.monotonic() - self.at
        return max(0.0, _waited() - self.waited_s) / passed if passed > 0 else 0.0


def _waited() -> float:
    """Seconds. Of threads that ended meanwhile nothing is known any more."""
    total, found = 0, False
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        threads = []
    for thread in threads:
        try:
            total += int(Path("/proc/self/task", thread, "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):  # it ended, or the system keeps no such figures
            continue
        found = True
    return total * 1e-9 if found else _SLICE_S * resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
