"""Messages as texts to compare: without the line of the test that caused them."""

from __future__ import annotations

import re

__all__ = ["without_line"]


def without_line(error: BaseException) -> str:
    """The message, less `at file.py:12` of its first line."""
    return re.sub(r"  (?:lowered )?at \S+\.py:\d+", "", str(error), count=1)
