"""LLVM's JIT of this process: machine code and LLVM assembly become functions that can be called."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes a while to load
    import llvmlite.binding as llvm

__all__ = ["link", "link_for_good"]

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
    return llvm.create_lljit_compiler(machine)


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
    """The same for code in which threads wait until the process ends: nothing unloads it before."""
    code = link(library, name, exports)
    for kept in (code, _jit()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return code
