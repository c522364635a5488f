"""Checks of the options of strategies."""

from __future__ import annotations

from autosched.errors import UsageError

__all__ = ["at_least", "within"]


def at_least(strategy: str, least: float, **options: float) -> None:
    """Raises UsageError for an option below `least`."""
    for option, value in options.items():
        if not value >= least:
            what = "is negative" if least == 0 else "is not a positive number" if least == 1 else f"is below {least}"
            raise UsageError(f"{option}={value} {what}", asked=f"strategy {strategy!r}")


def within(strategy: str, low: float, high: float, **options: float) -> None:
    """Raises UsageError for an option outside [low, high]."""
    for option, value in options.items():
        if not low <= value <= high:
            raise UsageError(f"{option}={value} is not in [{low}, {high}]", asked=f"strategy {strategy!r}")
