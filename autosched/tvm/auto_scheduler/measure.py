"""TVM's names for `MeasureOptions`, for inputs and results of measurements, and for limits of a device."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

from autosched.errors import AutoschedError, UsageError
from autosched.measure.protocol import Measurement
from autosched.records import Record
from autosched.target import Target, cpu_count
from autosched.te.tensor import Graph, PlaceholderOp
from autosched.tvm import tuning_common
from autosched.tvm.auto_scheduler.loop_state import State
from autosched.tvm.auto_scheduler.utils import get_const_tuple, get_func_name
from autosched.tvm.auto_scheduler.workload_registry import (
    deserialize_workload_registry_entry,
    serialize_workload_registry_entry,
)
from autosched.tvm.driver import lower
from autosched.tvm.measuring import Bench, KeptBench
from autosched.tvm.tuning_common import ERROR_NUMBERS

_logger = logging.getLogger("auto_scheduler")

MeasureErrorNo = tuning_common.MeasureErrorNo


@dataclass(frozen=True)
class HardwareParams:
    """Limits of a device; those that are None are found out, with a `target` at once, as Ansor does.

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
    target: InitVar[Any] = None
    target_host: InitVar[Any] = None

    def __post_init__(self, target: Any, target_host: Any) -> None:
        if target is None:
            return
        for f, number in zip(fields(self), _defaults(Target(target)), strict=True):
            if getattr(self, f.name) is None:
                object.__setattr__(self, f.name, number)

    def __str__(self) -> str:
        return "\n".join(["HardwareParams:", *(f"  {f.name}: {n}" for f, n in zip(fields(self), self, strict=True))])

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


