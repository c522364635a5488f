"""TVM's names for `MeasureOptions`, and for inputs and results of measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from autosched.errors import UsageError
from autosched.measure import MeasureOptions
from autosched.tvm import tuning_common

MeasureErrorNo = tuning_common.MeasureErrorNo


class MeasureInput(NamedTuple):
    """A task with a configuration, on a target."""

    target: Any
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """The outcome of one measurement.

    costs:     seconds for one call, a number for each repetition; or the error where `error_no` is not 0
    all_cost:  seconds that building and running took
    timestamp: the end, in seconds since 1970
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float


@dataclass(frozen=True)
class LocalBuilder(tuning_common.LocalBuilder):
    """As `tuning_common.LocalBuilder`.

    `do_fork` and `runtime` change nothing. Raises UsageError for a `build_func` other than "default" and for
    `build_kwargs`.
    """

    timeout: float = 10
    build_kwargs: Mapping[str, Any] | None = None
    build_func: str | Callable[..., Any] = "default"
    do_fork: bool = False
    runtime: Any = None

    def __post_init__(self) -> None:
        if self.build_func != "default":
            raise UsageError(
                "candidates are compiled by this package",
                asked=f"LocalBuilder(build_func={self.build_func!r})",
                legal='build_func="default"; autosched.build and export_library make libraries for other machines',
            )
        if self.build_kwargs:
            raise UsageError(
                "limits of a device are the target's",
                asked=f"LocalBuilder(build_kwargs={dict(self.build_kwargs)!r})",
                legal='Target("opencl -max_threads_per_block=256")',
            )


@dataclass(frozen=True)
class LocalRunner(tuning_common.LocalRunner):
    """As `tuning_common.LocalRunner`. Raises UsageError for a `module_loader`."""

    number: int | None = 4
    repeat: int | None = 3
    min_repeat_ms: float | None = 0
    cooldown_interval: float = 0.1
    module_loader: Any = None

    def __post_init__(self) -> None:
        if self.module_loader is not None:
            raise UsageError(
                "workers load what they built themselves",
                asked="LocalRunner(module_loader=...)",
                legal="functions that candidates call: tvm.register_func in the template's file",
            )


class RPCRunner(tuning_common.RPCRunner):
    """Not here: candidates run on this machine."""


def measure_option(builder: Any, runner: Any) -> dict[str, Any]:
    """Say how to measure. `builder` and `runner` are a LocalBuilder and a LocalRunner, or "local"."""
    return tuning_common.local_pair("measure_option", builder, LocalBuilder, runner, LocalRunner)


def options_of(option: Mapping[str, Any]) -> MeasureOptions:
    """Return the `MeasureOptions` of a `measure_option`."""
    return tuning_common.options_of(option["builder"], option["runner"])
