"""Other programs that use this machine's CPUs while candidates are timed: noticed, told, and recorded."""

from __future__ import annotations

import os

from autosched.measure.protocol import Measurement
from autosched.records import STRAINED

#: Measurements, and seconds of them, from which on waiting is no accident.
_LEAST, _LEAST_S = 3, 0.5


class Neighbours:
    """Adds up how long candidates waited for CPUs that other programs had (`Measurement.strain`)."""

    def __init__(self) -> None:
        self._waited_s = self._timed_s = 0.0
        self._count = 0
        self._is_told = False

    def add(self, m: Measurement) -> None:
        """One more measurement."""
        self._waited_s += m.strain * m.run_s
        self._timed_s += m.run_s
        self._count += bool(m.run_s)

    def add_playoff(self, strains: dict[int, float]) -> None:
        """The strains of a play-off, one for each finalist."""
        for share in strains.values():
            self._waited_s += share
            self._timed_s += 1.0
            self._count += 1

    @property
    def strain(self) -> float:
        """Seconds that threads waited for a CPU, for each second of the measurements; 0 where that is next to none."""
        enough = self._count >= _LEAST and self._timed_s >= _LEAST_S
        share = self._waited_s / self._timed_s if enough else 0.0
        return share if share >= STRAINED else 0.0

    def news(self) -> str:
        """What to tell the user; empty where there is nothing, or it was told before."""
        if self._is_told or not self.strain:
            return ""
        self._is_told = True
        return f"other programs are using this machine's CPUs{_load()}. Each time is the fastest of many short readings"


def _load() -> str:
    """` (load average 3.1 on 2 CPUs)`; empty where the system does not tell."""
    try:
        return f" (load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs)"
    except OSError:
        return ""
