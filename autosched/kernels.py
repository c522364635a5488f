"""`tune_kernel`, `run_kernel`, `build_kernel`: kernels that their user wrote, by Kernel Tuner's names.

    results, env = tune_kernel("vector_add", SOURCE, n, [c, a, b, np.int32(n)], {"block_size_x": [32, 64, 128]},
                               answer=[a + b, None, None, None])

Tuning is `autosched.tune` on a `RawKernel`: the same strategies, isolated workers, verification, play-off
and records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from autosched.errors import BuildError, UsageError, check_positive, expect
from autosched.front import tune
from autosched.measure.protocol import MeasureOptions
from autosched.raw.backend import compile_kernel
from autosched.raw.kernel import Answer, KernelOptions, RawKernel, RawKernelFunction, make_kernel
from autosched.raw.parameters import Metrics
from autosched.records import Record, RecordLog, is_own, ranked, read_workload, trials
from autosched.runtime import load
from autosched.runtime.arguments import as_array
from autosched.runtime.device import describe_device, resolve_target
from autosched.search import DEFAULT
from autosched.target import Target, TargetLike
from autosched.tuning import Event, TuneResult
from autosched.tuning.session import Costs

if TYPE_CHECKING:
    import pandas


Array = np.ndarray[Any, Any]

#: Kernel Tuner's name of a strategy -> ours
STRATEGIES = {"brute_force": "grid", "random_sample": "random"}


class BuiltKernel:
    """One configuration, compiled. Call it with the kernel's arguments in their order.

    Arrays that the kernel writes are written in place and returned: the one output, or a tuple. Scalars
    are those that it was built with, and may be left out.
    """

    def __init__(self, kernel: RawKernel, knobs: dict[str, int], target: Target, note: str) -> None:
        self.kernel, self.target, self.note = kernel, target, note
        #: the values of the tuning parameters
        self.params = kernel.spec.parameters.decode(knobs)
        self.artifact = compile_kernel(kernel.spec, knobs, target)
        #: work-groups along x, y and z, and work-items of each; of no meaning for C
        self.grid, self.block = kernel.spec.geometry_of(knobs)
        self._loaded = load(self.artifact, target)

    @property
    def source(self) -> str:
        """The source that the compiler was given."""
        return self.artifact.texts["source"]

    def __call__(self, *arguments: Any) -> Any:
        """Raises BuildError for arguments that the kernel does not take."""
        arrays = self._arrays(arguments)
        bound = self._loaded.bind(arrays)
        bound.upload()
        bound.run()
        bound.fetch()
        named = zip((a for a in self.kernel.spec.arguments if a.is_array), arrays, strict=True)
        written = [array for a, array in named if a.role == ("output" if self.kernel.verified else "scratch")]
        return written[0] if len(written) == 1 else tuple(written)

    def time(self, *arguments: Any, number: int = 10, repeat: int = 3) -> list[float]:
        """Seconds per call, `repeat` times, each the mean of `number` calls. Works on copies."""
        check_positive("time", or_none=False, number=number, repeat=repeat)
        bound = self._loaded.bind([a.copy() for a in self._arrays(arguments)])
        bound.upload()
        bound.run()
        return [bound.time(number) for _ in range(repeat)]

    def _arrays(self, given: Sequence[Any]) -> list[Array]:
        expected = self.kernel.spec.arguments
        arrays = [a for a in expected if a.is_array]
        params = self.artifact.signature.params
        if len(given) == len(arrays) != len(expected):
            return [as_array(value, p, self.kernel.name) for value, p in zip(given, params, strict=True)]
        if len(given) != len(expected):
            names = ", ".join(a.name for a in expected)
            raise BuildError(f"it takes {names}; {len(given)} arguments are given", asked=self.kernel.name)
        for a, value in zip(expected, given, strict=True):
            nan = isinstance(a.value, float) and isinstance(value, (float, np.floating))
            if not a.is_array and not (
                np.ndim(value) == 0 and np.array_equal(value, cast(Any, a.value), equal_nan=nan)
            ):
                raise BuildError(
                    f"{a.name} is {value!r}, and it was built for {a.value!r}", asked=self.kernel.name,
                    legal="build it again with these arguments",
                )  # fmt: skip
        kept = [value for a, value in zip(expected, given, strict=True) if a.is_array]
        return [as_array(value, p, self.kernel.name) for value, p in zip(kept, params, strict=True)]

    def __repr__(self) -> str:
        values = ", ".join(f"{k}={v}" for k, v in self.params.items())
        return f"<kernel {self.kernel.name}({values}) for {self.target}: {self.note}>"


@dataclass(frozen=True)
class TunedKernel:
    """The result of `tune_kernel`. Unpacks as Kernel Tuner's `(results, env)`."""

    kernel: RawKernel
    target: Target
    outcome: TuneResult
    records: list[Record] = field(repr=False)

    @property
    def best_config(self) -> dict[str, Any]:
        """The values of the tuning parameters that won the play-off; the first valid ones if nothing beat them."""
        return self.kernel.spec.parameters.decode(self.outcome.knobs)

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """Each configuration that was tried: its parameters, `time` and `times` in milliseconds (`inf` and none
        where it failed), `status`, `error`, and the metrics."""
        return [self._result(r) for r in self.records]

    def _result(self, r: Record) -> dict[str, Any]:
        said = {"status": r.status, "error": r.error}
        if r.ok and r.samples:
            metrics = self.kernel.metrics or Metrics(self.kernel.spec.parameters, {})
            return {**metrics.row(r.knobs, r.samples), **said}
        return {**self.kernel.spec.parameters.decode(r.knobs), "time": float("inf"), "times": [], **said}

    @property
    def env(self) -> dict[str, Any]:
        """The device, target and log."""
        return {"device_name": self.outcome.device, "target": self.outcome.target, "log": str(self.outcome.log)}

    def frame(self) -> pandas.DataFrame:
        """`results` as a table, the best first: the fastest, or the best by the objective."""
        import pandas

        goal = self.kernel.objective
        by, rising = ("time", True) if goal is None else (goal.name, not goal.higher_is_better)
        return pandas.DataFrame(self.results).sort_values(by, ascending=rising, ignore_index=True)

    def build(self) -> BuiltKernel:
        """The best configuration, compiled."""
        return BuiltKernel(self.kernel, self.outcome.knobs, self.target, "tuned")

    def __iter__(self) -> Iterator[Any]:
        return iter((self.results, self.env))


