"""OpenCL devices: which there are, which one a target means, and what it can do."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autosched.errors import DeviceError
from autosched.runtime.forks import check_owner
from autosched.runtime.intel_opencl import vendors
from autosched.runtime.pocl import is_pocl, name_cpu
from autosched.target import Target

__all__ = ["DeviceInfo", "Session", "device_limits", "devices", "find_device", "open_session", "opencl"]

_INSTALL = (
    'install a driver: pip install "autosched[pocl]" (or pyopencl[pocl]) for the CPU, a GPU\'s from its vendor; '
    "then `python -m autosched doctor` lists the devices"
)


@dataclass(frozen=True)
class DeviceInfo:
    """What a device says about itself. Memory sizes are bytes.

    `preferred_multiple`: how many work-items run in lockstep, 0 if the device does not say. `note`:
    what a user should know about the driver, empty as a rule.
    """

    index: int
    platform: str
    name: str
    version: str
    driver: str
    is_cpu: bool
    compute_units: int
    max_work_group: int
    max_work_items: tuple[int, ...]
    preferred_multiple: int
    shared_memory: int
    global_memory: int
    max_allocation: int
    fp16: bool
    fp64: bool
    note: str = ""

    def __str__(self) -> str:
        return f"{self.index}: {self.name} ({self.platform}, {self.version})"


@dataclass(frozen=True)
class Session:
    """A device in use: one context and one in-order, profiling queue for this process."""

    info: DeviceInfo
    device: Any
    _context: Any
    _queue: Any
    _process: int

    @property
    def context(self) -> Any:
        """Raises ForkedError in a forked child."""
        check_owner(self._process, f"device {self.info.name!r}")
        return self._context

    @property
    def queue(self) -> Any:
        """Raises ForkedError in a forked child."""
        check_owner(self._process, f"device {self.info.name!r}")
        return self._queue


def opencl() -> Any:
    """The `pyopencl` module. Raises DeviceError when it is not installed or cannot load.

    Two settings must be in place before it loads: PoCL's handler for division errors would make
    this process's own LLVM code return garbage instead of failing, and pyopencl's disk cache would
    fill with candidates that are built once.
    """
    os.environ.setdefault("POCL_SIGFPE_HANDLER", "0")
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        import pyopencl
    except (ImportError, OSError) as error:
        raise DeviceError(f"pyopencl does not load: {error}", asked="OpenCL", legal=_INSTALL) from None
    return pyopencl


@lru_cache(maxsize=1)
def _discover() -> tuple[tuple[tuple[DeviceInfo, Any], ...], str, int]:
    """Devices with their handles, in the drivers' order, why there are none, and the process that asked for them."""
    try:
        cl = opencl()
    except DeviceError as error:
        return (), error.why, os.getpid()
    found: list[tuple[DeviceInfo, Any]] = []
    problem = "no OpenCL driver was found"
    try:
        with vendors():
            platforms = cl.get_platforms()
    except cl.Error:
        platforms = []
    for platform in platforms:
        try:
            for device in platform.get_devices():
                found.append((_describe(cl, len(found), platform, device), device))
        except cl.Error as error:
            problem = f"the driver {platform.name!r} has no device it can use ({error})"
    return tuple(found), problem, os.getpid()


def _describe(cl: Any, index: int, platform: Any, device: Any) -> DeviceInfo:
    extensions = device.extensions.split()
    stand_in = name_cpu(device.int_ptr, device.version, device.driver_version) if is_pocl(platform.name) else ""
    return DeviceInfo(
        index=index,
        platform=platform.name.strip(),
        name=device.name.strip(),
        version=device.version.strip(),
        driver=device.driver_version.strip(),
        is_cpu=bool(device.type & cl.device_type.CPU),
        compute_units=device.max_compute_units,
        max_work_group=device.max_work_group_size,
        max_work_items=tuple(device.max_work_item_sizes),
        preferred_multiple=_preferred_multiple(cl, device),
        shared_memory=device.local_mem_size,
        global_memory=device.global_mem_size,
        max_allocation=device.max_mem_alloc_size,
        fp16="cl_khr_fp16" in extensions,
        fp64="cl_khr_fp64" in extensions,
        note=f"this PoCL does not know the processor; it compiles for {stand_in}" if stand_in else "",
    )


def _preferred_multiple(cl: Any, device: Any) -> int:
    """Work-items in lockstep: OpenCL 3.0's own query, NVIDIA's warp or AMD's wavefront."""
    for name in ("preferred_work_group_size_multiple", "warp_size_nv", "wavefront_width_amd"):
        try:
            value = int(getattr(device, name))
        except (cl.Error, AttributeError):
            continue
        if value > 0:
            return value
    return 0


def devices() -> list[DeviceInfo]:
    """All OpenCL devices of this machine; empty when there are none, for whatever reason."""
    return [info for info, _ in _discover()[0]]


def find_device(spec: str = "") -> DeviceInfo:
    """The device that `spec` means: its index, or a part of its name or its platform's.

    Without `spec`, the first device that is not a CPU, else PoCL, for whose way to run kernels the generated
    schedules are made, else the first. Raises DeviceError.
    """
    found, problem = devices(), _discover()[1]
    asked = f"device {spec!r}" if spec else "an OpenCL device"
    if not found:
        raise DeviceError(problem, asked=asked, legal=_INSTALL)
    if not spec:
        return min(found, key=lambda d: (d.is_cpu, not is_pocl(d.platform), d.index))
    if spec.isdigit():
        matches = [d for d in found if d.index == int(spec)]
    else:
        matches = [d for d in found if spec.casefold() in f"{d.platform} {d.name}".casefold()]
    if not matches:
        raise DeviceError("no OpenCL device matches it", asked=asked, legal=f"devices: {'; '.join(map(str, found))}")
    return matches[0]


_sessions: dict[int, Session] = {}


def open_session(info: DeviceInfo) -> Session:
    """The process's context and queue for a device, opened on first use. Raises DeviceError, in a child that was
    forked after the drivers were asked for devices ForkedError."""
    session = _sessions.get(info.index)
    if session is None:
        found, _, process = _discover()
        check_owner(process, f"device {info.name!r}")  # the driver's threads may be at work since then
        cl, device = opencl(), found[info.index][1]
        try:
            context = cl.Context([device])
            queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        except cl.Error as error:
            raise DeviceError(f"the device cannot be opened: {error}", asked=f"device {info.name!r}") from None
        session = _sessions[info.index] = Session(info, device, context, queue, process)
    return session


def device_limits(target: Target) -> dict[str, int]:
    """What `Target.with_limits` wants to know of the device that `target` names. Raises DeviceError."""
    info = find_device(target.options.get("device", ""))
    return {
        "max_threads_per_block": info.max_work_group,
        "shared_memory_bytes": info.shared_memory,
        "work_group_multiple": info.preferred_multiple or kernel_multiple(open_session(info)),
        "compute_units": info.compute_units,
        "is_cpu": int(info.is_cpu),
        "fp16": int(info.fp16),
        "fp64": int(info.fp64),
    }


def kernel_multiple(session: Session) -> int:
    """The preferred work-group multiple of an empty kernel, for devices that state none themselves."""
    cl = opencl()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cl.Program(session.context, "__kernel void probe(__global int* x) { x[0] = 0; }").build()
        info = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        return max(int(cl.Kernel(program, "probe").get_work_group_info(info, session.device)), 1)
    except cl.Error as error:
        raise DeviceError(f"it cannot build a program: {error}", asked=f"device {session.info.name!r}") from None
