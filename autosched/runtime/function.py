"""`CompiledFunction`: machine code that a user calls with arrays; `TimeEvaluator`, which times it."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from autosched.codegen import text_of
from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.asm import Loop, hot_loop
from autosched.codegen.signature import Param
from autosched.errors import ArgumentTypeError, AutoschedError, DeviceError, check_positive, expect
from autosched.ir.dtype import numpy_dtype
from autosched.ir.functions import get_global_func
from autosched.runtime import load
from autosched.runtime.arguments import as_array, check_arrays, check_output, check_sizes, is_resident, spans_overlap
from autosched.runtime.callbacks import raise_waiting
from autosched.runtime.kernel import BoundCall, DirectKernel, Kernel, UnavailableKernel
from autosched.runtime.launch import DeviceCall
from autosched.runtime.native_call import UNKNOWN, NativeCall
from autosched.runtime.ndarray import allocate, empty
from autosched.runtime.strided import memory_of
from autosched.target import Target

Array = np.ndarray[Any, Any]

#: a timing round lasts at least this long, so that the clock and the call do not show
_ROUND_SECONDS = 0.02
#: Calls that are timed together, unless more are asked for: a computation of nothing takes no time, and never lasts.
_MOST_CALLS = 1_000_000_000
#: plans remembered per module, those used last; a plan is one combination of shapes
MAX_PLANS = 1024


class CompiledFunction:
    """A compiled function, callable with NumPy arrays or anything that shares memory with NumPy.

    >>> out = module(img)              # outputs are allocated
    >>> module(img, out)               # or written where the caller says; they are returned as well

    Arguments go in the order of `module.signature`. Raises BuildError, naming the argument, for a
    wrong type, shape or layout, for a read-only output and for an output that overlaps another
    argument; MemoryError when there is no room for intermediate buffers.
    """

    def __init__(self, artifact: Artifact, target: Target, kernel: Kernel | None = None) -> None:
        """Load the code, unless a `kernel` has it already."""
        self.artifact = artifact
        self.target = target
        self.kernel: Kernel = load(artifact, target) if kernel is None else kernel  #: the loaded code
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self._last: _Plan | None = None  #: which may have buffers on a device
        self._native: NativeCall | None = None
        self._may_be_native = isinstance(self.kernel, DirectKernel)
        self._takes_sizes = any(p.is_size for p in self.signature.params)

    # -- calling ------------------------------------------------------------------------------
    def __call__(self, *arrays: object) -> Any:
        """Run once; returns the output, or a tuple of them when there are several."""
        if self._native is not None:
            found = self._native(*arrays)
            if type(found) is not int:
                return found
            if found != UNKNOWN:
                raise_waiting(found)
        return self._call_checked(arrays)

    def _call_checked(self, arrays: Sequence[object]) -> Any:
        """Call with arrays that the native call does not recognise."""
        # one dict per array tells everything, where each attribute of its own costs as much
        interfaces = [a.__array_interface__ if type(a) is np.ndarray else None for a in arrays]
        if None in interfaces:
            return self._call_converted(arrays)
        key = tuple([(i["shape"], i["typestr"], i["strides"], i["data"][1]) for i in interfaces])  # type: ignore[index]
        if self._takes_sizes:  # shapes do not tell all sizes, perhaps
            params = self.signature.params if len(arrays) == len(self.signature.params) else self.signature.inputs
            key += tuple(a.tobytes() for p, a in zip(params, arrays, strict=False) if p.is_size)  # type: ignore[attr-defined]
        plan = self._plans.pop(key, None)
        if plan is None:
            complete = self._complete(arrays)
            sizes = check_arrays(self.signature, complete)
            plan = _Plan(self.kernel, sizes, complete, allocates=len(arrays) < len(complete))
            while len(self._plans) >= MAX_PLANS:
                self._plans.pop(next(iter(self._plans)), None)
        self._plans[key] = plan  # the last now
        if self._last is not plan and self._last is not None:
            self._last.free()
        self._last = plan
        if self._may_be_native:
            self._may_be_native = False
            self._native = cast(DirectKernel, self.kernel).native()
        return plan.run(cast("tuple[Array, ...]", arrays), [i["data"][0] for i in interfaces])  # type: ignore[index]

    def _call_converted(self, values: Sequence[object]) -> Any:
        """Call with other arrays than NumPy's; those on a device stay there."""
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        if tensor is not None:  # asked for its own view, it gives one in a quarter of the time
            try:
                seen = [a.numpy() if type(a) is tensor else a for a in values]  # type: ignore[attr-defined]
            except (RuntimeError, TypeError):  # it has a gradient, or lies elsewhere: the messages are below
                seen = []
            if seen and all([type(a) is np.ndarray for a in seen]):  # noqa: C419 - a generator takes longer
                return self(*seen)
        if not any(map(is_resident, values)):
            return self(*self._converted(values))
        arrays = self._complete(values)
        with self.bound(arrays) as bound:
            bound.run()
        outputs = tuple([a for a, p in zip(arrays, self.signature.params, strict=True) if p.is_output])
        return outputs[0] if len(outputs) == 1 else outputs

    def _converted(self, values: Sequence[object]) -> list[Array]:
        """The values as arrays over the same memory. Raises BuildError for a wrong number of them."""
        for params in (self.signature.params, self.signature.inputs):
            if len(values) == len(params):
                return [as_array(v, p, self.signature.name) for v, p in zip(values, params, strict=True)]
        raise ArgumentTypeError(
            f"takes {len(self.signature.inputs)} arrays, or {len(self.signature.params)} with the outputs, "
            f"got {len(values)}",
            asked=self.signature.name,
            legal=f"signature: {self.signature}",
        )

    def _complete(self, values: Sequence[object]) -> list[Array]:
        """One array per parameter, with the outputs allocated where they were left out."""
        arrays = self._converted(values)
        if len(arrays) == len(self.signature.params):
            return arrays
        inputs = iter(arrays)
        given = [None if p.is_output else next(inputs) for p in self.signature.params]
        sizes = self.signature.resolve(given)
        for p in self.signature.outputs:
            check_output(self.signature.name, p, sizes)
        place = next((a for a in arrays if is_resident(a)), None)
        return [
            self._empty(p, sizes, place) if a is None else a for p, a in zip(self.signature.params, given, strict=True)
        ]

    @staticmethod
    def _empty(param: Param, sizes: Mapping[str, int], beside: Any) -> Array:
        """A new array, on the device where the other one lies if there is one."""
        if beside is None:
            of = numpy_dtype(param.dtype)
            return allocate(param.shape_for(sizes), of, tuple(k * of.itemsize for k in param.strides_for(sizes)))
        return cast("Array", empty(param.shape_for(sizes), param.dtype, beside.device))

    # -- timing -------------------------------------------------------------------------------
    def time(self, *arrays: object, number: int | None = None, repeat: int = 3) -> list[float]:
        """Seconds per call, `repeat` times, each the mean of `number` calls timed in native code.

        Without `number`, enough calls to last 20 ms. Outputs are allocated when left out.
        """
        check_positive("time", number=number)
        check_positive("time", or_none=False, repeat=repeat)
        with self.bound(arrays) as bound:
            bound.run()
            if number is None:
                number = 1
                while (seconds := bound.time(number) * number) < _ROUND_SECONDS and number < _MOST_CALLS:
                    more = int(1.2 * number * _ROUND_SECONDS / max(seconds, 1e-9))
                    number = min(max(number * 2, min(more, number * 1000)), _MOST_CALLS)
            return [bound.time(number) for _ in range(repeat)]

    @contextmanager
    def bound(self, arrays: Sequence[object]) -> Iterator[BoundCall]:
        """The kernel with its arguments fixed and uploaded; at the end the outputs are in their arrays."""
        complete = self._complete(arrays)
        session = getattr(self.kernel, "session", None) if any(map(is_resident, complete)) else None
        copies = {i: a for i, a in enumerate(complete) if is_resident(a) and cast(Any, a).memory.session is not session}
        placed = [cast(Any, a).numpy() if i in copies else a for i, a in enumerate(complete)]
        bound = _bind(self.kernel, placed)
        yield bound
        bound.fetch()
        for i, a in copies.items():  # they lie on another device than the code runs on
            if self.signature.params[i].is_output:
                cast(Any, a).copyfrom(placed[i])

    # -- what it is ---------------------------------------------------------------------------
    @property
    def signature(self) -> Signature:
        return self.artifact.signature

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def source(self) -> str:
        """The text for the compiler: LLVM IR before optimisation, C, OpenCL C or CUDA C."""
        return text_of(self.artifact, "source")

    @property
    def llvm_ir(self) -> str:
        """LLVM IR after optimisation. Raises BuildError for a target that has none."""
        return text_of(self.artifact, "llvm")

    @property
    def assembly(self) -> str:
        """Assembly of the CPU, with LLVM's comments. Raises BuildError for a target that has none."""
        return text_of(self.artifact, "asm")

    def hot_loop(self) -> Loop | None:
        """The loop of the machine code that probably takes most time, with its instructions counted.

        None for code without loops. Raises BuildError for a target without assembly.

        >>> module.hot_loop().counts.fmas
        12
        """
        return hot_loop(self.assembly, self.artifact.machine)

    def __reduce__(self) -> tuple[Callable[[bytes, Target], CompiledFunction], tuple[bytes, Target]]:
        """Pickle as compiled code."""
        return function_of, (self.artifact.to_bytes(), self.target)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.signature} for {self.target}>"


