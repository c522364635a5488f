"""Ctrl-C and SIGTERM: both interrupt alike, and the exit status tells which it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupted_status", "interruptible"]

_received = signal.SIGINT


def interrupted_status() -> int:
    """128 + the signal that interrupted: 130 or 143, as shells report it."""
    return 128 + _received


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile SIGTERM raises KeyboardInterrupt, so that work ends as cleanly as after Ctrl-C."""
    global _received
    _received = signal.SIGINT
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    global _received
    _received = signal.Signals(number)
    raise KeyboardInterrupt
