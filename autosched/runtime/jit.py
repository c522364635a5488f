"""Services for machine code in this process: LLVM's JIT, the OpenMP runtime, scratch memory."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import platform
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_serial = itertools.count()

#: where generated code finds mathematics, vectors of it, and float16 conversions for old CPUs
_LIBRARIES = ("libm.so.6", "libmvec.so.1", "libgcc_s.so.1")


@lru_cache(maxsize=1)
def _jit() -> llvm.LLJIT:
    """The one JIT of this process. Loaded code is looked up in the C and mathematics libraries."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    if sys.platform == "linux":
        for name in _LIBRARIES:
            try:
                ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            except OSError:  # another C library may have it all in one
                continue
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, reloc="pic", codemodel="small")
    # Code reaches its constants over 2 GiB at most. JITLink puts both into one piece of memory. The older linker asks
    # for them one by one: in a process with much memory (other libraries' code, a GPU's addresses) they may lie
    # further apart, and LLVM then aborts the process.
    return llvm.create_lljit_compiler(machine, use_jit_link=_has_jitlink())


def _has_jitlink() -> bool:
    return sys.platform != "win32" and platform.machine() in ("x86_64", "aarch64", "arm64", "riscv64", "ppc64le")


def link(
    library: llvm.JITLibraryBuilder, name: str, exports: Iterable[str], imports: Mapping[str, int] | None = None
) -> Any:
    """Load the code: a mapping from each export to its address. The code lives as long as that.

    `imports` are the addresses of other symbols that it calls. Raises RuntimeError for code that does not link.
    """
    for symbol in exports:
        library.export_symbol(symbol)
    for symbol, address in (imports or {}).items():
        library.import_symbol(symbol, address)
    return library.link(_jit(), f"{name}_{next(_serial)}")


def link_for_good(library: llvm.JITLibraryBuilder, name: str, exports: Iterable[str]) -> Any:
    """Load code in which threads wait until the process ends: nothing unloads it before."""
    code = link(library, name, exports)
    for kept in (code, _jit()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return code


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


def loaded_runtimes() -> Iterator[str]:
    """OpenMP runtimes mapped into this process (Linux only: elsewhere nothing lists them)."""
    try:
        text = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for line in text.splitlines():
        path = line.partition("/")[2]
        if path and Path(path).name.startswith(("libgomp", "libomp", "libiomp5")):
            yield "/" + path


def bundled_runtimes() -> Iterator[str]:
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


def open_openmp(path: str) -> OpenMP | None:
    try:
        handle = ctypes.CDLL(path)
        addresses = {name: ctypes.cast(getattr(handle, name), ctypes.c_void_p).value for name in SYMBOLS}
    except (OSError, AttributeError):  # not there, or without the GNU entry points
        return None
    return OpenMP(path, {name: address or 0 for name, address in addresses.items()}, handle)


@lru_cache(maxsize=1)
def find() -> OpenMP | None:
    """The OpenMP runtime to use in this process, loaded; None when there is none."""
    for source in (loaded_runtimes(), bundled_runtimes(), iter(_SYSTEM)):
        for path in dict.fromkeys(source):
            runtime = open_openmp(path)
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


Array = np.ndarray[Any, Any]

_ALIGNMENT = 64


class Arena(threading.local):
    """Scratch memory of one Python thread, grown on demand and kept."""

    def __init__(self) -> None:
        self._memory: Array | None = None
        self._address = 0
        self._size = 0

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Around code that a running kernel calls: kernels in it must not use that kernel's memory."""
        kept = self._memory, self._address, self._size
        self._memory, self._address, self._size = None, 0, 0
        try:
            yield
        finally:
            self._memory, self._address, self._size = kept

    @contextmanager
    def lent(self, address: int, size: int) -> Iterator[None]:
        """Make calls inside use other memory: `size` bytes at an aligned address."""
        with self.set_aside():
            self._address, self._size = address, size
            yield

    def address(self, size: int, name: str) -> int:
        """The address of `size` bytes, aligned. Raises MemoryError."""
        if size > self._size:
            self._memory = None  # let the old one go first
            self._size = 0
            try:
                self._memory = np.empty(size + _ALIGNMENT, np.uint8)
            except (MemoryError, ValueError):
                raise MemoryError(
                    f"{name} needs a workspace of {size:,} bytes for its intermediate buffers, which cannot be had"
                ) from None
            self._address = -(-self._memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT
            self._size = size
        return self._address


WORKSPACE = Arena()
