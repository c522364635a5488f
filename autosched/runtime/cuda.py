"""Running CUDA artifacts: the source, translated by NVRTC and launched through the driver.

Nothing is asked of compiler, driver or device before a call binds arrays, so that a module for CUDA
can be built, looked at and saved on any machine.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from autosched.codegen.artifact import Artifact, Signature, evaluate_dim
from autosched.codegen.nvrtc import compile_cuda_source
from autosched.errors import BuildError, DeviceError
from autosched.ir.dtype import dtype
from autosched.runtime.arguments import check_arrays, is_resident
from autosched.runtime.cuda_driver import Session, cuda_device, open_session
from autosched.runtime.launches import Launch, LaunchPlan
from autosched.runtime.strided import memory_of
from autosched.target import Target

__all__ = ["CudaBoundCall", "CudaKernel"]

Array = np.ndarray[Any, Any]

_IN_FLIGHT = 64  #: launches enqueued before waiting
_SHARED_ALIGNMENT = 16


class CudaKernel:
    """The kernels of one artifact. Making one needs neither a compiler nor a device."""

    def __init__(self, artifact: Artifact, target: Target) -> None:
        self._signature = artifact.signature
        self._source = artifact.code.decode()
        self._target = target
        self._strict = bool(artifact.meta.get("strict", False))
        self.plan = LaunchPlan.of(artifact)
        self._modules: dict[bool, ctypes.c_void_p] = {}

    @property
    def signature(self) -> Signature:
        return self._signature

    @property
    def session(self) -> Session:
        """The device in use. Raises DeviceError where there is none."""
        return open_session(cuda_device(self._target))

    def bind(self, arrays: Sequence[Array]) -> CudaBoundCall:
        """Compile if need be, check every limit, and create the call's device buffers.

        Raises BuildError for arrays that the signature does not allow, source that NVRTC refuses and
        kernels beyond the limits of the device; DeviceError when compiler, driver, device or memory
        is missing.
        """
        sizes = check_arrays(self._signature, arrays)
        device = cuda_device(self._target)
        launches = [launch for launch in self.plan.launches if launch.runs(sizes)]
        for launch in launches:
            launch.check(sizes, device.name, device.max_work_group, device.max_work_items, device.shared_memory)
        session = open_session(device)
        session.enter()
        return CudaBoundCall(self, session, arrays, sizes, launches)

    def module(self, session: Session, wide: bool) -> ctypes.c_void_p:
        """The loaded program with 64-bit or 32-bit indices, translated once.

        Machine code where the target's architecture is the device's, else PTX, which runs on newer ones.
        """
        if wide not in self._modules:
            arch = self._target.options.get("arch", session.device.arch)
            to = "cubin" if arch == session.device.arch else "ptx"
            options = [*(["-DINDEX_T=int64"] if wide else []), *(["--fmad=false"] if self._strict else [])]
            self._modules[wide] = session.load(compile_cuda_source(self._source, arch, to=to, options=options))
        return self._modules[wide]


class CudaBoundCall:
    """A kernel with arrays, device buffers and launches fixed. Use it from one thread."""

    def __init__(
        self,
        kernel: CudaKernel,
        session: Session,
        arrays: Sequence[Array],
        sizes: dict[str, int],
        launches: Sequence[Launch],
    ) -> None:
        self._session = session
        self._arrays = tuple(a if is_resident(a) else memory_of(a) for a in arrays)
        self._outputs = tuple(p.is_output for p in kernel.signature.params)
        self._is_uploaded = False
        self.wide = kernel.plan.is_wide(sizes)
        lengths = [a.nbytes for a in self._arrays]
        lengths += [max(evaluate_dim(count, sizes), 0) * dtype(of).bytes for _, of, count in kernel.plan.device]
        if sum(lengths) > session.device.global_memory:
            raise DeviceError(
                f"its buffers have {sum(lengths):,} bytes, and {session.device.name!r} has "
                f"{session.device.global_memory:,}",
                asked=kernel.signature.name,
                legal="use smaller arrays, or compute intermediates in tiles",
            )
        self._buffers: list[ctypes.c_uint64] = []
        own: list[ctypes.c_uint64] = []  # all but those of arrays that lie on the device
        weakref.finalize(self, _release, session, own)
        resident = [cast(Any, a).memory.buffer if is_resident(a) else None for a in self._arrays]
        for length, memory in itertools.zip_longest(lengths, resident):
            if memory is None:
                memory = session.allocate(length)
                own.append(memory)
            self._buffers.append(memory)
        module = kernel.module(session, self.wide)
        self._launches = [self._prepare(session.function(module, x.name), x, sizes) for x in launches]

    def _prepare(
        self, function: ctypes.c_void_p, launch: Launch, sizes: dict[str, int]
    ) -> tuple[ctypes.c_void_p, tuple[int, ...], tuple[int, ...], int, list[Any]]:
        """What `Session.launch` takes."""
        index = ctypes.c_int64 if self.wide else ctypes.c_int32
        values: list[Any] = []
        shared = 0
        for kind, value in launch.args:
            match kind:
                case "param":
                    values.append(self._buffers[value])
                case "device":
                    values.append(self._buffers[len(self._arrays) + value])
                case "size":
                    values.append(index(sizes[value]))
                case "shared":  # where in the group's memory it lies
                    values.append(index(shared))
                    shared += -(-evaluate_dim(value, sizes) // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT
                case _:
                    raise BuildError(f"unknown kind of argument {kind!r}", asked=f"kernel {launch.name!r}")
        return function, *launch.extents(sizes), shared, values

    # -- running ------------------------------------------------------------------------------
    def upload(self) -> None:
        """Copy all arrays to the device: outputs too, so that what a kernel leaves out stays as it was."""
        self._session.enter()
        for array, buffer in zip(self._arrays, self._buffers, strict=False):
            if array.nbytes and not is_resident(array):
                self._session.upload(buffer, array)
        self._is_uploaded = True

    def fetch(self) -> None:
        """Copy the outputs from the device into their arrays."""
        self._session.enter()
        for array, buffer, is_output in zip(self._arrays, self._buffers, self._outputs, strict=False):
            if is_output and array.nbytes and not is_resident(array):
                self._session.fetch(array, buffer)

    def run(self) -> None:
        """Execute once and wait; the first run uploads the arrays if nobody did. Raises DeviceError."""
        if not self._is_uploaded:
            self.upload()
        self._session.enter()
        self._enqueue()
        self._session.wait()

    def time(self, number: int) -> float:
        """Seconds per call: the device's time from the first launch of `number` calls to the end of the last."""
        if not self._is_uploaded:
            self.upload()
        session, seconds, left = self._session, 0.0, number
        session.enter()
        while left > 0:
            batch = min(left, max(_IN_FLIGHT // max(len(self._launches), 1), 1))
            start, end = session.event(), session.event()
            session.record(start)
            for _ in range(batch):
                self._enqueue()
            session.record(end)
            seconds += session.seconds(start, end)
            left -= batch
        return seconds / number

    def _enqueue(self) -> None:
        for launch in self._launches:
            self._session.launch(*launch)


def _release(session: Session, buffers: list[ctypes.c_uint64]) -> None:
    """Give a call's device memory back; at exit the driver may be gone already."""
    try:
        session.enter()
        while buffers:
            session.free(buffers.pop())
    except DeviceError:
        pass
