"""What is checked before anything is measured: arguments, folders, sizes that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autosched.errors import MeasureError, RecordError, UsageTypeError, check_seed, expect
from autosched.measure.protocol import MeasureOptions
from autosched.space.tunable import Tunable
from autosched.tuning.events import Event

__all__ = ["check_options", "check_writable", "listener", "plain", "too_large"]


def listener(progress: Callable[[Event], None] | bool | None) -> Callable[[Event], None]:
    """What is called with events: nobody, unless `progress` is a function."""
    return progress if callable(progress) else lambda event: None


def check_options(
    workload: object, seed: object, options: object, rules: object, inputs: object, measure: object, progress: object
) -> None:
    """Raise UsageError for arguments of `tune` that are of another type."""
    if not hasattr(workload, "search_space"):
        raise UsageTypeError(
            f"{plain(workload)!r:.80} cannot be tuned",
            asked=f"tune({type(workload).__name__})",
            legal='a workload, a function decorated with @autosched.workload, or a name: tune("box_blur")',
        )
    check_seed(seed)
    is_options = options is None or isinstance(options, dict)
    expect(options, "a dictionary of options", is_options, "tune(strategy_options=..)")
    expect(rules, "a list of rules", isinstance(rules, (list, tuple)), "tune(rules=..)")
    is_arrays = inputs is None or (isinstance(inputs, (list, tuple)) and all(hasattr(x, "shape") for x in inputs))
    expect(inputs, "a list of arrays", is_arrays, "tune(inputs=..)")
    expect(measure, "MeasureOptions", measure is None or isinstance(measure, MeasureOptions), "tune(measure=..)")
    is_listener = progress is None or isinstance(progress, bool) or callable(progress)
    expect(progress, "a function of events, True or False", is_listener, "tune(progress=..)")


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
