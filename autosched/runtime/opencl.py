"""Running OpenCL artifacts.

A program is built when a call first needs it, once for each width of `index_t`: 32 bits wherever no
offset of that call can pass 2^31. Every limit of the device is checked before anything is enqueued,
because drivers do not (PoCL accepts eight times its local memory and silently works on it).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.signature import evaluate_dim
from autosched.errors import BuildError, DeviceError
from autosched.ir.dtype import dtype
from autosched.runtime.arguments import check_arrays, is_resident
from autosched.runtime.kernel import Launch, LaunchPlan, times
from autosched.runtime.opencl_devices import (
    DeviceInfo,
    device_limits,
    devices,
    find_device,
    open_session,
    opencl,
)
from autosched.runtime.strided import memory_of
from autosched.target import Target

__all__ = ["DeviceInfo", "OpenCLBoundCall", "OpenCLKernel", "device_limits", "devices", "find_device"]

Array = np.ndarray[Any, Any]

_IN_FLIGHT = 64  #: launches enqueued before waiting; unbounded queues exhaust drivers
_LOG_CHARACTERS = 4096


class OpenCLKernel:
    """The kernels of one artifact on one device. Raises DeviceError when the device is missing."""

    def __init__(self, artifact: Artifact, target: Target) -> None:
        self._signature = artifact.signature
        self._source = artifact.code.decode()
        self.plan = LaunchPlan.of(artifact)
        given = artifact.meta.get("options")
        self._given_options = None if given is None else [str(o) for o in given]
        self.session = open_session(find_device(target.options.get("device", "")))
        self._programs: dict[bool, Any] = {}

    @property
    def signature(self) -> Signature:
        return self._signature

    def bind(self, arrays: Sequence[Array]) -> OpenCLBoundCall:
        """Build if need be, check every limit, and create the call's device buffers.

        Raises BuildError for arrays the signature does not allow, source that does not compile and
        kernels beyond the limits of the device; DeviceError when the device cannot hold the buffers.
        """
        sizes = check_arrays(self._signature, arrays)
        launches = [launch for launch in self.plan.launches if launch.runs(sizes)]
        for launch in launches:
            self._check_launch(launch, sizes)
        return OpenCLBoundCall(self, arrays, sizes, launches, self.plan.is_wide(sizes))

    def _check_launch(self, launch: Launch, sizes: dict[str, int]) -> None:
        info = self.session.info
        launch.check(sizes, info.name, info.max_work_group, info.max_work_items, info.shared_memory)

    def kernel(self, launch: Launch, block: tuple[int, ...], wide: bool) -> Any:
        """A kernel object of its own for one call. Raises BuildError if its work-group is too large."""
        cl = opencl()
        try:
            kernel = cl.Kernel(self.program(wide), launch.name)
        except cl.Error:
            names = ", ".join(self.program(wide).kernel_names.split(";"))
            raise BuildError("its source has no such kernel", asked=f"kernel {launch.name!r}", legal=names) from None
        limit = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, self.session.device)
        if prod(block) > limit:
            raise launch.refused(
                f"a work-group of {times(block)} work-items",
                self.session.info.name,
                f"{limit} for the registers this kernel uses",
            )
        required = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, self.session.device)
        if any(required) and tuple(required) != tuple(block):
            raise launch.refused(f"a work-group of {times(block)} work-items", "its source", times(required))
        shared = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, self.session.device)
        if shared > self.session.info.shared_memory:
            what = f"{shared} bytes of shared memory for each work-group"
            raise launch.refused(what, self.session.info.name, f"{self.session.info.shared_memory}")
        return kernel

    def _options(self, wide: bool) -> list[str]:
        """The compiler's: those that come with the source, else what generated code needs."""
        if self._given_options is not None:
            return self._given_options
        options = ["-cl-std=CL1.2", "-DINDEX_T=long"] if wide else ["-cl-std=CL1.2"]
        exact = opencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        if self.session.device.single_fp_config & exact:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        return options

    def program(self, wide: bool) -> Any:
        """The program with 64-bit or 32-bit indices, built once. Raises BuildError with the compiler's log."""
        if wide not in self._programs:
            cl = opencl()
            options = self._options(wide)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # compilers remark on unused helpers
                    program = cl.Program(self.session.context, self._source)
                    self._programs[wide] = program.build(options, devices=[self.session.device])
            except cl.Error as error:
                raise BuildError(
                    f"{self.session.info.name!r} cannot compile its source",
                    asked=f"program {self._signature.name!r}",
                    legal=f"compiler log:\n{_compiler_log(str(error))}",
                ) from None
        return self._programs[wide]