def function_of(data: bytes, target: Target) -> CompiledFunction:
    """The function of a module that was pickled alone. Raises BuildError for damaged data."""
    (artifact,) = Artifact.from_bytes(data, "pickle of a function")
    return CompiledFunction(artifact, target, load_where_possible(artifact, target))


def load_where_possible(artifact: Artifact, target: Target) -> Kernel:
    """The code, ready to run; where it cannot be, a kernel whose calls say why."""
    try:
        return load(artifact, target)
    except AutoschedError as error:
        return UnavailableKernel(artifact.signature, error)


#: The plans that have buffers on a device.
_KEEPING: weakref.WeakSet[_Plan] = weakref.WeakSet()


class _Plan:
    """The state that calls with arrays of the same shapes and layout share; their checks are done."""

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int], arrays: Sequence[Array], allocates: bool) -> None:
        params = kernel.signature.params
        self._kernel = kernel
        self._signature = kernel.signature
        self._allocates = allocates
        self._outputs = [i for i, p in enumerate(params) if p.is_output]
        self._specs = [(p.shape_for(sizes), numpy_dtype(p.dtype)) for p in params]
        self._strides = [tuple(k * numpy_dtype(p.dtype).itemsize for k in p.strides_for(sizes)) for p in params]
        self._bytes = [a.nbytes if is_resident(a) else memory_of(a).nbytes for a in arrays]
        self._masks = [max(of.itemsize, p.alignment) - 1 for p, (_, of) in zip(params, self._specs, strict=True)]
        self._pairs = [(i, j) for i in self._outputs for j in range(len(params)) if i != j]
        self._sizes = dict(sizes) if any(p.is_size for p in params) else {}
        self._empty = not any(self._bytes[i] for i in self._outputs)
        self._direct = kernel.prepare(sizes) if isinstance(kernel, DirectKernel) else None
        self._kept: list[DeviceCall] = []  #: with buffers on a device, for the next call; one, or none

    def run(self, arrays: Sequence[Array], addresses: list[int]) -> Any:
        """Run on these arrays, which lie at these addresses."""
        if self._allocates:
            arrays, addresses = self._with_outputs(arrays, addresses)
        self._check(arrays, addresses)
        if self._empty:
            pass  # nothing to compute, and perhaps nothing to read from either
        elif self._direct is not None:
            self._direct(addresses)
        else:
            self._run_on_device(arrays)
        if len(self._outputs) == 1:
            return arrays[self._outputs[0]]
        return tuple([arrays[i] for i in self._outputs])

    def _run_on_device(self, arrays: Sequence[Array]) -> None:
        """Run with the buffers of the call before, if no other thread has them."""
        bound: BoundCall
        try:
            kept = self._kept.pop()
        except IndexError:
            bound = _bind(self._kernel, arrays)
        else:
            kept.rebind(arrays, are_outputs_fresh=self._allocates)
            bound = kept
            bound.upload()
        bound.run()
        bound.fetch()
        if isinstance(bound, DeviceCall):
            bound.let_go()
            self._kept[:] = [bound]
            _KEEPING.add(self)

    def free(self) -> None:
        """Free the buffers on a device that wait for the next call."""
        self._kept.clear()
        _KEEPING.discard(self)

    def _with_outputs(self, inputs: Sequence[Array], addresses: Sequence[int]) -> tuple[list[Array], list[int]]:
        arrays, places = list(inputs), list(addresses)
        for i in self._outputs:  # ascending, so each goes to its final position
            fresh = allocate(*self._specs[i], self._strides[i])
            arrays.insert(i, fresh)
            places.insert(i, fresh.__array_interface__["data"][0])
        return arrays, places

    def _check(self, arrays: Sequence[Array], addresses: Sequence[int]) -> None:
        """Check what shapes and layout do not tell: alignment, outputs that overlap, sizes that are given."""
        if self._sizes:
            check_sizes(self._signature, arrays, self._sizes)
        for address, mask in zip(addresses, self._masks, strict=True):
            if address & mask:
                check_arrays(self._signature, arrays)
        if not self._allocates:
            for i, j in self._pairs:
                if spans_overlap(addresses[i], self._bytes[i], addresses[j], self._bytes[j]):
                    check_arrays(self._signature, arrays)


