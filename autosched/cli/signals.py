"""Ctrl-C, SIGTERM and SIGHUP: all interrupt alike, and the exit status tells which it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupted_status", "interruptible"]

_received = signal.SIGINT
#: Signals that end a program and leave it the time to end well.
_ALIKE = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


def interrupted_status() -> int:
    """128 + the signal that interrupted: 130, 143 or 129, as shells report it."""
    return 128 + _received


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP raise KeyboardInterrupt, so that work ends as cleanly as after Ctrl-C.

    The system sends SIGHUP when the terminal closes or the connection is lost. A signal that is ignored stays ignored:
    `nohup` asks for that.
    """
    global _received
    _received = signal.SIGINT
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return
    before = {n: signal.getsignal(n) for n in _ALIKE if signal.getsignal(n) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    global _received
    _received = signal.Signals(number)
    raise KeyboardInterrupt