def tune_kernel(
    kernel_name: str,
    kernel_source: str | Path,
    problem_size: Any,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Any],
    *,
    answer: Answer = None,
    strategy: str = DEFAULT,
    trials: int | None = None,
    budget_s: float | None = None,
    model: str = "xgb",
    seed: int = 0,
    records: str | Path | None = None,
    target: TargetLike = None,
    measure: MeasureOptions | None = None,
    progress: Callable[[Event], None] | bool | None = None,
    **kernel: Unpack[KernelOptions],
) -> TunedKernel:
    """Find the fastest values of a kernel's `#define` parameters. The arguments are Kernel Tuner's:

    kernel_name:      the function's name in the source
    kernel_source:    OpenCL or C, or the name of a file of it
    problem_size:     what the grid covers: a number, a formula such as "n / tile", up to three of them in
                      a tuple, or a function of the parameters
    arguments:        NumPy arrays, and scalars such as np.int32(n), in the kernel's order. Every call that is
                      verified finds them as given
    tune_params:      parameter -> values: integers, floats or words
    answer:           what the arguments must be afterwards, None for what is no output; or a function that
                      computes this from copies of the arguments. Without it or `verify` nothing is verified
    verify:           function of (answer, result, atol), lists with an entry for each argument, that says whether
                      the result is right, where comparing it with the answer does not
    lang:             "OpenCL" or "C"; by default what the source looks like
    grid_div_x, ...:  names, formulas or a function whose product divides the problem size, rounded up;
                      ["block_size_x"] by default, where that is a parameter
    block_size_names: instead of block_size_x, block_size_y, block_size_z
    restrictions:     formulas such as "block_size_x * tile <= 1024", functions of a dictionary of parameters
    atol, rtol:       allowed error of outputs, floats and integers; by default that of the type (`MeasureOptions`)
    compiler_options: for the compiler of the language; C with `#pragma omp` gets OpenMP
    poison:           fill outputs with nonsense before verified calls, so that what a kernel leaves out shows
    metrics:          name -> function of a result, or formula: the parameters, `time` in milliseconds, and the metrics
                      before it
    objective:        the metric to make best, by default "time"; objective_higher_is_better where its name does not say

    And those of `tune`: strategy, trials, budget_s, model, seed, records, target, measure, progress. With
    neither trials nor budget_s, 200 trials.

    Raises UsageError for arguments that cannot be meant, WorkloadError when restrictions exclude everything,
    MeasureError when none of the first valid configurations works.
    """
    one = make_kernel(kernel_name, kernel_source, problem_size, arguments, tune_params, answer=answer, **kernel)
    to = resolve_target(one.kind if target is None else target)
    limit = 200 if trials is None and budget_s is None else trials
    found = tune(
        one, to, trials=limit, budget_s=budget_s, strategy=STRATEGIES.get(strategy, strategy), model=model, seed=seed,
        records=records, measure=measure, progress=progress,
    )  # fmt: skip
    return TunedKernel(one, to, found, _tried(one, to, found))


