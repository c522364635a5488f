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
from typing import Any

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.errors import BuildError, DeviceError
from autosched.ir.dims import evaluate_dim
from autosched.ir.dtype import numpy_dtype
from autosched.runtime.launch import DeviceCall, DeviceKernel, DeviceLimits, Launch, times
from autosched.runtime.opencl_devices import find_device, is_pocl, open_session, opencl
from autosched.target import Target

Array = np.ndarray[Any, Any]
#: a kernel with its arguments set, its global and its local size
_Prepared = tuple[Any, tuple[int, ...], tuple[int, ...]]

#: The end of a command is noticed after so much more of the time that it took, at most.
LATE = 0.1
_IN_FLIGHT = 64  #: launches enqueued before waiting; unbounded queues exhaust drivers
_QUEUED = 1024  #: the same within one call, which may be steps of a long loop
_LOG_CHARACTERS = 4096


class OpenCLKernel(DeviceKernel):
    """The kernels of one artifact on one device. Raises DeviceError when the device is missing."""

    def __init__(self, artifact: Artifact, target: Target) -> None:
        super().__init__(artifact)
        #: whether it takes arrays wherever they lie: see `codegen.dialects.Vectors`
        self.is_anywhere = bool(artifact.meta.get("anywhere"))
        given = artifact.meta.get("options")
        self._given_options = None if given is None else [str(o) for o in given]
        self.session = open_session(find_device(target.options.get("device", "")))

    def bind(self, arrays: Sequence[Array]) -> OpenCLBoundCall:
        """Build if need be, check every limit, and create the call's device buffers.

        Raises BuildError for arrays the signature does not allow, source that does not compile and
        kernels beyond the limits of the device; DeviceError when the device cannot hold the buffers.
        """
        return OpenCLBoundCall(self, arrays, *self.checked(arrays, self.session.info))

    def kernel(self, launch: Launch, block: tuple[int, ...], wide: bool) -> Any:
        """A kernel object of its own for one call. Raises BuildError if its work-group is too large."""
        cl = opencl()
        try:
            kernel = cl.Kernel(self.program(wide), launch.name)
        except cl.Error:
            names = ", ".join(self.program(wide).kernel_names.split(";"))
            raise BuildError("its source has no such kernel", asked=f"kernel {launch.name!r}", legal=names) from None
        limits, info, device = cl.kernel_work_group_info, self.session.info, self.session.device
        required = kernel.get_work_group_info(limits.COMPILE_WORK_GROUP_SIZE, device)
        if any(required) and tuple(required) != tuple(block):
            raise launch.too_many(block, "its source", times(required))
        limit = kernel.get_work_group_info(limits.WORK_GROUP_SIZE, device)
        # NVIDIA's driver says 256 of every kernel, also of one that it has compiled for larger groups
        if prod(block) > limit and not (any(required) and info.platform.startswith("NVIDIA")):
            raise launch.too_many(block, info.name, f"{limit} for the registers this kernel uses")
        launch.check_shared(kernel.get_work_group_info(limits.LOCAL_MEM_SIZE, device), info)
        return kernel

    def program(self, wide: bool) -> Any:
        """The program with 64-bit or 32-bit indices, built once. Raises BuildError with the compiler's log."""
        if wide not in self._programs:
            cl, device = opencl(), self.session.device
            options = self._given_options
            if options is None:
                options = ["-cl-std=CL1.2", "-w", *(["-DINDEX_T=long"] if wide else [])]
                if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
                    options.append("-cl-fp32-correctly-rounded-divide-sqrt")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # compilers remark on unused helpers
                    program = cl.Program(self.session.context, self._source)
                    self._programs[wide] = program.build(options, devices=[device])
            except cl.Error as error:
                raise BuildError(
                    f"{self.session.info.name!r} cannot compile its source",
                    asked=f"program {self.signature.name!r}",
                    legal=f"compiler log:\n{_compiler_log(str(error))}",
                ) from None
        return self._programs[wide]


