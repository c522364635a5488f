"""`tvm.autotvm.measure.executor`: base classes of what runs functions elsewhere, for runners of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FutureError(RuntimeError):
    """Base of the errors of a `Future`."""


class TimeoutError(FutureError):
    """There was no result in time."""


class ExecutionError(FutureError):
    """The function raised an error."""


class Future:
    """A result that is there later."""

    def done(self) -> bool:
        """Return whether the result is there."""
        raise NotImplementedError

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises TimeoutError and ExecutionError."""
        raise NotImplementedError


class Executor:
    """Runs functions, in whatever order."""

    def submit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Begin to run a function."""
        raise NotImplementedError
