"""OpenCL devices: which there are, which one a target means, what it can do, and whether its driver is right."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import shutil
import struct
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import DeviceError
from autosched.runtime.device import host_core, host_cpu
from autosched.runtime.kernel import check_owner
from autosched.target import Target

Reader = Callable[[int, int], bytes]

_STRUCTURE_BYTES = 2048  #: how far into the device structure to look; the field is at 640 in PoCL 3.0
_POINTER = struct.calcsize("P")
#: what stands before the CPU's name in CL_DEVICE_VERSION: `... pthread-x86_64-unknown-linux-gnu-znver3`
_BEFORE_NAME = "-linux-gnu-"
_KNOWS_NEW_CPUS = 4  #: PoCL's first release with an LLVM (16) that knows Zen 4

#: PoCL's libraries of built-in functions, best first: processor flags they need, and the CPU they are for. In kernels
#: for that CPU its functions are inlined; in kernels for AMD's Zen, or Intel's of two kinds of cores, LLVM leaves each
#: `sqrt` a call that saves all vectors. Where one side has AVX-512 and the other has not, such a call goes wrong.
_LIBRARIES = (
    ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, b"skylake-avx512"),
    ({"avx2", "fma", "bmi2"}, b"haswell"),
    ({"avx"}, b"sandybridge"),
    ({"sse4_1", "ssse3"}, b"penryn"),
    (set[str](), b"x86-64"),
)


def cpu_for_flags(flags: set[str]) -> bytes:
    """The LLVM name of the newest processor of PoCL's libraries that has no more than `flags`."""
    return next(name for needed, name in _LIBRARIES if needed <= flags)


def is_pocl(platform_name: str) -> bool:
    """True if an OpenCL platform is PoCL."""
    return "Portable Computing Language" in platform_name


def name_cpu(device_handle: int, version: str, driver: str) -> str:
    """Give a PoCL device the CPU of its library as target. Return its name, or "" if nothing was done.

    `device_handle` is the `cl_device_id`; `version` its CL_DEVICE_VERSION, which ends in the name of
    the CPU that PoCL found; `driver` its CL_DRIVER_VERSION: PoCL 4 is left alone.
    Anything unexpected leaves the device as it is.
    """
    name = version.partition(_BEFORE_NAME)[2].encode()
    major = driver.partition(".")[0]
    if not name or not major.isdigit() or int(major) >= _KNOWS_NEW_CPUS:
        return ""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ""
    try:
        flags = processor_flags()
        stand_in = cpu_for_flags(flags)
        if not flags or name == stand_in:
            return ""
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            field = find_name_field(partial(_read, memory.fileno()), device_handle, name)
    except OSError:
        return ""  # not Linux, or a hardened one
    if field is None:
        return ""
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p  # PoCL may free the name, so it has to come from malloc
    libc.strdup.argtypes = [ctypes.c_char_p]
    ctypes.c_void_p.from_address(field).value = libc.strdup(stand_in)
    return stand_in.decode()


def find_name_field(read: Reader, structure: int, name: bytes) -> int | None:
    """The address of the field that follows the target triple and points to `name`.

    `read(address, size)` returns what lies there, nothing where no memory is mapped.
    """
    raw = read(structure, _STRUCTURE_BYTES)
    count = len(raw) // _POINTER
    texts = [read(p, 64).partition(b"\0")[0] for p in struct.unpack_from(f"{count}P", raw)]
    for position in range(1, count):
        if texts[position] == name and texts[position - 1].startswith(b"x86_64"):
            return structure + position * _POINTER
    return None


def _read(memory: int, address: int, size: int) -> bytes:
    """Read memory through /proc/self/mem, which fails softly where a pointer would crash."""
    try:
        return os.pread(memory, size, address) if 0 < address < 2**47 else b""
    except OSError:
        return b""


