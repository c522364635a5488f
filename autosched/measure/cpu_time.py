"""CPU time of a worker: what a build may use, however many others want the CPU at the moment."""

from __future__ import annotations

import os
from pathlib import Path

#: The wall clock of a limit on CPU time runs out after so many times that limit.
PATIENCE = 6.0


class CpuSeconds(float):
    """A limit on CPU time. Where the system does not tell it, seconds of the wall clock."""


def cpu_seconds(leader: int) -> float | None:
    """CPU time that a process and all others of its session have used so far, the ended ones included.

    None where the system does not tell, or the process is gone.
    """
    found = False
    ticks = 0
    try:
        names = [n for n in os.listdir("/proc") if n.isdigit()]
    except OSError:
        return None
    for name in names:
        try:
            text = Path("/proc", name, "stat").read_text("latin-1")
        except OSError:  # it ended meanwhile: its parent's sum has it
            continue
        fields = text.rpartition(")")[2].split()  # from the state on: the name before may contain anything
        if int(fields[3]) == leader:
            found = found or int(name) == leader
            ticks += sum(map(int, fields[11:15]))  # its own time and that of the children it waited for
    return ticks / os.sysconf("SC_CLK_TCK") if found else None
