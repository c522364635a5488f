"""Exceptions and signals as messages on standard error and exit statuses.

Ctrl-C, SIGTERM and SIGHUP interrupt alike, and the exit status tells which it was.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

from autosched.errors import AutoschedError

#: The status that a shell reports for a process that wrote to a closed pipe: 128 + SIGPIPE.
_CLOSED_PIPE = 141

#: Names of modules whose packages are called otherwise.
_PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def exit_status(error: BaseException, as_json: bool = False) -> int:
    """Tell the user of an error; returns the exit status.

    `as_json` puts the failure on standard output as well, so that a program that expects one JSON
    object gets one. With AUTOSCHED_DEBUG=1 the traceback comes first.
    """
    if isinstance(error, BrokenPipeError):
        _discard_output()
        return _CLOSED_PIPE
    status, message = _told(_interrupt_in(error) or error)
    with suppress(OSError):  # nobody is left to tell
        if os.environ.get("AUTOSCHED_DEBUG", "0") not in ("", "0"):
            traceback.print_exception(error, file=sys.stderr)
        print(message, file=sys.stderr, flush=True)
        if as_json:
            print(json.dumps(_as_data(error, status)), flush=True)
    if isinstance(error, OSError):
        _discard_output()
    return status


def _interrupt_in(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that an error was made of, as Python 3.11 makes one where a class was about to name its parts."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__
    return found


def _told(error: BaseException) -> tuple[int, str]:
    match error:
        case AutoschedError():
            return error.exit_status, f"error: {error}"
        case KeyboardInterrupt():
            return interrupted_status(), "interrupted"
        case MemoryError():
            return 1, "error: there is not enough memory for this"
        case ModuleNotFoundError(name=str(name)) if not name.startswith("autosched"):
            top = name.partition(".")[0]
            package = _PACKAGES.get(top, top)
            return 1, f"error: the Python package {package} is not installed\n  pip install {package}"
        case FileNotFoundError(filename=None) if _is_removed():
            return 1, "error: the working directory was removed\n  cd to a folder that is there"
        case OSError():  # of the surroundings, such as a full disk, rather than of this program
            return 1, f"error: {error} (AUTOSCHED_DEBUG=1 shows where)"
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    return 1, f"internal error: {summary} (AUTOSCHED_DEBUG=1 shows the traceback; please report it)"


def _is_removed() -> bool:
    """Whether the working directory is no more."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _as_data(error: BaseException, status: int) -> dict[str, Any]:
    if isinstance(error, AutoschedError):
        parts = {"why": error.why, "asked": error.asked, "legal": error.legal}
    else:
        parts = {"why": str(error), "asked": "", "legal": ""}
    return {"error": {"type": type(error).__name__, **parts, "exit_status": status}}


def _discard_output() -> None:
    """Discard what is still buffered: the interpreter would complain about it at its exit."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, io.UnsupportedOperation):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def readable_streams() -> None:
    """Escape characters that the terminal's encoding lacks, and lose what a stream gets that was closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started the process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print Python warnings as one line, `warning: ...`, without their place in the source."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        print(f"warning: {message}", file=file or sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


_received = signal.SIGINT
#: Signals that end a program and leave it the time to end well.
_ALIKE = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


def interrupted_status() -> int:
    """128 + the signal that interrupted: 130, 143 or 129, as shells report it."""
    return 128 + _received


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, so that work ends as cleanly as after Ctrl-C.

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
