"""`with within(seconds):` around work that has to end, whatever it is busy with."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

#: Seconds between one request to stop and the next: one that arrives inside a destructor is swallowed.
_AGAIN_S = 0.02
#: The file of the frames that `import` has on the stack.
_IMPORT = "<frozen importlib._bootstrap>"


class TooLate(BaseException):
    """The time is over. No `Exception`, so that code which goes on after errors does not go on after this."""


@contextmanager
def within(seconds: float, *, cpu: bool = False) -> Iterator[None]:
    """Raise TooLate in this thread when the block has run for so many seconds, or with `cpu` computed for so many.

    It takes effect between two steps of Python code, so a single call of NumPy or LLVM is finished first, and so is an
    import: a module that was left half done would be of no use to the rest of the program. What the block was building
    may be left half done: use it where that is thrown away.

    >>> with within(60.0):
    ...     total = sum(range(1000))
    """
    thread, lock, done, asked = threading.get_ident(), threading.Lock(), threading.Event(), threading.Event()
    clock = _clock_of(thread) if cpu else time.monotonic
    end_at = clock() + seconds

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            wait = max(end_at - clock(), _AGAIN_S)
            with lock:
                if not done.is_set() and clock() >= end_at and not _is_importing(thread):
                    asked.set()
                    _raise_in(thread, TooLate)

    def end() -> None:
        with lock:
            done.set()
        if asked.is_set():
            _let_arrive(thread)

    watcher = threading.Thread(target=watch, name="autosched deadline", daemon=True)
    try:
        with _quiet():
            watcher.start()
            yield
        end()
    except BaseException:
        while not done.is_set():
            with suppress(TooLate):  # which came while the block ended by itself, or by another error
                end()
        raise


def _clock_of(thread: int) -> Callable[[], float]:
    """Seconds that a thread has computed; where the system does not tell, seconds of the clock."""
    try:
        which = time.pthread_getcpuclockid(thread)
    except (AttributeError, OSError):  # macOS
        return time.monotonic
    return lambda: time.clock_gettime(which)


def stop(thread: threading.Thread) -> None:
    """Raise TooLate in another thread at its next step, where it has one. Returns at once."""
    if thread.ident is not None and not _is_importing(thread.ident):
        _raise_in(thread.ident, TooLate)


def _is_importing(thread: int) -> bool:
    """Whether this thread is loading a module: pandas, for one, cannot be imported again after that was broken off."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Python's message about a TooLate that arrived inside a destructor: the next one stops the block."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_type is not TooLate:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = before


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Have a thread raise the error at its next step, in place of one that it has not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _let_arrive(thread: int) -> None:
    """Have a request that is on its way to this thread arrive here, where it does no harm.

    It is not taken back: Python 3.11 goes on looking for what was taken back at each step, and under a profiler, a
    debugger or a measurement of coverage it does nothing else for ever.
    """
    try:
        while True:
            _raise_in(thread, TooLate)
            for _ in range(1000):
                pass
    except TooLate:
        return
