"""The processes of a worker, as `/proc` shows them: the CPU time they use, and those that a candidate leaves behind.

A worker's process group is not enough to find them: a process that calls `setsid` leaves it, and one that forks twice
has no parent left. So a worker adopts what its descendants lose (`PR_SET_CHILD_SUBREAPER`), and each carries a mark in
its environment, which a fork inherits: a process is found by either.

Linux only: elsewhere nothing is found.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: The environment variable that marks a worker and its descendants.
MARK = "AUTOSCHED_WORKER"
#: A limit on CPU time ends, by the wall clock, after this many times its length.
PATIENCE = 6.0

_ATTEMPTS = 5  # a process may have forked just before it was killed


class CpuSeconds(float):
    """A limit on CPU time; seconds of the wall clock where the system does not report CPU time."""


def cpu_seconds(leader: int) -> float | None:
    """CPU time used so far by a process and its session, ended processes included.

    None where the system does not report it, or the process is gone.
    """
    found, ticks = False, 0
    # It adopts what its descendants lose: one without children is alone in its session, and nothing else need be read.
    for pid, fields in _processes([leader] if _has_children(leader) is False else None):
        if int(fields[3]) == leader:
            found = found or pid == leader
            ticks += sum(map(int, fields[11:15]))  # its own time and that of the children it waited for
    return ticks / os.sysconf("SC_CLK_TCK") if found else None


def children() -> list[int]:
    """The children of this process that still run."""
    if _has_children(os.getpid()) is False:
        return []
    return [pid for pid, fields in _processes() if int(fields[1]) == os.getpid() and _runs(fields)]


def end_strays(mark: str, leader: int | None = None) -> int:
    """Kill all processes with this mark and all descendants of the process `leader`, but not `leader` itself.

    Returns their number.
    """
    ended: set[int] = set()
    for _ in range(_ATTEMPTS):
        running, by_parent = set(), defaultdict(list)
        for pid, fields in _processes():
            by_parent[int(fields[1])].append(pid)
            if _runs(fields):
                running.add(pid)
        found = {pid for pid in running if _has_mark(pid, mark)}
        left = [] if leader is None else [*by_parent[leader]]
        while left:
            pid = left.pop()
            left += by_parent.pop(pid, ())
            found.add(pid)
        found = (found & running) - {leader, os.getpid()}
        if not found - ended:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
    return len(ended)


def _processes(some: Iterable[int] | None = None) -> Iterator[tuple[int, list[str]]]:
    """(process id, the fields of its `stat` from the state on) of these processes, by default of all."""
    with suppress(OSError):
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if some is None else some:
            with suppress(OSError):  # it ended meanwhile
                text = Path("/proc", str(pid), "stat").read_text("latin-1")
                yield pid, text.rpartition(")")[2].split()  # the name before may contain anything


def _has_children(pid: int) -> bool | None:
    """Whether a process has children, ended ones that nobody waited for included.

    None where the system has no lists of them, or the process is gone. Reading all of `/proc` takes a hundred times as
    long.
    """
    try:
        lists = [Path(task, "children").read_bytes() for task in Path("/proc", str(pid), "task").iterdir()]
    except OSError:
        return None
    return any(lists) if lists else None


def _runs(fields: list[str]) -> bool:
    return fields[0] not in "ZX"


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = Path("/proc", str(pid), "environ").read_bytes()
    except OSError:  # another user's, or gone
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
