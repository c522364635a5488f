"""Devices: `device("opencl", 0)`, what it says about itself, and what a target is on this machine."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from autosched.errors import DeviceError, TargetError
from autosched.target import Target, TargetLike

#: Packages whose versions can change what a time means.
PACKAGES = ("autosched", "llvmlite", "numpy", "pyopencl", "pocl-binary-distribution")


#: Features by which two CPUs of one name differ in what code they run: a cloud hides some of them.
FEATURES = (
    "sse4.2", "avx", "avx2", "fma", "f16c", "gfni", "avxvnni", "avx512f", "avx512bw", "avx512dq", "avx512vl",
    "avx512vnni", "avx512vbmi", "avx512bf16", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16",
    "neon", "fp-armv8", "dotprod", "fullfp16", "bf16", "i8mm", "sve", "sve2", "sme",
)  # fmt: skip


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """The CPU's model, for example `AMD EPYC 7B13 (znver3, family 25 model 1, 5f3a9c)`: the name it gives itself, in
    parentheses LLVM's name for its cores, its numbers, and a digest of which of `FEATURES` it has.

    Names alone do not tell CPUs apart: in many clouds three generations are called `AMD EPYC`.
    """
    facts = cpuinfo()
    numbers = [f"{word} {facts[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in facts]
    import llvmlite.binding as llvm

    has = llvm.get_host_cpu_features()
    digest = hashlib.sha256(" ".join(f for f in FEATURES if has.get(f)).encode()).hexdigest()[:6]
    inside = [host_core(), *([" ".join(numbers)] if numbers else []), digest]
    return f"{facts.get('model name') or platform.processor() or platform.machine()} ({', '.join(inside)})"


def host_core() -> str:
    """LLVM's name for the CPU's cores, such as `znver4`."""
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


def cpuinfo() -> dict[str, str]:
    """Facts of the first CPU from /proc/cpuinfo; empty where there is none."""
    found: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, colon, value = line.partition(":")
            if not colon and found:
                break
            found.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    return found


@dataclass(frozen=True)
class Cache:
    """One level of data caches: bytes of one cache, and the number of CPUs that share it."""

    level: int
    size: int
    shared_by: int


def data_caches() -> list[Cache]:
    """The caches of the first CPU, as the operating system describes them, smallest first.

    Where it does not, what most CPUs of today have: 32 KiB and 512 KiB for each core.
    """
    found = _linux_caches() or _macos_caches()
    return sorted(found or [Cache(1, 32 << 10, 1), Cache(2, 512 << 10, 1)], key=lambda c: c.level)


def _linux_caches() -> list[Cache]:
    found = []
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind, size, cpus = ((folder / f).read_text().strip() for f in ("type", "size", "shared_cpu_list"))
            level = int((folder / "level").read_text())
            bytes_ = int(size[:-1]) * {"K": 1 << 10, "M": 1 << 20}[size[-1]]
            ranges = [part.partition("-") for part in cpus.split(",")]
            sharing = sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
        except (OSError, ValueError, KeyError, IndexError):
            continue
        if kind != "Instruction" and bytes_ > 0:
            found.append(Cache(level, bytes_, sharing))
    return found


def _macos_caches() -> list[Cache]:
    if sys.platform != "darwin":
        return []
    found = []
    for level, name in ((1, "hw.l1dcachesize"), (2, "hw.l2cachesize"), (3, "hw.l3cachesize")):
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
        if done.stdout.strip().isdecimal() and int(done.stdout):
            found.append(Cache(level, int(done.stdout), 1))
    return found


class Driver(Protocol):
    """The functions of a module for one kind of device. An `info` is its description of one device."""

    def device_limits(self, target: Target) -> dict[str, int]:
        """Limits for `Target.with_limits`. Raises DeviceError where the target must have a device."""

    def describe(self, target: Target) -> dict[str, Any]:
        """The device's name and facts, as `describe_device` gives them."""

    def listed(self) -> Sequence[Any]:
        """All devices, the default one first."""

    def sync(self, info: Any) -> None:
        """Wait until the device has done all its work."""

    def allocate(self, info: Any, length: int, asked: str) -> Any:
        """Allocate `length` bytes, as an object with `upload` and `fetch`. Raises DeviceError without room."""


def driver(kind: str) -> Driver:
    """The module for devices of a kind, `opencl` or `cuda`. It is loaded when the first such device is asked for."""
    if kind == "cuda":
        from autosched.runtime import cuda  # few programs need either

        return cuda
    from autosched.runtime import opencl_devices

    return opencl_devices


def resolve_target(spec: TargetLike) -> Target:
    """The target with its device's limits filled in. Raises TargetError, or DeviceError when there
    is no such device."""
    target = Target.parse(spec)
    if target.limits or target.kind not in ("cuda", "opencl"):
        return target
    return target.with_limits(**driver(target.kind).device_limits(target))


def describe_device(target: Target) -> dict[str, Any]:
    """`name` identifies what a time was measured on; the rest describes it further.

    A device that is a CPU has the CPU's own name in its name, whatever the driver calls it: PoCL knows three
    generations as `pthread-AMD EPYC`.
    """
    if target.kind in ("cuda", "opencl"):
        return driver(target.kind).describe(target)
    cpu, threads = host_cpu(), target.num_threads
    plural = "" if threads == 1 else "s"
    return {"name": f"{cpu}, {threads} thread{plural}", "cpu": cpu, "core": host_core(), "threads": threads}


