"""Whether a primitive can change what a program computes: declared where the primitive is defined.

    @keeps_meaning                      whatever its arguments, the results are the same; sums of floats may
    def split(...)                      be added in another order, which their verification allows for

    @keeps_meaning(unless=lambda i: "its stores have no value" if i.args[-1] == "debug_skip_region" else "")
    def pragma(...)

A schedule written by hand may use every primitive: its author knows what holds of the program. A stored trace
has no author to ask, so `check` refuses what is not declared to keep the meaning: a primitive that says nothing
is refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from autosched.errors import ScheduleError

if TYPE_CHECKING:
    from autosched.schedule.trace import Instruction

__all__ = ["check", "doubt", "keeps_meaning"]

F = TypeVar("F", bound=Callable[..., Any])
#: why an instruction may change results; empty where it cannot
Doubt = Callable[["Instruction"], str]

_ATTRIBUTE = "_doubt_about_meaning"
_UNDECLARED = "it is not declared to keep what the program computes"


@overload
def keeps_meaning(primitive: F) -> F: ...
@overload
def keeps_meaning(*, unless: Doubt) -> Callable[[F], F]: ...
def keeps_meaning(primitive: Any = None, *, unless: Doubt | None = None) -> Any:
    """Declare that a primitive leaves results as they are, `unless` that function of the instruction says why not."""

    def declare(f: F) -> F:
        setattr(f, _ATTRIBUTE, unless or (lambda i: ""))
        return f

    return declare if primitive is None else declare(primitive)


def doubt(i: Instruction) -> str:
    """Why a stored instruction may change what the program computes; empty where it cannot."""
    from autosched.schedule.primitives import PRIMITIVES

    primitive = PRIMITIVES.get(i.kind)
    if primitive is None:  # `define_knob`, `constrain`, `among`, `choose`: they say which candidates there are
        return ""
    found: Doubt | None = getattr(primitive, _ATTRIBUTE, None)
    return _UNDECLARED if found is None else found(i)


def check(trace: Iterable[Instruction]) -> None:
    """Raise ScheduleError for the first instruction of a stored trace that may change results."""
    for i in trace:
        why = doubt(i)
        if why:
            raise ScheduleError(
                f"a stored schedule may not use it, because {why}",
                asked=i.as_python(),
                legal="schedules written by hand may; records hold only what leaves every result as it is",
            )
