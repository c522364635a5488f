"""Making the PoCL wheel work on processors that are younger than its compiler.

The wheel (`pyopencl[pocl]`, PoCL 3.0 on LLVM 14) looks at the processor twice. It asks LLVM for the
processor's *name*, which is what kernels are compiled for, and for its *features*, which choose one of
PoCL's libraries of built-in functions. On a processor that LLVM 14 does not know, the two disagree:

- LLVM calls AMD's family 26 (Zen 5) "generic". x86 compilers reject that as a target CPU, and every
  program fails to build with `unknown target CPU 'generic'` (https://github.com/pocl/pocl/issues/1049).
- LLVM calls Zen 4 "znver3", a processor without AVX-512, and its features still choose the AVX-512
  library. A kernel then passes a vector of 512 bits in two registers to a function that expects it in
  one: wrong results, crashes and kernels that are missing from their program.
- A virtual machine may hide the AVX-512 of a processor whose name promises it: illegal instructions.

PoCL has no option that overrides the name. The name is a field of the device structure that the OpenCL
handle points to. `name_cpu` finds it by what surrounds it, the target triple, and replaces it with the
processor that PoCL's library for this machine's features was compiled for.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

__all__ = ["cpu_for_flags", "find_name_field", "is_pocl", "name_cpu", "needs_another_name", "processor_flags"]

Reader = Callable[[int, int], bytes]

_UNKNOWN = b"generic"
_STRUCTURE_BYTES = 2048  #: how far into the device structure to look; the field is at 640 in PoCL 3.0
_POINTER = struct.calcsize("P")
#: what stands before the CPU's name in CL_DEVICE_VERSION: `... pthread-x86_64-unknown-linux-gnu-znver3`
_BEFORE_NAME = "-linux-gnu-"
_KNOWS_NEW_CPUS = 4  #: PoCL's first release with an LLVM (16) that knows Zen 4

#: PoCL's libraries of built-in functions, best first: processor flags they need, and the CPU they are for
_LIBRARIES = (
    ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, b"skylake-avx512"),
    ({"avx2", "fma", "bmi2"}, b"haswell"),
    ({"avx"}, b"sandybridge"),
    ({"sse4_1", "ssse3"}, b"penryn"),
    (set[str](), b"x86-64"),
)
_AVX512 = _LIBRARIES[0][0]
#: the processors with these features that LLVM 14 knows by name
_AVX512_NAMES = frozenset(
    b"skylake-avx512 cascadelake cooperlake cannonlake icelake-client icelake-server rocketlake tigerlake "
    b"sapphirerapids".split()
)


def cpu_for_flags(flags: set[str]) -> bytes:
    """The LLVM name of the newest processor of PoCL's libraries that has no more than `flags`."""
    return next(name for needed, name in _LIBRARIES if needed <= flags)


def needs_another_name(name: bytes, flags: set[str]) -> bool:
    """Whether kernels compiled for `name` do not fit the library that PoCL chooses by `flags`."""
    return name == _UNKNOWN or (name in _AVX512_NAMES) != (flags >= _AVX512)


def is_pocl(platform_name: str) -> bool:
    """Whether an OpenCL platform is PoCL."""
    return "Portable Computing Language" in platform_name


def name_cpu(device_handle: int, version: str, driver: str) -> str:
    """Give a PoCL device a target CPU that fits its library; that CPU's name, or "" if nothing was done.

    `device_handle` is the `cl_device_id`; `version` its CL_DEVICE_VERSION, which ends in the name of
    the CPU that PoCL found; `driver` its CL_DRIVER_VERSION. PoCL 4 has LLVM 16, which knows these CPUs.
    Anything unexpected leaves the device as it is.
    """
    name = version.partition(_BEFORE_NAME)[2].encode()
    major = driver.partition(".")[0]
    if not name or not major.isdigit() or int(major) >= _KNOWS_NEW_CPUS:
        return ""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ""
    try:
        flags = processor_flags()
        if not flags or not needs_another_name(name, flags):
            return ""
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            field = find_name_field(partial(_read, memory.fileno()), device_handle, name)
    except OSError:
        return ""  # not Linux, or a hardened one
    if field is None:
        return ""
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p  # PoCL may free the name, so it has to come from malloc
    libc.strdup.argtypes = [ctypes.c_char_p]
    stand_in = cpu_for_flags(flags)
    ctypes.c_void_p.from_address(field).value = libc.strdup(stand_in)
    return stand_in.decode()


def find_name_field(read: Reader, structure: int, name: bytes) -> int | None:
    """The address of the field that follows the target triple and points to `name`.

    `read(address, size)` returns what lies there, nothing where no memory is mapped.
    """
    raw = read(structure, _STRUCTURE_BYTES)
    count = len(raw) // _POINTER
    texts = [read(p, 64).partition(b"\0")[0] for p in struct.unpack_from(f"{count}P", raw)]
    for position in range(1, count):
        if texts[position] == name and texts[position - 1].startswith(b"x86_64"):
            return structure + position * _POINTER
    return None


def _read(memory: int, address: int, size: int) -> bytes:
    """Through /proc/self/mem, which fails softly where a pointer would crash."""
    try:
        return os.pread(memory, size, address) if 0 < address < 2**47 else b""
    except OSError:
        return b""


def processor_flags() -> set[str]:
    """What /proc/cpuinfo says the processor can do; empty where it cannot be read."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()
