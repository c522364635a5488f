"""TVM's names for `MeasureOptions`, and for inputs and results of measurements."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from autosched.errors import UsageError, WorkloadError
from autosched.measure import MeasureOptions
from autosched.space.workload import Workload
from autosched.target import cpu_count
from autosched.te.tensor import PlaceholderOp
from autosched.tvm import tuning_common
from autosched.tvm._missing import missing
from autosched.tvm.measuring import Bench, KeptBench
from autosched.tvm.tuning_common import ERROR_NUMBERS

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


class BuildResult(NamedTuple):
    """A candidate that was prepared: what runs it compiles it, in a process of its own, so `filename` is empty.

    arg_info: shape and element type of each argument
    """

    filename: str
    arg_info: tuple[tuple[tuple[int, ...], str], ...]
    error: Exception | None
    time_cost: float


class Builder:
    """Base of builders; a program's own needs `build`.

    `set_task` is told of the task before its candidates come.
    """

    def __init__(
        self, timeout: float = 10, n_parallel: int | None = None, build_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self.timeout, self.n_parallel, self.build_kwargs = timeout, n_parallel, build_kwargs
        self.task: Any = None

    def set_task(self, task: Any, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """Candidates of this task come next."""
        self.task = task

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Return a BuildResult for each, or the MeasureResult of one that cannot be built."""
        raise tuning_common.unwritten(self, "build")


class Runner:
    """Base of runners; a program's own needs `run`."""

    def __init__(self, timeout: float = 5, n_parallel: int | None = None) -> None:
        self.timeout, self.n_parallel = timeout, n_parallel
        self.task: Any = None

    def set_task(self, task: Any) -> None:
        """Candidates of this task come next."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """Return limits of the device for the builder."""
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Return a result for each."""
        raise tuning_common.unwritten(self, "run")


@dataclass
class LocalBuilder(tuning_common.LocalBuilder, Builder):
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

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Return a BuildResult for each configuration that its template takes, else its MeasureResult."""
        found: list[Any] = []
        for inp in measure_inputs:
            begun = time.monotonic()
            try:
                _, tensors = _instantiated(inp)
            except Exception as error:  # a template is a program, which may fail in any way
                cost = time.monotonic() - begun
                found.append(MeasureResult((error,), MeasureErrorNo.INSTANTIATION_ERROR, cost, time.time()))
                continue
            about = tuple((tuple(int(d) for d in t.shape), str(t.dtype)) for t in tensors)
            found.append(BuildResult("", about, None, time.monotonic() - begun))
        return found


def _instantiated(inp: MeasureInput) -> tuple[Any, list[Any]]:
    with inp.target:
        s, tensors = inp.task.instantiate(inp.config)
    if not inp.config.valid():
        raise WorkloadError("; ".join(inp.config.errors), asked=f"template {inp.task.name}", legal=str(inp.config))
    return s, tensors


@dataclass
class LocalRunner(tuning_common.LocalRunner, Runner):
    """As `tuning_common.LocalRunner`. Raises UsageError for a `module_loader`.

    `ref_input` are arrays to run on, one for each argument; without, they are random.
    """

    number: int | None = 4
    repeat: int | None = 3
    min_repeat_ms: float | None = 0
    cooldown_interval: float = 0.1
    module_loader: Any = None
    ref_input: Sequence[Any] | None = field(default=None, init=False)
    _kept: KeptBench = field(default_factory=KeptBench, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.module_loader is not None:
            raise UsageError(
                "workers load what they built themselves",
                asked="LocalRunner(module_loader=...)",
                legal="functions that candidates call: tvm.register_func in the template's file",
            )

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Compile, run and verify what could be built, in processes that stay for the next batch of the task."""
        found: list[Any] = list(build_results)
        for i, (inp, built) in enumerate(zip(measure_inputs, build_results, strict=True)):
            if isinstance(built, BuildResult):
                s, tensors = _instantiated(inp)
                args = inputs_first(tensors)
                name = re.sub(r"\W+", "_", inp.task.name).strip("_") or "task"
                key = inp.task.workload, str(inp.target)
                bench = self._kept.of(key, partial(self._bench, name, args, inp.target))
                (m,) = bench.measure([s.trace.to_json()])
                costs = m.samples if m.ok else (m.error,)
                found[i] = MeasureResult(costs, int(ERROR_NUMBERS[m.status]), m.build_s + m.run_s, time.time())
        return found

    def _bench(self, name: str, args: tuple[Any, ...], target: Any) -> Bench:
        given = None
        if self.ref_input is not None:
            given = [
                np.asarray(a) for a, t in zip(self.ref_input, args, strict=True) if isinstance(t.op, PlaceholderOp)
            ]
        return Bench(Workload(name, args), target, tuning_common.options_of(LocalBuilder(), self), given)


def inputs_first(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments in the order of workloads."""
    return tuple(sorted(tensors, key=lambda t: not isinstance(t.op, PlaceholderOp)))


class RPCRunner(tuning_common.RPCRunner, Runner):
    """Not here: candidates run on this machine."""


def measure_option(builder: Any, runner: Any) -> dict[str, Any]:
    """Say how to measure. `builder` and `runner` are a LocalBuilder and a LocalRunner, "local", or a program's own
    Builder and Runner."""
    made = {"builder": builder, "runner": runner}
    if isinstance(builder, Builder) and isinstance(runner, Runner):
        return made
    kinds = {"builder": (Builder, LocalBuilder), "runner": (Runner, LocalRunner)}
    own = {role: isinstance(made[role], base) for role, (base, _) in kinds.items()}
    local = tuning_common.local_pair(
        "measure_option",
        "local" if own["builder"] else builder, LocalBuilder, "local" if own["runner"] else runner, LocalRunner,
    )  # fmt: skip
    return {role: made[role] if own[role] else local[role] for role in made}


def is_local(option: Mapping[str, Any]) -> bool:
    """Return whether a `measure_option` has no builder or runner of a program's own."""
    return type(option["builder"]) is LocalBuilder and type(option["runner"]) is LocalRunner


def create_measure_batch(task: Any, option: Mapping[str, Any]) -> Callable[..., list[MeasureResult]]:
    """Return a function that measures a list of MeasureInput; its `n_parallel` is the size of a good batch."""
    builder, runner = option["builder"], option["runner"]
    runner.set_task(task)
    builder.set_task(task, runner.get_build_kwargs())

    def measure_batch(measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        def checked(given: Any, who: Any, method: str) -> list[Any]:
            return tuning_common.one_for_each(given, len(measure_inputs), f"{type(who).__name__}.{method}")

        built = checked(builder.build(measure_inputs), builder, "build")
        return checked(runner.run(measure_inputs, built), runner, "run")

    measure_batch.n_parallel = builder.n_parallel or cpu_count()  # type: ignore[attr-defined]
    return measure_batch


def options_of(option: Mapping[str, Any]) -> MeasureOptions:
    """Return the `MeasureOptions` of a `measure_option`."""
    return tuning_common.options_of(option["builder"], option["runner"])


def request_remote(device_key: str, host: str | None = None, port: int | None = None, *_: Any, **__: Any) -> Any:
    """Raise UsageError: candidates run on this machine."""
    return RPCRunner(device_key, host or "", port or 0)


_INSTEAD = {
    "check_remote": "nothing to check: candidates run on this machine",
    "default_module_loader": "workers load what they built themselves; tvm.register_func in the template's file",
    "set_cuda_target_arch": 'Target("cuda -arch=sm_80")',
}
__getattr__ = missing("autotvm.measure", globals(), _INSTEAD)
