"""Running CUDA artifacts: the source, translated by NVRTC and launched through the driver's C interface."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.codegen.nvrtc import compile_cuda_source
from autosched.errors import DeviceError
from autosched.ir.dims import evaluate_dim
from autosched.runtime.kernel import check_owner
from autosched.runtime.launch import DeviceCall, DeviceKernel, Launch
from autosched.target import Target

Array = np.ndarray[Any, Any]
T = TypeVar("T", bound="ctypes._SimpleCData[Any]")

#: the architecture of source that is built where no device can be asked
DEFAULT_ARCH = "sm_80"
#: what every device of compute capability 5.0 and above allows (CUDA C++ Programming Guide, "Compute
#: Capabilities"); shared memory without opting in to more
_LIMITS = {"max_threads_per_block": 1024, "shared_memory_bytes": 48 * 1024, "work_group_multiple": 32, "fp64": 1}

#: numbers of `CUdevice_attribute`
_ATTRIBUTES = {
    "max_work_group": 1,
    "max_x": 2,
    "max_y": 3,
    "max_z": 4,
    "shared_memory": 8,
    "warp": 10,
    "compute_units": 16,
    "major": 75,
    "minor": 76,
}


@dataclass(frozen=True)
class CudaDevice:
    """A device as the driver describes it; memory in bytes."""

    index: int
    name: str
    arch: str
    compute_units: int
    max_work_group: int
    max_work_items: tuple[int, int, int]
    shared_memory: int
    global_memory: int
    preferred_multiple: int


@lru_cache(maxsize=1)
def load_driver() -> Any | None:
    """The driver's library, initialised; None where there is none, or no device that it could drive."""
    names = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        driver_s_process()
        return library if library.cuInit(0) == 0 else None
    return None


@lru_cache(maxsize=1)
def driver_s_process() -> int:
    """The process that initialised the driver; its forked children cannot use it."""
    return os.getpid()


def check(driver: Any, status: int, what: str, asked: str) -> None:
    """Raise DeviceError unless `status`, a `CUresult`, is success."""
    if status != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        why = (text.value or b"unknown error").decode(errors="replace")
        raise DeviceError(f"{what} failed: {why} ({status})", asked=asked, legal="see `nvidia-smi` for the device")


