"""What the contract suites share. They need no pytest, and work where assertions are switched off."""

from __future__ import annotations


def check(condition: object, message: str) -> None:
    """Raises AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def failures(suite: object) -> dict[str, str]:
    """Run all `test_...` methods of a suite: name of each that failed -> why. Empty if all passed."""
    failed = {}
    for name in sorted(dir(suite)):
        if name.startswith("test_"):
            try:
                getattr(suite, name)()
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
    return failed
