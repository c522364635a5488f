"""Kernels that run in this process on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.signature import PACKED_PREFIX
from autosched.errors import BuildError
from autosched.ir.functions import find_symbol
from autosched.runtime import jit as openmp
from autosched.runtime import team
from autosched.runtime.arguments import check_arrays
from autosched.runtime.callbacks import entry_of, raise_waiting
from autosched.runtime.jit import WORKSPACE, link
from autosched.runtime.native_call import SCRATCH, NativeCall, native_call
from autosched.target import Target

Array = np.ndarray[Any, Any]

# `PYFUNCTYPE` would keep the interpreter lock; with `CFUNCTYPE` other Python threads run meanwhile.
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_WORKSPACE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_TIME = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)

#: what stands in for an OpenMP runtime where there is none: the team is the caller
SERIAL_OPENMP = """
define void @GOMP_parallel(ptr %function, ptr %data, i32 %threads, i32 %flags) {
  call void %function(ptr %data)
  ret void
}
define i32 @omp_get_thread_num() {
  ret i32 0
}
define i32 @omp_get_max_threads() {
  ret i32 1
}
"""


@lru_cache(maxsize=2)
def runtime_of(is_openmp: bool) -> tuple[Mapping[str, int], object]:
    """The addresses of functions that parallel code calls, and the object that keeps them valid."""
    if not is_openmp and team.is_wanted():
        return team.addresses(), None
    runtime = openmp.find_or_warn()
    if runtime is not None:
        return runtime.addresses, runtime
    import llvmlite.binding as llvm

    code = link(llvm.JITLibraryBuilder().add_ir(SERIAL_OPENMP), "serial_openmp", openmp.SYMBOLS)
    return {name: code[name] for name in openmp.SYMBOLS}, code


@lru_cache(maxsize=1)
def host() -> tuple[str, frozenset[str]]:
    """The architecture of this process and the features of its CPU."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return llvm.get_default_triple().partition("-")[0], frozenset(f for f, present in features.items() if present)


class ForeignCodeError(BuildError):
    """Machine code of another architecture, or of a CPU that has more."""


def check_host(artifact: Artifact) -> None:
    """Raise BuildError for code that needs another architecture or instructions that the CPU lacks."""
    machine, present = host()
    wanted = str(artifact.meta.get("triple", machine)).partition("-")[0]
    said = {f[1:]: f[0] for f in str(artifact.meta.get("features", "")).split(",") if f}  # the last word on each
    needed = {name for name, sign in said.items() if sign == "+"}
    if wanted != machine:
        raise ForeignCodeError(
            f"the code is for {wanted} and this machine is {machine}",
            asked=artifact.signature.name,
            legal="build it without -mtriple to run it here; get_source and export_library work as they are",
        )
    if needed - present:
        raise ForeignCodeError(
            f"the code uses instructions that this CPU lacks: {', '.join(sorted(needed - present))}",
            asked=artifact.signature.name,
            legal="build it here, or with -mattr for the older CPU",
        )


class LoadedCode:
    """Object files in this process, and the addresses of what it exports. It lives as long as this."""

    def __init__(
        self,
        name: str,
        objects: Sequence[bytes],
        exports: Sequence[str],
        parallel: bool = True,
        imports: Mapping[str, int] | None = None,
        needs_openmp: bool = False,
    ) -> None:
        """`parallel` code has loops for a team of threads; where it cannot do without any of them, it `needs_openmp`;
        `imports` are the addresses of other symbols it calls.

        Raises BuildError for code that does not link.
        """
        import llvmlite.binding as llvm

        library = llvm.JITLibraryBuilder()
        for code in objects:
            library.add_object_img(code)
        library.add_current_process()
        addresses = dict(imports or {})
        self._threads: object = None
        if parallel:
            runtime, self._threads = runtime_of(needs_openmp)
            addresses |= runtime
        try:
            self._library = link(library, name, exports, addresses)
        except RuntimeError as error:
            raise BuildError(
                f"the machine code cannot be loaded: {error}",
                asked=name,
                legal="build it again; the missing symbols are on standard error",
            ) from None
        self.addresses: list[int] = [self._library[symbol] for symbol in exports]


