"""What is measured and how: TVM's names for `MeasureOptions`, and for what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autosched.errors import UsageError
from autosched.records import Record
from autosched.tvm import tuning_common
from autosched.tvm.tuning_common import ERROR_NUMBERS, MeasureErrorNo

__all__ = [
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "MeasureCallback",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "Seconds",
    "recover_measure_input",
]


class Seconds(float):
    """A time, with the `value` that a constant of TVM's has."""

    @property
    def value(self) -> float:
        return float(self)


class MeasureInput(NamedTuple):
    """A task with a state. Of a task that was read from a log, the computation is not known: see
    `recover_measure_input`."""

    task: Any
    state: Any


class MeasureResult(NamedTuple):
    """`costs`: seconds for one call, one for each repetition. `all_cost` is what building and running took,
    `timestamp` when it was over: seconds, since 1970."""

    costs: tuple[Seconds, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float

    @staticmethod
    def of(r: Record) -> MeasureResult:
        """A record in Ansor's words."""
        costs = tuple(map(Seconds, r.samples))
        return MeasureResult(costs, int(ERROR_NUMBERS[r.status]), r.error, r.build_s + sum(r.samples), r.moment)


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """The input with a task whose computation is known. Raises WorkloadError where it is not registered.

    States need no rebuilding.
    """
    from autosched.tvm.auto_scheduler.search_task import SearchTask

    t = inp.task
    task = SearchTask(
        workload_key=t.workload_key,
        target=str(t.target),
        target_host=t.target_host,
        layout_rewrite_option=t.layout_rewrite_option,
    )
    task.hardware_params = t.hardware_params  # of the machine it was measured on, which need not be this one
    return MeasureInput(task, inp.state)


class MeasureCallback:
    """Base of what is told of each measurement, by `callback`."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Inputs, and the result of each."""
        raise NotImplementedError


@dataclass(frozen=True)
class LocalBuilder:
    """Builds in processes of their own: `timeout` seconds for each, `n_parallel` at a time (None: as many as
    there are CPUs). Raises UsageError for a `build_func` other than "default"."""

    timeout: float = 15
    n_parallel: int | None = None
    build_func: Any = "default"

    def __post_init__(self) -> None:
        if self.build_func != "default":
            raise UsageError(
                "what is built runs on this machine",
                asked=f"LocalBuilder(build_func={self.build_func!r})",
                legal='"default"; Module.export_library makes libraries for other machines',
            )


@dataclass(frozen=True)
class LocalRunner:
    """Runs candidates on this machine, one at a time, and verifies what they compute.

    `timeout` seconds for one of them, `repeat` samples of `number` calls each; with `min_repeat_ms`, of as many
    calls as last that long. What is None is this package's own way: see docs/measurement.md, also for how
    times are kept comparable without `cooldown_interval` and `enable_cpu_cache_flush`, which change nothing.
    Raises UsageError for a `device` other than 0.
    """

    timeout: float = 10
    number: int | None = None
    repeat: int | None = None
    min_repeat_ms: float | None = None
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    device: int = 0

    def __post_init__(self) -> None:
        if self.device != 0:
            raise UsageError(
                "the target says on which device",
                asked=f"LocalRunner(device={self.device!r})",
                legal='Target("opencl -device=NAME")',
            )


class RPCRunner(tuning_common.RPCRunner):
    """Not here: candidates run on this machine."""

    _package = "auto_scheduler"


class LocalRPCMeasureContext:
    """`runner` is a LocalRunner: every candidate runs in a process of its own, and no server is needed for that.

    `priority` and `n_parallel` change nothing.
    """

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int | None = None,
        repeat: int | None = None,
        min_repeat_ms: float | None = None,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        self.runner = LocalRunner(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device
        )
