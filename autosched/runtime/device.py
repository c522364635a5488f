"""What a target is on this machine: the name and facts that records keep with a time."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.target import Target

__all__ = ["describe_device", "host_cpu", "resolve_target", "versions"]

#: Packages whose versions can change what a time means.
PACKAGES = ("autosched", "llvmlite", "numpy", "pyopencl", "pocl-binary-distribution")


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """The CPU's model name, for example `AMD EPYC 7B13`; LLVM's name for it where there is none."""
    import llvmlite.binding as llvm

    core = llvm.get_host_cpu_name()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} ({core})"
    except OSError:
        pass
    return f"{platform.processor() or platform.machine()} ({core})"


def resolve_target(spec: str | Target) -> Target:
    """The target with its device's limits filled in. Raises TargetError, or DeviceError when there
    is no such device."""
    target = Target.parse(spec)
    if target.kind != "opencl" or target.limits:
        return target
    from autosched.runtime.opencl_devices import device_limits

    return target.with_limits(**device_limits(target))


def describe_device(target: Target) -> dict[str, Any]:
    """`name` identifies what a time was measured on; the rest describes it further."""
    if target.kind == "opencl":
        from autosched.runtime.opencl_devices import find_device

        info = find_device(target.options.get("device", ""))
        facts = {k: v for k, v in asdict(info).items() if isinstance(v, (str, int, float, bool))}
        return {**facts, "name": info.name}
    cpu, threads = host_cpu(), target.num_threads
    plural = "" if threads == 1 else "s"
    return {"name": f"{cpu}, {threads} thread{plural}", "cpu": cpu, "threads": threads}


def versions() -> dict[str, str]:
    """Versions of what generates and runs the code."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