def _nanoseconds(event: Any) -> int:
    """How long the device says that a finished command ran."""
    return int(event.profile.end - event.profile.start)


def _compiler_log(message: str) -> str:
    """The log inside a pyopencl error, without the call's name before and the options behind it."""
    _, _, log = message.partition("\n\n")
    return (log or message).rpartition("\n(options:")[0].strip()[:_LOG_CHARACTERS] or message[:_LOG_CHARACTERS]


class OpenCLBoundCall:
    """A kernel with arrays, device buffers and launches fixed. Use it from one thread."""

    def __init__(
        self,
        kernel: OpenCLKernel,
        arrays: Sequence[Array],
        sizes: dict[str, int],
        launches: Sequence[Launch],
        wide: bool,
    ) -> None:
        """`wide`: whether `index_t` has 64 bits."""
        self._arrays = tuple(a if is_resident(a) else memory_of(a) for a in arrays)
        self._outputs = tuple(p.is_output for p in kernel.signature.params)
        self._session = kernel.session
        self._name = kernel.signature.name
        self.wide = wide
        self._is_uploaded = False
        plan = kernel.plan
        names = [p.name for p in kernel.signature.params] + [name for name, _, _ in plan.device]
        lengths = [a.nbytes for a in self._arrays]
        lengths += [max(evaluate_dim(count, sizes), 0) * dtype(of).bytes for _, of, count in plan.device]
        self._check_memory(names, lengths)
        resident = [cast(Any, a).memory.buffer if is_resident(a) else None for a in self._arrays]
        resident += [None] * len(plan.device)
        self._buffers = [
            self._buffer(name, length) if own is None else own
            for name, length, own in zip(names, lengths, resident, strict=True)
        ]
        self._launches = [self._prepare(kernel, launch, sizes) for launch in launches]

    # -- preparation --------------------------------------------------------------------------
    def _check_memory(self, names: Sequence[str], lengths: Sequence[int]) -> None:
        info = self._session.info
        for name, length in zip(names, lengths, strict=True):
            if length > info.max_allocation:
                raise DeviceError(
                    f"buffer {name!r} has {length:,} bytes, and {info.name!r} allows {info.max_allocation:,} for one",
                    asked=self._name,
                    legal="use smaller arrays, or compute the intermediate in tiles",
                )
        if sum(lengths) > info.global_memory:
            raise DeviceError(
                f"its buffers have {sum(lengths):,} bytes, and {info.name!r} has {info.global_memory:,}",
                asked=self._name,
                legal="use smaller arrays, or compute intermediates in tiles",
            )

    def _buffer(self, name: str, length: int) -> Any:
        cl = opencl()
        try:
            return cl.Buffer(self._session.context, cl.mem_flags.READ_WRITE, size=max(length, 1))
        except cl.Error as error:
            raise DeviceError(f"buffer {name!r} of {length:,} bytes cannot be had: {error}", asked=self._name) from None

    def _prepare(
        self, kernel: OpenCLKernel, launch: Launch, sizes: dict[str, int]
    ) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
        """A kernel with its arguments set, and its global and local size."""
        cl = opencl()
        block = tuple(evaluate_dim(d, sizes) for d in launch.block)
        grid = tuple(evaluate_dim(d, sizes) for d in launch.grid)
        loaded = kernel.kernel(launch, block, self.wide)
        index = np.int64 if self.wide else np.int32
        values: list[Any] = []
        for kind, value in launch.args:
            match kind:
                case "param":
                    values.append(self._buffers[value])
                case "device":
                    values.append(self._buffers[len(self._arrays) + value])
                case "size":
                    values.append(index(sizes[value]))
                case "scalar":
                    values.append(np.dtype(value[0]).type(value[1]))
                case "shared":
                    values.append(cl.LocalMemory(max(evaluate_dim(value, sizes), 1)))
                case _:
                    raise BuildError(f"unknown kind of argument {kind!r}", asked=f"kernel {launch.name!r}")
        self._set_arguments(loaded, launch, values)
        return loaded, tuple(g * b for g, b in zip(grid, block, strict=True)), block

    @staticmethod
    def _set_arguments(loaded: Any, launch: Launch, values: Sequence[Any]) -> None:
        """Raises BuildError where the kernel takes others than these."""
        asked = f"kernel {launch.name!r}"
        if loaded.num_args != len(values):
            raise BuildError(f"it takes {loaded.num_args} arguments and {len(values)} are given", asked=asked)
        try:
            loaded.set_args(*values)
        except opencl().Error as error:
            raise BuildError(f"it does not take these arguments: {error}", asked=asked) from None

    # -- running ------------------------------------------------------------------------------
    def upload(self) -> None:
        """Copy all arrays to the device: outputs too, so that what a kernel leaves out stays as it was."""
        cl = opencl()
        for array, buffer in zip(self._arrays, self._buffers, strict=False):
            if array.nbytes and not is_resident(array):
                self._attempt(cl.enqueue_copy, self._session.queue, buffer, array, is_blocking=False)
        self._finish()
        self._is_uploaded = True

    def fetch(self) -> None:
        """Copy the outputs from the device into their arrays."""
        cl = opencl()
        for array, buffer, is_output in zip(self._arrays, self._buffers, self._outputs, strict=False):
            if is_output and array.nbytes and not is_resident(array):
                self._attempt(cl.enqueue_copy, self._session.queue, array, buffer, is_blocking=False)
        self._finish()

    def run(self) -> None:
        """Execute once and wait; the first run uploads the arrays if nobody did. Raises DeviceError."""
        if not self._is_uploaded:
            self.upload()
        self._wait(self._enqueue())

    def time(self, number: int) -> float:
        """Seconds per call: what the device's clock measured for all launches of `number` calls.

        A program without launches (its results are empty) takes what it takes to find that out.
        """
        if not self._is_uploaded:
            self.upload()
        nanoseconds = 0
        begun = time.perf_counter()
        events: list[Any] = []
        for call in range(number):
            events += self._enqueue()
            if len(events) >= _IN_FLIGHT or call == number - 1:
                self._wait(events)
                nanoseconds += sum(self._attempt(_nanoseconds, e) for e in events)
                events = []
        if not self._launches:
            return (time.perf_counter() - begun) / number
        return nanoseconds * 1e-9 / number

    def _enqueue(self) -> list[Any]:
        enqueue, queue = opencl().enqueue_nd_range_kernel, self._session.queue
        return [self._attempt(enqueue, queue, kernel, extents, block) for kernel, extents, block in self._launches]

    def _finish(self) -> None:
        cl = opencl()
        self._wait([self._attempt(cl.enqueue_marker, self._session.queue)])

    def _attempt(self, action: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The result of an OpenCL call, its failure as a DeviceError."""
        try:
            return action(*args, **options)
        except opencl().Error as error:
            name = self._session.info.name
            legal = "see `python -m autosched doctor`"
            raise DeviceError(f"{name!r} refuses: {error}", asked=self._name, legal=legal) from None

    def _wait(self, events: Sequence[Any]) -> None:
        """Wait for all events; the queue runs them in order.

        Polls, because a driver's own wait ignores Ctrl-C for as long as a kernel runs.
        """
        if not events:
            return
        done = opencl().command_execution_status.COMPLETE
        self._attempt(self._session.queue.flush)
        pause = 20e-6
        while self._attempt(getattr, events[-1], "command_execution_status") > done:
            time.sleep(pause)
            pause = min(pause * 1.5, 2e-3)
        statuses = [self._attempt(getattr, e, "command_execution_status") for e in events]
        failed = [status for status in statuses if status < done]
        if failed:
            where = f"{self._name} on {self._session.info.name!r}"
            raise DeviceError(f"a command ended with the OpenCL status {failed[0]}", asked=where)