def listed() -> list[CudaDevice]:
    """The devices of the driver; none without a driver."""
    driver = load_driver()
    if driver is None:
        return []
    count = ctypes.c_int()
    check(driver, driver.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount", "CUDA")
    return [_describe(driver, index) for index in range(count.value)]


def _describe(driver: Any, index: int) -> CudaDevice:
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    asked = f"CUDA device {index}"
    check(driver, driver.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet", asked)
    check(driver, driver.cuDeviceGetName(name, 256, device), "cuDeviceGetName", asked)
    check(driver, driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device), "cuDeviceTotalMem", asked)
    facts = {}
    for what, number in _ATTRIBUTES.items():
        value = ctypes.c_int()
        check(driver, driver.cuDeviceGetAttribute(ctypes.byref(value), number, device), "cuDeviceGetAttribute", asked)
        facts[what] = value.value
    return CudaDevice(
        index,
        name.value.decode(errors="replace"),
        f"sm_{facts['major']}{facts['minor']}",
        facts["compute_units"],
        facts["max_work_group"],
        (facts["max_x"], facts["max_y"], facts["max_z"]),
        facts["shared_memory"],
        memory.value,
        facts["warp"],
    )


def cuda_device(target: Target) -> CudaDevice:
    """The device that the target names. Raises DeviceError where it is missing, and says what is."""
    found, number = listed(), target.options.get("device", "0")
    if number.isdigit() and int(number) < len(found):
        return found[int(number)]
    if load_driver() is None:
        why = "no CUDA driver with a device is on this machine"
    else:
        why = f"there is no CUDA device {number}, only {len(found)}"
    raise DeviceError(
        why,
        asked=f"target {str(target)!r}",
        legal="its source needs no device: get_source(); to run, use a machine with an NVIDIA GPU and its driver, "
        'or build for "opencl" or "llvm"',
    )


def device_limits(target: Target) -> dict[str, int]:
    """Limits of the device where there is one, else of any device."""
    try:
        device = cuda_device(target)
    except DeviceError:
        return dict(_LIMITS)
    return {
        **_LIMITS,
        "max_threads_per_block": device.max_work_group,
        "shared_memory_bytes": device.shared_memory,
        "work_group_multiple": device.preferred_multiple,
        "compute_units": device.compute_units,
    }


class Session:
    """One device's context in this process. Calls raise DeviceError."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.driver: Any = load_driver()
        self._process = driver_s_process()
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device.index)

    def call(self, function: str, *args: Any) -> None:
        """Call the driver. Raises DeviceError with its own words when it fails, ForkedError in a forked child."""
        check_owner(self._process, f"CUDA device {self.device.name!r}")
        check(self.driver, getattr(self.driver, function)(*args), function, f"CUDA device {self.device.name!r}")

    def enter(self) -> None:
        """Make the context current in this thread, before any call about memory, modules or launches."""
        self.call("cuCtxSetCurrent", self.context)

    def make(self, of: type[T], function: str, *args: Any) -> T:
        """Call a function of the driver that writes an object of this type to its first argument."""
        made = of()
        self.call(function, ctypes.byref(made), *args)
        return made

    def allocate(self, length: int) -> ctypes.c_uint64:
        return self.make(ctypes.c_uint64, "cuMemAlloc_v2", ctypes.c_size_t(max(length, 1)))

    def upload(self, address: ctypes.c_uint64, array: Array) -> None:
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def fetch(self, array: Array, address: ctypes.c_uint64) -> None:
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), address, ctypes.c_size_t(array.nbytes))

    def wait(self) -> None:
        self.call("cuCtxSynchronize")

    def seconds(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """The device's time between two events, once the second has happened. Destroys both."""
        self.call("cuEventSynchronize", end)
        milliseconds = self.make(ctypes.c_float, "cuEventElapsedTime", start, end)
        for event in (start, end):
            self.call("cuEventDestroy_v2", event)
        return milliseconds.value * 1e-3


_sessions: dict[int, Session] = {}


def open_session(device: CudaDevice) -> Session:
    """The process's context for a device, opened on first use. Raises DeviceError."""
    if device.index not in _sessions:
        _sessions[device.index] = Session(device)
    return _sessions[device.index]


def describe(target: Target) -> dict[str, Any]:
    """The device's name and facts; where there is none, its source can still be had."""
    try:
        device = cuda_device(target)
    except DeviceError:
        return {"name": f"no CUDA device ({target.options.get('arch', DEFAULT_ARCH)})"}
    return {**asdict(device), "max_work_items": list(device.max_work_items)}


def sync(info: CudaDevice) -> None:
    """Wait until the device has done all its work."""
    session = open_session(info)
    session.enter()
    session.wait()


def allocate(info: CudaDevice, length: int, asked: str) -> Memory:
    return Memory(open_session(info), length)


class Memory:
    """Memory of a device, freed with this object."""

    def __init__(self, session: Session, length: int) -> None:
        session.enter()
        self.session, self.buffer = session, session.allocate(length)
        weakref.finalize(self, release, session, [self.buffer])

    def upload(self, values: Array) -> None:
        self.session.enter()
        if values.nbytes:
            self.session.upload(self.buffer, values)

    def fetch(self, values: Array) -> None:
        self.session.enter()
        if values.nbytes:
            self.session.fetch(values, self.buffer)


_IN_FLIGHT = 64  #: launches enqueued before waiting
_SHARED_ALIGNMENT = 16


class CudaKernel(DeviceKernel):
    """The kernels of one artifact. Making one needs neither a compiler nor a device."""

    def __init__(self, artifact: Artifact, target: Target) -> None:
        super().__init__(artifact)
        self._target = target
        self._strict = bool(artifact.meta.get("strict", False))

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
        device = cuda_device(self._target)
        sizes, launches = self.checked(arrays, device)
        return CudaBoundCall(self, open_session(device), arrays, sizes, launches)

    def module(self, session: Session, wide: bool) -> ctypes.c_void_p:
        """The loaded program with 64-bit or 32-bit indices, translated once.

        Machine code where the target's architecture is the device's, else PTX, which runs on newer ones.
        """
        if wide not in self._programs:
            arch = self._target.options.get("arch", session.device.arch)
            to = "cubin" if arch == session.device.arch else "ptx"
            options = [*(["-DINDEX_T=int64"] if wide else []), *(["--fmad=false"] if self._strict else [])]
            code = compile_cuda_source(self._source, arch, to=to, options=options)
            self._programs[wide] = session.make(ctypes.c_void_p, "cuModuleLoadData", code)
        return self._programs[wide]


class CudaBoundCall(DeviceCall):
    """A call whose launches have their parameters in memory."""

    def __init__(
        self,
        kernel: CudaKernel,
        session: Session,
        arrays: Sequence[Array],
        sizes: dict[str, int],
        launches: Sequence[Launch],
    ) -> None:
        self._session = session
        self._own: list[ctypes.c_uint64] = []  # all buffers but those of arrays that lie on the device
        weakref.finalize(self, release, session, self._own)
        session.enter()
        super().__init__(kernel, session.device, arrays, sizes)
        module = kernel.module(session, self.wide)
        self._launches = [self._prepare(module, launch) for launch in launches]

    def _allocate(self, name: str, length: int) -> ctypes.c_uint64:
        self._own.append(self._session.allocate(length))
        return self._own[-1]

    def _prepare(self, module: ctypes.c_void_p, launch: Launch) -> tuple[tuple[Any, ...], list[Any]]:
        """The arguments of `cuLaunchKernel`, and the objects that they point to."""
        function = self._session.make(ctypes.c_void_p, "cuModuleGetFunction", module, launch.name.encode())
        index = ctypes.c_int64 if self.wide else ctypes.c_int32
        shared = 0

        def place(length: Any) -> Any:
            """The offset of an array of so many bytes in the group's memory."""
            nonlocal shared
            at, shared = shared, shared + -(-evaluate_dim(length, self._sizes) // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT
            return index(at)

        values = self._arguments(launch, index, shared=place)
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))
        grid, block = launch.extents(self._sizes)
        return (function, *grid, *block, shared, None, pointers, None), values

    # -- running ------------------------------------------------------------------------------
    def _enter(self) -> None:
        self._session.enter()

    def _copy(self, to: Any, source: Any) -> None:
        if isinstance(to, np.ndarray):
            self._session.fetch(to, source)
        else:
            self._session.upload(to, source)

    def _execute(self) -> None:
        self._enqueue()
        self._session.wait()

    def time(self, number: int) -> float:
        """Seconds per call: the device's time from the first launch of `number` calls to the end of the last."""
        self._ready()
        session, seconds, left = self._session, 0.0, number
        while left > 0:
            batch = min(left, max(_IN_FLIGHT // max(len(self._launches), 1), 1))
            start, end = (session.make(ctypes.c_void_p, "cuEventCreate", 0) for _ in range(2))
            session.call("cuEventRecord", start, None)
            for _ in range(batch):
                self._enqueue()
            session.call("cuEventRecord", end, None)
            seconds += session.seconds(start, end)
            left -= batch
        return seconds / number

    def _enqueue(self) -> None:
        for launch, _ in self._launches:
            self._session.call("cuLaunchKernel", *launch)


def release(session: Session, buffers: list[ctypes.c_uint64]) -> None:
    """Free device memory; at exit the driver may be gone already."""
    try:
        session.enter()
        while buffers:
            session.call("cuMemFree_v2", buffers.pop())
    except DeviceError:
        pass
