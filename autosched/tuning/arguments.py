"""Checks before anything is measured: arguments, folders, sizes that fit into memory."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autosched.errors import MeasureError, RecordError, UsageError, UsageTypeError, expect, is_list_of
from autosched.space.tunable import Tunable
from autosched.tuning.events import Event


def listener(progress: Callable[[Event], None] | bool | None) -> Callable[[Event], None]:
    """The function that is called with events; one that does nothing unless `progress` is a function."""
    return progress if callable(progress) else lambda event: None


def check_tunable(
    function: str, workloads: Sequence[object], *, inputs: Sequence[object], progress: object, watch: object = None
) -> None:
    """Raise UsageError for arguments of the wrong type of `tune` and its like; `inputs` are those of each workload."""
    for workload in workloads:
        if not hasattr(workload, "search_space"):
            raise UsageTypeError(
                f"{plain(workload)!r:.80} cannot be tuned",
                asked=f"{function}({type(workload).__name__})",
                legal='a workload, a function decorated with @autosched.workload, or a name: tune("box_blur")',
            )
    for x in inputs:
        is_arrays = x is None or (isinstance(x, (list, tuple)) and all(hasattr(array, "shape") for array in x))
        expect(x, "a list of arrays", is_arrays, f"{function}(inputs=..)")
    is_listener = progress is None or isinstance(progress, bool) or callable(progress)
    expect(progress, "a function of events, True or False", is_listener, f"{function}(progress=..)")
    expect(watch, "a function of a number and an event", watch is None or callable(watch), f"{function}(watch=..)")


def check_weights(weights: object, count: int, function: str) -> list[float]:
    """The `count` weights, each 1 where none are given. Raises UsageError."""
    if weights is None:
        return [1.0] * count
    asked = f"{function}(weights=..)"
    expect(weights, "a list of numbers", is_list_of(weights, numbers.Real), asked)
    listed = [float(x) for x in weights]  # type: ignore[attr-defined]
    if len(listed) != count or not all(math.isfinite(x) and x > 0 for x in listed):
        why = f"{listed} {'is' if count == 1 else 'are'} not {count} weight{'s' * (count != 1)}"
        raise UsageError(why, asked=asked, legal="a number above 0 for each")
    return listed


def plain(value: Any) -> Any:
    """A value as a record can hold it."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


@contextmanager
def enough_memory(w: Tunable) -> Iterator[None]:
    """Turn a MemoryError into a MeasureError, which says what to do."""
    try:
        yield
    except MemoryError as error:
        raise MeasureError(
            f"its arrays do not fit into memory: {error}",
            asked=f"tune {w!r}",
            legal="smaller sizes or parameters: a schedule found at one size is built for others, too",
        ) from None


_WRITABLE = "give a folder you may write to: --records DIR, or AUTOSCHED_RECORDS"


def check_writable(path: Path) -> None:
    """Find out now, not after the first hour, that records cannot be written."""
    if os.path.exists(path) and not os.path.isfile(path):  # to open a pipe waits for its other end
        raise RecordError("is not a regular file", asked=f"records {path}", legal=_WRITABLE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except (OSError, ValueError) as error:
        raise RecordError(
            f"it cannot be written: {getattr(error, 'strerror', error)}",
            asked=f"records {path}",
            legal=_WRITABLE,
        ) from None