def processor_flags() -> set[str]:
    """The processor's flags in /proc/cpuinfo; empty where there are none."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


_LIBRARY = "libintelocl.so"
_SYSTEM = Path("/etc/OpenCL/vendors")
_VARIABLE = "OCL_ICD_VENDORS"  #: where the loader (ocl-icd, Khronos) looks for drivers' lists


def library() -> Path | None:
    """The runtime that pip installed into this environment; None if there is none."""
    prefixes = dict.fromkeys([sys.prefix, sysconfig.get_path("data")])
    return next((path for p in prefixes if (path := Path(p, "lib", _LIBRARY)).is_file()), None)


@contextmanager
def vendors(system: Path = _SYSTEM) -> Iterator[None]:
    """Let the OpenCL loader find Intel's runtime, too, unless the user has set where it looks."""
    found = library()
    if found is None or os.environ.get(_VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="autosched-opencl-") as folder:
        for listed in sorted(system.glob("*.icd")) if system.is_dir() else []:
            Path(folder, listed.name).write_bytes(listed.read_bytes())
        Path(folder, "autosched-intel-cpu.icd").write_text(f"{found}\n")
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]


_ITEMS, _STEPS = 8, 8

#: Vectors of every width through the driver's own library, whose calling convention has to be the kernel's;
#: and work-groups that are partly beyond the end, which meet at barriers in a loop.
_SOURCE = """
__kernel void vectors(__global const float* x, __global float* y) {
  vstore16(exp(vload16(0, x)), 0, y);
  vstore8(exp(vload8(0, x)), 2, y);
  vstore4(exp(vload4(0, x)), 6, y);
}

__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void sums(__global const float* a, __global const float* x, __global float* y, int n) {
  __local float part[8];
  const int row = get_group_id(0) * 8 + get_local_id(0);
  float sum = 0.0f;
  for (int outer = 0; outer < 8; ++outer) {
    barrier(CLK_LOCAL_MEM_FENCE);
    part[get_local_id(0)] = x[outer * 8 + get_local_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 8; ++k) if (row < n) sum = sum + a[row * 64 + outer * 8 + k] * part[k];
  }
  if (row < n) y[row] = sum;
}
"""


