"""What this machine is and what is installed on it, as plain data. Nothing here raises."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from autosched.target import cpu_count

__all__ = ["PACKAGES", "cpu", "environment", "folders", "openmp", "packages", "system"]

#: LLVM's names of vector features, widest first -> what they are called, and bits of a register.
_VECTORS = (
    ("avx512f", "AVX-512", 512),
    ("avx2", "AVX2", 256),
    ("avx", "AVX", 256),
    ("sse4.2", "SSE4.2", 128),
    ("sse2", "SSE2", 128),
    ("neon", "NEON", 128),
    ("vsx", "VSX", 128),
    ("vector", "z vector", 128),
)

#: package -> what it is for; alternatives are separated by a bar
PACKAGES = {
    "numpy": "arrays, and the reference that results are compared with",
    "llvmlite": "the CPU's code generator",
    "pyopencl": "OpenCL",
    "pocl-binary-distribution": "an OpenCL driver for the CPU",
    "xgboost|xgboost-cpu": "the cost model",
    "scikit-learn": "the fallback cost model, the sample photograph and an OpenMP runtime",
    "optuna": "samplers for search strategies",
    "pandas": "tables of records",
    "pillow": "image files",
    "rich": "the live display",
}

#: Beginnings of the names of environment variables that matter.
_ENVIRONMENT = ("AUTOSCHED_", "OMP_", "GOMP_", "POCL_", "PYOPENCL_", "OCL_ICD_", "CUDA_", "NO_COLOR", "FORCE_COLOR")


def cpu() -> dict[str, Any]:
    """Name, cores, vector registers and load. `vector` is None when it is not known."""
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "model": platform.processor() or platform.machine(),
        "vector": None,
        "vector_bits": None,
        "cores": os.cpu_count(),
        "usable_cores": cpu_count(),
        "quota": _quota(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load": None,
    }
    with suppress(OSError, AttributeError):
        found["load"] = round(os.getloadavg()[0], 2)
    with suppress(ImportError, OSError, RuntimeError):
        import llvmlite.binding as llvm

        from autosched.runtime.device import host_cpu

        found["model"] = host_cpu()
        features = llvm.get_host_cpu_features()
        for feature, name, bits in _VECTORS:
            if features.get(feature):
                found |= {"vector": name, "vector_bits": bits}
                break
    return found


def _quota() -> float | None:
    """CPUs that a container's limit allows; None without a limit."""
    words = (_first_line("/sys/fs/cgroup/cpu.max") or "").split()
    if len(words) == 2 and all(w.isdecimal() for w in words) and int(words[1]):
        return round(int(words[0]) / int(words[1]), 2)
    return None


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip().partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return None


def openmp() -> str | None:
    """File of the OpenMP runtime that parallel loops use; None without one."""
    from autosched.runtime.openmp import find

    runtime = find()
    return None if runtime is None else runtime.path


def packages() -> dict[str, str | None]:
    """Versions; None for what is not installed. Imports none of them."""
    import autosched

    found: dict[str, str | None] = {"python": platform.python_version(), "autosched": autosched.__version__}
    for names in PACKAGES:
        versions = {name: _version(name) for name in names.split("|")}
        installed = [name for name, version in versions.items() if version is not None]
        name = installed[0] if installed else names.partition("|")[0]
        found[name] = versions[name]
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def folders() -> dict[str, Any]:
    """Where search spaces and records are read from, and where new records go."""
    from autosched.records import find_folder, find_folders
    from autosched.space.loading import search_space_folders

    target = find_folder()
    nearest = next((p for p in (target, *target.absolute().parents) if p.exists()), target)
    return {
        "search_spaces": [str(p) for p in search_space_folders()],
        "records": [str(p) for p in find_folders()],
        "new_records": str(target),
        "new_records_writable": nearest.is_dir() and os.access(nearest, os.W_OK),
    }


def environment() -> dict[str, str]:
    """Environment variables that autosched or its runtimes obey, as far as they are set."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(_ENVIRONMENT)}


def system() -> str:
    """The operating system and the Python that runs."""
    return f"{platform.system()} {platform.release()}, {sys.executable}"
