"""Making the PoCL wheel work on processors that are younger than its compiler.

The wheel (`pyopencl[pocl]`, PoCL 3.0 on LLVM 14) asks LLVM for the processor's name. For one it does
not know, AMD's family 26 (Zen 5) for example, LLVM says "generic"; PoCL passes that on as a target
CPU, where x86 compilers reject it, and every program fails to build with `unknown target CPU
'generic'` (https://github.com/pocl/pocl/issues/1049). PoCL has no option that overrides the name.

The name is a field of the device structure that the OpenCL handle points to. `name_cpu` finds it by
what surrounds it, the target triple, and replaces it with the processor that PoCL's library of
built-in functions for this machine was compiled for.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

__all__ = ["cpu_for_flags", "find_name_field", "name_cpu"]

Reader = Callable[[int, int], bytes]

_UNKNOWN = b"generic"
_STRUCTURE_BYTES = 2048  #: how far into the device structure to look; the field is at 640 in PoCL 3.0
_POINTER = struct.calcsize("P")

#: PoCL's libraries of built-in functions, best first: processor flags they need, and the CPU they are for
_LIBRARIES = (
    ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, b"skylake-avx512"),
    ({"avx2", "fma", "bmi2"}, b"haswell"),
    ({"avx"}, b"sandybridge"),
    ({"sse4_1", "ssse3"}, b"penryn"),
    (set[str](), b"x86-64"),
)


def cpu_for_flags(flags: set[str]) -> bytes:
    """The LLVM name of the newest processor of PoCL's libraries that has no more than `flags`."""
    return next(name for needed, name in _LIBRARIES if needed <= flags)


def name_cpu(device_handle: int, version: str) -> str:
    """Give a PoCL device a target CPU that its compiler accepts; its name, or "" if nothing was done.

    `device_handle` is the `cl_device_id`, `version` its CL_DEVICE_VERSION, which ends in the name of
    the CPU that PoCL found. Anything unexpected leaves the device as it is.
    """
    if not version.endswith("-" + _UNKNOWN.decode()) or platform.machine() not in ("x86_64", "AMD64"):
        return ""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            field = find_name_field(partial(_read, memory.fileno()), device_handle)
        flags = _processor_flags()
    except OSError:
        return ""  # not Linux, or a hardened one
    if field is None or not flags:
        return ""
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p  # PoCL may free the name, so it has to come from malloc
    libc.strdup.argtypes = [ctypes.c_char_p]
    name = cpu_for_flags(flags)
    ctypes.c_void_p.from_address(field).value = libc.strdup(name)
    return name.decode()


def find_name_field(read: Reader, structure: int) -> int | None:
    """The address of the field that follows the target triple and points to "generic".

    `read(address, size)` returns what lies there, nothing where no memory is mapped.
    """
    raw = read(structure, _STRUCTURE_BYTES)
    count = len(raw) // _POINTER
    texts = [read(p, 64).partition(b"\0")[0] for p in struct.unpack_from(f"{count}P", raw)]
    for position in range(1, count):
        if texts[position] == _UNKNOWN and texts[position - 1].startswith(b"x86_64"):
            return structure + position * _POINTER
    return None


def _read(memory: int, address: int, size: int) -> bytes:
    """Through /proc/self/mem, which fails softly where a pointer would crash."""
    try:
        return os.pread(memory, size, address) if 0 < address < 2**47 else b""
    except OSError:
        return b""


def _processor_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()
