"""The OpenMP runtime that runs parallel loops: found, never shipped.

Generated code calls `GOMP_parallel` and two functions that count threads (`runtime.team` has its own). They are looked
for in this order: a runtime that this process has loaded (two of them in one process would each start
their threads), the copies inside the scikit-learn and XGBoost wheels, the system's. Without any, a loop
runs on one thread and a warning says so once.

Never fork a process that has run a parallel loop on it: the child hangs in the next one.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["SYMBOLS", "OpenMP", "find", "find_or_warn"]

#: what generated code calls
SYMBOLS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_max_threads")

#: importable package -> folder beside it where its wheel keeps shared libraries
_WHEELS = {
    "sklearn": ("scikit_learn.libs", "sklearn/.dylibs"),
    "xgboost": ("xgboost.libs", "xgboost_cpu.libs", "xgboost/.dylibs"),
    "torch": ("torch/lib", "torch.libs"),
}
_PATTERNS = ("libgomp*.so*", "libiomp5.so*", "libomp*.so*", "libomp*.dylib", "libgomp*.dylib")
_SYSTEM = (
    "libgomp.so.1",
    "libomp.so.5",
    "libomp.so",
    "libiomp5.so",
    "libgomp.1.dylib",
    "libomp.dylib",
    "/opt/homebrew/opt/libomp/lib/libomp.dylib",
    "/usr/local/opt/libomp/lib/libomp.dylib",
)


@dataclass(frozen=True)
class OpenMP:
    """A loaded runtime: its file, and the address of each of `SYMBOLS`."""

    path: str
    addresses: dict[str, int]
    handle: ctypes.CDLL


def _loaded() -> Iterator[str]:
    """OpenMP runtimes mapped into this process (Linux only: elsewhere nothing lists them)."""
    try:
        text = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for line in text.splitlines():
        path = line.partition("/")[2]
        if path and Path(path).name.startswith(("libgomp", "libomp", "libiomp5")):
            yield "/" + path


def _bundled() -> Iterator[str]:
    """Runtimes inside installed wheels; the packages are located, not imported."""
    for package, folders in _WHEELS.items():
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        if spec is None or spec.origin is None:
            continue
        root = Path(spec.origin).parent.parent
        for folder in folders:
            for pattern in _PATTERNS:
                yield from map(str, sorted((root / folder).glob(pattern)))


def _open(path: str) -> OpenMP | None:
    try:
        handle = ctypes.CDLL(path)
        addresses = {name: ctypes.cast(getattr(handle, name), ctypes.c_void_p).value for name in SYMBOLS}
    except (OSError, AttributeError):  # not there, or without the GNU entry points
        return None
    return OpenMP(path, {name: address or 0 for name, address in addresses.items()}, handle)


@lru_cache(maxsize=1)
def find() -> OpenMP | None:
    """The OpenMP runtime to use in this process, loaded; None when there is none."""
    for source in (_loaded(), _bundled(), iter(_SYSTEM)):
        for path in dict.fromkeys(source):
            runtime = _open(path)
            if runtime is not None:
                return runtime
    return None


@lru_cache(maxsize=1)
def find_or_warn() -> OpenMP | None:
    """`find`, with one warning per process when parallel loops will run on one thread."""
    runtime = find()
    if runtime is None:
        warnings.warn(
            f"no OpenMP runtime on this {sys.platform} system: parallel loops run on one thread; "
            "install scikit-learn, whose wheel carries one",
            RuntimeWarning,
            stacklevel=3,
        )
    return runtime