class CpuKernel:
    """Machine code loaded into this process. The code lives as long as the kernel."""

    def __init__(self, artifact: Artifact, target: Target) -> None:
        """Raises BuildError for code that this machine cannot run or that does not link."""
        self.signature: Signature = artifact.signature
        self.threads = target.num_threads
        name = str(artifact.meta.get("entry", artifact.signature.name))
        (entry, workspace, timed), self._code = self.load(artifact, name, [name, f"{name}_workspace", f"{name}_time"])
        self._addresses = entry, workspace
        self.entry: Callable[[int, int, int, int], int] = _ENTRY(entry)
        self.workspace_bytes: Callable[[int, int], int] = _WORKSPACE(workspace)
        self.timed: Callable[[int, int, int, int, int], int] = _TIME(timed)

    def load(self, artifact: Artifact, name: str, exports: Sequence[str]) -> tuple[list[int], object]:
        """The addresses of the functions in this process, and the object that keeps them valid."""
        check_host(artifact)
        imports = {symbol: find_symbol(symbol) for symbol in artifact.meta.get("symbols", ())}
        imports |= {PACKED_PREFIX + name: entry_of(name) for name in artifact.meta.get("packed", ())}
        code = LoadedCode(name, artifact.objects, exports, artifact.meta.get("parallel", True), imports)
        return code.addresses, code

    def bind(self, arrays: Sequence[Array]) -> CpuBoundCall:
        """Fix the arguments. Raises BuildError for arrays that the signature does not allow."""
        return CpuBoundCall(Prepared(self, check_arrays(self.signature, arrays)), arrays)

    def prepare(self, sizes: Mapping[str, int]) -> Callable[[Sequence[int]], None]:
        """See `DirectKernel`."""
        return Prepared(self, sizes).run

    def native(self) -> NativeCall | None:
        """Calls that bypass Python; None where there are none."""
        return native_call(self.signature, *self._addresses, self.threads, keep=self)


class Prepared:
    """A kernel with its sizes fixed: `run(addresses)` takes the address of each argument, unchecked."""

    def __init__(self, kernel: CpuKernel, sizes: Mapping[str, int]) -> None:
        names = kernel.signature.sizes
        self._sizes = (ctypes.c_int64 * max(len(names), 1))(*(sizes[n] for n in names))
        self.kernel, self._entry = kernel, kernel.entry
        self.pointers = ctypes.c_void_p * max(len(kernel.signature.params), 1)
        self.sizes_address = ctypes.addressof(self._sizes)
        self.threads = kernel.threads
        self.workspace_bytes = kernel.workspace_bytes(self.sizes_address, self.threads)

    def workspace(self) -> int:
        """The address of this thread's workspace. Raises MemoryError."""
        return WORKSPACE.address(self.workspace_bytes, self.kernel.signature.name) if self.workspace_bytes else 0

    def run(self, addresses: Sequence[int]) -> None:
        SCRATCH.reserve(self.workspace_bytes)  # a native call may have found too little
        pointers = self.pointers(*addresses)  # a name keeps it alive during the call
        status = self._entry(ctypes.addressof(pointers), self.sizes_address, self.workspace(), self.threads)
        if status:
            raise_waiting(status)


class CpuBoundCall:
    """A kernel with its arguments fixed: running it costs about a microsecond beyond the kernel itself."""

    def __init__(self, prepared: Prepared, arrays: Sequence[Array]) -> None:
        self._prepared = prepared
        self._arrays = tuple(arrays)
        self._arguments = prepared.pointers(*(a.ctypes.data for a in self._arrays))
        self._address = ctypes.addressof(self._arguments)

    @property
    def workspace_bytes(self) -> int:
        """The bytes of its intermediate buffers."""
        return self._prepared.workspace_bytes

    def run(self) -> None:
        """Execute once. Raises MemoryError when the workspace cannot be had, and whatever a call-back raised."""
        p = self._prepared
        status = p.kernel.entry(self._address, p.sizes_address, p.workspace(), p.threads)
        if status:
            raise_waiting(status)

    def time(self, number: int) -> float:
        """Seconds per call over `number` calls, read from the monotonic clock in native code."""
        p = self._prepared
        nanoseconds = p.kernel.timed(self._address, p.sizes_address, p.workspace(), p.threads, number)
        if nanoseconds < 0:
            raise_waiting(-nanoseconds)
        return nanoseconds * 1e-9 / number

    def upload(self) -> None:
        """The arrays are in the kernel's memory already."""

    def fetch(self) -> None:
        """The outputs are in their arrays already."""
