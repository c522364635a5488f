"""Kernels from C source: compiled by this machine's C compiler and loaded into this process."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.errors import BuildError
from autosched.ir.functions import find_symbol
from autosched.runtime import openmp
from autosched.runtime.c_compiler import Compiler, compile_object, link_shared
from autosched.runtime.cpu import CpuKernel, HasAddresses, LoadedCode

__all__ = ["CKernel", "SharedCode"]


class SharedCode:
    """A shared library in this process, and the addresses of what it exports."""

    def __init__(self, library: ctypes.CDLL, exports: Sequence[str]) -> None:
        """Raises BuildError for a name that it does not export."""
        self._library = library
        try:
            found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in exports]
        except AttributeError as error:
            raise BuildError(f"it lacks a function: {error}", asked=str(library._name)) from None
        self.addresses = [address or 0 for address in found]


class CKernel(CpuKernel):
    """C source, compiled when it is loaded. Raises BuildError without a compiler."""

    def load(self, artifact: Artifact, name: str, exports: Sequence[str]) -> HasAddresses:
        parallel = bool(artifact.meta.get("parallel", True))
        with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
            path = Path(folder, f"{name}.o")
            meta, source = artifact.meta, artifact.code.decode()
            strict = bool(meta.get("strict", False))
            compiler = compile_object(source, path, str(meta.get("mcpu", "native")), parallel, strict=strict)
            runtime = openmp.find() if parallel and compiler.openmp else None
            library = None
            if runtime is not None:
                # with the runtime that this process has: a second one would start its threads, too
                ctypes.CDLL(runtime.path, mode=ctypes.RTLD_GLOBAL)
            symbols = {symbol: find_symbol(symbol) for symbol in artifact.meta.get("symbols", ())}
            if symbols:  # which may be anywhere: LLVM's linker takes their addresses
                return LoadedCode(name, path.read_bytes(), exports, parallel, symbols, needs_openmp=True)
            if runtime is not None:
                library = _linked(compiler, path, ())
            if library is None:
                library = _linked(compiler, path, compiler.openmp if parallel else ())
        if library is None:
            raise BuildError("the compiled library cannot be loaded", asked=name, legal="try another compiler: set CC")
        return SharedCode(library, exports)


def _linked(compiler: Compiler, path: Path, flags: Sequence[str]) -> ctypes.CDLL | None:
    """The object file as a library in this process; None if it needs more than is there."""
    library = path.with_suffix(".shared.so" if flags else ".so")
    link_shared(compiler, path, library, flags)
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        return None