def check_device(info: DeviceInfo) -> str:
    """A sentence about what the device gets wrong; empty where it works. Raises DeviceError if it cannot be opened."""
    cl = opencl()
    session = open_session(info)
    rng = np.random.default_rng(0)

    def run(name: str, count: int, inputs: list[np.ndarray], sizes: list[np.int32], groups: int) -> np.ndarray:
        output = np.full(count, np.nan, np.float32)
        copied = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(session.context, copied, hostbuf=a) for a in (*inputs, output)]
        kernel = cl.Kernel(program, name)
        kernel.set_args(*buffers, *sizes)
        cl.enqueue_nd_range_kernel(session.queue, kernel, (groups * _ITEMS,), (_ITEMS,))
        cl.enqueue_copy(session.queue, output, buffers[-1])
        session.queue.finish()
        return output

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cl.Program(session.context, _SOURCE).build()
        x = np.linspace(-3, 3, 16, dtype=np.float32)
        wanted = np.exp(np.concatenate([x, x[:8], x[:4]]))
        if not np.allclose(run("vectors", wanted.size, [x], [], 1), wanted, rtol=1e-5):
            return "vectors are computed wrongly"
        for rows in (33, 39, 48):
            a = rng.integers(-4, 4, (rows, _ITEMS * _STEPS)).astype(np.float32)
            v = rng.integers(-4, 4, _ITEMS * _STEPS).astype(np.float32)
            if not np.array_equal(run("sums", rows, [a, v], [np.int32(rows)], -(-rows // _ITEMS)), a @ v):
                return "work-groups that are not full compute wrong sums between barriers"
    except cl.Error as error:
        raise DeviceError(f"it does not run a small program: {error}", asked=f"device {info.name!r}") from None
    return ""


_INSTALL = (
    'install a driver: pip install "autosched[pocl]" (or pyopencl[pocl]) for the CPU, a GPU\'s from its vendor; '
    "then `python -m autosched doctor` lists the devices"
)


@dataclass(frozen=True)
class DeviceInfo:
    """A device as the driver describes it. Memory sizes are bytes.

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


def _pocl_cache() -> str:
    """The folder in which PoCL keeps what it compiled, unless it is told another one."""
    cache, home = os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME")
    return f"{cache}/pocl/kcache" if cache else f"{home}/.cache/pocl/kcache" if home else "/tmp/pocl/kcache"


def _can_write(folder: str) -> bool:
    """Whether files can be made in a folder, which is made if need be."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@lru_cache(maxsize=1)
def _temporary_folder() -> str:
    """A folder that goes when the process does."""
    folder = tempfile.mkdtemp(prefix="autosched-pocl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def opencl() -> Any:
    """The `pyopencl` module. Raises DeviceError when it is not installed or cannot load.

    Some settings must be in place before it loads: PoCL's handler for division errors would make
    this process's own LLVM code return garbage instead of failing, pyopencl's disk cache would
    fill with candidates that are built once, and PoCL has no device where it cannot write to its cache.
    """
    os.environ.setdefault("POCL_SIGFPE_HANDLER", "0")
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    if not os.environ.get("POCL_CACHE_DIR") and not _can_write(_pocl_cache()):
        os.environ["POCL_CACHE_DIR"] = _temporary_folder()
    try:
        import pyopencl
    except (ImportError, OSError) as error:
        raise DeviceError(f"pyopencl does not load: {error}", asked="OpenCL", legal=_INSTALL) from None
    return pyopencl


@lru_cache(maxsize=1)
def discover() -> tuple[tuple[tuple[DeviceInfo, Any], ...], str, int]:
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
    for vendor in platforms:
        try:
            for device in vendor.get_devices():
                found.append((_describe(cl, len(found), vendor, device), device))
        except cl.Error as error:
            problem = f"the driver {vendor.name!r} has no device it can use ({error})"
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
        note=f"compiles for {stand_in}, as PoCL's own functions are" if stand_in else "",
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
    """All OpenCL devices of this machine."""
    return [info for info, _ in discover()[0]]


def find_device(spec: str = "") -> DeviceInfo:
    """The device that `spec` means: its index, or a part of its name or its platform's.

    Without `spec`, the first device that is not a CPU, else PoCL, for whose way to run kernels the generated
    schedules are made, else the first. Raises DeviceError.
    """
    found, problem = devices(), discover()[1]
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
        found, _, process = discover()
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
    """Limits for `Target.with_limits` of the device that `target` names. Raises DeviceError."""
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


def describe(target: Target) -> dict[str, Any]:
    """The device's name and facts; of a CPU its own name, too, whatever the driver calls it."""
    info = find_device(target.options.get("device", ""))
    facts = {k: v for k, v in asdict(info).items() if isinstance(v, (str, int, float, bool))}
    if not info.is_cpu:
        return facts
    plural = "" if info.compute_units == 1 else "s"
    name = f"{info.name} on {host_cpu()}, {info.compute_units} thread{plural}"
    return {**facts, "name": name, "driver_name": info.name, "cpu": host_cpu(), "core": host_core()}


def listed() -> list[DeviceInfo]:
    """All devices, the default one first."""
    found = devices()
    first = find_device() if found else None
    return sorted(found, key=lambda d: d != first)


def sync(info: DeviceInfo) -> None:
    """Wait until the device has done all its work."""
    open_session(info).queue.finish()


def allocate(info: DeviceInfo, length: int, asked: str) -> Memory:
    session, cl = open_session(info), opencl()
    try:
        return Memory(session, cl.Buffer(session.context, cl.mem_flags.READ_WRITE, size=max(length, 1)))
    except cl.Error as error:
        raise DeviceError(f"{length:,} bytes cannot be had: {error}", asked=asked) from None


@dataclass(frozen=True)
class Memory:
    """Memory of a device, in the context that modules use."""

    session: Session
    buffer: Any

    def upload(self, values: np.ndarray[Any, Any]) -> None:
        if values.nbytes:
            opencl().enqueue_copy(self.session.queue, self.buffer, values, is_blocking=True)

    def fetch(self, values: np.ndarray[Any, Any]) -> None:
        if values.nbytes:
            opencl().enqueue_copy(self.session.queue, values, self.buffer, is_blocking=True)
