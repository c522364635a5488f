"""How a worker is started: command line, environment variables, memory limit."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path

from autosched.target import Target

__all__ = ["memory_limit", "worker_command", "worker_environment"]

#: A worker needs this much address space for its libraries alone, with room to spare.
_LEAST_MEMORY = 4 << 30


def worker_command(memory_limit_bytes: int, backend: str = "") -> list[str]:
    """The command, to which `WorkerProcess` adds the ends of its pipes."""
    # -P: a file in the working folder must not take the place of a module.
    command = [sys.executable, "-P", "-m", "autosched.measure.worker"]
    if memory_limit_bytes:
        command += ["--memory-limit", str(memory_limit_bytes)]
    if backend:
        command += ["--backend", backend]
    return command


def worker_environment(folder: Path, target: Target, role: str, base: Mapping[str, str]) -> dict[str, str]:
    """`base` (the parent's environment) with what a worker needs on top.

    folder: the session's; caches and temporary files go there, and away with it
    role:   `"builder"` or `"runner"`
    """
    env = dict(base)
    if path := _python_path(base.get("PYTHONPATH", "")):
        env["PYTHONPATH"] = path
    env |= {
        "PYTHONHASHSEED": "0",  # the same job gives the same code in every builder
        "POCL_SIGFPE_HANDLER": "0",  # or integer division by zero in our own code is skipped silently
        "POCL_CACHE_DIR": str(folder / "cache"),
        "PYOPENCL_NO_CACHE": "1",
        "CUDA_CACHE_PATH": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": str(target.num_threads) if role == "runner" else "1",
        "OMP_DYNAMIC": "false",
    }
    # Two settings are left out on purpose. With OMP_WAIT_POLICY=active, the runner's idle threads
    # would spin for minutes: beside builders, and beside the serial candidate that follows a parallel
    # one. OMP_PROC_BIND confines the main thread too, and with it whatever asks how many CPUs there are.
    return env


def _python_path(given: str) -> str:
    """PYTHONPATH for a child with another working folder, in which this package can be imported."""
    entries = [os.path.abspath(entry) for entry in given.split(os.pathsep) if entry]
    root = str(Path(__file__).resolve().parents[2])
    # An installed package is found anyway, and site-packages must not come before the standard library.
    if root not in entries and root not in _installed_roots():
        entries.append(root)
    return os.pathsep.join(entries)


def _installed_roots() -> set[str]:
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return {os.path.realpath(folder) for folder in folders}


def memory_limit(target: Target, limit_mb: int) -> int:
    """Bytes of address space for a worker; 0 is no limit. `limit_mb` is `MeasureOptions.memory_limit_mb`."""
    if limit_mb:
        return limit_mb << 20
    if target.kind == "opencl":
        return 0
    return max(_LEAST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