def _compiler_log(message: str) -> str:
    """The log inside a pyopencl error, without the call's name before and the options behind it."""
    _, _, log = message.partition("\n\n")
    return (log or message).rpartition("\n(options:")[0].strip()[:_LOG_CHARACTERS] or message[:_LOG_CHARACTERS]


class OpenCLBoundCall(DeviceCall):
    """A call whose kernels each have their arguments set."""

    def __init__(
        self, kernel: OpenCLKernel, arrays: Sequence[Array], sizes: dict[str, int], launches: Sequence[Launch]
    ) -> None:
        self._session = kernel.session
        self._cl = opencl()
        self._shares = kernel.session.info.is_cpu and kernel.is_anywhere
        self._set: list[tuple[Any, int, int]] = []  #: kernel, number of an argument of it, place of a parameter
        super().__init__(kernel, kernel.session.info, arrays, sizes)
        prepared: dict[tuple[str, int], _Prepared] = {}  # steps of a loop share a kernel: drivers are slow to make one
        self._launches: list[tuple[_Prepared, tuple[int, Any] | None]] = []
        for launch in launches:
            if launch.loop is None:
                self._launches.append((self._prepare(kernel, launch), None))
                continue
            key = (launch.name, launch.loop[0])
            if key not in prepared:
                prepared[key] = self._prepare(kernel, launch)
            at = next((k for k, (kind, _) in enumerate(launch.args) if kind == "step"), None)
            step = None if at is None else (at, (np.int64 if self.wide else np.int32)(launch.step))
            self._launches.append((prepared[key], step))

    # -- preparation --------------------------------------------------------------------------
    def _check_memory(self, lengths: Sequence[tuple[str, int]], device: DeviceLimits) -> None:
        most = self._session.info.max_allocation
        for name, length in lengths:
            if length > most:
                raise DeviceError(
                    f"buffer {name!r} has {length:,} bytes, and {device.name!r} allows {most:,} for one",
                    asked=self._name,
                    legal="use smaller arrays, or compute the intermediate in tiles",
                )
        super()._check_memory(lengths, device)

    def _allocate(self, name: str, length: int) -> Any:
        cl = self._cl
        try:
            return cl.Buffer(self._session.context, cl.mem_flags.READ_WRITE, size=max(length, 1))
        except cl.Error as error:
            raise DeviceError(f"buffer {name!r} of {length:,} bytes cannot be had: {error}", asked=self._name) from None

    def _prepare(self, kernel: OpenCLKernel, launch: Launch) -> _Prepared:
        """A kernel with its arguments set, and its global and local size. Raises BuildError for other arguments
        than it takes."""
        cl, asked = self._cl, f"kernel {launch.name!r}"
        grid, block = launch.extents(self._sizes)
        loaded = kernel.kernel(launch, block, self.wide)
        values = self._arguments(
            launch,
            np.int64 if self.wide else np.int32,
            scalar=lambda value: numpy_dtype(value[0]).type(value[1]),
            shared=lambda length: cl.LocalMemory(max(evaluate_dim(length, self._sizes), 1)),
        )
        if loaded.num_args != len(values):
            raise BuildError(f"it takes {loaded.num_args} arguments and {len(values)} are given", asked=asked)
        try:
            loaded.set_args(*values)
        except cl.Error as error:
            raise BuildError(f"it does not take these arguments: {error}", asked=asked) from None
        self._set += [(loaded, k, value) for k, (kind, value) in enumerate(launch.args) if kind == "param"]
        return loaded, tuple(g * b for g, b in zip(grid, block, strict=True)), block

    def _over(self, array: Array, is_output: bool) -> Any:
        """CPUs work on the host's memory, at any address if the source expects no other: a person's may expect the
        alignment of a device's memory."""
        if not self._shares or not array.nbytes:
            return None
        flags = self._cl.mem_flags
        access = flags.READ_WRITE if is_output else flags.READ_ONLY
        memory = array.reshape(-1).view(np.uint8)
        return self._attempt(self._cl.Buffer, self._session.context, access | flags.USE_HOST_PTR, hostbuf=memory)

    def rebind(self, arrays: Sequence[Array], *, are_outputs_fresh: bool) -> None:
        super().rebind(arrays, are_outputs_fresh=are_outputs_fresh)
        for kernel, number, place in self._set:
            if self._in_place[place]:
                self._attempt(kernel.set_arg, number, self._buffers[place])

    # -- running ------------------------------------------------------------------------------
    def _copy(self, to: Any, source: Any) -> None:
        self._attempt(self._cl.enqueue_copy, self._session.queue, to, source, is_blocking=True)

    def _show(self, buffer: Any, array: Array) -> None:
        if is_pocl(self._session.info.platform):
            return  # whose buffers are the array's memory: its threads have written to it, and the host has waited
        cl, queue, length = self._cl, self._session.queue, (array.nbytes,)
        mapped, _ = self._attempt(cl.enqueue_map_buffer, queue, buffer, cl.map_flags.READ, 0, length, np.uint8)
        mapped.base.release(queue)

    def _execute(self) -> None:
        self._wait(self._enqueue())

    def time(self, number: int) -> float:
        """Seconds per call by the device's clock, of `number` calls: from the beginning of the first launch of each to
        the end of its last, with what the device waits in between.

        A program without launches (its results are empty) takes what it takes to find that out.
        """
        self._ready()
        nanoseconds = 0
        begun = time.perf_counter()
        events: list[Any] = []
        ends: list[tuple[Any, Any]] = []
        for call in range(number):
            mine = self._enqueue()
            events += mine
            ends += [(mine[0], mine[-1])] if mine else []
            if len(events) >= _IN_FLIGHT or call == number - 1:
                self._wait(events)
                nanoseconds += sum(self._attempt(lambda e: int(e[1].profile.end - e[0].profile.start), e) for e in ends)
                events, ends = [], []
        if not self._launches:
            return (time.perf_counter() - begun) / number
        return nanoseconds * 1e-9 / number

    def times(self) -> list[float]:
        """Seconds of each launch of one call, by the device's clock."""
        self._ready()
        events = self._enqueue()
        self._wait(events)
        return [self._attempt(lambda e: (e.profile.end - e.profile.start) * 1e-9, e) for e in events]

    def _enqueue(self) -> list[Any]:
        enqueue, queue, events = self._cl.enqueue_nd_range_kernel, self._session.queue, []
        for (kernel, extents, block), step in self._launches:
            if step is not None:
                self._attempt(kernel.set_arg, *step)
            events.append(self._attempt(enqueue, queue, kernel, extents, block))
            if len(events) % _QUEUED == 0:
                self._wait(events[-_QUEUED:])
        return events

    def _attempt(self, action: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call OpenCL; raise DeviceError where it fails."""
        try:
            return action(*args, **options)
        except self._cl.Error as error:
            name = self._session.info.name
            legal = "see `python -m autosched doctor`"
            raise DeviceError(f"{name!r} refuses: {error}", asked=self._name, legal=legal) from None

    def _wait(self, events: Sequence[Any]) -> None:
        """Wait for all events; the queue runs them in order.

        Polls, because a driver's own wait ignores Ctrl-C for as long as a kernel runs.
        """
        if not events:
            return
        done = self._cl.command_execution_status.COMPLETE
        self._attempt(self._session.queue.flush)
        begun = time.perf_counter()
        while self._attempt(getattr, events[-1], "command_execution_status") > done:
            waited = time.perf_counter() - begun
            time.sleep(min(max(waited * LATE, 20e-6), 2e-3))
        statuses = [self._attempt(getattr, e, "command_execution_status") for e in events]
        failed = [status for status in statuses if status < done]
        if failed:
            where = f"{self._name} on {self._session.info.name!r}"
            raise DeviceError(f"a command ended with the OpenCL status {failed[0]}", asked=where)
