"""TVM's names for `MeasureOptions`, for inputs and results of measurements, and for limits of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from autosched.errors import UsageError
from autosched.records import Record
from autosched.target import Target
from autosched.tvm import tuning_common
from autosched.tvm.tuning_common import ERROR_NUMBERS

MeasureErrorNo = tuning_common.MeasureErrorNo


@dataclass(frozen=True)
class HardwareParams:
    """Limits of a device; those that are None are found out.

    `num_cores`, `max_shared_memory_per_block` and `max_threads_per_block` become options of the target. The others
    change nothing.
    """

    num_cores: int | None = None
    vector_unit_bytes: int | None = None
    cache_line_bytes: int | None = None
    max_shared_memory_per_block: int | None = None
    max_local_memory_per_block: int | None = None
    max_threads_per_block: int | None = None
    max_vthread_extent: int | None = None
    warp_size: int | None = None

    def __iter__(self) -> Iterator[int | None]:
        return (getattr(self, f.name) for f in fields(self))

    def applied(self, target: Target) -> Target:
        """Return the target with these limits, where it has such an option and its own text says nothing."""
        given = {
            "threads": self.num_cores,
            "max_threads_per_block": self.max_threads_per_block,
            "max_shared_memory_per_block": self.max_shared_memory_per_block,
        }
        options = [
            f"-{name}={number}"
            for name, number in given.items()
            if number is not None and number > 0 and name in target.kind.options and name not in target.options
        ]
        return Target(" ".join([str(target), *options])) if options else target


class Seconds(float):
    """A time, with the `value` that a constant of TVM's has."""

    @property
    def value(self) -> float:
        return float(self)


class MeasureInput(NamedTuple):
    """A task with a state. A task of a log has no computation: see `recover_measure_input`."""

    task: Any
    state: Any


class MeasureResult(NamedTuple):
    """The outcome of one measurement.

    costs:     seconds for one call, one for each repetition
    all_cost:  seconds that building and running took
    timestamp: the end, in seconds since 1970
    """

    costs: tuple[Seconds, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float

    @staticmethod
    def of(r: Record) -> MeasureResult:
        """Return a record in Ansor's words."""
        costs = tuple(map(Seconds, r.samples))
        return MeasureResult(costs, int(ERROR_NUMBERS[r.status]), r.error, r.build_s + sum(r.samples), r.moment)


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Return the input with a task that has its computation. Raises WorkloadError where that is not registered.

    States need no rebuilding.
    """
    from autosched.tvm.auto_scheduler.search_task import SearchTask  # which is measured with this module

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
    """Base of objects whose `callback` is called after each measurement."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class LocalBuilder(tuning_common.LocalBuilder):
    """As `tuning_common.LocalBuilder`. Raises UsageError for a `build_func` other than "default"."""

    build_func: Any = "default"

    def __post_init__(self) -> None:
        if self.build_func != "default":
            raise UsageError(
                "what is built runs on this machine",
                asked=f"LocalBuilder(build_func={self.build_func!r})",
                legal='"default"; Module.export_library makes libraries for other machines',
            )


@dataclass(frozen=True)
class LocalRunner(tuning_common.LocalRunner):
    """As `tuning_common.LocalRunner`. Raises UsageError for a `device` other than 0."""

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


class LocalRPCMeasureContext:
    """`runner` is a LocalRunner, of the same options: every candidate runs in a process, and no server is needed.

    `priority` and `n_parallel` change nothing.
    """

    def __init__(self, priority: int = 1, n_parallel: int = 1, *args: Any, **kwargs: Any) -> None:
        self.runner = LocalRunner(*args, **kwargs)