def _bind(kernel: Kernel, arrays: Sequence[Array]) -> BoundCall:
    """Bind and upload; where a device is full, once more without what other calls have kept there. OpenCL takes memory
    when it is first used."""
    try:
        bound = kernel.bind(arrays)
        bound.upload()
    except DeviceError:
        if not _KEEPING:
            raise
        for plan in tuple(_KEEPING):
            plan.free()
        bound = kernel.bind(arrays)
        bound.upload()
    return bound


# -- timing -------------------------------------------------------------------------------------------

_GROWTH = 1.618  #: at least so many times more calls, when those before did not last long enough
#: what is 0 unless given
_OR_ZERO = ("min_repeat_ms", "limit_zero_time_iterations", "cooldown_interval_ms", "cache_flush_bytes")


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds per call. `str()` is a table in milliseconds."""

    results: tuple[float, ...]

    @property
    def min(self) -> float:
        return float(np.min(self.results))

    @property
    def mean(self) -> float:
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        return float(np.median(self.results))

    @property
    def max(self) -> float:
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        return float(np.std(self.results))

    def __str__(self) -> str:
        columns = ("mean", "median", "max", "min", "std")
        head = "".join(f"{f'{name} (ms)':^14}" for name in columns)
        values = "".join(f"{getattr(self, name) * 1e3:^14.4f}" for name in columns)
        return f"Execution time summary:\n{head.rstrip()}\n{values.rstrip()}"


@dataclass(frozen=True)
class TimeEvaluator:
    """Call it with a function's arrays; see `Module.time_evaluator` for the fields."""

    function: CompiledFunction
    number: int = 10
    repeat: int = 1
    min_repeat_ms: int = 0
    limit_zero_time_iterations: int = 100
    cooldown_interval_ms: int = 0
    repeats_to_cooldown: int = 1
    cache_flush_bytes: int = 0
    f_preproc: str = ""

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.type == "int"}
        check_positive("time_evaluator", or_zero=_OR_ZERO, or_none=False, **given)
        asked = "time_evaluator(f_preproc=..)"
        expect(self.f_preproc, "the name of a function", isinstance(self.f_preproc, str), asked)

    def __call__(self, *arrays: object) -> BenchmarkResult:
        """Outputs are allocated when left out. Raises what a call raises."""
        prepare = get_global_func(self.f_preproc) if self.f_preproc else None
        with self.function.bound(arrays) as bound:
            bound.run()
            samples: list[float] = []
            number = self.number
            for i in range(self.repeat):
                if prepare is not None:
                    prepare(*arrays)
                if self.cache_flush_bytes:
                    np.ones(self.cache_flush_bytes, np.uint8).sum()
                seconds, number = self._sample(bound.time, number)
                samples.append(seconds)
                if self.cooldown_interval_ms and (i + 1) % self.repeats_to_cooldown == 0:
                    time.sleep(self.cooldown_interval_ms * 1e-3)
        return BenchmarkResult(tuple(samples))

    def _sample(self, timed: Callable[[int], float], number: int) -> tuple[float, int]:
        """Seconds per call, and how many calls that took."""
        zeros = 0
        while True:
            seconds = timed(number)
            lasted = seconds * number * 1e3
            zeros += seconds == 0
            is_enough = lasted >= self.min_repeat_ms or zeros >= self.limit_zero_time_iterations
            if is_enough or number >= _MOST_CALLS:
                return seconds, number
            wanted = self.min_repeat_ms / (seconds * 1e3) + 1 if seconds else 0.0
            number = int(min(max(wanted, number * _GROWTH, number + 1), _MOST_CALLS))
