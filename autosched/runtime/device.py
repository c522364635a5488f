"""What a target is on this machine: the name and facts that records keep with a time."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.errors import DeviceError
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
    inside = [host_core(), *([" ".join(numbers)] if numbers else []), _features_digest()]
    return f"{facts.get('model name') or platform.processor() or platform.machine()} ({', '.join(inside)})"


def host_core() -> str:
    """LLVM's name for the CPU's cores, such as `znver4`."""
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


def cpuinfo() -> dict[str, str]:
    """What Linux says of the first CPU; empty elsewhere."""
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


def _features_digest() -> str:
    import llvmlite.binding as llvm

    has = llvm.get_host_cpu_features()
    return hashlib.sha256(" ".join(f for f in FEATURES if has.get(f)).encode()).hexdigest()[:6]


@dataclass(frozen=True)
class Cache:
    """One level of data caches: bytes of one of them, and how many CPUs share it."""

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


def resolve_target(spec: TargetLike) -> Target:
    """The target with its device's limits filled in. Raises TargetError, or DeviceError when there
    is no such device."""
    target = Target.parse(spec)
    if target.kind == "cuda" and not target.limits:
        from autosched.runtime.cuda import cuda_limits

        return target.with_limits(**cuda_limits(target))
    if target.kind != "opencl" or target.limits:
        return target
    from autosched.runtime.opencl_devices import device_limits

    return target.with_limits(**device_limits(target))


def describe_device(target: Target) -> dict[str, Any]:
    """`name` identifies what a time was measured on; the rest describes it further.

    A device that is a CPU has the CPU's own name in its name, whatever the driver calls it: PoCL knows three
    generations as `pthread-AMD EPYC`.
    """
    if target.kind == "opencl":
        from autosched.runtime.opencl_devices import find_device

        info = find_device(target.options.get("device", ""))
        facts = {k: v for k, v in asdict(info).items() if isinstance(v, (str, int, float, bool))}
        if not info.is_cpu:
            return {**facts, "name": info.name}
        plural = "" if info.compute_units == 1 else "s"
        name = f"{info.name} on {host_cpu()}, {info.compute_units} thread{plural}"
        return {**facts, "name": name, "driver_name": info.name, "cpu": host_cpu(), "core": host_core()}
    if target.kind == "cuda":
        from autosched.runtime.cuda import DEFAULT_ARCH, cuda_device

        try:
            device = cuda_device(target)
        except DeviceError:  # source can still be had
            return {"name": f"no CUDA device ({target.options.get('arch', DEFAULT_ARCH)})"}
        return {**asdict(device), "max_work_items": list(device.max_work_items)}
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
    thread's share where several CPUs have one cache, `vector_bytes` and `vector_registers`. An OpenCL device may be
    a CPU, too: its limits say so.
    """
    if target.is_gpu_style and not target.limits.get("is_cpu"):
        return target
    threads = target.limits.get("compute_units", 1) if target.is_gpu_style else target.num_threads
    levels = {c.level: c.size // min(c.shared_by, threads) for c in data_caches()}
    sizes = {f"l{level}_bytes": size for level, size in levels.items() if level <= 3}
    sizes.setdefault("l3_bytes", max(levels.values()))
    width, count = _vector_registers(target)
    return target.with_limits(**sizes, vector_bytes=width, vector_registers=count)


def _vector_registers(target: Target) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are: of the host, less what `-mattr` switches off."""
    import llvmlite.binding as llvm

    has = {name for name, on in llvm.get_host_cpu_features().items() if on}
    has -= {name[1:] for name in target.mattr if name.startswith("-")}
    if "avx512f" in has:
        return 64, 32
    if "neon" in has:
        return 16, 32
    return (32, 16) if "avx" in has else (16, 16)
