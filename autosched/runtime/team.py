"""Threads that run parallel loops: they share out what is there, and nobody waits for one that has not begun.

An OpenMP team meets at a barrier after each loop. Where another process has one of the cores, the thread that
belongs there gets it a scheduler's slice later (8 ms on Linux, whatever the priorities), and all others wait for it
although they have done its share. Generated code takes chunks of iterations off counters, so it does not need
such a thread at all: here the caller works itself, closes the loop to those who have not joined by then, and waits
only for those who have.

Threads look for work for some milliseconds after a loop, then sleep. There is one team for a process: a loop that finds
it at work (of another Python thread, or around a call-back) runs on the thread that has come to it. After a fork the
child makes threads of its own.

A thread that begins a chunk and then loses its core makes the caller wait all the same. So a thread compares the
wall's clock with its own processor time, and rests when others have had much of its core: 8 ms at first, up to 128 ms
where it keeps happening. When the caller loses its core, a thread rests, too, and leaves it a free one. Where threads
of this process had the core (another library's, which look for work as ours do), nobody rests.

It runs the loops of code for LLVM on Linux; `AUTOSCHED_THREADS=openmp` chooses OpenMP, which also runs them elsewhere.
Beside one busy process on two cores a product of 512 x 512 matrices takes twice its time alone, on OpenMP up to 13
times; alone they are as fast (`experiments/busy_calls.py`, docs/measurement.md).

The functions have the names and types of GNU OpenMP's, `GOMP_parallel` and so on, so that generated code runs on
either.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from string import Template

from autosched.runtime.jit import link_for_good
from autosched.target import cpu_count

#: Numbers in `team.ll`.
NUMBERS = {
    # How often a thread looks for another loop before it sleeps: for some milliseconds, as OpenMP's threads do, since
    # waking takes as long as a small kernel; and how often the caller looks whether the others have finished.
    "LOOKS": 200_000,
    "CHECKS": 1000,
    # Nanoseconds: when nobody has come for so long, or who came was on the caller's core, the caller sleeps for some
    # microseconds. The system may have put them on one core, and it finds another for whoever wakes up.
    "PATIENCE": 1_000_000,
    "GIFT": 50,
    # A thread looks at its clocks when so much time has gone by; the caller looks at its own in loops that last longer.
    "STOLEN": 300_000,
    # What others take adds up, less an eighth of all time. With more than this a thread rests: so long at first, twice
    # as long each time it is robbed again soon after, and never longer than that.
    "MOST_LOSS": 1_500_000,
    "MIN_REST": 8_000_000,
    "MAX_REST": 128_000_000,
}
#: An instruction that tells the core that this is a loop that waits.
_PAUSE = {"x86_64": "pause", "aarch64": "yield"}

_CALLED = ("GOMP_parallel", "omp_get_thread_num", "omp_get_max_threads")
_EXPORTS = (*_CALLED, "team_begin", "team_reset", "team_rests_until")


def is_available() -> bool:
    """True on Linux, where the team was tried, on a core whose waiting instruction is known."""
    return sys.platform == "linux" and platform.machine() in _PAUSE


def is_wanted() -> bool:
    """True where the team is available, unless `AUTOSCHED_THREADS` asks for OpenMP. Warns of any other word."""
    asked = os.environ.get("AUTOSCHED_THREADS", "") or "team"
    if asked not in ("openmp", "team"):
        warnings.warn(
            f"AUTOSCHED_THREADS={asked}: there are no such threads, so it is ignored; legal: team, openmp",
            RuntimeWarning,
            stacklevel=2,
        )
    return asked != "openmp" and is_available()


def assembly() -> str:
    """The text of `team.ll` for this machine."""
    text = Template(Path(__file__).with_suffix(".ll").read_text(encoding="utf-8"))
    return text.substitute(NUMBERS, PAUSE=_PAUSE[platform.machine()], CORES=cpu_count())


_rests: list[Callable[[], int]] = []  # what tells when rests end, once there is a team


def rests_until() -> float:
    """The moment, by `time.monotonic`, at which a thread that others had robbed works again; what is timed before it
    takes as long as without that thread. Long ago, or 0, where none rests.

    >>> import time
    >>> rests_until() <= time.monotonic() + NUMBERS["MAX_REST"] / 1e9
    True
    """
    return _rests[0]() / 1e9 if _rests else 0.0


@lru_cache(maxsize=1)
def addresses() -> dict[str, int]:
    """The functions that generated code calls, by OpenMP's names. Raises RuntimeError where they cannot be had."""
    import llvmlite.binding as llvm

    code = link_for_good(llvm.JITLibraryBuilder().add_ir(assembly()).add_current_process(), "team", _EXPORTS)
    if ctypes.CFUNCTYPE(ctypes.c_int)(code["team_begin"])():
        raise RuntimeError("no key for data of threads is left")
    os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(code["team_reset"]))
    _rests[:] = [ctypes.CFUNCTYPE(ctypes.c_int64)(code["team_rests_until"])]
    return {name: code[name] for name in _CALLED}
