"""Processes that a candidate leaves behind: found wherever they went, and ended.

A worker's process group is not enough: what calls `setsid` is in no group of its parent's, and what forks twice has no
parent left. So a worker adopts what its descendants lose (`PR_SET_CHILD_SUBREAPER`), and each carries a mark in its
environment, which a fork inherits: either leads to a process, whatever it does about the other.

Linux only: elsewhere nothing is found.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

#: The environment variable that marks a worker and all that comes from it.
MARK = "AUTOSCHED_WORKER"

_ATTEMPTS = 5  # what is ended may have forked a moment before


def children() -> list[int]:
    """The children of this process that still run."""
    return [pid for pid, (parent, state) in _processes().items() if parent == os.getpid() and state not in "ZX"]


def end_strays(mark: str, leader: int | None = None) -> int:
    """Kill all processes with this mark, and all descendants of the process `leader`, except that one. Returns how many
    there were."""
    ended: set[int] = set()
    for _ in range(_ATTEMPTS):
        processes = _processes()
        found = {pid for pid in processes if _has_mark(pid, mark)} | _descendants(processes, leader)
        found = {pid for pid in found - {leader, os.getpid()} if processes[pid][1] not in "ZX"}
        if not found - ended:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
    return len(ended)


def _processes() -> dict[int, tuple[int, str]]:
    """Process id -> (its parent, its state), of all processes."""
    found = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    for name in names:
        try:
            text = Path("/proc", name, "stat").read_text("latin-1")
        except OSError:  # it ended meanwhile
            continue
        fields = text.rpartition(")")[2].split()  # from the state on: the name before may contain anything
        found[int(name)] = int(fields[1]), fields[0]
    return found


def _descendants(processes: dict[int, tuple[int, str]], leader: int | None) -> set[int]:
    by_parent = defaultdict(list)
    for pid, (parent, _) in processes.items():
        by_parent[parent].append(pid)
    found: set[int] = set()
    left = [] if leader is None else list(by_parent[leader])
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += by_parent[pid]
    return found


def _has_mark(pid: int, mark: str) -> bool:
    try:
        environment = Path("/proc", str(pid), "environ").read_bytes()
    except OSError:  # another user's, or gone
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
