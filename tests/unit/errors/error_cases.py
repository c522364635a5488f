"""Cases of errors as tables: a program, and calls on it of which the last is refused.

A part's cases are by title. One that is a call alone is about its module's own program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[..., object]
Case = Call | tuple[Callable[[], Any], Call]
Cases = dict[str, dict[str, Case]]


def attempt(case: Case, program: Callable[[], Any], finish: Call = lambda *_: None) -> None:
    """Make the program, a schedule or (arguments, schedule), do the calls, and finish it."""
    made, call = case if isinstance(case, tuple) else (program, case)
    given = made()
    operands = given if isinstance(given, tuple) else (given,)
    call(*operands)
    finish(*operands)


def lines_of(case: Case) -> tuple[str, set[int | None]]:
    """The file and the lines of a case's calls."""
    code = (case[1] if isinstance(case, tuple) else case).__code__
    return code.co_filename, {line for *_, line in code.co_lines()}
