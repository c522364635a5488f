"""What the shims of AutoTVM and of Ansor share: contexts, numbers of errors, targets of logs, measuring options.

Inputs and results of the two have other fields, and their builders and runners other defaults: each shim has its own.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from autosched.errors import AutoschedError, UsageError
from autosched.measure import MeasureOptions
from autosched.target import Target
from autosched.tuning import Event, Note

__all__ = [
    "ERROR_NUMBERS",
    "Context",
    "LoggedTarget",
    "MeasureErrorNo",
    "RPCRunner",
    "log_note",
    "logged_target",
    "options_of",
]


class Context:
    """Base of what answers questions while `with` has it in force.

    A direct subclass is a family of contexts, whose `current` is the innermost one in force. `_query_inside` answers
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
        """From now on this is the answer for that workload and target."""
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
    """Why there is no time."""

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


class RPCRunner:
    """Not here: candidates run on this machine."""

    _package: ClassVar[str]

    def __init__(self, key: str = "", host: str = "", port: int = 0, *_: Any, **__: Any) -> None:
        raise UsageError(
            "candidates run on this machine",
            asked=f"RPCRunner({key!r}, {host!r}, {port!r})",
            legal=f"{self._package}.LocalRunner(...), where the device is",
        )


def options_of(builder: Any, runner: Any) -> MeasureOptions:
    """The `MeasureOptions` that a LocalBuilder and a LocalRunner stand for; what they do not say is as by default."""
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
    """Hand what a run has to say to a logger."""
    if isinstance(event, Note):
        logger.log(logging.WARNING if event.level == "warning" else logging.INFO, event.text)


@dataclass(frozen=True)
class LoggedTarget:
    """The target of a record that was measured on something this package makes no code for."""

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
    """The target that a record names."""
    try:
        return Target(text)
    except AutoschedError:  # of another kind, or with options for tools that are not here
        return LoggedTarget(text)