def versions() -> dict[str, str]:
    """Versions of what generates and runs the code."""
    import importlib.metadata  # it is slow to import

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def with_machine(target: Target) -> Target:
    """A CPU's target with the caches and vector registers of this machine as limits; others as they are.

    They are what a cost model compares a candidate with, and change no code: `l1_bytes` to `l3_bytes`, a
    thread's share where several CPUs have one cache, `vector_bytes` and `vector_registers`, of which a pipe takes
    `vector_pipe_bytes` at once, and `mixed_bytes` and `bfloat_pairs`, 1 where products of unsigned and signed
    bytes and of bfloat16 have an instruction. An OpenCL device may be a CPU, too: its limits say so.
    """
    if target.is_gpu_style and not target.limits.get("is_cpu"):
        return target
    threads = target.limits.get("compute_units", 1) if target.is_gpu_style else target.num_threads
    levels = {c.level: c.size // min(c.shared_by, threads) for c in data_caches()}
    sizes = {f"l{level}_bytes": size for level, size in levels.items() if level <= 3}
    sizes.setdefault("l3_bytes", max(levels.values()))
    has = _features(target)
    width, count = _vector_registers(has)
    mixed = int(not has.isdisjoint(MIXED_BYTES))
    pairs = int("avx512bf16" in has)
    return target.with_limits(
        **sizes,
        vector_bytes=width,
        vector_registers=count,
        vector_pipe_bytes=min(width, _pipe_bytes()),
        mixed_bytes=mixed,
        bfloat_pairs=pairs,
    )


#: Features of CPUs that multiply unsigned by signed bytes and add up four such products.
MIXED_BYTES = frozenset(("avx512vnni", "avxvnni"))


def _features(target: Target) -> set[str]:
    """The features of the host, less what `-mattr` switches off."""
    import llvmlite.binding as llvm

    has = {name for name, on in llvm.get_host_cpu_features().items() if on}
    return has - {name[1:] for name in target.mattr if name.startswith("-")}


def _vector_registers(has: set[str]) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are, of a CPU with these features."""
    if "avx512f" in has:
        return 64, 32
    if "neon" in has:
        return 16, 32
    return (32, 16) if "avx" in has else (16, 16)


#: CPUs, by LLVM's names, whose pipes take a register in parts, and the bytes of one.
NARROW_PIPES = {"btver2": 16, "bdver": 16, "znver1": 16, "znver4": 32}


def _pipe_bytes() -> int:
    """Bytes of a register that a vector pipe of the host takes at once."""
    import llvmlite.binding as llvm

    name = llvm.get_host_cpu_name()
    return next((size for known, size in NARROW_PIPES.items() if name.startswith(known)), 64)


#: DLPack's numbers
_TYPES = {"cpu": 1, "cuda": 2, "opencl": 4}
_NAMES = {"llvm": "cpu", "c": "cpu", "cl": "opencl", "gpu": "cuda", "nvidia": "cuda"}


@dataclass(frozen=True)
class Device:
    """A device of the kind `cpu`, `opencl` or `cuda`, by its number among those of the kind.

    The OpenCL device 0 is the one that the target `opencl` means; the others follow in the order of
    `doctor`. What a device does not know is None.
    """

    kind: str
    device_id: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"

    __repr__ = __str__

    @property
    def device_type(self) -> int:
        """DLPack's number for the kind: 1 cpu, 2 cuda, 4 opencl."""
        return _TYPES[self.kind]

    def info(self) -> Any:
        """The driver's description, a `DeviceInfo` or `CudaDevice`. Raises DeviceError if it does not exist."""
        if self.kind == "cpu":
            return None
        found = driver(self.kind).listed()
        if not 0 <= self.device_id < len(found):
            listing = "; ".join(str(d.name) for d in found) or "none on this machine"
            raise DeviceError(
                "there is no such device", asked=f"device {self}", legal=f"{self.kind} devices: {listing}"
            )
        return found[self.device_id]

    def fact(self, *names: str) -> Any:
        """The first of these facts that the driver knows, None without a driver or a device."""
        if not self.exist:
            return None
        info = self.info()
        return next((getattr(info, name) for name in names if hasattr(info, name)), None)

    @property
    def exist(self) -> bool:
        if self.kind == "cpu":
            return self.device_id >= 0  # one device, whatever its number
        try:
            self.info()
        except DeviceError:
            return False
        return True

    @property
    def device_name(self) -> str | None:
        return host_cpu() if self.kind == "cpu" else self.fact("name")

    @property
    def max_threads_per_block(self) -> int | None:
        """Most work-items of a work-group."""
        return self.fact("max_work_group")

    @property
    def driver_version(self) -> str | None:
        return self.fact("driver")

    def sync(self) -> None:
        """Wait until the device has done all its work. Calls of modules wait by themselves."""
        if self.kind != "cpu":
            driver(self.kind).sync(self.info())


def device(dev: str | Device, dev_id: int = 0) -> Device:
    """The device that `"cpu"`, `"opencl"` or `"cuda"` means, or `"opencl:1"`. It need not exist.

    Raises TargetError for another name.
    """
    if isinstance(dev, Device):
        return dev
    name, colon, number = str(dev).split(maxsplit=1)[0].partition(":") if str(dev).strip() else ("", "", "")
    kind = _NAMES.get(name, name)
    if kind not in _TYPES or (colon and not number.isdecimal()):
        raise TargetError("no such kind of device", asked=f"device {dev!r}", legal=f"{', '.join(_TYPES)}")
    return Device(kind, int(number) if colon else dev_id)


def cpu(dev_id: int = 0) -> Device:
    return Device("cpu", dev_id)


def opencl(dev_id: int = 0) -> Device:
    return Device("opencl", dev_id)


cl = opencl


def cuda(dev_id: int = 0) -> Device:
    return Device("cuda", dev_id)