def _defaults(target: Target) -> tuple[int, ...]:
    """What Ansor's records say of a device: of a CPU its cores, of a GPU what its driver says, if it is here."""
    if not target.is_gpu_style:
        return int(target.options.get("threads", cpu_count())), 64, 64, 0, 0, 0, 0, 0
    limits = target.limits
    warp = int(limits.get("work_group_multiple", 32))
    shared = int(limits.get("shared_memory_bytes", 32768))
    return -1, 16, 64, shared, (1 << 31) - 1, int(limits.get("max_threads_per_block", 256)), max(1, warp // 4), warp


class Seconds(float):
    """A time, with the `value` that a constant of TVM's has."""

    @property
    def value(self) -> float:
        return float(self)


class _MeasureInput(NamedTuple):
    task: Any
    state: Any


class MeasureInput(_MeasureInput):
    """A task with a state. A task of a log has no computation: see `recover_measure_input`."""

    __slots__ = ()

    def __new__(cls, task: Any, state: Any) -> MeasureInput:
        return super().__new__(cls, task, state.state_object if isinstance(state, State) else state)

    def serialize(self) -> list[Any]:
        """Return what `deserialize` makes this of in another process: text, and what makes the computation."""
        from autosched.tvm.auto_scheduler.measure_record import dump_record_to_string  # which measures

        line = dump_record_to_string(self, MeasureResult([1.0], 0, "", 0.0, 0.0))
        return [line, serialize_workload_registry_entry(self.task.workload_key)]

    @staticmethod
    def deserialize(data: Sequence[Any]) -> MeasureInput:
        """Invert `serialize`. Raises RecordError for other data."""
        from autosched.tvm.auto_scheduler.measure_record import load_record_from_string

        deserialize_workload_registry_entry(data[1])
        return recover_measure_input(load_record_from_string(data[0])[0])


class _MeasureResult(NamedTuple):
    costs: tuple[Seconds, ...]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float


class MeasureResult(_MeasureResult):
    """The outcome of one measurement.

    costs:     seconds for one call, one for each repetition
    all_cost:  seconds that building and running took
    timestamp: the end, in seconds since 1970
    """

    __slots__ = ()

    def __new__(
        cls, costs: Iterable[Any], error_no: int, error_msg: str | None, all_cost: float, timestamp: float
    ) -> MeasureResult:
        if not isinstance(costs, Iterable):
            raise UsageError(
                f"{costs!r:.60} is no list of times", asked="MeasureResult", legal="MeasureResult([0.1], 0, ..)"
            )
        times = tuple(Seconds(getattr(c, "value", c)) for c in costs)
        return super().__new__(cls, times, int(error_no), error_msg or "", float(all_cost), float(timestamp))

    @staticmethod
    def of(r: Record) -> MeasureResult:
        """Return a record in Ansor's words."""
        return MeasureResult(r.samples, int(ERROR_NUMBERS[r.status]), r.error, r.build_s + sum(r.samples), r.moment)

    def __str__(self) -> str:
        times = ", ".join(f"{c:.4g}" for c in self.costs)
        found = f"error_no: {self.error_no}, error_msg: {self.error_msg}" if self.error_no else f"cost: [{times}]"
        return f"MeasureResult({found}, all_cost: {self.all_cost:.2f}, Tstamp: {self.timestamp:.2f})"


class BuildResult(NamedTuple):
    """The outcome of preparing a candidate: `filename` is empty, for what runs it compiles it, in a process of its own.

    args:      the tensors of the arguments
    time_cost: seconds that applying and lowering it took
    """

    filename: str
    args: tuple[Any, ...]
    error_no: int
    error_msg: str
    time_cost: float
    timeout: float = 15


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Return the input with a task that has its computation. Raises WorkloadError where that is not registered.

    States are complete as they are, with `rebuild_state` and without.
    """
    from autosched.tvm.auto_scheduler.search_task import SearchTask  # which is measured with this module

    t = inp.task
    task = SearchTask(
        workload_key=t.workload_key,
        target=str(t.target),
        target_host=t.target_host,
        layout_rewrite_option=t.layout_rewrite_option,
        task_inputs=list(t.task_input_names),
    )
    task.hardware_params = t.hardware_params  # of the machine it was measured on, which need not be this one
    return MeasureInput(task, inp.state)


class MeasureCallback:
    """Base of objects whose `callback` is called after each measurement."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        raise tuning_common.unwritten(self, "callback")


class PythonBasedMeasureCallback(MeasureCallback):
    """Base of the callbacks of programs."""


class ProgramBuilder:
    """Base of builders."""

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        raise tuning_common.unwritten(self, "build")


class ProgramRunner:
    """Base of runners."""

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        raise tuning_common.unwritten(self, "run")


@dataclass
class LocalBuilder(tuning_common.LocalBuilder, ProgramBuilder):
    """As `tuning_common.LocalBuilder`. Raises UsageError for a `build_func` other than "default"."""

    build_func: Any = "default"

    def __post_init__(self) -> None:
        if self.build_func != "default":
            raise UsageError(
                "what is built runs on this machine",
                asked=f"LocalBuilder(build_func={self.build_func!r})",
                legal='"default"; Module.export_library makes libraries for other machines',
            )

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Apply and lower each state. `LocalRunner.run` compiles it, under this builder's `timeout`."""
        return [self._prepared(inp) for inp in measure_inputs]

    def _prepared(self, inp: MeasureInput) -> BuildResult:
        begun, task = time.monotonic(), inp.task
        args: list[Any] = []
        try:
            s, args = task.compute_dag.apply_steps_from_state(inp.state, task.layout_rewrite_option)
            lower(s, args)
        except AutoschedError as error:
            number = int(MeasureErrorNo.INSTANTIATION_ERROR)
            return BuildResult("", tuple(args), number, str(error), time.monotonic() - begun, self.timeout)
        return BuildResult("", tuple(args), 0, "", time.monotonic() - begun, self.timeout)


@dataclass
class LocalRunner(tuning_common.LocalRunner, ProgramRunner):
    """As `tuning_common.LocalRunner`. Raises UsageError for a `device` other than 0."""

    device: int = 0
    _kept: KeptBench = field(default_factory=KeptBench, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.device != 0:
            raise UsageError(
                "the target says on which device",
                asked=f"LocalRunner(device={self.device!r})",
                legal='Target("opencl -device=NAME")',
            )

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        """Compile, run and verify what could be built; each candidate in processes of its own.

        Results are in the order of the inputs. What could not be built keeps its error.
        """
        tuning_common.one_for_each(build_results, len(measure_inputs), "LocalRunner.run(inputs, build_results)")
        found = [MeasureResult([], b.error_no, b.error_msg, b.time_cost, time.time()) for b in build_results]
        groups: dict[int, list[int]] = {}
        for i, (inp, built) in enumerate(zip(measure_inputs, build_results, strict=True)):
            if not built.error_no:
                groups.setdefault(id(inp.task), []).append(i)
        for numbers in groups.values():
            task = measure_inputs[numbers[0]].task
            builder = LocalBuilder(timeout=max(build_results[i].timeout for i in numbers))
            traces = [task.trace_of(measure_inputs[i].state) for i in numbers]
            bench = self._kept.of((task, builder.timeout), partial(self._bench, task, builder))
            for i, m in zip(numbers, bench.measure(traces), strict=True):
                found[i] = outcome(m)
        if verbose:
            good = sum(not r.error_no for r in found)
            _logger.info("%d of %d candidates ran", good, len(found))
        return found

    def _bench(self, task: Any, builder: LocalBuilder) -> Bench:
        return Bench(task.workload, task.target, tuning_common.options_of(builder, self), task.inputs())


def outcome(m: Measurement) -> MeasureResult:
    """A measurement in Ansor's words."""
    return MeasureResult(m.samples, int(ERROR_NUMBERS[m.status]), m.error, m.build_s + m.run_s, time.time())


class RPCRunner(tuning_common.RPCRunner, ProgramRunner):
    """Not here: candidates run on this machine."""


class ProgramMeasurer:
    """Measures batches: a builder, a runner, and callbacks that are told.

    `ct` counts what was measured, `best_ct` and `best_flops` are of the best of each workload, by its key.
    `max_continuous_error` changes nothing.
    """

    def __init__(
        self, builder: Any, runner: Any, callbacks: Sequence[MeasureCallback] | None, verbose: int = 1,
        max_continuous_error: int | None = None,
    ) -> None:  # fmt: skip
        made = tuning_common.local_pair("ProgramMeasurer", builder, LocalBuilder, runner, LocalRunner)
        self.builder, self.runner = made["builder"], made["runner"]
        self.callbacks, self.verbose, self.ct = list(callbacks or ()), verbose, 0
        self.best_flops: dict[str, float] = {}
        self.best_ct: dict[str, int] = {}
        self.best_state: dict[str, Any] = {}

    def measure(self, task: Any, policy: Any, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Build and run, keep the best, tell the callbacks. Return the results in order."""
        results: list[MeasureResult] = self.runner.run(inputs, self.builder.build(inputs, self.verbose), self.verbose)
        key = task.workload_key
        for inp, result in zip(inputs, results, strict=True):
            self.ct += 1
            seconds = sum(result.costs) / len(result.costs) if result.costs and not result.error_no else float("inf")
            speed = task.compute_dag.flop_ct / seconds
            if seconds < float("inf") and speed > self.best_flops.get(key, float("-inf")):
                self.best_flops[key], self.best_ct[key], self.best_state[key] = speed, self.ct, inp.state
        for callback in self.callbacks:
            callback.callback(policy, inputs, results)
        return results


class LocalRPCMeasureContext:
    """`runner` is a LocalRunner, of the same options: every candidate runs in a process, and no server is needed.

    `priority` and `n_parallel` change nothing.
    """

    def __init__(self, priority: int = 1, n_parallel: int = 1, *args: Any, **kwargs: Any) -> None:
        self.runner = LocalRunner(*args, **kwargs)


#: name -> function of the arguments' tensors that names inputs: {tensor: name}
TASK_INPUT_CHECK_FUNC_REGISTRY: dict[str, Any] = {}


def register_task_input_check_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Register a function of the arguments' tensors that says which of them are special inputs: {tensor: name}.

    Use as `@register_task_input_check_func`, with a name, or with a name and the function. Raises UsageError for a
    name that is taken, unless `override` is true.
    """
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)

    def register(function: Any) -> Any:
        if func_name in TASK_INPUT_CHECK_FUNC_REGISTRY and not override:
            raise UsageError(
                f"{func_name} has been registered already",
                asked="register_task_input_check_func",
                legal="another name, or override=True",
            )
        TASK_INPUT_CHECK_FUNC_REGISTRY[func_name] = function
        return function

    return register if f is None else register(f)


def prepare_input_map(args: Sequence[Any], workload_key: str | None = None) -> dict[Any, str]:
    """Map tensors of the arguments to the names of special inputs: their own, and those of registered functions."""
    found = {t: t.name for t in args if isinstance(t.op, PlaceholderOp)}
    found.update(_sparse_inputs(args))
    for function in TASK_INPUT_CHECK_FUNC_REGISTRY.values():
        found.update(function(args))
    return found


def _sparse_inputs(args: Sequence[Any]) -> dict[Any, str]:
    """TVM's names of the parts of a block-sparse matrix: of rows by columns, in blocks, with so many of them."""
    ops = Graph.of([t for t in args if not isinstance(t.op, PlaceholderOp)]).ops
    found: dict[Any, str] = {}
    for op in ops:
        if getattr(op, "tag", "") != "sparse_dense_sp_rhs_bsrmm_block":
            continue
        parts = [t for t in op.input_tensors if isinstance(t.op, PlaceholderOp)]
        data = next((t for t in parts if t.ndim == 3 and t.dtype.is_float), None)
        places = [t for t in parts if t.ndim == 1 and not t.dtype.is_float]
        dense = [t for t in op.input_tensors if t.ndim == 2]
        if data is None or len(places) != 2 or len(dense) != 1:
            continue
        blocks, height, width = get_const_tuple(data.shape)
        places.sort(key=lambda t: get_const_tuple(t.shape) != (blocks,))
        starts = get_const_tuple(places[1].shape)[0]
        sizes = (starts - 1) * height, get_const_tuple(dense[0].shape)[1], height, width, blocks, starts
        prefix = "sparse_dense_bsr_" + "_".join(map(str, sizes)) + "_"
        names = ("W_data", "W_indices", "W_indptr")
        found.update((t, prefix + name) for t, name in zip((data, *places), names, strict=True))
    return found
