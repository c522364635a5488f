"""What is checked before anything is measured: arguments, folders, sizes that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autosched.errors import MeasureError, RecordError, UsageError
from autosched.space.tunable import Tunable
from autosched.tuning.events import Event

__all__ = ["check_positive", "check_writable", "listener", "plain", "too_large"]


def listener(progress: Callable[[Event], None] | bool | None) -> Callable[[Event], None]:
    """What is called with events: nobody, unless `progress` is a function."""
    return progress if callable(progress) else lambda event: None


def check_positive(function: str, **limits: float | None) -> None:
    """Raise UsageError for a limit of a function that is given, and is not more than 0."""
    for name, value in limits.items():
        if value is not None and not value > 0:
            raise UsageError(f"{value} is not more than 0", asked=f"{function}({name}={value})", legal="more than 0")


def plain(value: Any) -> Any:
    """A value as a record can hold it."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def too_large(w: Tunable, error: MemoryError) -> MeasureError:
    """What to raise for it."""
    return MeasureError(
        f"its arrays do not fit into memory: {error}",
        asked=f"tune {w!r}",
        legal="smaller sizes or parameters: a schedule found at one size is built for others, too",
    )


def check_writable(path: Path) -> None:
    """Find out now, not after the first hour, that records cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as error:
        raise RecordError(
            f"it cannot be written: {error.strerror}",
            asked=f"records {path}",
            legal="give a folder you may write to: --records DIR, or AUTOSCHED_RECORDS",
        ) from None
