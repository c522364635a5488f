"""What is measured and how: TVM's names for `MeasureOptions`, and for what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from autosched.errors import UsageError
from autosched.measure import MeasureOptions
from autosched.tvm import tuning_common
from autosched.tvm.tuning_common import MeasureErrorNo

__all__ = [
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "measure_option",
]


class MeasureInput(NamedTuple):
    """A task with a configuration, on a target."""

    target: Any
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """`costs`: seconds for one call, a number for each repetition, or the error where `error_no` is not 0.

    `all_cost` is what building and running took, `timestamp` when it was over: seconds, since 1970.
    """

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float


class LocalBuilder:
    """Builds in processes of their own: `timeout` seconds for each, `n_parallel` at a time.

    `do_fork` and `runtime` change nothing: workers are always processes, started afresh. Raises UsageError
    for a `build_func` other than "default" and for `build_kwargs`.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        if build_func != "default":
            raise UsageError(
                "candidates are compiled by this package",
                asked=f"LocalBuilder(build_func={build_func!r})",
                legal='build_func="default"; autosched.build and export_library make libraries for other machines',
            )
        if build_kwargs:
            raise UsageError(
                "limits of a device are the target's",
                asked=f"LocalBuilder(build_kwargs={dict(build_kwargs)!r})",
                legal='Target("opencl -max_threads_per_block=256")',
            )
        self.timeout, self.n_parallel = timeout, n_parallel


class LocalRunner:
    """Runs candidates on this machine, one at a time, and verifies what they compute.

    `timeout` seconds for one of them, `repeat` samples of `number` calls each. With `min_repeat_ms`, a sample has
    at least as many calls as last that long. `enable_cpu_cache_flush` and `cooldown_interval` change nothing:
    see docs/measurement.md for how times are kept comparable. Raises UsageError for a `module_loader`.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        if module_loader is not None:
            raise UsageError(
                "workers load what they built themselves",
                asked="LocalRunner(module_loader=...)",
                legal="functions that candidates call: tvm.register_func in the template's file",
            )
        self.timeout, self.number, self.repeat, self.min_repeat_ms = timeout, number, repeat, min_repeat_ms


class RPCRunner(tuning_common.RPCRunner):
    """Not here: candidates run on this machine."""

    _package = "autotvm"


def measure_option(builder: Any, runner: Any) -> dict[str, Any]:
    """How to measure. `builder` and `runner` are a LocalBuilder and a LocalRunner, or "local"."""
    made = {
        "builder": LocalBuilder() if builder == "local" else builder,
        "runner": LocalRunner() if runner == "local" else runner,
    }
    for role, (value, kind) in {
        "builder": (made["builder"], LocalBuilder),
        "runner": (made["runner"], LocalRunner),
    }.items():
        if not isinstance(value, kind):
            raise UsageError(
                f"{value!r} is no {role}",
                asked=f"measure_option({role}=..)",
                legal=f'autotvm.{kind.__name__}(...) or "local"',
            )
    return made


def options_of(option: Mapping[str, Any]) -> MeasureOptions:
    """The `MeasureOptions` that a `measure_option` stands for."""
    return tuning_common.options_of(option["builder"], option["runner"])
