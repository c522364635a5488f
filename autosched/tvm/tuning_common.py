"""Parts that the shims of AutoTVM and of Ansor share: contexts, numbers of errors, targets of logs, measuring options.

Inputs and results of the two differ in their fields; builders and runners in defaults, and in what they refuse.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

from autosched.errors import AutoschedError, RecordError, UsageError, clipped
from autosched.measure import MeasureOptions
from autosched.target import Target
from autosched.tuning import Event, Note

P = TypeVar("P")


class Context:
    """Base of objects that answer questions while `with` has them in force.

    A direct subclass is a family of contexts, whose `current` is the innermost one in force. `_query_inside` returns
    None to pass a question on to the context around.
    """

    current: ClassVar[Any]
    _family: ClassVar[type[Context]]

    def __init_subclass__(cls) -> None:
        if Context in cls.__bases__:
            cls._family = cls

    def __init__(self) -> None:
        self._outer: Any = None

    def update(self, target: Any, workload: Any, found: Any) -> None:
        """Make this the answer for that workload and target."""
        raise NotImplementedError

    def _query_inside(self, *question: Any, **more: Any) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._outer, self._family.current = self._family.current, self
        return self

    def __exit__(self, *_: object) -> None:
        assert self._outer is not None
        self._family.current = self._outer


class MeasureErrorNo(IntEnum):
    """Reasons why there is no time."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


#: status of a measurement -> TVM's number
ERROR_NUMBERS = {
    "ok": MeasureErrorNo.NO_ERROR,
    "constraints": MeasureErrorNo.INSTANTIATION_ERROR,
    "compile": MeasureErrorNo.COMPILE_HOST,
    "build_timeout": MeasureErrorNo.BUILD_TIMEOUT,
    "timeout": MeasureErrorNo.RUN_TIMEOUT,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
    "runtime": MeasureErrorNo.RUNTIME_DEVICE,
    "correctness": MeasureErrorNo.WRONG_ANSWER,
    "lost": MeasureErrorNo.UNKNOWN_ERROR,
}


@dataclass
class LocalBuilder:
    """Builds `n_parallel` candidates at a time (None: one for each CPU), each in a process of its own.

    timeout: seconds for one of them
    """

    timeout: float = 15
    n_parallel: int | None = None


@dataclass
class LocalRunner:
    """Runs candidates on this machine, one at a time, and verifies their results.

    timeout:       seconds for one of them
    repeat:        samples, of `number` calls each
    min_repeat_ms: least length of a sample, which gets as many calls as that takes

    Where they are None, docs/measurement.md says what happens, and how times are kept comparable without
    `cooldown_interval` and `enable_cpu_cache_flush`, which change nothing.
    """

    timeout: float = 10
    number: int | None = None
    repeat: int | None = None
    min_repeat_ms: float | None = None
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False


class RPCRunner:
    """Not here: candidates run on this machine."""

    def __init__(self, key: str = "", host: str = "", port: int = 0, *_: Any, **__: Any) -> None:
        raise UsageError(
            "candidates run on this machine",
            asked=f"RPCRunner({key!r}, {host!r}, {port!r})",
            legal=f"{_shim_of(type(self))}.LocalRunner(...), where the device is",
        )


def _shim_of(kind: type) -> str:
    """The shim that defines a class: `autotvm` or `auto_scheduler`."""
    return kind.__module__.split(".")[2]


def local_pair(asked: str, builder: Any, builder_kind: type, runner: Any, runner_kind: type) -> dict[str, Any]:
    """Return a builder and a runner, made anew for "local". Raises UsageError for others than these kinds, or than
    what their base classes in the same module are."""
    made: dict[str, Any] = {"builder": builder, "runner": runner}
    for (role, given), kind in zip(made.items(), (builder_kind, runner_kind), strict=True):
        made[role] = kind() if given == "local" else given
        if not isinstance(made[role], kind):
            legal = f'{_shim_of(kind)}.{kind.__name__}(...) or "local"'
            raise UsageError(f"{given!r:.60} is no {role}", asked=f"{asked}({role}=..)", legal=legal)
    return made


def unwritten(one: Any, method: str) -> UsageError:
    """The error of a method that a class of a program's own lacks."""
    return UsageError("it is not written", asked=f"{type(one).__name__}.{method}", legal=f"def {method}(self, ...)")


def one_for_each(given: Any, count: int, asked: str) -> list[Any]:
    """Return the answers of a program's own function. Raises UsageError where there is not one for each candidate."""
    try:
        found = list(given)
    except TypeError:
        found = None
    if found is None or len(found) != count:
        got = f"{given!r:.60} is no list" if found is None else f"it gave {len(found)}"
        raise UsageError(f"{got}, for {count} candidates", asked=asked, legal="one for each candidate, in order")
    return found


def options_of(builder: LocalBuilder, runner: LocalRunner) -> MeasureOptions:
    """Return the `MeasureOptions` of a LocalBuilder and a LocalRunner, the rest by default."""
    given: dict[str, Any] = {"timeout_s": runner.timeout, "build_timeout_s": builder.timeout}
    if builder.n_parallel is not None:
        given["builders"] = builder.n_parallel
    if runner.repeat is not None:
        given["repeat"] = runner.repeat
    if (runner.min_repeat_ms or 0) > 0:
        given["min_repeat_ms"] = runner.min_repeat_ms
    elif runner.number is not None:
        given["number"] = runner.number
    return MeasureOptions(**given)


def log_note(logger: logging.Logger, event: Event) -> None:
    """Pass the notes of a run on to a logger."""
    if isinstance(event, Note):
        logger.log(logging.WARNING if event.level == "warning" else logging.INFO, event.text)


@dataclass(frozen=True)
class LoggedTarget:
    """The target of a record, of a kind that this package makes no code for."""

    text: str

    @property
    def options(self) -> dict[str, str]:
        return dict(o.removeprefix("-").split("=", 1) for o in self.text.split()[1:] if o[0] == "-" and "=" in o)

    @property
    def kind(self) -> str:
        return (self.text.split() or [""])[0]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.options.get("keys", self.kind).split(","))

    @property
    def model(self) -> str:
        return self.options.get("model", "unknown")

    def __str__(self) -> str:
        return self.text


def logged_target(text: str) -> Target | LoggedTarget:
    """Return the target that a record names."""
    try:
        return Target(text)
    except AutoschedError:  # of another kind, or with options for tools that are not here
        return LoggedTarget(text)


def decoded(lines: Iterable[tuple[object, str]], decode: Callable[[str], P]) -> Iterator[P]:
    """Decode the lines of a log, less comments; one that cannot be read is passed over with a warning.

    lines: the place of each, for the warning, and its text
    """
    for place, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        try:
            yield decode(line)
        except RecordError as error:
            warnings.warn(f"{place} is passed over: {clipped(error)}", RuntimeWarning, stacklevel=2)


def seconds_of(costs: Iterable[Any]) -> tuple[float, ...]:
    """Return times of a log as numbers. Raises ValueError for others."""
    found = tuple(float(c) for c in costs)
    if not all(math.isfinite(c) and c > 0 for c in found):
        raise ValueError(f"{costs!r:.60} are no times")
    return found
