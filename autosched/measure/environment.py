"""How a worker is started: command line, environment variables, memory limit."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autosched.target import Target

#: A candidate may take this share of the memory that is available.
MEMORY_SHARE = 0.75
#: A worker needs this much address space for its libraries alone, with room to spare.
_LEAST_MEMORY = 4 << 30


def worker_command(memory_limit_bytes: int, backend: str = "", load: Sequence[str] = ()) -> list[str]:
    """The command, to which `WorkerProcess` adds the ends of its pipes. The process loads the modules `load` before it
    is asked anything, unless there is a stand-in for the compiler."""
    # -P: a file in the working folder must not take the place of a module.
    command = [sys.executable, "-P", "-m", "autosched.measure.worker"]
    if memory_limit_bytes:
        command += ["--memory-limit", str(memory_limit_bytes)]
    if backend:
        command += ["--backend", backend]
    elif load:
        command += ["--load", ",".join(load)]
    return command


def worker_modules(target: Target, role: str) -> list[str]:
    """What a worker needs for any job; the import takes longer than most jobs."""
    is_llvm = target.kind == "llvm"
    if role == "builder":
        code = ["autosched.codegen.llvm"] if is_llvm else ["autosched.codegen"]
        return ["autosched.measure.jobs", "autosched.lower", *code]
    return ["autosched.measure.jobs", "autosched.codegen.artifact", *(["autosched.runtime.cpu"] if is_llvm else [])]


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
        "AUTOSCHED_PROGRESS": "none",
        # Where another program has a core, an OpenMP team waits at each barrier for the thread that belongs there, a
        # slice of the scheduler's. Here nobody waits for it, so that times say how fast the code is.
        "AUTOSCHED_THREADS": base.get("AUTOSCHED_THREADS") or "team",
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
    """Bytes of address space for a worker; 0 is no limit.

    `limit_mb` is `MeasureOptions.memory_limit_mb`: 0 chooses a share of the memory that is available at the moment, so
    that a candidate that takes all it can get ends, and nothing else does.
    """
    if limit_mb:
        return limit_mb << 20
    if target.kind == "opencl":
        return 0
    return max(_LEAST_MEMORY, int(MEMORY_SHARE * available_memory()))


def available_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that programs may take before something else has to give: what the system says is available, and not more
    than the limit of the container leaves. The whole memory where the system does not tell."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        found = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        left = int((cgroup / "memory.max").read_text()) - int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):  # none, "max", or the older kind of groups
        return found
    return max(0, min(found, left))
