"""Schedule primitives: each is one function, declared with the kinds of its arguments.

    @primitive(K.LOOP, factor=K.FACTOR, nparts=K.FACTOR, tail=K.TAIL)
    @keeps_meaning
    def split(s: Schedule, stage: Stage, parent: Any, factor: Any = None, ...) -> tuple[Loop, Loop]:
        ...

Kinds by position are arguments of the trace; those by name are options, which a trace leaves out if they have their
default: `["split", "B", "i", {"factor": 8}]`. A last kind of `...` stands for any number of the one before. From this
declaration follow the instruction in the trace and back, the Python text, the method of the stage, the effect of
undoing other calls (`undo`), and random calls (`testing.steps`). A primitive raises `Illegal` for calls that no values
of knobs make legal; `Schedule.apply` adds the call and the caller's line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from autosched.errors import ScheduleError
from autosched.schedule.kinds import Kind, flat

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage
    from autosched.schedule.trace import Instruction

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Primitive:
    """A declared primitive.

    check:  raises ScheduleError for a stage of a finished schedule that later calls could have repaired
    copies: tells of an instruction whether iterations are written out, or run side by side
    """

    name: str
    function: Callable[..., Any]
    kinds: tuple[Kind, ...]
    any_number: bool  #: of the last of them
    options: dict[str, Kind]
    of_schedule: bool  #: a method of the schedule, with the tensor as its first argument
    copies: Callable[[Instruction], bool]
    check: Callable[[Schedule, Stage], None]
    signature: inspect.Signature
    method: Callable[..., Any]

    def kinds_of(self, count: int) -> tuple[Kind, ...]:
        """The kinds of `count` arguments."""
        return (*self.kinds[:-1], *self.kinds[-1:] * (count - len(self.kinds) + 1)) if self.any_number else self.kinds

    @property
    def shape(self) -> list[str]:
        """The names of the kinds, for messages."""
        return [*(k.name for k in self.kinds), *(["*"] if self.any_number else [])]

    def bound(self, args: Sequence[Any], options: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call, and the options that differ from their defaults. Raises TypeError."""
        last = len(self.kinds) - self.any_number
        of = self.signature.parameters
        if (
            not (len(args) == last or (self.any_number and len(args) > last))
            or not options.keys() <= self.options.keys()
        ):
            try:
                found = self.signature.bind(*args, **options)
            except TypeError as error:
                raise TypeError(f"{self.name}: {error}") from None
            found.apply_defaults()
            args, options = [v for k, v in found.arguments.items() if k not in self.options], found.arguments
        given = {k: options[k] for k in self.options if options.get(k) is not None}
        changed = {k: v for k, v in given.items() if type(v) not in (str, int, bool) or v != of[k].default}
        return [*args[:last], *flat(args[last:])], changed


#: Primitives by name. A stored trace can call nothing else.
PRIMITIVES: dict[str, Primitive] = {}


def primitive(
    *kinds: Kind | EllipsisType,
    of_schedule: bool = False,
    copies: bool | Callable[[Instruction], bool] = False,
    check: Callable[[Schedule, Stage], None] = lambda s, stage: None,
    **options: Kind,
) -> Callable[[Callable[Concatenate[Schedule, Stage, P], R]], Callable[Concatenate[Stage, P], R]]:
    """Declare a primitive: see the top of this file. The function becomes a method of the stage."""

    def declare(f: Callable[Concatenate[Schedule, Stage, P], R]) -> Callable[Concatenate[Stage, P], R]:
        name = f.__name__
        signature = inspect.signature(f)
        own = signature.replace(parameters=list(signature.parameters.values())[2:])
        listed = tuple(k for k in kinds if isinstance(k, Kind))
        says = copies if callable(copies) else lambda i: bool(copies)

        @wraps(f)
        def method(stage: Stage, /, *args: P.args, **given: P.kwargs) -> R:
            return stage.schedule.apply(name, stage, *args, **given)  # type: ignore[no-any-return]

        known = Primitive(name, f, listed, listed != kinds, options, of_schedule, says, check, own, method)
        PRIMITIVES[name] = known
        vars(method)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])
        return method

    return declare


# -- what may change results ----------------------------------------------------------------------
_ATTRIBUTE = "_doubt_about_meaning"


@overload
def keeps_meaning(function: F) -> F: ...
@overload
def keeps_meaning(*, unless: Callable[[Instruction], str]) -> Callable[[F], F]: ...
def keeps_meaning(function: Any = None, *, unless: Callable[[Instruction], str] | None = None) -> Any:
    """Declare that a primitive does not change results, `unless` this function of the instruction gives a reason.

    Sums of floats may be added in another order, which their verification allows for. A schedule written by hand may
    use every primitive: its author knows the program. For a stored trace nobody vouches, so `refuse_doubtful` refuses
    primitives that may change results, and those without this declaration.
    """

    def declare(f: F) -> F:
        setattr(f, _ATTRIBUTE, unless or (lambda i: ""))
        return f

    return declare if function is None else declare(function)


def doubt(i: Instruction) -> str:
    """The reason why a stored instruction may change results; empty if it cannot."""
    if i.kind not in PRIMITIVES:  # `define_knob`, `constrain`, `among`, `choose`: they say which candidates there are
        return ""
    found = getattr(PRIMITIVES[i.kind].function, _ATTRIBUTE, None)
    return "it is not declared to keep what the program computes" if found is None else str(found(i))


def refuse_doubtful(trace: Iterable[Instruction]) -> None:
    """Raise ScheduleError for the first instruction of a stored trace that may change results."""
    for i in trace:
        if why := doubt(i):
            raise ScheduleError(
                f"a stored schedule may not use it, because {why}",
                asked=i.as_python(),
                legal="schedules written by hand may; records hold only what leaves every result as it is",
            )