def _tried(kernel: RawKernel, target: Target, found: TuneResult) -> list[Record]:
    contents = RecordLog(found.log).read()
    ours = [
        r for r in contents.records
        if r.key == kernel.key and str(r.target) == str(target) and r.device_name == found.device
    ]  # fmt: skip
    points: dict[tuple[int, ...], Record] = {}
    for r in trials(ours):  # what runs in every session, the first configuration, counts once
        points.setdefault(tuple(r.knobs[name] for name in kernel.spec.parameters.values), r)
    return list(points.values())


def build_kernel(
    kernel: RawKernel | RawKernelFunction[...],
    params: Mapping[str, Any] | None = None,
    *,
    target: TargetLike = None,
    records: str | Path | None = None,
) -> BuiltKernel:
    """Compile a kernel at these parameters; without them, at those of its best record on this device.

    Raises UsageError for parameters that it does not have, BuildError with the compiler's words.
    """
    one = kernel() if isinstance(kernel, RawKernelFunction) else kernel
    if not isinstance(one, RawKernel):
        raise UsageError(f"{kernel!r} is no kernel", asked="build_kernel", legal="what @raw_kernel made")
    to = resolve_target(one.kind if target is None else target)
    sketch = one.sketch(to)
    expect(params, "a dictionary of parameters, or None", params is None or isinstance(params, Mapping), "build_kernel")
    if params is not None:
        return BuiltKernel(one, one.spec.parameters.encode(params), to, "as asked")
    contents = read_workload(one.name, to.kind, None if records is None else str(records))
    choices = ranked(contents.records, key=one.key, target=to, device=describe_device(to)["name"])
    if one.objective is not None:
        cost = Costs(one.objective).of
        choices.sort(key=lambda choice: (not choice.exact, cost(choice.record)))
    for choice in choices:
        indices = sketch.indices_of(choice.record.knobs)
        if indices is not None and sketch.mask(np.asarray([indices], dtype=np.int64))[0]:
            unknown = "" if is_own(choice.record) else ", whose output was not verified on this machine"
            return BuiltKernel(one, dict(choice.record.knobs), to, f"record {choice.record.id}{unknown}")
    return BuiltKernel(one, sketch.first(1)[0], to, "no record: the first valid values")


def run_kernel(
    kernel_name: str,
    kernel_source: str | Path,
    problem_size: Any,
    arguments: Sequence[Any],
    params: Mapping[str, Any],
    *,
    target: TargetLike = None,
    **kernel: Unpack[KernelOptions],
) -> list[Any]:
    """Compile and run a kernel once at these parameters: the arguments as it leaves them. For unit tests.

    Works on copies. Raises UsageError or BuildError.
    """
    expect(params, "a dictionary of parameters", isinstance(params, Mapping), "run_kernel(params)")
    values = {name: [value] for name, value in params.items()}
    one = make_kernel(kernel_name, kernel_source, problem_size, arguments, values, **kernel)
    copies = [a.copy() for a in arguments]
    build_kernel(one, params, target=target)(*copies)
    return copies
